"""The flags of `dpicl run` that choose an engine and say what it is asked for."""

from __future__ import annotations

import argparse

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Parser
from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.printable import printable
from dpicl.harness.run.engine_settings import ENGINES, EngineSettings, refuse_secure
from dpicl.harness.run.engines import Engine, make_engine
from dpicl.harness.run.fingerprints import Fingerprints
from dpicl.harness.run.presence import presence
from dpicl.harness.run.selection import Selection
from dpicl.harness.run.slurm_engine import Slurm

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
        "this process, worker processes, Ray, or Slurm (default: inline)",
        default="inline",
    )
    run.count("--workers", "N", "workers of the engine (default: one for two cores; Slurm: 4 jobs at once)")
    run.add_argument("--address", metavar="HOST:PORT", help="Ray: the cluster's head (default: RAY_ADDRESS)")
    add_job_flags(run)
    run.choice("--scheduler", ("slurm", "local", "debug"), "Slurm: run its jobs on this machine instead (local, debug)")
    run.add_argument("--dry-run", action="store_true", help="Slurm: show the jobs and submit none")


def add_job_flags(run: Parser) -> None:
    """What each worker, or job, is asked for."""
    run.count("--cpus", "N", "Ray, Slurm: cores of each worker (default: Ray shares a node's cores, Slurm 2)")
    run.count("--gpus", "N", "Ray, Slurm: GPUs of each worker (default: Ray 1 where there are any, else 0)", least=0)
    run.count("--minutes", "N", "Slurm: time limit of a job, which ends in time and leaves the rest to the next (60)")
    run.add_argument(
        "--sbatch",
        action="append",
        default=[],
        type=_sbatch,
        metavar="NAME=VALUE",
        help="Slurm: a further option of sbatch, such as partition=gpu; may be repeated",
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
    names = ("address", "cpus", "gpus", "minutes", "scheduler")
    settings = EngineSettings(sbatch=tuple(arguments.sbatch), **{name: getattr(arguments, name) for name in names})
    return make_engine(arguments.engine, arguments.workers, settings)


def dry_run(arguments: argparse.Namespace, selection: Selection, engine: Engine) -> int:
    """Shows the jobs that a run would submit."""
    if not isinstance(engine, Slurm):
        raise UsageError("--dry-run goes with --engine slurm; `dpicl plan` shows what a run would do.")
    refuse_secure(selection.cells)
    missing = presence(selection.cells, selection.store.load_all()[0], Fingerprints()).missing
    jobs, asks = engine.plan(missing), engine.parameters()

    def show() -> None:
        output.emit(f"{output.count(len(missing), 'cell')} in {output.count(len(jobs), 'job')}; nothing is submitted.")
        output.emit_table(["job", "cells"], [[str(number), str(cells)] for number, cells in enumerate(jobs, 1)])
        output.emit(", ".join(f"{name}={value}" for name, value in asks.items()))

    return output.answer(arguments, {"cells": len(missing), "jobs": jobs, "parameters": asks}, show)
