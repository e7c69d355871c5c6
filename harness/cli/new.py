"""`dpicl new`: writes a working example of a mechanism, a task, an attack, a model or a suite; says what follows."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command, one_of

MECHANISM_KINDS = ("demonstrations", "answers")


@dataclass(frozen=True)
class Written:
    """What was written, and the commands to try next."""

    files: list[Path]
    next: list[str]


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "new",
        "write a working example to start from: a mechanism, a task, an attack, a model or a suite",
        "dpicl new mechanism noisy_vote --kind answers",
        _new,
    )
    parser.add_argument("what", type=one_of("kind of example", tuple(_KINDS)), metavar="|".join(_KINDS), help="of what")
    parser.add_argument("name", metavar="NAME", help="its name: letters, digits and _")
    parser.add_argument(
        "--kind",
        type=one_of("kind of mechanism", MECHANISM_KINDS),
        metavar="|".join(MECHANISM_KINDS),
        help="a mechanism that releases demonstrations once (default), or one that answers queries",
    )
    parser.add_argument("--dir", type=Path, default=Path(), metavar="DIR", help="where to write (default: this folder)")


def _new(arguments: argparse.Namespace) -> int:
    from dpicl.harness.core.errors import UsageError

    if arguments.kind is not None and arguments.what != "mechanism":
        raise UsageError("--kind is for `dpicl new mechanism`; leave it out.")
    written = _KINDS[arguments.what](arguments)
    if arguments.json:
        output.emit_json({"kind": arguments.what, "name": arguments.name, "files": written.files, "next": written.next})
        return 0
    output.emit(f"Wrote {', '.join(map(str, written.files))}")
    for number, command in enumerate(written.next):
        output.emit(f"{'Next:' if number == 0 else '     '} {command}")
    return 0


def _mechanism(arguments: argparse.Namespace) -> Written:
    from dpicl.harness.mechanism.registry import load_mechanisms
    from dpicl.harness.scaffold.writing import MECHANISMS, write_example

    example = MECHANISMS[arguments.kind or "demonstrations"]
    files = write_example(example, "mechanism", arguments.name, load_mechanisms(), arguments.dir)
    file, name = shlex.quote(str(files[0])), arguments.name
    return Written(
        files,
        [
            f"dpicl check {file}",
            f"dpicl run open --plugin {file} --mechanism {name} --mechanism zero_shot --mechanism real_demonstrations"
            " --task agnews --epsilon 8 --seed 0",
            f"dpicl board open --plugin {file}",
        ],
    )


def _task(arguments: argparse.Namespace) -> Written:
    from dpicl.harness.data.config import list_tasks
    from dpicl.harness.scaffold.writing import TASK, write_example

    files = write_example(TASK, "task", arguments.name, list_tasks(), arguments.dir)
    suite, chosen = shlex.quote(str(files[0] / "suite.yaml")), f"--plugin {shlex.quote(str(files[0]))}"
    return Written(
        files,
        [
            f"export DPICL_DATA={shlex.quote(str(arguments.dir))}",
            f"dpicl run {suite} {chosen}",
            f"dpicl board {suite} {chosen}",
        ],
    )


def _attack(arguments: argparse.Namespace) -> Written:
    from dpicl.harness.attacks.registry import load_attacks
    from dpicl.harness.scaffold.writing import ATTACK, write_example

    files = write_example(ATTACK, "attack", arguments.name, load_attacks(), arguments.dir)
    file = shlex.quote(str(files[0]))
    return Written(
        files,
        [
            f"dpicl attack {arguments.name} --plugin {file} --task agnews --mechanism tang --epsilon 8 --model sim",
            f"dpicl attack {arguments.name} --plugin {file} --task agnews --mechanism tang --epsilon 8",
            "dpicl board attacks",
        ],
    )


def _model(arguments: argparse.Namespace) -> Written:
    from dpicl.harness import models
    from dpicl.harness.scaffold.writing import MODEL, write_example

    taken = [entry["name"].partition(":")[0] for entry in models.known()]
    files = write_example(MODEL, "model", arguments.name, taken, arguments.dir)
    chosen = f"--plugin {shlex.quote(str(files[0]))} --model {arguments.name}"
    return Written(
        files,
        [
            f"dpicl list models --plugin {shlex.quote(str(files[0]))}",
            f"dpicl run quick {chosen} --task agnews --mechanism zero_shot --mechanism real_demonstrations",
            f"dpicl board quick {chosen}",
        ],
    )


def _suite(arguments: argparse.Namespace) -> Written:
    from dpicl.harness.core.paths import shipped_suites
    from dpicl.harness.scaffold.writing import SUITE, write_example

    taken = {*shipped_suites(), "attacks", "external"}  # the last two are results folders of their own
    files = write_example(SUITE, "suite", arguments.name, taken, arguments.dir)
    file = shlex.quote(str(files[0]))
    return Written(files, [f"dpicl plan {file}", f"dpicl run {file}", f"dpicl board {file}"])


_KINDS: dict[str, Callable[[argparse.Namespace], Written]] = {
    "mechanism": _mechanism,
    "task": _task,
    "attack": _attack,
    "model": _model,
    "suite": _suite,
}
