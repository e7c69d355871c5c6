"""Connects to one model server over HTTP: parallel requests, time-outs, size limits and retries.

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
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import httpx

from dpicl.core.errors import ModelError
from dpicl.core.together import result_of
from dpicl.models.server_settings import ServerSettings

#: Bytes of an answer: most, and those that list the whole of a vocabulary, at 100 bytes a token.
SMALL, LARGEST = 4_000_000, 100_000_000
#: Seconds before a request is repeated: the first and the longest; no server may ask for more.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 30.0
#: Answers after which the same request may succeed later, besides those of 500 and above.
_BUSY = frozenset({408, 409, 425, 429})


class Refused(Exception):
    """The server does not answer this very request (400, 404, 413, 422 ...)."""


class Unanswered(Exception):
    """No sound answer to a request for as long as it was repeated."""


class _Failed(Exception):
    """One try failed, for a reason in our words. after: seconds that the server asks to wait."""

    def __init__(self, why: str, after: float = 0.0) -> None:
        super().__init__(why)
        self.after = after


@dataclass(frozen=True)
class Call:
    """One request. read: makes something of the answer, a ValueError where it is not as it should be. body: None for
    GET. whole: whether the answer lists the whole of a vocabulary."""

    path: str
    read: Callable[[bytes], Any]
    body: Mapping[str, Any] | None = None
    whole: bool = False


class Connection:
    """A server as it is asked by all jobs of a process, a bounded number of requests on their way at a time.

    A job that waits for answers lets others go on (`dpicl.core.together`); whatever they ask in turn fills the window.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        secret = settings.secret()
        self._headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        # a proxy would read what goes over plain http
        self._proxied = settings.url.startswith("https:") and not settings.loopback
        self._window = asyncio.Semaphore(settings.window)
        self._jitter = random.Random()

    def answers(self, asked: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
        """What these give, in order, asked at the same time. Raises the first error, and cancels the others."""
        return result_of(asyncio.run_coroutine_threadsafe(_ask_together(asked), _loop_of(os.getpid())))

    async def ask(self, call: Call) -> Any:
        """What ``call.read`` makes of the answer, after as many tries as the settings' patience has room for. Raises
        Refused, Unanswered, and ModelError where asking again is no use."""
        end = time.monotonic() + self.settings.patience
        pause = FIRST_PAUSE
        while True:
            try:
                return await self._try(call)
            except _Failed as failure:
                wait = max(pause * self._jitter.uniform(0.5, 1.5), min(failure.after, LONGEST_PAUSE))
                if time.monotonic() + wait >= end:
                    raise Unanswered(str(failure)) from None
            await asyncio.sleep(wait)
            pause = min(2 * pause, LONGEST_PAUSE)

    def silence_error(self, error: Exception) -> ModelError:
        """The error of a server that does not answer; error: why, in our words."""
        return ModelError(f"The model server {self.settings.url} gives no sound answer: {error}; see that it runs.")

    async def _try(self, call: Call) -> Any:
        """One try. Raises _Failed, Refused or ModelError, and never what a library raises."""
        try:
            async with self._window, asyncio.timeout(self.settings.timeout):
                status, after, content = await self._send(call)
        except (TimeoutError, httpx.TimeoutException):
            raise _Failed(f"no answer within {self.settings.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError) as error:
            raise _Failed(f"the connection failed ({type(error).__name__})") from None
        url = self.settings.url
        if status == 401:
            raise ModelError(f"The model server {url} refuses the API key; set the variable that `key` names.")
        if 300 <= status < 400:
            raise ModelError(f"The model server {url} redirects elsewhere, and prompts follow no redirect.")
        if status in _BUSY or status >= 500:
            raise _Failed(f"it answers {status}", after)
        if status != 200:
            raise Refused(f"it answers {status}")
        try:
            return call.read(content)
        except (ValueError, RecursionError):
            raise _Failed("its answer is damaged, or is not what was asked for") from None

    async def _send(self, call: Call) -> tuple[int, float, bytes]:
        """(status, seconds that it asks to wait, body) of one request."""
        content = None if call.body is None else json.dumps(call.body).encode()
        method, url, limit = "GET" if content is None else "POST", self.settings.url + call.path, self.settings.timeout
        client = _client_of(os.getpid(), self._proxied)
        async with client.stream(method, url, content=content, headers=self._headers, timeout=limit) as response:
            body = bytearray()
            async for part in response.aiter_raw():  # a small answer that is compressed could be a large one
                body += part
                if len(body) > (LARGEST if call.whole else SMALL):
                    raise ValueError("too large")
            after = response.headers.get("retry-after", "")
            return response.status_code, float(after) if after.isdecimal() and len(after) < 6 else 0.0, bytes(body)


async def _ask_together(asked: Sequence[Callable[[], Coroutine[Any, Any, Any]]]) -> list[Any]:
    """What these give; the first error ends the others."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask()) for ask in asked]
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
    """The client of this process for all servers that a proxy may, or may not, stand before."""
    headers = {"Accept": "application/json", "Accept-Encoding": "identity", "Content-Type": "application/json"}
    return httpx.AsyncClient(headers=headers, limits=httpx.Limits(), trust_env=proxied)
