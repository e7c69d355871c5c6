"""`dpicl cache`: what is kept of the model's answers to private prompts, and what killed processes left in the cache;
`--clear` removes both."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dpicl.api.parameters import Models, Tasks, as_list, verb
from dpicl.cli import output
from dpicl.cli.output import Answer
from dpicl.core.errors import ResultError, require_known
from dpicl.core.locks import abandoned, folder_bytes, remove_abandoned
from dpicl.core.paths import models_folder
from dpicl.data.task import list_tasks
from dpicl.releasing.output_cache import Collection, collections, outputs_folder
from dpicl.releasing.output_cache import clear as clear_outputs


@verb("dpicl cache --clear --task samsum")
def cache(
    *,
    clear: bool = False,
    task: Tasks = (),
    model: Models = (),
) -> Answer:
    """Lists collected outputs, or clears them; without tasks and models also what killed processes left.

    clear: remove them for good.
    task: only this task; may be repeated (or A,B).
    model: only this model; may be repeated (or A,B).
    """
    tasks, models = as_list(task), as_list(model)
    require_known("task", tasks, list_tasks())
    if clear:
        removed, freed = clear_outputs(tasks=tasks, models=models), 0
        if not tasks and not models:
            with _readable():
                freed = sum(map(remove_abandoned, _places()))
        return Answer({"removed": removed, "abandoned_bytes": freed}, lambda: _show_cleared(removed, freed))
    held = [one for one in collections() if one.task in (tasks or [one.task]) and one.model in (models or [one.model])]
    with _readable():
        left = {path: folder_bytes(path) for place in _places() for path in abandoned(place)}
    found = [{"path": path, "bytes": size} for path, size in left.items()]
    document = {"folder": outputs_folder(), "collections": [asdict(one) for one in held], "abandoned": found}
    return Answer(document, lambda: _show(held, left))


def _show_cleared(removed: int, freed: int) -> None:
    output.emit(f"Removed {output.count(removed, 'output')}.")
    if freed:
        output.emit(f"Removed {freed / 1e6:.1f} MB that killed processes had left.")


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
