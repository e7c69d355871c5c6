"""`dpicl doctor`: shows what is installed and what is missing, with the command that installs it.

Exit code 1 when the default run cannot work.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpicl import models
from dpicl.api.parameters import Models, Results, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import DpiclError
from dpicl.core.extras import install
from dpicl.core.messages import count, join_names
from dpicl.core.output_cache import outputs_folder
from dpicl.core.paths import DEFAULT_RESULTS, cache_folder, private_folder
from dpicl.core.plugins import version_of
from dpicl.data.config import list_tasks, load_config
from dpicl.data.sources import check_there, data_folder, resolve
from dpicl.data.task import Task
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import skip_reason
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models import embeddings, static_vectors
from dpicl.models.base import LanguageModel
from dpicl.models.server_settings import ServerRecord
from dpicl.results import manifest
from dpicl.run.workbench import unscored
from dpicl.tables.document import text_table

#: A run of the quick suite writes less; the embedded model's cache takes about half of it.
_LEAST_FREE_GB = 2.0
#: What reading the embedded model needs besides the packages of the manifest.
_LOADERS = ("accelerate", "gguf")


@dataclass(frozen=True)
class Check:
    """One finding. ok: False only for what the default run cannot do without. remedy: a command, or "". optional:
    whether it is something that is not there and that few need."""

    name: str
    ok: bool
    found: str
    remedy: str = ""
    optional: bool = False

    @property
    def mark(self) -> str:
        """As the table shows it."""
        if self.optional:
            return "-"
        return "ok" if self.ok else "MISSING"


@verb("dpicl doctor --json")
def doctor(*, model: Models = (), results: Results = DEFAULT_RESULTS) -> Answer:
    """Looks at everything that a run needs, and changes nothing.

    model: model to look at too; of one behind a server, what each mechanism can do with it. Only public prompts are
        sent.
    results: results folder to look at (default: results).
    """
    checks = [*_software(), *_models(), *_data(), *_folders(Path(results))]
    good = all(check.ok for check in checks)
    for name in model:
        named = [*_named_model(name)]
        good &= named[0].ok
        checks += named
    rows = [[check.mark, check.name, check.found, check.remedy] for check in checks]
    end = (
        "Everything that the default run needs is there."
        if good
        else "Something is missing; see above."
    )
    document = {"ok": good, "checks": [asdict(check) for check in checks]}
    return Answer(
        document,
        [text_table(["", "what", "found", "to change it"], rows), end],
        0 if good else 1,
    )


def _software() -> Iterator[Check]:
    yield Check("python", True, platform.python_version())
    yield Check("dpicl-bench", True, version_of("dpicl-bench") or "not installed")
    for name in (*manifest.PACKAGES, *_LOADERS):
        # the models say how to install their wheels
        if name in ("dpicl-bench", embeddings.WHEEL, static_vectors.WHEEL):
            continue
        installed = version_of(name)
        remedy = "" if installed else install(name.replace("-", "_"))
        yield Check(name, installed is not None, installed or "missing", remedy)
    commit, dirty = manifest.commit()
    if commit is not None:
        yield Check("commit", True, commit[:12] + (" with changes" if dirty else ""))
    with suppress(ModuleNotFoundError):
        import torch  # noqa: F401  which sees the GPU
    machine = manifest.machine()
    size = f"{count(machine.cores, 'core')}, {machine.memory_mb / 1024:.1f} GB"
    yield Check("processor", True, f"{machine.cpu}, {size}, GPU: {machine.gpu or 'none'}")


def _models() -> Iterator[Check]:
    needed_by = " (ESA, SGA, similarity and attacks need it)"
    kinds = (
        ("model", models.list_known(), ""),
        ("embeddings", embeddings.list_known(), needed_by),
        ("static vectors", static_vectors.list_known(), " (scores of what texts carry need them)"),
    )
    for kind, entries, why in kinds:
        for entry in entries:
            if (there := entry["available"]) is not None:
                needed = kind == "model" and not entry["name"].startswith(models.QWEN.name)
                missing = (
                    f"missing{why}"
                    if needed or why
                    else f"optional, not installed: {entry['about']}"
                )
                state, remedy = ("installed", "") if there else (missing, entry["get"])
                optional = not there and not needed
                yield Check(f"{kind} {entry['name']}", there or optional, state, remedy, optional)


def _named_model(name: str) -> Iterator[Check]:
    """Whether a model is there, and which mechanisms its server lacks something for."""
    try:
        models.require_there(name)
        model = models.load(name) if name.startswith("server:") else None
    except DpiclError as error:
        yield Check(f"model {name}", False, str(error))
        return
    if model is None or model.server is None:
        yield Check(f"model {name}", True, "there")
        return
    yield Check(f"model {model.identity.name}", True, _describe_server(model.server))
    for mechanism in sorted(load_mechanisms()):
        yield _check_mechanism(mechanism, model)


def _describe_server(record: ServerRecord) -> str:
    version = f"{record.kind} {record.version}".strip()
    words = [f"{version}, model {record.model}, reads {record.context} tokens"]
    if record.vocabulary:
        words.append("log-probabilities of all tokens")
    elif record.top_tokens:
        words.append(f"log-probabilities of the {record.top_tokens} likeliest tokens")
    else:
        words.append("texts alone")
    if record.listed_ids:
        words.append(f"of {record.listed_ids} listed ids a request")
    if record.mixes is False:
        words.append(
            "answers wrongly where both kinds of requests come together: they are sent apart"
        )
    return "; ".join(words)


def _check_mechanism(name: str, model: LanguageModel) -> Check:
    """On which shipped tasks a mechanism runs with a model's server, and what it lacks on others."""
    mechanism = build(load_mechanisms()[name].cls, {})
    runs, problems = [], {}
    for task_name in list_tasks():
        task = Task.read_public(task_name)
        if skip_reason(mechanism, task) or models.incompatibility(model.identity.name, task_name):
            continue
        problem = mechanism.unmet_needs(task, model) or unscored(mechanism, task, model)
        if problem is None:
            runs.append(task_name)
        else:
            problems[task_name] = problem
    if not problems:
        return Check(f"mechanism {name}", True, "runs")
    first = next(iter(problems.values()))
    if not runs:
        return Check(f"mechanism {name}", False, f"does not run: {first}")
    return Check(
        f"mechanism {name}",
        True,
        f"runs on {join_names(runs, 3)}; not on {join_names([*problems], 3)}: {first}",
    )


