"""Tasks: records from one of three sources, public labels, prompts and a metric.

Everything that a reader may want to see is in ``tasks/<name>/task.yaml``: top-level keys are lm-evaluation-harness's
(the file loads there as it is), ours are under ``metadata``. What a task publishes: its name, labels or keyword list,
prompts, class sizes and test records. Its train records are private: only the runner touches them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import cache, cached_property
from typing import Any

import jinja2
import numpy as np

from dpicl.core.errors import DataError, UsageError, require_known
from dpicl.core.vocabulary import Demonstration, Partition, Query, Sizes
from dpicl.core.vocabulary import Record as Record
from dpicl.data import sources as data_sources
from dpicl.data import splits as record_sets
from dpicl.data.codes import code_map, draw_classes, encode_labels, equal_sizes
from dpicl.data.config import TASKS as TASKS
from dpicl.data.config import list_tasks as list_tasks
from dpicl.data.config import load_config
from dpicl.data.task_file import CHOOSING, TaskFile
from dpicl.models.base import ChatPrompt

#: The content-free inputs of contextual calibration (Zhao et al. 2021; MECHANISMS: Tang et al., section 1.4).
CONTENT_FREE = ("N/A", "", "[MASK]")

STYLES = ("completion", "chat")

#: The label of every requested demonstration where demonstrations have none (generation, continuation).
NEUTRAL_LABEL = "example"


#: So many draws of test records are made for a pool of a synthetic corpus.
POOL_DRAWS = 12

#: What is added to the seed of a synthetic corpus for another one of the same kind.
DEVELOPMENT = 1000

#: What Jinja reads in the text of a template. Without it the text stays as it is; Jinja takes ten times as long.
_JINJA = re.compile(r"[{\r]")


@dataclass(frozen=True, eq=False, kw_only=True)
class PublicTask:
    """What a task publishes: all that a mechanism sees of it. No private record is in it, nor a number made from one.

    kind: 'classification' (one of `labels`), 'continuation' (which of `labels` follows the text; a demonstration is a
        text with what follows it), 'extraction' (find the phrase in the text), 'generation' (write an output for the
        text) or 'json' (write more texts like the records).
    labels: public label words in public order; for extraction the public keyword list; () for generation.
    partitioned: whether records of different labels are disjoint groups (parallel composition): classification only.
    test: public; what a mechanism sees of them is their texts (`public_view`). public: train records that were set
        apart and are known to everybody.
    config: its task.yaml. seed: the public randomness that the task was loaded with.
    shown_by: the task whose instruction and examples are shown before a query, where it is not this one.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    partitioned: bool
    source: str
    test: tuple[Record, ...] = field(repr=False)
    config: TaskFile = field(repr=False)
    public: tuple[Record, ...] = field(default=(), repr=False)
    seed: int = 0
    shown_by: PublicTask | None = field(default=None, repr=False)

    @staticmethod
    def read_public(name: str) -> PublicTask:
        """What task.yaml says of a task: enough for `Mechanism.skip`, and no data is needed. Raises UsageError."""
        config = load_config(name)
        return PublicTask(**_list_fields(config), source="none", test=())

    @property
    def restricted(self) -> bool:
        """Whether texts of its records, or texts that may retell them, are not to be published."""
        return self.source != "synthetic" and self.config.metadata.restricted

    def public_records(self, kind: str = "in") -> tuple[Record, ...]:
        """Records that everybody knows: 'in' are of the same data set as the private ones (`public`), 'out' as many of
        another data set (`metadata.data.out_of_distribution` of task.yaml), cut and written like this task's.

        Raises DataError where the task names no other data set, or that one is not another one in this source.
        """
        require_known("kind of public records", [kind], ("in", "out"))
        return self.public if kind == "in" else self._other_records

    @cached_property
    def _other_records(self) -> tuple[Record, ...]:
        """No private record is looked at: which records are public must not depend on those."""
        other = self.config.data.out_of_distribution
        if other is None:
            raise DataError(
                f"Task {self.name} names no out-of-distribution set; use its own public records ('in')."
            )
        source = other.source or self.source
        if (other.task, source) == (self.name, self.source):
            raise DataError(
                f"The out-of-distribution set of {self.name} is its {source} corpus, which is what this run's records"
                " come from; choose another source, or the task's own public records ('in')."
            )
        size, name = len(self.public), self.config.source
        written = {"max_words": name.max_words, "line_separator": name.line_separator}
        spec = load_config(other.task).source.model_copy(update=written)
        pool, known = data_sources.read(spec, source, size, None, self.seed)
        pool, _, _ = record_sets.deduplicate(pool, [*known, *self.test, *self.public])
        if len(pool) < size:
            raise DataError(
                f"{spec.name} has {len(pool)} records and {self.name} needs {size} of them; bring more."
            )
        return tuple(
            record_sets.subsample(
                spec.name,
                False,
                pool,
                [],
                size,
                None,
                self.seed,
            )[0]
        )

    def public_view(self) -> PublicTask:
        """The task as a mechanism sees it: without its private records, and with test records that have no label,
        since those are the answers that it is scored by. What its holder changes in it changes nothing here."""
        values = {each.name: getattr(self, each.name) for each in fields(PublicTask)}
        queries = tuple(Record(record.text, "") for record in self.test)
        return PublicTask(
            **{
                **values,
                "test": queries,
                "config": self.config.model_copy(deep=True),
            }
        )

    @property
    def has_public_part(self) -> bool:
        """Whether some train records are set apart as public."""
        return bool(self.config.data.public)

    @property
    def version(self) -> int | str:
        """Version of the task file: it changes whenever prompts, labels or metric do."""
        return self.config.metadata.version

    @property
    def main_metric(self) -> str:
        """The metric that a board shows, e.g. 'acc_calibrated', 'exact_match', 'rougeL'."""
        return self.config.metadata.main_metric

    @property
    def chooses(self) -> bool:
        """Whether an answer is one of `labels`, each of which the model gives a probability."""
        return self.kind in CHOOSING

    @property
    def content_free(self) -> tuple[str, ...]:
        """The inputs of contextual calibration: the task's own (`metadata.content_free`), else CONTENT_FREE."""
        return tuple(self.config.metadata.content_free) or CONTENT_FREE

    @property
    def stop_strings(self) -> tuple[str, ...]:
        """A released text ends before the first of these."""
        return tuple(self.config.metadata.prompts.stop)

    @property
    def prompts_hash(self) -> str:
        """sha256 over everything that shapes a prompt: templates, delimiters, labels or keywords."""
        config = self.config
        words = [
            config.description,
            config.doc_to_text,
            config.target_delimiter,
            config.fewshot_delimiter,
        ]
        parts = [config.metadata.prompts.model_dump(exclude_unset=True), words, self.labels]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def plan_shots(
        self, k: int, generator: np.random.Generator, labels: Sequence[str] | None = None
    ) -> tuple[str, ...]:
        """k labels (extraction: keywords) by public randomness, without replacement until all have been used.

        labels: some of the task's; None: all. Demonstrations of a generation or continuation task have none: each shot
        has NEUTRAL_LABEL.
        """
        if k < 0:
            raise UsageError(f"The number of shots must be 0 or more, not {k}.")
        if not self.labels or self.kind == "continuation":
            return (NEUTRAL_LABEL,) * k
        chosen = self.labels if labels is None else tuple(labels)
        shots: list[str] = []
        while len(shots) < k:
            order = generator.permutation(len(chosen))
            shots += [chosen[i] for i in order[: k - len(shots)]]
        return tuple(shots)

    def generation_prompt(
        self,
        label: str,
        examples: Sequence[Record],
        style: str = "completion",
    ) -> str | ChatPrompt:
        """The prompt that asks for one more text of a label, up to where the new text starts.

        examples: the records of one slot; none gives the public prompt. Each is shown with its own label.
        style: 'completion' (Tang et al. 2024, run_exp_*.py) or 'chat' (PRISM, Bhusal et al. 2025, section 3.1).
        """
        require_known("prompt style", [style], STYLES)
        completion = self.config.metadata.prompts.completion
        chat = self.config.metadata.prompts.chat
        if self.kind == "generation" or completion is None or chat is None:
            raise UsageError(
                f"Task {self.name} has no prompt that asks for more records; use an answer mechanism."
            )
        prompts = completion if style == "completion" else chat
        shown = prompts.separator.join(
            prompts.example.format(label=e.label, text=e.text) for e in examples
        )
        if style == "completion":
            return completion.instruction + shown + completion.open.format(label=label)
        template, prefix = (
            (chat.private, chat.private_prefix) if examples else (chat.public, chat.public_prefix)
        )
        return ChatPrompt(template.format(label=label, examples=shown), prefix.format(label=label))

    def icl_prefix(
        self,
        demonstrations: Sequence[Demonstration | Record],
        instruction: str | None = None,
    ) -> str:
        """Instruction and demonstrations, ready for a query (`doc_to_text`); () gives the zero-shot prefix.

        instruction: one that was released; None: the task's own.

        Rendered with lm-eval's own template and delimiters, so prefix + query is what lm-eval's few-shot prompt would
        be with these demonstrations. The label of a demonstration is its output: a label word, a phrase, or a text. On
        a JSON task the text itself is the output.
        """
        if self.shown_by is not None:
            return self.shown_by.icl_prefix(demonstrations, instruction)
        shown = [self._example(each) + self.config.fewshot_delimiter for each in demonstrations]
        return (self.config.description if instruction is None else instruction) + "".join(shown)

    def _example(self, shown: Demonstration | Record) -> str:
        """An input with its output, as a prompt shows it."""
        if self.kind == "continuation":
            return self.add_continuation(shown)
        output = shown.text if self.kind == "json" else shown.label
        return self.query(shown.text) + self.config.target_delimiter + output

    def add_continuation(self, shown: Demonstration | Record) -> str:
        """A text with what follows it (continuation): a released text has that at its end already."""
        released = shown.label == NEUTRAL_LABEL
        return (
            shown.text
            if released
            else self.query(shown.text) + self.config.target_delimiter + shown.label
        )

    def query(self, text: str) -> str:
        """The query part of a prompt: `doc_to_text` of task.yaml (it does not show the text on JSON tasks)."""
        template = self.config.doc_to_text
        before, placeholder, after = template.partition("{{text}}")
        if _JINJA.search(before + after):
            return _template(template).render(text=text)
        return before + text + after if placeholder else template


