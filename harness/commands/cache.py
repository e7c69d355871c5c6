"""`dpicl cache`: what is kept of the model's answers to private prompts; `--clear` removes it."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict

from harness.commands import output
from harness.commands.arguments import Subparsers, add_command


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "cache",
        "list or clear the model outputs that answer mechanisms collected (derived from private records)",
        "dpicl cache --clear --task samsum",
        _cache,
    )
    parser.add_argument("--clear", action="store_true", help="remove them for good")
    parser.add_argument("--task", action="append", default=[], metavar="T", help="only this task; may be repeated")
    parser.add_argument("--model", action="append", default=[], metavar="X", help="only this model; may be repeated")


def _cache(arguments: argparse.Namespace) -> int:
    from harness.errors import unknown
    from harness.output_cache import clear, collections, outputs_folder
    from harness.task import list_tasks

    for task in arguments.task:
        if task not in list_tasks():
            raise unknown("task", task, list_tasks())
    if arguments.clear:
        removed = clear(tasks=arguments.task, models=arguments.model)
        if arguments.json:
            output.emit_json({"removed": removed})
        else:
            output.emit(f"Removed {output.count(removed, 'output')}.")
        return 0
    held = [
        one
        for one in collections()
        if (not arguments.task or one.task in arguments.task) and (not arguments.model or one.model in arguments.model)
    ]
    if arguments.json:
        output.emit_json({"folder": outputs_folder(), "collections": [asdict(one) for one in held]})
        return 0
    if not held:
        output.emit("The cache of model outputs is empty.")
        return 0
    rows = [
        [
            one.model,
            one.task,
            one.kind,
            str(one.outputs),
            f"{one.bytes / 1e6:.1f} MB",
            time.strftime("%Y-%m-%d %H:%M", time.localtime(one.newest)),
        ]
        for one in held
    ]
    output.emit_table(["model", "task", "what", "outputs", "size", "newest"], rows)
    output.emit(
        f"In {outputs_folder()}, readable by you alone; derived from private records. Clear: dpicl cache --clear"
    )
    return 0
