"""One model server over HTTP: requests in parallel within a window, time-outs, limits of size, and what is tried again.

Requests run on an event loop in a thread of their own, so that they go on while the jobs of a run compute. Whatever a
server does, what comes out is an answer as plain JSON, or one of the errors below. No error holds anything that was
sent or answered: prompts are private, and a header holds the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
import weakref
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar
from urllib.parse import unquote

import httpx
import orjson

from dpicl.core.background import in_background
from dpicl.core.errors import ModelError
from dpicl.core.together import Service, ServiceRequest, wait_for
from dpicl.models.base import Usage
from dpicl.models.server_settings import ServerSettings

T = TypeVar("T")

#: Bytes of an answer that has no list of log-probabilities.
SMALL = 4_000_000
#: Seconds before a request is repeated: the first and the longest; no server may ask for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
#: Answers after which the same request may succeed later.
_BUSY = frozenset({408, 409, 425, 429})


class Refused(Exception):
    """The server does not answer this very request (400, 404, 413, 422 ...)."""


class Unanswered(Exception):
    """No sound answer to a request for as long as it was repeated."""


class _Failed(Exception):
    """One try failed. why: in our words. cut: whether the connection did, so that the server may have been restarted.
    after: seconds that the server asks to wait. busy: whether that says nothing of the request."""

    def __init__(self, why: str, cut: bool = False, after: float = 0.0, busy: bool = False) -> None:
        super().__init__(why)
        self.cut, self.after, self.busy = cut, after, busy


@dataclass(frozen=True)
class Call:
    """One request. body: None for GET. largest: bytes of the answer. read: makes something of the answer, a ValueError
    where it is not as it should be."""

    path: str
    body: Mapping[str, Any] | None = None
    largest: int = SMALL
    read: Callable[[Any], Any] = lambda answer: answer


@dataclass(frozen=True)
class Answered:
    """What a call gave. troubled: whether the connection broke before, so that the server may be another one now."""

    value: Any
    troubled: bool


class Connection:
    """A server as it is asked."""

    def __init__(self, settings: ServerSettings) -> None:
        settings.require_private()
        self.settings = settings
        self._secret = settings.secret()
        self._client = self.wait(self._opened())
        weakref.finalize(self, _close, os.getpid(), self._client).atexit = False
        self._jitter = random.Random()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs a coroutine on the loop's thread."""
        return asyncio.run_coroutine_threadsafe(work, _loop_of(os.getpid()))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives; it is cancelled where waiting for it is given up."""
        future = self.start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def ask(self, call: Call, patience: float | None = None, *, once: bool = False) -> Answered:
        """The answer, after as many tries as the patience (seconds; None: the settings') has room for.

        once: tries again only where the server had no time for the request, whatever that was.
        Raises Refused, Unanswered, and ModelError where asking again is no use.
        """
        end = time.monotonic() + (self.settings.patience if patience is None else patience)
        pause, troubled = FIRST_PAUSE, False
        while True:
            try:
                return Answered(await self._tried(call), troubled)
            except _Failed as failure:
                troubled = troubled or failure.cut
                wait = max(pause * self._jitter.uniform(0.5, 1.5), min(failure.after, LONGEST_PAUSE))
                if time.monotonic() + wait >= end or (once and not failure.busy):
                    raise Unanswered(str(failure)) from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def value(self, call: Call) -> Any:
        """What `ask` gives, where a broken connection does not matter."""
        return (await self.ask(call)).value

    def silent(self, error: Exception) -> ModelError:
        """The error of a server that does not answer; error: why, in our words."""
        return ModelError(f"The model server {self.settings.url} gives no sound answer: {error}; see that it runs.")

    async def _opened(self) -> httpx.AsyncClient:
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        if self._secret:
            headers["Authorization"] = f"Bearer {self._secret}"
        return httpx.AsyncClient(
            headers=headers,
            timeout=self.settings.timeout,
            limits=httpx.Limits(max_connections=self.settings.window + 1),
            follow_redirects=False,
            trust_env=self.settings.url.startswith("https:")
            and not self.settings.loopback,  # a proxy would read what goes over plain http
        )

    async def _tried(self, call: Call) -> Any:
        """One try. Raises _Failed, Refused or ModelError, and never what a library raises."""
        try:
            async with asyncio.timeout(self.settings.timeout):
                status, after, content = await self._sent(call)
        except (TimeoutError, httpx.TimeoutException):
            raise _Failed(f"no answer within {self.settings.timeout:g} s", cut=True) from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise _Failed(f"the connection failed ({type(error).__name__})", cut=True) from None
        url = self.settings.url
        if status == 401:
            raise ModelError(f"The model server {url} refuses the API key; set the variable that `key` names.")
        if 300 <= status < 400:
            raise ModelError(f"The model server {url} redirects elsewhere, and prompts follow no redirect.")
        if status in _BUSY or status >= 500:
            raise _Failed(f"it answers {status}", cut=status >= 500, after=after, busy=status in (*_BUSY, 503))
        if status != 200:
            raise Refused(f"it answers {status}")
        try:
            answer = orjson.loads(content)
            said = orjson.dumps(answer).decode()  # whatever was escaped
            if self._secret and orjson.dumps(self._secret).decode()[1:-1] in said + unquote(said):
                raise ModelError(
                    f"The model server {url} answers with the API key itself, which results would show; use another"
                    " key, or none where none is needed."
                )
            return call.read(answer)
        except (ValueError, TypeError, RecursionError):  # orjson reads deeper nests than it writes: a TypeError
            raise _Failed("its answer is damaged, or is not what was asked for") from None

    async def _sent(self, call: Call) -> tuple[int, float, bytes]:
        """(status, seconds that it asks to wait, body) of one request."""
        content = None if call.body is None else json.dumps(call.body).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        method = "GET" if content is None else "POST"
        url = self.settings.url + call.path
        async with self._client.stream(method, url, content=content, headers=headers) as response:
            if response.headers.get("content-encoding", "identity") != "identity":
                raise ValueError("compressed")  # a small answer could be a large one
            parts, size = [], 0
            async for part in response.aiter_raw():
                size += len(part)
                if size > call.largest:
                    raise ValueError("too large")
                parts.append(part)
            return response.status_code, _seconds(response.headers.get("retry-after", "")), b"".join(parts)


@dataclass(eq=False)
class Batch(ServiceRequest):
    """Requests whose answers one job waits for. tokens: of all their prompts."""

    asked: Sequence[Callable[[], Coroutine[Any, Any, Any]]] = ()
    tokens: int = 0
    answers: list[Any] = field(default_factory=list)


class Requests(Service):
    """The requests of all jobs of a process to one server, a bounded number on their way at a time.

    A job that waits for answers lets others go on (`dpicl.core.together`); whatever they ask in turn fills the window.
    """

    def __init__(self, connection: Connection, usage: Usage) -> None:
        self._connection, self._usage = connection, usage
        self._window = asyncio.Semaphore(connection.settings.window)
        self._going: dict[Future[list[Any]], Batch] = {}
        self._ended = SimpleQueue[Future[list[Any]]]()

    def answers(self, asked: Sequence[Callable[[], Coroutine[Any, Any, Any]]], tokens: int) -> list[Any]:
        """The answers, in order. Raises the first error, and cancels the other requests."""
        batch = Batch(asked=asked, tokens=tokens)
        try:
            wait_for(self, batch)
            return batch.answers
        finally:
            for future in [each for each, own in self._going.items() if own is batch]:
                future.cancel()
                del self._going[future]

    @property
    def pending(self) -> bool:
        return bool(self._going)

    def submit(self, request: Batch) -> None:
        future = self._connection.start(self._all(request.asked))
        self._going[future] = request
        future.add_done_callback(self._ended.put)

    def serve(self) -> None:
        """Waits until all answers of some job are there."""
        future = self._ended.get()
        if (batch := self._going.pop(future, None)) is None:
            return  # nobody waits for it any longer
        batch.done = True
        if isinstance(error := future.exception(), Exception):
            batch.error = error
            return
        batch.answers = future.result()
        self._usage.tokens_read += batch.tokens
        self._usage.forward_calls += len(batch.asked)

    async def _all(self, asked: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
        async def in_turn(ask: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
            async with self._window:
                return await ask()

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(in_turn(ask)) for ask in asked]
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process, in a thread of its own; a forked process has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    in_background(loop.run_forever, "model server")
    return loop


def _close(process: int, client: httpx.AsyncClient) -> None:
    """Closes what a connection that is no more has left open."""
    if os.getpid() == process:
        asyncio.run_coroutine_threadsafe(client.aclose(), _loop_of(process))


def _seconds(text: str) -> float:
    """Of a Retry-After header; 0 for a date or anything else."""
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0
