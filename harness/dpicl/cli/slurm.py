"""`dpicl slurm`: a script for sbatch, whose jobs each run a part of a suite."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template
from typing import Annotated, Any, Unpack

from dpicl.api.parameters import Cells, Count, Flag, Natural, SuiteName, each, folder_of, verb
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.cli.selecting import selected
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.printable import printable
from dpicl.data.local import data_folder
from dpicl.plan.selection import shard

#: So long before its time limit a job stops, or a quarter of that.
_MARGIN_SECONDS = 120
#: Options of sbatch that every job is given.
_OURS = (
    "array", "time", "cpus-per-task", "gpus", "gpus-per-node", "job-name", "output", "open-mode", "requeue", "signal",
    "ntasks",
)  # fmt: skip
_SCRIPT = Path(__file__).parent / "slurm.sh.txt"


class _Template(Template):
    """With %{name}, since a script of the shell is full of $."""

    delimiter = "%"


def _sbatch(text: Any) -> str:
    """'--partition=gpu' or 'partition=gpu' -> the latter."""
    name, equals, value = str(text).removeprefix("--").partition("=")
    if not equals or not name:
        raise ValueError(f"must be NAME=VALUE, not '{text}'")
    if not str(text).isprintable() or set(str(text)) & set("\"'\\ "):
        raise ValueError(f"{printable(name[:40])} must be one line without quotation marks and blanks")
    if name.replace("_", "-") in _OURS:
        raise ValueError(f"{name} is set already, by --cpus, --gpus or --minutes for example")
    return f"{name.replace('_', '-')}={value}"


@verb("dpicl slurm classification --shards 16 --workers 8 --minutes 120")
def slurm(
    suite: SuiteName,
    *,
    shards: Count = 4,
    workers: Count | None = None,
    cpus: Count = 2,
    gpus: Natural = 0,
    minutes: Count = 60,
    sbatch: Annotated[Sequence[str], each(_sbatch, divided=False), Flag(metavar="NAME=VALUE")] = (),
    **cells: Unpack[Cells],
) -> Answer:
    """The script of a job array that runs a suite, a part of it in each job. Raises UsageError for too many parts.

    shards: parts of the suite, a job each (4).
    workers: jobs at once, at most (default: all).
    cpus: cores of a job (2).
    gpus: GPUs of a job (0).
    minutes: time limit of a job, which stops in time and is queued again (60).
    sbatch: a further option of sbatch, such as partition=gpu; may be repeated.
    """
    selection = selected(suite, cells)
    if shards > len(selection.cells):
        raise UsageError(
            f"{count(len(selection.cells), 'cell')} cannot be divided into {shards} shards; give a smaller --shards."
        )
    sizes = [len(shard(selection.cells, number, shards)) for number in range(1, shards + 1)]
    options = {
        "array": f"1-{shards}{f'%{workers}' if workers else ''}",
        "time": str(minutes),
        "cpus-per-task": str(cpus),
        **({"gpus": str(gpus)} if gpus else {}),
        **dict(option.split("=", 1) for option in sbatch),
    }
    script = _script(options, str(suite), folder_of(cells).absolute(), shards, cpus, minutes)
    if printable(script) != script:
        raise UsageError(
            "A path or a flag of the script has a character that is not shown; give the folder another name."
        )
    document = {"cells": len(selection.cells), "shards": sizes, "script": script}
    return Answer(document, [script])


def _script(options: Mapping[str, str], suite: str, results: Path, shards: int, cores: int, minutes: int) -> str:
    caches = {name: os.environ.get(name) for name in ("DPICL_CACHE", "XDG_CACHE_HOME")}
    settings = {"DPICL_DATA": data_folder(), **{name: Path(set).expanduser() for name, set in caches.items() if set}}
    run = ["-m", "dpicl", "run", *_without(call.words(suite), _OWN)]
    return _Template(_SCRIPT.read_text(encoding="utf-8")).substitute(
        options="\n".join(f"#SBATCH --{name}={value}" for name, value in options.items()),
        settings="\n".join(_export(name, value) for name, value in settings.items() if value is not None),
        folder=shlex.quote(str(Path.cwd())),
        results=shlex.quote(str(results)),
        threads=cores,
        margin=min(_MARGIN_SECONDS, 15 * minutes),
        shards=shards,
        run=shlex.join([sys.executable, *run]),
    )


#: Flags that `dpicl run` is not given -> whether a value follows.
_OWN = {
    **dict.fromkeys(("--shards", "--workers", "--cpus", "--gpus", "--minutes", "--sbatch"), True),
    "--json": False,
}


def _without(words: Sequence[str], flags: Mapping[str, bool]) -> list[str]:
    """Words of a command line without these flags and their values."""
    kept, rest = [], iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        if name not in flags:
            kept.append(word)
        elif flags[name] and not equals:
            next(rest)
    return kept


def _export(name: str, value: Path) -> str:
    return f"export {name}={shlex.quote(str(value.absolute()))}"
