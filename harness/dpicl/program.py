"""The command `dpicl`: which module holds each of its commands, and how each ends (docs/command-line.md)."""

from __future__ import annotations

import errno
import importlib
import io
import logging
import os
import sys
from collections.abc import Collection, Sequence
from importlib import metadata

from dpicl.cli import arguments, output
from dpicl.cli.arguments import HELP
from dpicl.core.errors import DpiclError, one_line
from dpicl.core.interrupts import stopped_by_term
from dpicl.core.plugins import plugin_failure
from dpicl.core.printable import printable

#: Exit codes: a bad use (the message says what to do), and the shell's convention for Ctrl-C.
BAD_USE = 2
INTERRUPTED = 130

#: What is to be known when a command is stopped by Ctrl-C or SIGTERM.
_AFTER_STOP = {
    "run": "; finished cells are kept, and the same command goes on from there",
    **dict.fromkeys(("release", "answer"), "; if the budget had been charged, it stays so (`dpicl budget` shows it)"),
}
_HARNESS, _BOARDS = "dpicl.cli", "dpicl.leaderboards.cli"
#: Command -> its module, where that has another name or place than dpicl.cli.COMMAND.
_MODULES = {
    "plan": f"{_HARNESS}.run",
    "list": f"{_HARNESS}.listing",
    "lm-eval": f"{_HARNESS}.lm_eval",
    **{name: f"{_BOARDS}.{name}" for name in ("board", "plot", "compare", "track", "publish", "submit")},
}


def build_parser(commands: Collection[str] = tuple(HELP)) -> arguments.Parser:
    """The parser of these commands; of the others it knows what they do, and their code is not imported."""
    parser = arguments.Parser(
        prog="dpicl",
        description="Differentially private in-context learning, compared at the same proved epsilon.",
        epilog="example:\n  dpicl run quick && dpicl board quick --html site",
    )
    parser.add_argument("--version", action="version", version=f"dpicl {_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, help in HELP.items():
        if name in subparsers.choices:
            continue  # its module has added it with another one
        if name in commands:
            _add(_MODULES.get(name, f"{_HARNESS}.{name}"), subparsers)
        else:
            subparsers.add_parser(name, help=help)
    return parser


def _add(module: str, subparsers: arguments.Subparsers) -> None:
    add = importlib.import_module(module).add
    if module == f"{_HARNESS}.run":  # what follows a run and shows it is of the upper floor
        live = importlib.import_module(f"{_BOARDS}.live")
        publish = importlib.import_module(f"{_BOARDS}.publish")
        add(subparsers, wandb=live.LiveWandb, wandb_flags=publish.add_wandb_flags)
    else:
        add(subparsers)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0, 1 when a check failed, 2 for a bad use, or for a plugin that fails where no
    cell of a run can end alone. A bug of ours shows its traceback."""
    _show_warnings()
    _write_what_can_be()
    argv = arguments.spoken(sys.argv[1:] if argv is None else argv, list(HELP))
    if "_ARGCOMPLETE" in os.environ:  # the shell asks for completions; see docs/quickstart.md
        import argcomplete

        argcomplete.autocomplete(build_parser())
    try:
        with stopped_by_term():
            code = _run(argv)
        sys.stdout.flush()
        return code
    except DpiclError as error:
        output.message(f"dpicl: {one_line(error)}")
        return BAD_USE
    except KeyboardInterrupt:
        output.message(f"dpicl: stopped{_AFTER_STOP.get(argv[0], '') if argv else ''}.")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        output.message(f"dpicl: {_unusable(error)}")
        _drop_output()
        return BAD_USE
    except BaseException as error:
        if not (said := plugin_failure(error)):
            raise
        output.message(f"dpicl: {said}")
        return BAD_USE


def _run(argv: list[str]) -> int:
    wanted = {"run", "plan"} if argv[:1] in (["run"], ["plan"]) else set(argv[:1])
    parsed = arguments.parse(build_parser(wanted), argv, list(HELP))
    parsed.argv = argv
    code: int = parsed.run(parsed)
    return code


def _write_what_can_be() -> None:
    """A terminal or file whose encoding lacks a character gets a question mark, and the rest of the answer."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):  # the locale C
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """What stdout has not taken is lost; else Python complains again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _unusable(error: OSError) -> str:
    """One sentence on a place that the system does not let us use."""
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF):
        return f"The answer cannot be written ({error.strerror}); make room, or send stdout elsewhere."
    name = "" if error.filename is None else str(error.filename)
    where = f" '{name}'" if " " in name else f" {name}" if name else ""  # in quotes it is one name, and may be cut
    return f"The system does not let us use{where} ({error.strerror or type(error).__name__}); fix that."


class _OneLine(logging.Formatter):
    """A record as one line that a terminal can show, whatever names are in it."""

    def format(self, record: logging.LogRecord) -> str:
        return printable(" ".join(super().format(record).split()))


def _show_warnings() -> None:
    """The library's own warnings on stderr, each as one line."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # else it tells where it keeps its list of fonts
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
