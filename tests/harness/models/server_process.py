"""A real model server in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress


class NotStarted(RuntimeError):
    """A server does not answer; with how it ended and what it wrote last."""


class ServerProcess:
    """words: the command line, by the port that the server listens on."""

    def __init__(self, words: Callable[[int], Sequence[str]], **environment: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.words, self._environment = words, {**os.environ, **environment}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, seconds: float = 120.0) -> None:
        """Starts it, again where it was killed, and waits until it answers. Raises NotStarted where it does not."""
        with tempfile.TemporaryFile() as log:
            self.process = subprocess.Popen(
                self.words(self.port),
                env=self._environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            end = time.monotonic() + seconds
            while time.monotonic() < end and self.process.poll() is None:
                with (
                    suppress(urllib.error.URLError, OSError),
                    urllib.request.urlopen(f"{self.url}/health", timeout=5),
                ):
                    return
                time.sleep(0.2)
            code = self.process.poll()
            self.kill()
            log.seek(0)
            lines = log.read().decode(errors="replace").strip().splitlines()
        ending = (
            f"does not answer within {seconds:g} s"
            if code is None
            else f"ended with exit code {code}"
        )
        raise NotStarted(
            f"the model server {ending}; it wrote last: {lines[-1] if lines else 'nothing'}"
        )

    def kill(self) -> None:
        """SIGKILL, to its own processes too."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


@contextmanager
def run_process(server: ServerProcess, seconds: float = 120.0) -> Iterator[ServerProcess]:
    """A server that runs inside this block. Raises NotStarted."""
    server.start(seconds)
    try:
        yield server
    finally:
        server.kill()
