"""`dpicl new`: writes a working example of a mechanism or a task, and prints the next steps."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, Unpack

from dpicl.api.parameters import Flag, OnePath, RecordFile, format_of, labels_of, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, refuse
from dpicl.core.messages import message
from dpicl.data.config import list_tasks
from dpicl.mechanism.registry import load_mechanisms
from dpicl.scaffold import lm_eval_task, own_task, writing

_SCALE = "zero_shot,public_demonstrations,real_demonstrations"
#: What can be written -> the commands to try next. {file}: the file or folder, {name}: its name, {dir}: where it is.
_NEXT = {
    "mechanism": (
        "dpicl check {file}",
        f"dpicl run open --plugin {{file}} --mechanism {{name}},{_SCALE} --task agnews --epsilon 8 --seed 0",
        "dpicl board open --plugin {file}",
    ),
    "task": (
        "export DPICL_DATA={dir}",
        "dpicl run {suite} --plugin {file}",
        "dpicl board {suite} --plugin {file}",
    ),
}
_NEXT_OWN = (
    "dpicl data {name} --plugin {file}",
    "dpicl run {suite} --plugin {file}",
    "dpicl board {suite} --plugin {file}",
)


@verb("dpicl new mechanism noisy_vote --kind answers")
def new(
    what: Literal["mechanism", "task"],
    name: Annotated[str, Flag(metavar="NAME")],
    *,
    kind: Literal["demonstrations", "answers"] | None = None,
    train: Annotated[OnePath | None, Flag(name="--from")] = None,
    from_lm_eval: OnePath | None = None,
    test: OnePath | None = None,
    dir: Annotated[OnePath, Flag(metavar="DIR")] = ".",
    **file: Unpack[RecordFile],
) -> Answer:
    """Writes a working example, or the task of a file of records. Raises UsageError for a name that is taken.

    what: of what.
    name: its name: letters, digits and _.
    kind: a mechanism that releases demonstrations (default), or answers queries.
    train: task: the file with the train records.
    from_lm_eval: task: the task file of lm-evaluation-harness that it asks like.
    test: task: test records (default: a test file beside).
    dir: where to write (default: this folder).
    """
    if kind is not None and what != "mechanism":
        raise UsageError("--kind is for `dpicl new mechanism`; leave it out.")
    folder = Path(dir)
    test_file = None if test is None else Path(test)
    if what == "task" and from_lm_eval is not None:
        refuse(file, "{}: the file of --from-lm-eval says it; leave it out.")
        train_file = None if train is None else Path(train)
        written = lm_eval_task.write_lm_eval_task(
            name, Path(from_lm_eval), train_file, test_file, list(list_tasks()), folder
        )
        return _show_task(name, folder, written)
    if what == "task" and train is not None:
        written = own_task.write_own_task(
            name,
            Path(train),
            test_file,
            file.get("text_field"),
            file.get("label_field"),
            labels_of(file),
            list_tasks(),
            folder,
            format_of(file),
        )
        return _show_task(name, folder, written)
    options = {"from": train, "from_lm_eval": from_lm_eval, "test": test, **file}
    refuse(options, "{} is for `dpicl new task NAME --from FILE`; leave it out.")
    example = "task" if what == "task" else kind or "demonstrations"
    taken = list_tasks() if what == "task" else load_mechanisms()
    files = writing.write_example(writing.EXAMPLES[example], name, taken, folder)
    return _show(what, name, folder, files, _NEXT[what])


def _show_task(name: str, folder: Path, written: own_task.WrittenTask) -> Answer:
    for note in written.notes:
        message(note)
    following = _NEXT_OWN if written.test else _NEXT_OWN[:1]
    return _show("task", name, folder, written.files, following, labels=written.labels)


def _show(
    what: str,
    name: str,
    folder: Path,
    files: Sequence[Path],
    following: Sequence[str],
    **more: object,
) -> Answer:
    """What was written, and the commands to try next. more: further keys of the document."""
    places = {"file": files[0], "suite": files[0] / "suite.yaml", "dir": folder}
    quoted = {key: shlex.quote(str(path)) for key, path in places.items()}
    commands = [command.format(name=name, **quoted) for command in following]
    shown = [
        f"{'     ' if number else 'Next:'} {command}" for number, command in enumerate(commands)
    ]
    document = {"kind": what, "name": name, "files": files, "next": commands, **more}
    return Answer(document, [f"Wrote {', '.join(map(str, files))}", *shown])
