"""`dpicl slurm`: a script for sbatch, whose jobs each run a part of a suite."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, add_selection_flags, selected
from dpicl.cli.engine_flags import add_job_flags
from dpicl.core.errors import UsageError
from dpicl.core.printable import printable
from dpicl.data.local import data_folder
from dpicl.plan.selection import shard

_SHARDS, _CPUS, _MINUTES = 4, 2, 60
#: So long before its time limit a job stops, or a quarter of that.
_MARGIN_SECONDS = 120
_SCRIPT = Path(__file__).parent / "slurm.sh.txt"


class _Template(Template):
    """With %{name}, since a script of the shell is full of $."""

    delimiter = "%"


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "slurm", "dpicl slurm classification --shards 16 --workers 8 --minutes 120", _slurm
    )
    add_selection_flags(parser)
    parser.count("--shards", "N", f"parts of the suite, a job each ({_SHARDS})", default=_SHARDS)
    parser.count("--workers", "N", "jobs at once, at most (default: all)")
    add_job_flags(parser)


def _slurm(arguments: argparse.Namespace) -> int:
    cells = selected(arguments).cells
    if arguments.shards > len(cells):
        raise UsageError(
            f"{output.count(len(cells), 'cell')} cannot be divided into {arguments.shards} shards; give a smaller"
            " --shards."
        )
    sizes = [len(shard(cells, number, arguments.shards)) for number in range(1, arguments.shards + 1)]
    script = _script(arguments)
    if printable(script) != script:
        raise UsageError(
            "A path or a flag of the script has a character that is not shown; give the folder another name."
        )
    document = {"cells": len(cells), "shards": sizes, "script": script}
    return output.answer(arguments, document, lambda: output.emit(script.rstrip("\n")))


def _script(arguments: argparse.Namespace) -> str:
    at_once = f"%{arguments.workers}" if arguments.workers else ""
    results = arguments.results.absolute()
    cores, minutes = arguments.cpus or _CPUS, arguments.minutes or _MINUTES
    options = {
        "array": f"1-{arguments.shards}{at_once}",
        "time": str(minutes),
        "cpus-per-task": str(cores),
        **({"gpus": str(arguments.gpus)} if arguments.gpus else {}),
        **{name.replace("_", "-"): value for name, value in arguments.sbatch},
    }
    caches = {name: os.environ.get(name) for name in ("DPICL_CACHE", "XDG_CACHE_HOME")}
    settings = {"DPICL_DATA": data_folder(), **{name: Path(set).expanduser() for name, set in caches.items() if set}}
    run = ["-m", "dpicl", "run", *_without(arguments.argv[1:], _OWN)]
    return _Template(_SCRIPT.read_text(encoding="utf-8")).substitute(
        options="\n".join(f"#SBATCH --{name}={value}" for name, value in options.items()),
        settings="\n".join(_export(name, value) for name, value in settings.items() if value is not None),
        folder=shlex.quote(str(Path.cwd())),
        results=shlex.quote(str(results)),
        threads=cores,
        margin=min(_MARGIN_SECONDS, 15 * minutes),
        shards=arguments.shards,
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
