"""`dpicl doctor`: what is installed, where data and models come from, what is missing, and the command that gets it.

Exit code 1 when the default run cannot work.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpicl import models
from dpicl.api.parameters import Results, verb
from dpicl.cli.data import summary
from dpicl.cli.output import Answer
from dpicl.core.errors import DpiclError
from dpicl.core.extras import install
from dpicl.core.messages import count
from dpicl.core.paths import DEFAULT_RESULTS, cache_folder, private_folder
from dpicl.core.plugins import version_of
from dpicl.data.config import list_tasks, load_config, source_spec
from dpicl.data.local import data_folder
from dpicl.data.sources import resolve
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models import embeddings
from dpicl.results import manifest
from dpicl.tables.document import text_table

#: A run of the quick suite writes less; the embedded model's cache takes about half of it.
_LEAST_FREE_GB = 2.0
#: What reading the embedded model needs besides the packages of the manifest.
_LOADERS = ("accelerate", "gguf")


@dataclass(frozen=True)
class Check:
    """One finding. ok: False only for what the default run cannot do without. remedy: a command, or "" ."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


@verb("dpicl doctor --json")
def doctor(*, results: Results = DEFAULT_RESULTS) -> Answer:
    """Looks at everything that a run needs.

    results: results folder to look at (default: results).
    """
    checks = examine(Path(results))
    good = all(check.ok for check in checks)
    rows = [["ok" if check.ok else "MISSING", check.name, check.found, check.remedy] for check in checks]
    end = "Everything that the default run needs is there." if good else "Something is missing; see above."
    document = {"ok": good, "checks": [asdict(check) for check in checks]}
    return Answer(document, [text_table(["", "what", "found", "to change it"], rows), end], 0 if good else 1)


def examine(results: Path = DEFAULT_RESULTS) -> list[Check]:
    """Looks at everything and changes nothing."""
    return [*_software(), *_processor(), *_models(), *_metrics(), *_mechanisms(), *_data(), *_folders(results)]


def _software() -> Iterator[Check]:
    version = platform.python_version()
    yield Check("python", sys.version_info >= (3, 11), version, "" if sys.version_info >= (3, 11) else "Python 3.11")
    for name in (*manifest.PACKAGES, *_LOADERS):
        if name == embeddings.WHEEL:  # the models say how to install it
            continue
        found = version_of(name)
        remedy = "make setup" if name == "dpicl-bench" else install(name.replace("-", "_"))
        needed = name != "dpicl-bench"
        yield Check(name, found is not None or not needed, found or "missing", "" if found else remedy)
    commit, dirty = manifest.commit()
    if commit is not None:
        yield Check("commit", True, commit[:12] + (" with changes" if dirty else ""))


def _processor() -> Iterator[Check]:
    machine = manifest.machine()
    yield Check("processor", True, f"{machine.cpu}, {count(machine.cores, 'core')}, {machine.memory_mb / 1024:.1f} GB")
    try:
        import torch
    except ModuleNotFoundError:
        return
    from dpicl.models.weights import dtype_name, preferred_dtype

    gpu = torch.cuda.get_device_name(0) if torch.cuda.is_available() else "none"
    yield Check("GPU", True, gpu)
    dtype = dtype_name(preferred_dtype("cuda" if torch.cuda.is_available() else "cpu"))
    yield Check("number format", True, dtype)


def _models() -> Iterator[Check]:
    kinds = (
        ("model", models.known(), ""),
        ("embeddings", embeddings.known(), " (ESA, SGA, similarity and attacks need it)"),
    )
    for kind, entries, needed_by in kinds:
        for entry in entries:
            if (there := entry["available"]) is not None:
                found, remedy = ("installed", "") if there else (f"missing{needed_by}", entry["get"])
                needed = kind == "model" and not entry["name"].startswith(models.QWEN.name)
                yield Check(f"{kind} {entry['name']}", there or not needed, found, remedy)


def _metrics() -> Iterator[Check]:
    """METEOR matches synonyms of WordNet, which nltk downloads apart; without it the metric is left out."""
    if version_of("nltk") is None:
        return
    import nltk

    there = False
    for place in ("corpora/wordnet", "corpora/wordnet.zip/wordnet/"):  # unpacked, or as its downloader writes it
        with suppress(LookupError):
            there |= bool(nltk.data.find(place))
    remedy = "" if there else "python -m nltk.downloader wordnet"
    yield Check("WordNet", True, "found" if there else "missing (METEOR is left out)", remedy)


def _mechanisms() -> Iterator[Check]:
    try:
        yield Check("mechanisms", True, f"{len(load_mechanisms())} (dpicl list mechanisms)")
    except DpiclError as error:
        yield Check("mechanisms", False, str(error))


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
            spec = source_spec(load_config(task))
            source = resolve("auto", spec)
            found = summary(task) if source == "local" else f"{source} records"
        except DpiclError as error:
            yield Check(f"task {task}", False, str(error))
            continue
        missing = folder is not None and source != "local"
        yield Check(f"task {task}", True, found, f"put {spec.name}/train.jsonl there" if missing else "")


def _folders(results: Path) -> Iterator[Check]:
    for name, folder, remedy in (
        ("cache", cache_folder(), "export DPICL_CACHE=FOLDER"),
        ("budgets", private_folder(), "make room there; another folder would begin other budgets"),
        ("results", results, "dpicl run SUITE --results FOLDER"),
    ):
        there = _nearest(folder)
        writable = os.access(there, os.W_OK)
        free = shutil.disk_usage(there).free / 2**30
        found = f"{folder} ({free:.1f} GB free{'' if writable else ', cannot be written'})"
        good = writable and free >= _LEAST_FREE_GB
        yield Check(name, good, found, "" if good else remedy)


def _nearest(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists."""
    folder = folder.absolute()
    while not folder.exists():
        folder = folder.parent
    return folder
