"""A command's work in a process of its own: for code of somebody else that may end, block or silence the program.

The parent knows that the work was done only when the child sends its verdict. A child that ends without one
(`os._exit`, a crash of native code), or that gives no sign of life, is a failure and never a pass.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from dpicl.core.errors import DpiclError, PluginError, one_line
from dpicl.core.messages import message
from dpicl.core.plugins import plugin_failure

#: Seconds without a sign of life, by the clock: many times what one check of the kit takes.
SILENCE_SECONDS = 600.0

#: Where the child writes; None in any other process.
_pipe: int | None = None


def alive() -> None:
    """Tells the parent, where there is one that waits, that the work goes on."""
    if _pipe is not None:
        _send(_pipe, b".\n")


def run_apart(work: Callable[[], int], silence: float = SILENCE_SECONDS) -> int:
    """What ``work`` returns, an exit code, from a fork of this process that has its output.

    Raises PluginError with the sentence of an error of ours in ``work``, and where it gave no verdict.
    """
    ours, theirs = os.pipe()
    key = secrets.token_hex(16)
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(ours)
        _child(work, theirs, key)
    os.close(theirs)
    try:
        verdict = _verdict(ours, key, silence)
    finally:
        os.close(ours)
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)  # after its verdict nothing of it is needed, and its threads may not end
        os.waitpid(child, 0)
    if isinstance(verdict, str):
        raise PluginError(verdict)
    return verdict


def _child(work: Callable[[], int], pipe: int, key: str) -> None:
    """Does the work, sends the verdict, and ends this process."""
    global _pipe
    _pipe, code = pipe, 1
    threading.excepthook = _thread_failed
    try:
        verdict: int | str
        try:
            verdict = work()
        except DpiclError as error:
            verdict = one_line(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            verdict = plugin_failure(error)
            if not verdict:
                raise
        sys.stdout.flush()
        sys.stderr.flush()
        _send(pipe, json.dumps([key, verdict]).encode() + b"\n")
        code = 0
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        sys.excepthook(*sys.exc_info())  # a bug of ours
    finally:
        os._exit(code)


def _thread_failed(failed: threading.ExceptHookArgs) -> None:
    name = failed.exc_type.__name__
    message(f"dpicl: A thread of the plugin fails: {name}: {one_line(failed.exc_value or failed.exc_type(), 500)}")


def _send(pipe: int, line: bytes) -> None:
    while line:
        line = line[os.write(pipe, line) :]


def _verdict(pipe: int, key: str, silence: float) -> int | str:
    """The exit code or the sentence that the child sends last; our sentence where it sends none."""
    received = b""
    while True:
        ready, _, _ = select.select([pipe], [], [], silence)
        if not ready:
            return f"The plugin was stopped: it did not go on for {silence:g} s; look for a wait without an end."
        if not (part := os.read(pipe, 1 << 16)):
            return "The plugin ended the program before the checks were done; let it return or raise."
        received = (received + part)[-(1 << 20) :]
        *lines, received = received.split(b"\n")
        for line in lines:
            with suppress(ValueError, TypeError):
                told_key, verdict = json.loads(line)
                if told_key == key and isinstance(verdict, int | str):
                    return verdict