def _data() -> Iterator[Check]:
    try:
        folder = data_folder()
    except DpiclError as error:
        yield Check("DPICL_DATA", False, str(error))
        return
    hint = "" if folder else "export DPICL_DATA=FOLDER"
    yield Check("DPICL_DATA", True, str(folder) if folder else "not set: synthetic records", hint)
    for task in list_tasks():
        try:
            spec = load_config(task).source
            source = resolve("auto", spec)
            check_there(spec, source)
        except DpiclError as error:
            yield Check(f"task {task}", False, str(error))
            continue
        missing = folder is not None and source != "local"
        yield Check(
            f"task {task}",
            True,
            f"{source} records",
            f"put {spec.name}/train.jsonl there" if missing else "",
        )


def _folders(results: Path) -> Iterator[Check]:
    for name, folder, remedy in (
        ("cache", cache_folder(), "export DPICL_CACHE=FOLDER"),
        ("budgets", private_folder(), "make room there; another folder would begin other budgets"),
        ("results", results, "dpicl run SUITE --results FOLDER"),
    ):
        there = next(
            each for each in (folder.absolute(), *folder.absolute().parents) if each.exists()
        )
        writable = os.access(there, os.W_OK)
        free = shutil.disk_usage(there).free / 2**30
        state = f"{folder} ({free:.1f} GB free{'' if writable else ', cannot be written'})"
        good = writable and free >= _LEAST_FREE_GB
        yield Check(name, good, state, "" if good else remedy)
    if (outputs := outputs_folder()).is_dir():
        yield Check(
            "outputs",
            True,
            f"{outputs}: what models said to private prompts",
            f"rm -r {shlex.quote(str(outputs))}",
        )