@dataclass(frozen=True, eq=False, kw_only=True)
class Task(PublicTask):
    """One task as loaded from one source. Equality is identity; `fingerprint` says whether two have the same records.

    train: PRIVATE; so are the numbers that come from it. dropped: how many records de-duplication dropped, by reason.
    declared: n of every group as public constants, whatever number of records there is; None: they are counted.
    """

    fingerprint: str
    dropped: Mapping[str, int]
    train: tuple[Record, ...] = field(repr=False)
    declared: Mapping[Partition, int] | None = None

    @classmethod
    def load(
        cls,
        name: str,
        source: str = "auto",
        limit_train: int | None = None,
        limit_test: int | None = None,
        seed: int = 0,
        code_seed: int = 0,
        development: bool = False,
        pool: bool = False,
    ) -> Task:
        """Loads a task's records.

        source: 'hub', 'local', 'synthetic', or 'auto' (local where $DPICL_DATA holds the task, else synthetic).
        limit_train: private records a class (in all without classes); limit_test: records in all. None means everything
            that the source has, or the corpus's default size.
        seed: public randomness: which records are public and which the limits keep, the order of the test records, and
            which synthetic corpus.
        code_seed: of a task of codes the secret randomness of its map (dpicl.data.codes), which changes nothing
            but labels, and the public randomness of its classes, where it has fewer than its base.
        development: whether the test records are others than without it: those of another synthetic corpus, whose train
            records are others too; else the last ones of their order, where there are twice as many.
        pool: whether the test records are all from which seeds draw limit_test each (`draw_test_records`).
        Raises UsageError for an unknown name, source or limit; DataError for data that is missing or malformed.
        """
        config = load_config(name)
        for part, limit in (("train", limit_train), ("test", limit_test)):
            if limit is not None and limit < 1:
                raise UsageError(f"The number of {part} records must be at least 1, not {limit}.")
        spec = config.source
        source = data_sources.resolve(source, spec)
        generated = development and source == "synthetic"
        corpus = seed + DEVELOPMENT if generated else seed
        # where texts are scored, every seed has the same test records
        pool = pool and config.metadata.kind != "json"
        sizes = limit_train, _corpus_size(config, limit_test, pool)
        train, test = data_sources.read(spec, source, *sizes, corpus)
        train, test, dropped = record_sets.deduplicate(train, test)
        if generated:
            scored = {
                record_sets.normalise(record.text)
                for record in data_sources.read(spec, source, *sizes, seed)[1]
            }
            test = [record for record in test if record_sets.normalise(record.text) not in scored]
        public: list[Record] = []
        if spec.public:
            size = spec.public[source]  # type: ignore[index]  # one of its keys by now
            public, train = record_sets.split_public(spec.name, train, size, seed)
        # where texts are scored
        last = development and not generated and config.metadata.kind != "json"
        partitioned, divided = bool(spec.labels), pool and source != "synthetic"
        limits = (limit_train, None if pool and not divided else limit_test, seed, last, divided)
        sampled = record_sets.subsample(spec.name, partitioned, train, test, *limits)
        record_sets.require_records(name, spec.labels, *sampled, dropped)
        fingerprint = record_sets.fingerprint(*sampled, public)
        if config.metadata.codes:
            classes = draw_classes(spec.labels, len(config.classes), code_seed)
            codes = code_map(classes, config.classes, code_seed)
            if len(classes) < len(spec.labels):  # limits are of the records of these classes
                sampled = record_sets.subsample(
                    spec.name, partitioned, train, test, *limits, classes
                )
                record_sets.require_records(name, classes, *sampled, dropped)
            sampled = encode_labels(sampled[0], codes), encode_labels(sampled[1], codes)
        return cls(
            **_list_fields(config),
            source=source,
            fingerprint=fingerprint,
            dropped=dropped,
            train=tuple(sampled[0]),
            test=tuple(sampled[1]),
            public=tuple(public),
            seed=corpus,
        )

    @classmethod
    def from_records(
        cls,
        config: TaskFile,
        records: Sequence[Record],
        sizes: Mapping[str, int] | None,
        public: Sequence[Record] = (),
        keep_repeated: bool = False,
    ) -> Task:
        """A task with these private records, and no test record: to release from, not to score.

        sizes: n of every class ('' for a task without classes) as declared; then a class may have no record.
        keep_repeated: whether records with one text are several: those of different people (`keep_rows`). Public
        records are left out all the same.
        """
        if keep_repeated:
            train, dropped = record_sets.drop_known(records, public)
        else:
            train, _, dropped = record_sets.deduplicate(records, public)
        return cls(
            **_list_fields(config),
            source="local",
            fingerprint=record_sets.fingerprint(train, (), public),
            dropped=dropped,
            train=tuple(train),
            test=(),
            public=tuple(public),
            declared=None if sizes is None else {label or None: n for label, n in sizes.items()},
        )

    def draw(self, share: float, seed: int) -> Task:
        """The task with the private records that a seed draws: each with probability ``share``, by a public coin of its
        own (see `dpicl.data.splits.draw_records`, also for why epsilon holds). Sizes are public and the same for every
        seed: those of the whole set times ``share``, rounded, at least 1. The fingerprint stays that of the whole
        set."""
        sizes = {group: max(1, round(share * n)) for group, n in self.group_sizes.items()}
        return replace(
            self,
            train=tuple(record_sets.draw_records(self.train, share, seed)),
            declared=sizes,
        )

    def draw_test_records(self, size: int, seed: int) -> Task:
        """The task with the test records that a seed draws from these, by public randomness (see
        `dpicl.data.splits.draw_test_records`). The fingerprint stays that of the whole set."""
        return replace(
            self,
            test=tuple(
                record_sets.draw_test_records(
                    self.name,
                    self.test,
                    size,
                    seed,
                )
            ),
        )

    def rank_by(self, metric: str) -> Task:
        """The task with another main metric."""
        metadata = self.config.metadata.model_copy(update={"main_metric": metric})
        return replace(self, config=self.config.model_copy(update={"metadata": metadata}))

    def documents(self) -> list[dict[str, Any]]:
        """The test records as lm-eval documents, content-free inputs first (where `chooses`; no limit cuts them here).

        id: a hash of the record, the same under every limit and order; of a task of codes a hash of its text. gold:
        index of the label, -1 for none. On JSON tasks nothing is asked about a test record: there are as many requests
        for a new text.
        """
        if self.kind == "json":
            return sample_documents(len(self.test), self.labels[0])
        secret = self.config.metadata.codes is not None
        real: list[dict[str, Any]] = [
            {
                "id": _document_id(r.text, "" if secret else r.label),
                "text": r.text,
                "label": r.label,
            }
            for r in self.test
        ]
        if not self.chooses:
            return real
        blank = [
            {"id": f"content-free-{i}", "text": text, "label": "", "gold": -1, "content_free": True}
            for i, text in enumerate(self.content_free)
        ]
        return blank + [
            {
                **each,
                "gold": self.labels.index(each["label"]),
                "content_free": False,
            }
            for each in real
        ]

    def queries(self) -> list[Query]:
        """The test records as queries; content-free inputs are none."""
        return [
            Query(each["id"], each["text"])
            for each in self.documents()
            if not each.get("content_free")
        ]

    @cached_property
    def group_sizes(self) -> Mapping[Partition, int]:
        """n_y of every group of private records, public constants: as declared, else counted (of a task of codes the
        same for all). In the order of the labels: that of the records is private."""
        counted: Mapping[Partition, int] = Counter(record.label for record in self.train)
        if self.config.metadata.codes and self.partitioned:
            counted = equal_sizes(len(self.train), self.labels)
        sizes = counted if self.declared is None else self.declared
        if not self.partitioned:
            return {None: sum(sizes.values())}
        place = {label: at for at, label in enumerate(self.labels)}
        return dict(sorted(sizes.items(), key=lambda item: place.get(item[0] or "", len(place))))

    @property
    def size(self) -> int:
        """n, the number of private records: a public constant."""
        return sum(self.group_sizes.values())

    def keep_sizes(self) -> Task:
        """The task with its public sizes and without a record: what a mechanism may see of them."""
        return replace(
            self,
            train=(),
            test=(),
            fingerprint="",
            dropped={},
            declared=dict(self.group_sizes),
        )

    def sizes(self, shots: Sequence[str]) -> Sizes:
        """The public numbers an epsilon depends on: n_y and shots of every partition that `shots` uses.

        Raises DataError for a group without records.
        """
        required: Mapping[Partition, int] = (
            Counter(shots) if self.partitioned else {None: len(shots)}
        )
        require_known("label", [label for label in required if label is not None], self.labels)
        sizes = self.group_sizes
        if missing := [label for label in required if not sizes.get(label)]:
            raise DataError(
                f"No private record of {missing[0] or self.name!r} is to be expected; bring more records (attacks:"
                " raise --members), or declare the size of the group."
            )
        return Sizes({label: sizes[label] for label in required}, dict(required))


