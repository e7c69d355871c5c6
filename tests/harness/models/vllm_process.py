"""The real vLLM in an environment of its own (`make vllm`)."""

from __future__ import annotations

import os
from pathlib import Path

from tests.harness.models.server_process import ServerProcess

ROOT = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("DPICL_VLLM", ROOT / ".venv-vllm" / "bin" / "python"))
ENVIRONMENT = {"HF_HUB_OFFLINE": "1"}


def vllm_server(folder: Path, *flags: str) -> ServerProcess:
    """vLLM's own server, with the model of a folder."""
    words: tuple[str, ...]
    words = (
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(folder),
        "--served-model-name",
        "smollm2",
    )
    words += (
        "--host",
        "127.0.0.1",
        "--dtype",
        "float32",
        "--max-model-len",
        "2048",
        "--max-num-seqs",
        "16",
    )
    return ServerProcess(
        lambda port: [str(PYTHON), *words, "--enforce-eager", "--port", str(port), *flags],
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_NO_USAGE_STATS="1",
        **ENVIRONMENT,
        PYTHONPATH="",
    )
