"""The flags of `dpicl run` that choose an engine and say what it is asked for."""

from __future__ import annotations

import argparse

from dpicl.cli.arguments import Parser
from dpicl.core.printable import printable
from dpicl.engines.local import Engine, make_engine
from dpicl.engines.settings import ENGINES, EngineSettings

#: Options of sbatch that every job is given.
_OURS = (
    "array", "time", "cpus_per_task", "gpus", "gpus_per_node", "job_name", "output", "open_mode", "requeue", "signal",
    "ntasks",
)  # fmt: skip


def add_engine_flags(run: Parser) -> None:
    """Which engine runs the cells, and what it is asked for."""
    run.choice(
        "--engine",
        ENGINES,
        "this process, worker processes, or Ray (default: inline)",
        default="inline",
    )
    run.count("--workers", "N", "workers of the engine (default: one for two cores)")
    run.add_argument("--address", metavar="HOST:PORT", help="Ray: the cluster's head (default: RAY_ADDRESS)")
    run.count("--cpus", "N", "Ray: cores of each worker (default: they share a node's cores)")
    run.count("--gpus", "N", "Ray: GPUs of each worker (default: 1 where there are any, else 0)", least=0)


def add_job_flags(run: Parser) -> None:
    """What each job of `dpicl slurm` is asked for."""
    run.count("--cpus", "N", "cores of a job (2)")
    run.count("--gpus", "N", "GPUs of a job (0)", least=0)
    run.count("--minutes", "N", "time limit of a job, which stops in time and is queued again (60)")
    run.add_argument(
        "--sbatch",
        action="append",
        default=[],
        type=_sbatch,
        metavar="NAME=VALUE",
        help="a further option of sbatch, such as partition=gpu; may be repeated",
    )


def _sbatch(text: str) -> tuple[str, str]:
    name, equals, value = text.removeprefix("--").partition("=")
    if not equals or not name:
        raise argparse.ArgumentTypeError(f"write NAME=VALUE, not '{text}'")
    if not text.isprintable() or set(text) & set("\"'\\ "):
        raise argparse.ArgumentTypeError(
            f"--{printable(name[:40])} must be one line without quotation marks and blanks"
        )
    if (own := name.replace("-", "_")) in _OURS:
        raise argparse.ArgumentTypeError(
            f"--{name} of sbatch is set already, by --cpus, --gpus or --minutes for example"
        )
    return own, value


def engine_of(arguments: argparse.Namespace) -> Engine:
    """The engine that the flags ask for. Raises UsageError for what does not fit."""
    settings = EngineSettings(arguments.address, arguments.cpus, arguments.gpus)
    return make_engine(arguments.engine, arguments.workers, settings)