def _corpus_size(config: TaskFile, limit_test: int | None, pool: bool) -> int | None:
    """How many test records of a corpus are made, of all classes together. It has as many of every class, and a task of
    codes may draw a part of them."""
    if limit_test is None:
        return None
    classes = config.source.labels if config.metadata.codes else ()
    whole = -(-limit_test // len(config.classes)) * len(classes) if classes else limit_test
    return whole * POOL_DRAWS if pool else whole


def _list_fields(config: TaskFile) -> dict[str, Any]:
    """The fields of a task that its file alone decides."""
    values = {
        "name": config.metadata.name,
        "kind": config.metadata.kind,
        "labels": config.labels,
        "config": config,
    }
    return {**values, "partitioned": bool(config.classes)}


def sample_documents(count: int, label: str) -> list[dict[str, Any]]:
    """Requests for a new text of a JSON task as lm-eval documents: 'sample-0', 'sample-1', ..."""
    return [{"id": f"sample-{i}", "text": "", "label": label} for i in range(count)]


@cache
def _template(source: str) -> jinja2.Template:
    """As lm-eval renders doc_to_text (lm_eval.utils.apply_template)."""
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    ).from_string(source)


def _document_id(text: str, label: str) -> str:
    return hashlib.sha256(json.dumps([label, text]).encode()).hexdigest()[:16]


Documents = Sequence[Mapping[str, Any]]

_SERVED: ContextVar[tuple[Task, Documents] | None] = ContextVar("served_task", default=None)


@contextmanager
def serving(task: Task, documents: Documents | None = None) -> Iterator[None]:
    """Inside this block lm-eval's copy of the task gets these documents (the task's own) instead of loading its own."""
    token = _SERVED.set((task, task.documents() if documents is None else documents))
    try:
        yield
    finally:
        _SERVED.reset(token)


def find_served() -> tuple[Task, Documents] | None:
    """The task that `serving` put up, if any, and the documents."""
    return _SERVED.get()
