"""The command `dpicl`. What each command does is in harness/commands; docs/command-line.md is the reference."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import metadata

from dpicl.harness.cli import (
    account,
    arguments,
    attack,
    audit,
    cache,
    check,
    doctor,
    listing,
    lm_eval,
    new,
    output,
    run,
)
from dpicl.harness.cli import (
    calibrate as privacy,
)
from dpicl.harness.core.errors import DpiclError, told
from dpicl.harness.core.plugins import place_in_plugin
from dpicl.harness.core.printable import printable
from dpicl.leaderboards.cli import board, compare, live, publish, submit, track

#: Exit codes: a bad use (the message says what to do), and the shell's convention for Ctrl-C.
BAD_USE = 2
INTERRUPTED = 130

#: Adds one command or several to the parser.
Group = Callable[[arguments.Subparsers], None]

#: All commands, in the order of `dpicl --help`. Those of boards belong to another floor: whoever assembles the program
#: gives `main` a list of its own.
GROUPS: Sequence[Group] = (
    partial(run.add, wandb=live.LiveWandb, wandb_flags=publish.add_wandb_flags),
    board.add,
    compare.add,
    track.add,
    publish.add,
    submit.add,
    listing.add,
    privacy.add,
    account.add,
    attack.add,
    audit.add,
    check.add,
    new.add,
    lm_eval.add,
    cache.add,
    doctor.add,
)


def build_parser(groups: Sequence[Group] = GROUPS) -> tuple[arguments.Parser, list[str]]:
    """The parser, and the names of the commands."""
    parser = arguments.Parser(
        prog="dpicl",
        description="Differentially private in-context learning, compared at the same proved epsilon.",
        epilog="example:\n  dpicl run quick && dpicl board quick --html site",
    )
    parser.add_argument("--version", action="version", version=f"dpicl {_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add in groups:
        add(subparsers)
    return parser, list(subparsers.choices)


def main(argv: Sequence[str] | None = None, groups: Sequence[Group] = GROUPS) -> int:
    """Runs one command; returns 0, 1 when a check failed, 2 for a bad use, or for a plugin that fails where no
    cell of a run can end alone. A bug of ours shows its traceback."""
    _show_warnings()
    argv = list(sys.argv[1:] if argv is None else argv)
    try:
        parser, commands = build_parser(groups)
        parsed = arguments.parse(parser, argv, commands)
        parsed.argv = argv
        code: int = parsed.run(parsed)
        sys.stdout.flush()
        return code
    except DpiclError as error:
        output.message(f"dpicl: {told(error)}")
        return BAD_USE
    except KeyboardInterrupt:
        goes_on = "; finished cells are kept, and the same command goes on from there" if argv[:1] == ["run"] else ""
        output.message(f"dpicl: stopped{goes_on}.")
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains again at exit
        return 0
    except BaseException as error:
        if not (place := place_in_plugin(error)):
            raise
        output.message(f"dpicl: The plugin fails ({place}): {type(error).__name__}: {told(error, 500)}")
        return BAD_USE


class _OneLine(logging.Formatter):
    """A record as one line that a terminal can show, whatever names are in it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(" ".join(super().format(record).split()))


def _show_warnings() -> None:
    """The library's own warnings on stderr, each as one line."""
    log = logging.getLogger("dpicl")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_OneLine("dpicl: %(message)s"))
        log.addHandler(handler)
        log.propagate = False


def _version() -> str:
    try:
        return metadata.version("dpicl-bench")
    except metadata.PackageNotFoundError:
        return "(not installed)"
