"""Runs a command in a process of its own, since plug-in code may exit, block or silence the program.

The parent knows that the work was done only when the child sends its verdict. A child that ends without one
(`os._exit`, a crash of native code), or that gives no sign of life, is a failure and never a pass.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import tempfile
import threading
from collections.abc import Callable
from multiprocessing import Pipe, get_context
from multiprocessing.connection import Connection
from tempfile import TemporaryDirectory

from dpicl.core.errors import DpiclError, PluginError, one_line
from dpicl.core.messages import message
from dpicl.core.orphans import adopt_orphans, end_children, list_children
from dpicl.core.plugins import ENDED_PROGRAM, plugin_failure

#: Seconds without a sign of life, by the clock: many times what one check of the kit takes.
SILENCE_SECONDS = 600.0
#: Bytes of a message: a verdict is a number or a sentence.
_LONGEST = 1 << 16

#: Where the child writes; None in any other process.
_pipe: Connection | None = None


def is_apart() -> bool:
    """Whether this is a process that `run_apart` began, or a fork of one."""
    return _pipe is not None


def report_alive() -> None:
    """Tells the parent, where there is one that waits, that the work goes on."""
    if _pipe is not None:
        _pipe.send_bytes(b"null")


def run_apart(work: Callable[[], int], silence: float = SILENCE_SECONDS) -> int:
    """What ``work`` returns, an exit code, from a fork of this process that has its output.

    Nothing that it starts outlives it, and its temporary files go.
    Raises PluginError with the sentence of an error of ours in ``work``, and where it gave no verdict.
    """
    ours, theirs = Pipe(duplex=False)
    key, before = secrets.token_hex(16), list_children()
    adopt_orphans()
    with TemporaryDirectory(prefix="dpicl-", ignore_cleanup_errors=True) as folder:
        child = get_context("fork").Process(target=_child, args=(work, theirs, key, folder))
        child.start()
        theirs.close()
        try:
            verdict = _verdict(ours, key, silence)
        finally:
            child.kill()  # after its verdict nothing of it is needed, and its threads may not end
            child.join()
            end_children(before)
            ours.close()
    if isinstance(verdict, str):
        raise PluginError(verdict)
    return verdict


def _child(
    work: Callable[[], int],
    pipe: Connection,
    key: str,
    folder: str,
) -> None:
    """Does the work and sends the verdict; a bug of ours is a traceback. folder: for temporary files."""
    global _pipe
    os.environ["TMPDIR"], tempfile.tempdir = folder, None
    _pipe, threading.excepthook = pipe, _thread_failed
    verdict: int | str
    try:
        verdict = work()
    except DpiclError as error:
        verdict = one_line(error)
    except KeyboardInterrupt:
        os._exit(130)
    except BaseException as error:
        if not (verdict := plugin_failure(error)):
            raise
    sys.stdout.flush()
    sys.stderr.flush()
    pipe.send_bytes(json.dumps([key, verdict]).encode())


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    name = failed.exc_type.__name__
    message(
        f"dpicl: A thread of the plugin fails: {name}: {one_line(failed.exc_value or failed.exc_type(), 500)}"
    )


def _verdict(pipe: Connection, key: str, silence: float) -> int | str:
    """The exit code or the sentence that the child sends last; our sentence where it sends none."""
    while pipe.poll(silence):
        try:
            match json.loads(pipe.recv_bytes(_LONGEST)):
                case [told, int() | str() as verdict] if told == key:
                    return verdict
        except (OSError, EOFError, ValueError, RecursionError):
            return ENDED_PROGRAM
    return f"The plugin was stopped: it did not go on for {silence:g} s; look for a wait without an end."
