"""`dpicl cache`: what is kept of the model's answers to private prompts; `--clear` removes it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from dpicl.api.parameters import Models, Tasks, as_list, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import require_known
from dpicl.core.messages import count
from dpicl.core.output_cache import Collection, collections, outputs_folder
from dpicl.core.output_cache import clear as clear_outputs
from dpicl.data.task import list_tasks
from dpicl.tables.document import Block, text_table


@verb("dpicl cache --clear --task samsum")
def cache(
    *,
    clear: bool = False,
    task: Tasks = (),
    model: Models = (),
) -> Answer:
    """Lists collected outputs, or clears them.

    clear: remove them for good.
    task: only this task; may be repeated (or A,B).
    model: only this model; may be repeated (or A,B).
    """
    tasks, models = as_list(task), as_list(model)
    require_known("task", tasks, list_tasks())
    if clear:
        removed = clear_outputs(tasks=tasks, models=models)
        return Answer({"removed": removed}, [f"Removed {count(removed, 'output')}."])
    held = [one for one in collections() if one.task in (tasks or [one.task]) and one.model in (models or [one.model])]
    document = {"folder": outputs_folder(), "collections": [asdict(one) for one in held]}
    return Answer(document, _shown(held))


def _shown(held: Sequence[Collection]) -> Iterator[Block | str]:
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
