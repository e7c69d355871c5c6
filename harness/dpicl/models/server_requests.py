"""Requests of all jobs of a process to one server, a bounded number on their way at a time.

A job that waits for answers lets others go on (`dpicl.core.together`); whatever they ask in turn fills the
window. An answer comes when the server has it, and no job's outcome depends on the order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from dpicl.core.together import Service, ServiceRequest, wait_for
from dpicl.models.base import Usage

#: Makes one request: a coroutine that gives the answer.
Asking = Callable[[], Coroutine[Any, Any, Any]]


@dataclass(eq=False)
class Batch(ServiceRequest):
    """Requests whose answers one job waits for. tokens: of each prompt. left: how many answers are not here yet."""

    asked: Sequence[Asking] = ()
    tokens: Sequence[int] = ()
    answers: list[Any] = field(default_factory=list)
    left: int = 0


class Requests(Service):
    """The queue of one server. start: puts a coroutine on its loop."""

    def __init__(self, start: Callable[[Coroutine[Any, Any, Any]], Future[Any]], window: int, usage: Usage) -> None:
        self._start, self._window, self._usage = start, asyncio.Semaphore(window), usage
        self._going: dict[Future[Any], tuple[Batch, int]] = {}
        self._ended = SimpleQueue[Future[Any]]()

    def answers(self, asked: Sequence[Asking], tokens: Sequence[int]) -> list[Any]:
        """The answers, in order. Raises the first error."""
        batch = Batch(asked=asked, tokens=tokens, answers=[None] * len(asked), left=len(asked))
        try:
            if asked:
                wait_for(self, batch)
            return batch.answers
        finally:
            self._forget()

    @property
    def pending(self) -> bool:
        return bool(self._going)

    def submit(self, request: Batch) -> None:
        for at, ask in enumerate(request.asked):
            future = self._start(self._in_turn(ask))
            self._going[future] = request, at
            future.add_done_callback(self._ended.put)

    def serve(self) -> None:
        """Waits for the next answer."""
        future = self._ended.get()
        if future in self._going:  # else it was dropped
            batch, at = self._going.pop(future)
            if isinstance(error := future.exception(), Exception):
                batch.error, batch.done = error, True
                return
            batch.answers[at] = future.result()
            batch.left -= 1
            batch.done = batch.done or not batch.left
            self._usage.tokens_read += batch.tokens[at]
            self._usage.forward_calls += 1

    async def _in_turn(self, ask: Asking) -> Any:
        async with self._window:
            return await ask()

    def _forget(self) -> None:
        """Drops what nobody waits for any longer."""
        for future, (batch, _) in list(self._going.items()):
            if batch.done:
                future.cancel()
                del self._going[future]
