"""The command `dpicl`: its verbs and exit codes (docs/command-line.md)."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from dpicl.cli import commands
from dpicl.cli.call import COMMAND
from dpicl.core.collection import pause_collection
from dpicl.core.errors import DpiclError, one_line
from dpicl.core.extras import require_extras
from dpicl.core.interrupts import stop_on_term
from dpicl.core.messages import message
from dpicl.core.printable import make_printable

#: Exit codes: a bad use (the message says what to do), and the shell's convention for Ctrl-C.
BAD_USE = 2
INTERRUPTED = 130

#: What is to be known when `dpicl run` is stopped by Ctrl-C or SIGTERM.
_KEPT = "finished cells are kept, and the same command goes on from there"
#: A verb | where its function is | what it does.
_VERBS = """
run | cli.run | run what is missing of a suite
score | cli.run:score | score what earlier runs released anew: other test records or metrics, at no cost in privacy
plan | cli.plan | show what `run` would do: cells, which of them are done, what the rest costs
tune | cli.tune | choose the options that papers tuned, for all rows of a suite by one protocol, into SUITE.tuned.yaml
board | boards.board | show the leaderboard of a suite; SUITE 'all' lists all suites, 'attacks' every attack and audit
plot | boards.plot | draw privacy against utility for a paper: a panel for each task, a line for each mechanism
compare | boards.compare | two rows of a board: which is better and how sure; two result folders: a gate for regressions
publish | boards.publish | to Weights & Biases: one run for each row and task, and one for each board
submit | boards.submit | check a submission to the board: files, records, epsilon, history; or begin one
release | cli.release | make one release from private records of your own: demonstrations, and a privacy card
answer | cli.release:answer | answer a file of queries from private records of your own, with a privacy card
budget | cli.budget | show what all releases of a private set cost together, limit it
list | cli.listing | show what there is: tasks, mechanisms, attacks, models or suites
calibrate | cli.calibrate | the noise of a mechanism for a proved epsilon
account | cli.account | epsilon of given noise: what is proved, and what authors compute
attack | cli.attack | attack mechanisms, with zero-shot and real demonstrations as the reference baselines
audit | cli.audit | a lower bound on the epsilon of a mechanism, from runs with and without a canary
check | cli.check | test a mechanism for the usual privacy bugs
new | cli.new | write a working example to start from: a mechanism or a task
data | cli.data | count records, labels, lengths, repeats and errors of a task or of a file, before anything runs
doctor | cli.doctor | show what is installed and what is missing
"""
_ROOMS = {"cli": "dpicl.cli", "boards": "dpicl.leaderboards.cli"}


def _verbs() -> Iterator[tuple[str, tuple[str, str]]]:
    for line in _VERBS.strip().splitlines():
        name, place, does = line.split(" | ")
        room, _, module = place.partition(".")
        module, _, function = module.partition(":")
        yield name, (f"{_ROOMS[room]}.{module}:{function or module}", does)


#: Verb -> (module:function, what it does), in the order of `dpicl --help`.
VERBS = dict(_verbs())
_DESCRIPTION = "Differentially private in-context learning, compared at the same proved epsilon."
_EXAMPLE = "\b\nexample:\n  dpicl run quick && dpicl board quick --html site"


def build(verbs: Sequence[str] = tuple(VERBS)) -> Any:
    """The program with the commands of these verbs; of the others it knows what they do."""
    return commands.build(VERBS, verbs, _DESCRIPTION, _EXAMPLE, _version)


def parse(argv: Sequence[str]) -> commands.Call | None:
    """What a command line calls; None where it asks for help or the version, which is shown. Raises UsageError."""
    return commands.parse(build(argv), argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0, 1 when a check failed, 2 for a bad use, or for a plugin that fails where no
    cell of a run can end alone. A bug of ours shows its traceback."""
    atexit.register(gc.freeze)  # else the collector walks through all results of a board once more
    unheard = _fill_closed_streams()
    _show_warnings()
    _write_what_can_be()
    argv = sys.argv[1:] if argv is None else argv
    if "_DPICL_COMPLETE" in os.environ:  # a shell asks for completions
        build()(prog_name="dpicl")
    running = COMMAND.set(tuple(argv))
    try:
        if unheard:
            raise OSError(errno.EBADF, "stdout is closed")
        with stop_on_term(), require_extras():
            with pause_collection():  # what a command imports stays
                called = parse(argv)
            code = 0 if called is None else called.run()
        sys.stdout.flush()
        return code
    except DpiclError as error:
        message(f"dpicl: {one_line(error)}")
        return BAD_USE
    except KeyboardInterrupt as stop:
        notes = [*getattr(stop, "__notes__", ()), *([_KEPT] if "run" in argv[:1] else [])]
        message(f"dpicl: {'; '.join(['stopped', *notes])}.")
        return INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        return 0
    except OSError as error:
        message(f"dpicl: {_explain_unusable(error)}")
        _drop_output()
        return BAD_USE
    except BaseException as error:
        from dpicl.core.plugins import plugin_failure

        sentence = plugin_failure(error)
        if not sentence:
            raise
        message(f"dpicl: {sentence}")
        return BAD_USE
    finally:
        COMMAND.reset(running)


def _fill_closed_streams() -> bool:
    """Puts the null device where a stream is closed: else the next file that is opened gets its number, and what a
    library prints. Whether stdout was closed."""
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    for name in closed:
        file = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115 (stays open)
        os.set_inheritable(file.fileno(), True)
        setattr(sys, name, file)
    return "stdout" in closed


def _write_what_can_be() -> None:
    """A terminal or file whose encoding lacks a character gets a question mark, and the rest of the answer."""
    for stream in (sys.stdout, sys.stderr):
        # the locale C
        if isinstance(stream, io.TextIOWrapper) and stream.errors in (
            "strict",
            "surrogateescape",
        ):
            stream.reconfigure(errors="replace")


def _drop_output() -> None:
    """What stdout has not taken is lost; else Python complains again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _explain_unusable(error: OSError) -> str:
    """One sentence on a place that the system does not let us use."""
    if error.filename is None and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EIO,
        errno.EFBIG,
        errno.EBADF,
    ):
        return (
            f"The answer cannot be written ({error.strerror}); make room, or send stdout elsewhere."
        )
    name = "" if error.filename is None else str(error.filename)
    # in quotes it is one name, and may be cut
    where = f" '{name}'" if " " in name else f" {name}" if name else ""
    return f"The system does not let us use{where} ({error.strerror or type(error).__name__}); fix that."


class _OneLine(logging.Formatter):
    """A record as one line that a terminal can show, whatever names are in it."""

    def format(self, record: logging.LogRecord) -> str:
        return make_printable(" ".join(super().format(record).split()))


def _show_warnings() -> None:
    """The library's own warnings on stderr, each as one line."""
    log = logging.getLogger("dpicl")
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_OneLine("dpicl: %(message)s"))
        log.addHandler(handler)
        log.propagate = False


def _version() -> str:
    from dpicl.core.plugins import version_of

    return version_of("dpicl-bench") or "(not installed)"
