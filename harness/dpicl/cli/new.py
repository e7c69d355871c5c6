"""`dpicl new`: writes a working example of a mechanism, a task, an attack, a model or a suite; says what follows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.attacks.registry import load_attacks
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.core import paths
from dpicl.core.errors import UsageError
from dpicl.data.config import list_tasks
from dpicl.mechanism import registry
from dpicl.scaffold import own_task, writing

MECHANISM_KINDS = tuple(writing.MECHANISMS)

_SCALE = "--mechanism zero_shot --mechanism public_demonstrations --mechanism real_demonstrations"
#: What can be written -> the commands to try next. {file}: the file or folder, {name}: its name, {dir}: where it is.
_NEXT = {
    "mechanism": (
        "dpicl check {file}",
        f"dpicl run open --plugin {{file}} --mechanism {{name}} {_SCALE} --task agnews --epsilon 8 --seed 0",
        "dpicl board open --plugin {file}",
    ),
    "task": ("export DPICL_DATA={dir}", "dpicl run {suite} --plugin {file}", "dpicl board {suite} --plugin {file}"),
    "attack": (
        "dpicl attack {name} --plugin {file} --task agnews --mechanism tang --epsilon 8 --model sim",
        "dpicl attack {name} --plugin {file} --task agnews --mechanism tang --epsilon 8",
        "dpicl board attacks",
    ),
    "model": (
        "dpicl list models --plugin {file}",
        f"dpicl run quick --plugin {{file}} --model {{name}} --task agnews {_SCALE}",
        "dpicl board quick --plugin {file} --model {name}",
    ),
    "suite": ("dpicl plan {file}", "dpicl run {file}", "dpicl board {file}"),
}
_NEXT_OWN = (
    "dpicl data {name} --plugin {file}",
    "dpicl run {suite} --plugin {file}",
    "dpicl board {suite} --plugin {file}",
)


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "new", "dpicl new mechanism noisy_vote --kind answers", _new)
    parser.choice("what", tuple(_NEXT), "of what", kind="kind of example")
    parser.add_argument("name", metavar="NAME", help="its name: letters, digits and _")
    parser.choice(
        "--kind",
        MECHANISM_KINDS,
        "a mechanism that releases demonstrations (default), answers queries, or is prepared once for any query",
        kind="kind of mechanism",
    )
    parser.add_argument("--from", dest="train", type=Path, metavar="FILE", help="task: the file with the train records")
    parser.add_argument("--test", type=Path, metavar="FILE", help="task: test records (default: a test file beside)")
    parser.share("--text-field", "--label-field", "--labels")
    parser.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="where to write (default: this folder)")


def _new(arguments: argparse.Namespace) -> int:
    if arguments.kind is not None and arguments.what != "mechanism":
        raise UsageError("--kind is for `dpicl new mechanism`; leave it out.")
    if arguments.train is not None and arguments.what == "task":
        return _own_task(arguments)
    for flag in ("from", "test", "text-field", "label-field", "labels"):
        if getattr(arguments, "train" if flag == "from" else flag.replace("-", "_")) is not None:
            raise UsageError(f"--{flag} is for `dpicl new task NAME --from FILE`; leave it out.")
    examples = {"attack": writing.ATTACK, "model": writing.MODEL, "suite": writing.SUITE, "task": writing.TASK}
    example = examples.get(arguments.what) or writing.MECHANISMS[arguments.kind or "demonstrations"]
    files = writing.write_example(example, arguments.what, arguments.name, _taken(arguments.what), arguments.dir)
    return _written(arguments, files, _NEXT[arguments.what])


def _own_task(arguments: argparse.Namespace) -> int:
    made = own_task.write_own_task(
        arguments.name,
        arguments.train,
        arguments.test,
        arguments.text_field,
        arguments.label_field,
        arguments.labels or {},
        _taken("task"),
        arguments.dir,
    )
    for note in made.notes:
        output.message(note)
    following = _NEXT_OWN if made.test else _NEXT_OWN[:1]
    return _written(arguments, made.files, following, labels=made.labels)


def _written(arguments: argparse.Namespace, files: Sequence[Path], next: Sequence[str], **more: Any) -> int:
    """Says what was written, and the commands that come next."""
    places = {"file": files[0], "suite": files[0] / "suite.yaml", "dir": arguments.dir}
    quoted = {key: shlex.quote(str(path)) for key, path in places.items()}
    following = [command.format(name=arguments.name, **quoted) for command in next]
    document = {"kind": arguments.what, "name": arguments.name, "files": files, "next": following, **more}

    def show() -> None:
        output.emit(f"Wrote {', '.join(map(str, files))}")
        for number, command in enumerate(following):
            output.emit(f"{'Next:' if number == 0 else '     '} {command}")

    return output.answer(arguments, document, show)


def _taken(kind: str) -> Iterable[str]:
    """Names of that kind that there are already."""
    match kind:
        case "mechanism":
            return registry.load_mechanisms()
        case "task":
            return list_tasks()
        case "attack":
            return load_attacks()
        case "model":
            return [entry["name"].partition(":")[0] for entry in models.known()]
    return {*paths.shipped_suites(), "attacks", "external"}  # the last two are results folders of their own
