"""Workers in processes of their own, each of which may be killed at any moment without taking anything from the others.

An executor of concurrent.futures breaks when one of its processes is killed, and a queue that several processes share
stays locked for ever when one is killed in the middle of a message. Here every worker has its own pipe, and its parent
looks after it.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from dpicl.core.errors import DpiclError

_POLL_SECONDS = 1.0
#: A worker that has nothing left to do may take so long to end.
_LAST_SECONDS = 10.0


class WorkerProcess:
    """A process (spawn) and the pipe to it: items one way, events and exceptions the other.

    target: called in the process with its end of the pipe and ``arguments``; takes items until one is None. An
    exception that it sends ends the work of all. item: what it works on.
    """

    item: Any

    def __init__(self, target: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, self._theirs = context.Pipe()
        self.process = context.Process(target=target, args=(self._theirs, *arguments))

    def start(self, item: Any) -> None:
        """Ctrl-C is the parent's business: a worker is born with it blocked, and killed by its parent."""
        resource_tracker.ensure_running()  # when Python starts it by itself, it lets Ctrl-C through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._theirs.close()  # so that the pipe ends with the worker
        self.take(item)

    def take(self, item: Any) -> None:
        """Gives it its next item; a worker that has died meanwhile is found out by `heard`."""
        self.item = item
        with suppress(OSError):
            self.pipe.send(item)

    def heard(self) -> Any:
        """What it says, None when it has died. Raises the exception that ended it."""
        try:
            event = self.pipe.recv() if self.pipe.poll() else None
        except (EOFError, OSError):
            return None
        if isinstance(event, BaseException):
            raise event
        return event

    def dismiss(self) -> None:
        """Lets it go in its own time: it closes what it has open, and cannot outlive its parent."""
        with suppress(OSError):
            self.pipe.send(None)
        self.process.join(_LAST_SECONDS)
        self.kill()

    def kill(self) -> None:
        """Nothing that a worker does can be left half done by it (docs/reports/reliability.md)."""
        if self.process.pid is not None:
            self.process.kill()
            self.process.join()
        self.pipe.close()

    def end(self) -> str:
        """How it died."""
        self.process.join(_LAST_SECONDS)
        code = self.process.exitcode
        self.kill()
        if code is not None and code < 0:
            return f"was killed ({signal.Signals(-code).name})"
        return f"ended by itself (exit code {code})"


def wait_for_workers(running: Mapping[Connection, WorkerProcess]) -> list[WorkerProcess]:
    """The workers that have said something or have died; waits a second at most until there is one."""
    ready = wait(list(running), timeout=_POLL_SECONDS)
    # A child that a killed worker left behind may hold the other end of its pipe open: ask for the process too.
    return [worker for pipe, worker in running.items() if pipe in ready or not worker.process.is_alive()]


def make_portable(error: Exception) -> Exception:
    """An exception that survives the way to the parent, with its traceback as a note where it is a bug."""
    if not isinstance(error, DpiclError):
        error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
        return error
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))


def die_with_parent() -> None:
    """Ends this worker when its parent dies: nobody would take its answer, and it would hold locks for nothing."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
