"""`dpicl cache`: what is kept of the model's answers to private prompts, and what killed processes left in the cache;
`--clear` removes both."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dpicl.api.parameters import Models, Tasks, as_list, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import ResultError, require_known
from dpicl.core.locks import abandoned, folder_bytes, remove_abandoned
from dpicl.core.messages import count
from dpicl.core.paths import models_folder
from dpicl.data.task import list_tasks
from dpicl.releasing.output_cache import Collection, collections, outputs_folder
from dpicl.releasing.output_cache import clear as clear_outputs
from dpicl.tables.document import Block, text_table


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
                freed = remove_abandoned(models_folder())
        said = [f"Removed {count(removed, 'output')}."]
        said += [f"Removed {freed / 1e6:.1f} MB that killed processes had left."] if freed else []
        return Answer({"removed": removed, "abandoned_bytes": freed}, said)
    held = [one for one in collections() if one.task in (tasks or [one.task]) and one.model in (models or [one.model])]
    with _readable():
        left = {path: folder_bytes(path) for path in abandoned(models_folder())}
    found = [{"path": path, "bytes": size} for path, size in left.items()]
    document = {"folder": outputs_folder(), "collections": [asdict(one) for one in held], "abandoned": found}
    return Answer(document, _shown(held, left))


def _shown(held: Sequence[Collection], left: Mapping[Path, int]) -> Iterator[Block | str]:
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
        yield text_table(["model", "task", "what", "outputs", "size", "newest"], rows)
        about = "readable by you alone; derived from private records. Clear: dpicl cache --clear"
        yield f"In {outputs_folder()}, {about}"
    else:
        yield "The cache of model outputs is empty."
    if left:
        yield (
            f"Killed processes left {count(len(left), 'folder')} of {sum(left.values()) / 1e6:.1f} MB:"
            f" {', '.join(map(str, left))}. Remove: dpicl cache --clear"
        )


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        said = f"The cache folder {error.filename} cannot be read ({error.strerror}); fix its rights."
        raise ResultError(said) from error
