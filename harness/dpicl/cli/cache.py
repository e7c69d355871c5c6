"""`dpicl cache`: what is kept of the model's answers to private prompts, and what killed processes left in the cache;
`--clear` removes both."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.core.errors import ResultError, require_known
from dpicl.core.locks import abandoned, folder_bytes, remove_abandoned
from dpicl.core.paths import models_folder
from dpicl.data.task import list_tasks
from dpicl.releasing.output_cache import Collection, clear, collections, outputs_folder


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "cache", "dpicl cache --clear --task samsum", _cache)
    parser.add_argument("--clear", action="store_true", help="remove them for good")
    parser.repeated("--task", "T", "only this task")
    parser.repeated("--model", "X", "only this model")


def _cache(arguments: argparse.Namespace) -> int:
    require_known("task", arguments.task, list_tasks())
    return _clear(arguments) if arguments.clear else _list(arguments)


def _list(arguments: argparse.Namespace) -> int:
    held = [
        one
        for one in collections()
        if (not arguments.task or one.task in arguments.task) and (not arguments.model or one.model in arguments.model)
    ]
    with _readable():
        left = {path: folder_bytes(path) for place in _places() for path in abandoned(place)}
    found = [{"path": path, "bytes": size} for path, size in left.items()]
    document = {"folder": outputs_folder(), "collections": [asdict(one) for one in held], "abandoned": found}
    return output.answer(arguments, document, lambda: _show(held, left))


def _show(held: Sequence[Collection], left: Mapping[Path, int]) -> None:
    rows = [
        [
            one.model,
            one.task,
            one.kind,
            str(one.outputs),
            f"{one.bytes / 1e6:.1f} MB",
            "?" if one.newest is None else time.strftime("%Y-%m-%d %H:%M", time.localtime(one.newest)),
        ]
        for one in held
    ]
    if held:
        output.emit_table(["model", "task", "what", "outputs", "size", "newest"], rows)
        about = "readable by you alone; derived from private records. Clear: dpicl cache --clear"
        output.emit(f"In {outputs_folder()}, {about}")
    else:
        output.emit("The cache of model outputs is empty.")
    if left:
        output.emit(
            f"Killed processes left {output.count(len(left), 'folder')} of {sum(left.values()) / 1e6:.1f} MB:"
            f" {', '.join(map(str, left))}. Remove: dpicl cache --clear"
        )


def _clear(arguments: argparse.Namespace) -> int:
    """Named tasks or models: their outputs alone; else what killed processes left goes too."""
    removed = clear(tasks=arguments.task, models=arguments.model)
    freed = 0
    if not arguments.task and not arguments.model:
        with _readable():
            freed = sum(map(remove_abandoned, _places()))
    if arguments.json:
        output.emit_json({"removed": removed, "abandoned_bytes": freed})
        return 0
    output.emit(f"Removed {output.count(removed, 'output')}.")
    if freed:
        output.emit(f"Removed {freed / 1e6:.1f} MB that killed processes had left.")
    return 0


def _places() -> list[Path]:
    """Where temporary folders are made."""
    return [models_folder()]


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = f"The cache folder {error.filename} cannot be read ({error.strerror}); fix its rights."
        raise ResultError(said) from error
