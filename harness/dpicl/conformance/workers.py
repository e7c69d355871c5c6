"""Does parts of a check in forks of this process. Where a plug-in runs here, a fork is trusted as this process is."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any, TypeVar

from dpicl.core.errors import PluginError
from dpicl.core.plugins import ENDED_PROGRAM

_Result = TypeVar("_Result")
#: Begins a part and gives the function that waits for its result.
Begin = Callable[..., Callable[[], _Result]]

#: What a fork was made for; None in any other process.
_work: Callable[..., Any] | None = None


@contextmanager
def fork_workers(work: Callable[..., _Result], processes: int) -> Iterator[Begin[_Result]]:
    """Inside this block `begin(*request)` has one of so many forks do `work(*request)`; with one process, this one does
    it when its result is asked for.

    Requests and results are pickled, and `work` is not. What a fork leaves running is its caller's to end.
    Raises PluginError where a fork ends before its work is done.
    """
    if processes == 1:
        yield lambda *request: partial(work, *request)
        return
    pool = ProcessPoolExecutor(
        processes, get_context("fork"), initializer=_remember, initargs=(work,)
    )

    def begin(*request: Any) -> Callable[[], _Result]:
        return pool.submit(_do, request).result

    try:
        yield begin
    except BrokenProcessPool:
        raise PluginError(ENDED_PROGRAM) from None
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # a thread of a plug-in may never end


def _remember(work: Callable[..., Any]) -> None:
    global _work
    _work = work
    for number in (signal.SIGINT, signal.SIGTERM):
        # whoever interrupts the program is answered by the first process alone
        signal.signal(number, signal.SIG_DFL)


def _do(request: tuple[Any, ...]) -> Any:
    assert _work is not None
    return _work(*request)
