"""`dpicl tune`: the options that papers tuned, chosen for all rows of a suite by one protocol."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from dpicl.api.tuning import Tuning, tune
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.engines.settings import ENGINES


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(subparsers, "tune", "dpicl tune record --engine local", _tune)
    parser.add_argument("suite", metavar="SUITE", help="a suite file, or the name of a shipped suite")
    parser.share("--results", "--plugin")
    parser.repeated("--task", "T", "task")
    parser.count("--limit", "N", "test records of each task")
    parser.count("--shots", "K", "demonstrations, fewer than the suite's where those take too long")
    parser.choice("--engine", ENGINES[:2], "this process, or worker processes (default: inline)", default="inline")
    parser.count("--workers", "N", "workers of the engine (default: one for two cores)")


def _tune(arguments: argparse.Namespace) -> int:
    found = tune(
        arguments.suite,
        results=Path(arguments.results),
        plugins=arguments.plugin,
        tasks=arguments.task,
        limit=arguments.limit,
        shots=arguments.shots,
        engine=arguments.engine,
        workers=arguments.workers,
        command=shlex.join(["dpicl", *arguments.argv]),
    )
    document = {**found.tuned.model_dump(mode="json"), "file": found.path}
    return output.answer(arguments, document, lambda: _show(found))


def _show(found: Tuning) -> None:
    rows = []
    for row, settings in found.tuned.rows.items():
        for place, one in enumerate(settings):
            said = ", ".join(f"{name} = {value}" for name, value in one.options.items())
            rows.append([row if place == 0 else "", said, f"{one.score:.3f}", "chosen" if place == 0 else ""])
    output.emit_table(["row", "setting", "score", ""], rows)
    output.emit(f"\nWritten to {found.path}. Scores are means over {', '.join(found.tuned.records)}.")
