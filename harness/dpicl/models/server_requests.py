"""Requests of all jobs of a process to one server, a bounded number on their way at a time.

A job that waits for answers lets others go on (`dpicl.core.together`); whatever they ask in turn fills the
window. An answer comes when the server has it, and no job's outcome depends on the order.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from dpicl.core.together import Account, Service, ServiceRequest, wait_for
from dpicl.models.base import Usage

#: Makes one request: a coroutine that gives the answer.
Asking = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(eq=False)
class Batch(ServiceRequest):
    """Requests whose answers one job waits for. tokens: of each prompt."""

    asked: Sequence[Asking] = ()
    tokens: Sequence[int] = ()
    answers: list[Any] = field(default_factory=list)
    left: int = 0


class Requests(Service):
    """The queue of one server. start: puts a coroutine on its loop."""

    def __init__(self, start: Callable[[Coroutine[Any, Any, Any]], Future[Any]], window: int, usage: Usage) -> None:
        self._start, self._window, self._usage = start, window, usage
        self._waiting: deque[tuple[Batch, int]] = deque()
        self._going: dict[Future[Any], tuple[Batch, int]] = {}

    def answers(self, asked: Sequence[Asking], tokens: Sequence[int]) -> list[Any]:
        """The answers, in order. Raises the first error."""
        batch = Batch(asked=asked, tokens=tokens, answers=[None] * len(asked), left=len(asked))
        if asked:
            wait_for(self, batch)
        return batch.answers

    @property
    def pending(self) -> bool:
        return any(not batch.done for batch, _ in (*self._waiting, *self._going.values()))

    def submit(self, request: Batch) -> None:
        self._waiting.extend((request, at) for at in range(len(request.asked)))
        self._fill()

    def serve(self) -> Mapping[Account, int]:
        """Waits for at least one answer."""
        self._fill()
        try:
            done = wait(self._going, return_when=FIRST_COMPLETED).done
        except BaseException:  # Ctrl-C
            for future in self._going:
                future.cancel()
            raise
        read: Counter[Account] = Counter()
        for future in done:
            batch, at = self._going.pop(future)
            if not batch.done:
                self._take(batch, at, future)
                read[batch.account] += batch.tokens[at]
                self._usage.tokens_read += batch.tokens[at]
                self._usage.forward_calls += 1
        self._fill()
        return read

    def _take(self, batch: Batch, at: int, future: Future[Any]) -> None:
        error = future.exception()
        if isinstance(error, Exception):
            batch.error, batch.done = error, True
            return
        batch.answers[at] = future.result()
        batch.left -= 1
        batch.done = not batch.left

    def _fill(self) -> None:
        """Sends what the window has room for; what nobody waits for any longer is dropped."""
        for future, (batch, _) in list(self._going.items()):
            if batch.done:
                future.cancel()
                del self._going[future]
        while self._waiting and len(self._going) < self._window:
            batch, at = self._waiting.popleft()
            if not batch.done:
                self._going[self._start(batch.asked[at]())] = batch, at
