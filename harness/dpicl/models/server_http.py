"""Connects to one model server over HTTP: parallel requests, time-outs, size limits, retries, and a second look at a
server that may have been restarted.

Requests run on an event loop in a thread of their own, so that they go on while the jobs of a run compute. Whatever a
server does, what comes out is a checked answer, or one of the errors below. No error holds anything that was sent or
answered: prompts are private, and a header holds the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from dpicl.core.errors import ModelError
from dpicl.core.together import result_of
from dpicl.models.listing import Unsound
from dpicl.models.server_settings import ServerSettings

#: Bytes of an answer: most, and those that list the whole of a vocabulary, at 100 bytes a token.
SMALL, LARGEST = 4_000_000, 100_000_000
#: Seconds before a request is repeated: the first and the longest; no server may ask for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
#: Answers after which the same request may succeed later, besides those of 500 and above.
_BUSY = frozenset({408, 409, 425, 429})
#: So often is a request sent whose answers are in good order and not what was requested: the prompt may be to blame.
UNSOUND_TRIES = 4
#: Seconds after which a server is looked at again: behind a gateway another model may take its place, and no connection
#: is new.
LOOK_AGAIN = 10.0
#: Phases of requests that a server must not compute together.
LISTED, LIKELIEST = "listed", "likeliest"


class Refused(Exception):
    """The server does not answer this very request (400, 404, 413, 422 ...)."""


class Unanswered(Exception):
    """No sound answer to a request for as long as it was repeated."""


class Denied(ModelError):
    """The server refuses the key, or sends the request elsewhere."""


class _Failed(Exception):
    """One try failed, for a reason in our words. after: seconds that the server asks to wait. unsound: whether it
    answered, and otherwise than requested."""

    def __init__(self, why: str, after: float = 0.0, unsound: bool = False) -> None:
        super().__init__(why)
        self.after, self.unsound = after, unsound


@dataclass(frozen=True)
class Call:
    """One request. read: makes something of the answer; Unsound, or another ValueError, where it is not as it should
    be. body: None for GET. whole: whether the answer lists the whole of a vocabulary. phase: requests of different
    phases are never on their way together; "" for one that goes with all. prompts: how many it has."""

    path: str
    read: Callable[[bytes], Any]
    body: Mapping[str, Any] | None = None
    whole: bool = False
    phase: str = ""
    prompts: int = 1


class _Window:
    """Room for so many prompts on their way at a time. Requests enter in the order in which they come."""

    def __init__(self, size: int) -> None:
        self.size, self._places, self._entering = size, asyncio.Semaphore(size), asyncio.Lock()

    @asynccontextmanager
    async def enter(self, prompts: int) -> AsyncIterator[None]:
        taken = 0
        try:
            async with self._entering:
                while taken < min(prompts, self.size):
                    await self._places.acquire()
                    taken += 1
            yield
        finally:
            for _ in range(taken):
                self._places.release()


class _Phases:
    """Lets requests of one phase at a time through."""

    def __init__(self) -> None:
        self._phase, self._going = "", 0
        self._over = asyncio.Event()

    @asynccontextmanager
    async def enter(self, phase: str) -> AsyncIterator[None]:
        if not phase:
            yield
            return
        while self._going and self._phase != phase:
            await self._over.wait()
        self._phase, self._going = phase, self._going + 1
        self._over.clear()
        try:
            yield
        finally:
            self._going -= 1
            if not self._going:
                self._over.set()


class Connection:
    """A server as it is asked by all jobs of a process, a bounded number of prompts on their way at a time.

    window: how many, where the settings do not say.

    A job that waits for answers lets others go on (`dpicl.core.together`); whatever they ask in turn fills the window.

    verify: called before the first answer over a new connection is used, with what sends a request once: behind it may
        be a server that was restarted. Raises ModelError for one that is not what it was.
    """

    verify: Callable[[Callable[[Call], Awaitable[Any]]], Awaitable[None]] | None = None

    def __init__(self, settings: ServerSettings, window: int) -> None:
        self.settings = settings
        secret = settings.secret()
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        # a proxy would read what goes over plain http
        self._proxied = settings.url.startswith("https:") and not settings.loopback
        self.window, self._phases = settings.window or window, _Phases()
        self._places = _Window(self.window)
        self._jitter = random.Random()
        self._opened = self._verified = 0  # connections
        self._looked_at, self._is_doubtful = time.monotonic(), False
        self._verifying = asyncio.Lock()

    def answers(self, calls: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
        """What these give, in order, asked at the same time. Raises the first error, and cancels the others."""
        return result_of(
            asyncio.run_coroutine_threadsafe(_ask_together(calls), _loop_of(os.getpid()))
        )

    async def ask(self, call: Call) -> Any:
        """What ``call.read`` makes of the answer, after as many tries as the settings' patience has room for. Raises
        Refused, Unanswered, Unsound, and ModelError where asking again is no use."""
        end = time.monotonic() + self.settings.patience
        pause, unsound = FIRST_PAUSE, 0
        while True:
            try:
                return await self._try(call)
            except _Failed as failure:
                unsound += failure.unsound
                wait = max(
                    pause * self._jitter.uniform(0.5, 1.5), min(failure.after, LONGEST_PAUSE)
                )
                if time.monotonic() + wait >= end or unsound == UNSOUND_TRIES:
                    raise (Unsound if failure.unsound else Unanswered)(str(failure)) from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def ask_once(self, call: Call) -> Any:
        """As `ask`, in one try."""
        try:
            return await self._try(call)
        except _Failed as failure:
            raise (Unsound if failure.unsound else Unanswered)(str(failure)) from None

    def silence_error(self, error: Exception) -> ModelError:
        """The error of a server that does not answer; error: why, in our words."""
        return ModelError(
            f"The model server {self.settings.url} gives no sound answer: {error}; see that it runs."
        )

    async def _try(self, call: Call) -> Any:
        """One try, of a server that is what it was. Raises _Failed, Refused or ModelError."""
        try:
            answer = await self.fetch(call)
        except (_Failed, Refused) as failure:
            self._is_doubtful |= isinstance(failure, _Failed) and not failure.unsound
            await self._verify_due()
            raise
        await self._verify_due()
        return answer

    async def verify_now(self) -> None:
        """Looks at the server again. Raises Refused, Unanswered and ModelError."""
        self._is_doubtful = True
        try:
            await self._verify_due()
        except _Failed as failure:
            raise Unanswered(str(failure)) from None

    async def _verify_due(self) -> None:
        """Looks at the server again where that is due; see `verify`."""
        async with self._verifying:
            is_due = (
                self._opened > self._verified
                or self._is_doubtful
                or time.monotonic() - self._looked_at > LOOK_AGAIN
            )
            if self.verify is not None and is_due:
                await self.verify(self.fetch)
                self._verified, self._is_doubtful = self._opened, False
                self._looked_at = time.monotonic()

    async def fetch(self, call: Call) -> Any:
        """What ``call.read`` makes of the answer, which is requested once. Raises _Failed, Refused or ModelError, and
        never what a library raises."""
        try:
            async with (
                self._phases.enter(call.phase),
                self._places.enter(call.prompts),
                asyncio.timeout(self.settings.timeout),
            ):
                status, after, content = await self._send(call)
        except (TimeoutError, httpx.TimeoutException):
            raise _Failed(f"no answer within {self.settings.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise _Failed(f"the connection failed ({type(error).__name__})") from None
        url = self.settings.url
        if status == 401:
            raise Denied(
                f"The model server {url} refuses the API key; set the variable that `key` names."
            )
        if 300 <= status < 400:
            raise Denied(
                f"The model server {url} redirects elsewhere, and prompts follow no redirect."
            )
        if status in _BUSY or status >= 500:
            raise _Failed(f"it answers {status}", after)
        if status != 200:
            raise Refused(f"it answers {status}")
        try:
            return call.read(content)
        except Unsound as error:
            raise _Failed(str(error), unsound=True) from None
        except (ValueError, RecursionError):
            raise _Failed("its answer is damaged, or is not what was asked for") from None

    async def _send(self, call: Call) -> tuple[int, float, bytes]:
        """(status, seconds that it asks to wait, body) of one request."""
        content = None if call.body is None else json.dumps(call.body).encode()
        method = "GET" if content is None else "POST"
        url = self.settings.url + call.path
        limit = self.settings.timeout
        client, extensions = _client_of(os.getpid(), self._proxied), {"trace": self._note_event}
        async with client.stream(
            method,
            url,
            content=content,
            headers=self._headers,
            timeout=limit,
            extensions=extensions,
        ) as response:
            body = bytearray()
            # a small answer that is compressed could be a large one
            async for part in response.aiter_raw():
                body += part
                if len(body) > (LARGEST if call.whole else SMALL):
                    raise ValueError("too large")
            after = response.headers.get("retry-after", "")
            return (
                response.status_code,
                float(after) if after.isdecimal() and len(after) < 6 else 0.0,
                bytes(body),
            )

    async def _note_event(self, name: str, details: Mapping[str, Any]) -> None:
        if name == "connection.connect_tcp.complete":
            self._opened += 1


async def _ask_together(calls: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
    """What these give; the first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask()) for ask in calls]
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]


@cache
def _loop_of(process: int) -> asyncio.AbstractEventLoop:
    """The event loop of this process, in a thread of its own; a forked process has none of its parent's threads."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="model server", daemon=True).start()
    return loop


@cache
def _client_of(process: int, proxied: bool) -> httpx.AsyncClient:
    """The client of this process for all servers that a proxy may, or may not, stand before; it keeps no cookie."""
    headers = {
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/json",
    }
    cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
    return httpx.AsyncClient(
        headers=headers,
        cookies=cookies,
        limits=httpx.Limits(),
        trust_env=proxied,
    )
