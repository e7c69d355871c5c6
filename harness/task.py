"""A task: records from one of three sources, public labels, prompts and a metric.

Everything that a reader may want to see is in ``tasks/<name>/task.yaml``: top-level keys are lm-evaluation-harness's
(the file loads there as it is), ours are under ``metadata``. What a task publishes: its name, labels or keyword list,
prompts, class sizes and test records. Its train records are private: only the runner touches them.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import yaml

from harness import data_sources
from harness.data_sources import Record as Record
from harness.errors import DataError, UsageError, unknown
from harness.mechanism import Demonstration, Partition, Sizes
from harness.models.base import ChatPrompt

#: The folder of the built-in tasks: lm-eval's `include_path`.
TASKS = Path(__file__).resolve().parent.parent / "tasks"

#: The content-free inputs of contextual calibration (Zhao et al. 2021; MECHANISMS: Tang et al., section 1.4).
CONTENT_FREE = ("N/A", "", "[MASK]")

STYLES = ("completion", "chat")


@dataclass(frozen=True, eq=False)
class Task:
    """One task as loaded from one source. Equality is identity; `fingerprint` says whether two have the same records.

    kind: 'classification' (one of `labels`) or 'extraction' (find the phrase in the text).
    labels: public label words in public order; for extraction the public keyword list.
    partitioned: whether records of different labels are disjoint groups (parallel composition). Not for extraction,
        where a keyword does not partition the records.
    dropped: how many records de-duplication dropped, by reason.
    train: PRIVATE. test: public.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    partitioned: bool
    source: str
    fingerprint: str
    dropped: Mapping[str, int]
    train: tuple[Record, ...] = field(repr=False)
    test: tuple[Record, ...] = field(repr=False)
    config: Mapping[str, Any] = field(repr=False)

    @classmethod
    def load(
        cls,
        name: str,
        source: str = "auto",
        limit_train: int | None = None,
        limit_test: int | None = None,
        seed: int = 0,
    ) -> Task:
        """Loads a task's records.

        source: 'hub', 'local', 'synthetic', or 'auto' (local where $DPICL_DATA holds the task, else synthetic).
        limit_train: records a class (extraction: in all); limit_test: records in all. None means everything that the
            source has, or the corpus's default size.
        seed: public coins: which records the limits keep, the order of the test records, which synthetic corpus.
        Raises UsageError for an unknown name, source or limit; DataError for data that is missing or malformed.
        """
        config = load_config(name)
        data_sources.check_limit("The number of train records", limit_train)
        data_sources.check_limit("The number of test records", limit_test)
        spec = _source_spec(config)
        source = data_sources.resolve(source, name)
        train, test = data_sources.read(spec, source, limit_train, limit_test, seed)
        train, test, dropped = data_sources.deduplicate(train, test)
        train, test = data_sources.subsample(spec, train, test, limit_train, limit_test, seed)
        data_sources.require_all_classes(spec, train, test)
        return cls(
            name=name,
            kind=config["metadata"]["kind"],
            labels=spec.labels or keywords(name),
            partitioned=bool(spec.labels),
            source=source,
            fingerprint=data_sources.fingerprint(train, test),
            dropped=dropped,
            train=tuple(train),
            test=tuple(test),
            config=config,
        )

    @property
    def version(self) -> int | str:
        """Version of the task file: it changes whenever prompts, labels or metric do."""
        return self.config["metadata"]["version"]

    @property
    def lm_eval_name(self) -> str:
        """Name of the task in lm-evaluation-harness, e.g. 'dpicl_agnews'."""
        return self.config["task"]

    @property
    def main_metric(self) -> str:
        """The metric that a board shows: 'acc_calibrated' or 'exact_match'."""
        return self.config["metadata"]["main_metric"]

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """A released text ends before the first of these."""
        return tuple(self.config["metadata"]["prompts"]["stop"])

    @property
    def prompts_hash(self) -> str:
        """sha256 over everything that shapes a prompt: templates, delimiters, labels or keywords."""
        parts = [
            self.config["metadata"]["prompts"],
            [self.config[key] for key in ("description", "doc_to_text", "target_delimiter", "fewshot_delimiter")],
            self.labels,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def sizes(self, shots: Sequence[str], queries: int | None = None) -> Sizes:
        """The public numbers an epsilon depends on: n_y and shots of every partition that `shots` uses."""
        if not self.partitioned:
            return Sizes({None: len(self.train)}, {None: len(shots)}, queries)
        for label in shots:
            if label not in self.labels:
                raise unknown("label", label, self.labels)
        counts = Counter(record.label for record in self.train)
        wanted: dict[Partition, int] = dict(Counter(shots))
        return Sizes({label: counts[label] for label in shots}, wanted, queries)

    def plan_shots(self, k: int, generator: np.random.Generator) -> tuple[str, ...]:
        """k labels (extraction: keywords) by public randomness, without replacement until all have been used."""
        if k < 0:
            raise UsageError(f"The number of shots must be 0 or more, not {k}.")
        shots: list[str] = []
        while len(shots) < k:
            order = generator.permutation(len(self.labels))
            shots += [self.labels[i] for i in order[: k - len(shots)]]
        return tuple(shots)

    def generation_prompt(self, label: str, examples: Sequence[Record], style: str = "completion") -> str | ChatPrompt:
        """The prompt that asks for one more text of a label, up to where the new text starts.

        examples: the records of one slot; none gives the public prompt. Each is shown with its own label.
        style: 'completion' (Tang et al. 2024, run_exp_*.py) or 'chat' (PRISM, Bhusal et al. 2025, section 3.1).
        """
        if style not in STYLES:
            raise unknown("prompt style", style, STYLES)
        prompts = self.config["metadata"]["prompts"][style]
        shown = prompts["separator"].join(prompts["example"].format(label=e.label, text=e.text) for e in examples)
        if style == "completion":
            return prompts["instruction"] + shown + prompts["open"].format(label=label)
        which = "private" if examples else "public"
        return ChatPrompt(
            user=prompts[which].format(label=label, examples=shown),
            assistant_prefix=prompts[f"{which}_prefix"].format(label=label),
        )

    def icl_prefix(self, demonstrations: Sequence[Demonstration | Record]) -> str:
        """Instruction and demonstrations, ready for a query (`doc_to_text`); () gives the zero-shot prefix.

        Rendered with lm-eval's own template and delimiters, so prefix + query is what lm-eval's few-shot prompt would
        be with these demonstrations.
        """
        shown = [
            self.query(d.text) + self.config["target_delimiter"] + d.label + self.config["fewshot_delimiter"]
            for d in demonstrations
        ]
        return self.config["description"] + "".join(shown)

    def query(self, text: str) -> str:
        """The query part of a classification or extraction prompt: `doc_to_text` of task.yaml."""
        return _template(self.config["doc_to_text"]).render(text=text)

    def documents(self) -> list[dict[str, Any]]:
        """The test records as lm-eval documents, content-free inputs first (classification; no limit cuts them here).

        id: a hash of the record, the same under every limit and order. gold: index of the label, -1 for none.
        """
        if self.kind == "extraction":
            return [{"id": _document_id(r), "text": r.text, "label": r.label} for r in self.test]
        blank = [
            {"id": f"content-free-{i}", "text": text, "label": "", "gold": -1, "content_free": True}
            for i, text in enumerate(CONTENT_FREE)
        ]
        real = [
            {
                "id": _document_id(r),
                "text": r.text,
                "label": r.label,
                "gold": self.labels.index(r.label),
                "content_free": False,
            }
            for r in self.test
        ]
        return blank + real


def list_tasks() -> list[str]:
    """Names of the built-in tasks, sorted."""
    return sorted(path.parent.name for path in TASKS.glob("*/task.yaml"))


@cache
def load_config(name: str) -> Mapping[str, Any]:
    """tasks/<name>/task.yaml as a dict; `!function` values are their names. Raises UsageError for an unknown task."""
    path = TASKS / name / "task.yaml"
    if name not in list_tasks():
        raise unknown("task", name, list_tasks())
    config = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # a SafeLoader that knows !function
    missing = [key for key in ("task", "description", "doc_to_text", "metadata") if key not in config]
    if missing:
        raise DataError(f"tasks/{name}/task.yaml lacks {', '.join(missing)}; add it.")
    return {"target_delimiter": " ", "fewshot_delimiter": "\n\n", **config}


@cache
def keywords(name: str) -> tuple[str, ...]:
    """The public keyword list that ships with an extraction task, in file order."""
    lines = (TASKS / name / "keywords.txt").read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


class _Loader(yaml.SafeLoader):
    """Reads lm-eval's `!function module.name` as the string 'module.name'."""


_Loader.add_constructor("!function", lambda loader, node: str(node.value))


def _source_spec(config: Mapping[str, Any]) -> data_sources.SourceSpec:
    data = config["metadata"]["data"]
    return data_sources.SourceSpec(
        name=config["metadata"]["name"],
        labels=tuple(config.get("doc_to_choice", ())),
        local_labels=data["local"].get("labels", {}),
        text_column=data["local"]["text"],
        label_column=data["local"]["label"],
        hub=data["hub"],
        synthetic=data["synthetic"],
    )


@cache
def _template(source: str) -> jinja2.Template:
    """As lm-eval renders doc_to_text (lm_eval.utils.apply_template)."""
    return jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string(source)


def _document_id(record: Record) -> str:
    return hashlib.sha256(json.dumps([record.label, record.text]).encode()).hexdigest()[:16]


_SERVED: ContextVar[Task | None] = ContextVar("served_task", default=None)


@contextmanager
def serving(task: Task) -> Iterator[None]:
    """Inside this block lm-eval's copy of the task gets `task`'s documents instead of loading its own."""
    token = _SERVED.set(task)
    try:
        yield
    finally:
        _SERVED.reset(token)


def served() -> Task | None:
    """The task that `serving` put up, if any."""
    return _SERVED.get()
