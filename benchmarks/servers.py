"""Measures what is left of vLLM's speed when this project reads through it: in this process, and over HTTP.

    .venv-vllm/bin/python -m benchmarks.servers --out benchmarks/servers.json    # `make vllm` first; four minutes
    python -m benchmarks.servers --table benchmarks/servers.json     # the table of docs/reports/performance.md

The same number of prompts of random tokens is read in portions of 1, 8 and 64, as many as are in flight, and the
log-probabilities of 10 listed tokens are taken: by vLLM's own `generate`, by `vllm:PATH`, and by `server:URL`, whose
server runs by itself. The same requests by a bare client, which checks nothing, show what the server takes. No prompt
begins as another does. Tokens a second are those of prompts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import dpicl  # noqa: F401  before torch: it decides how threads wait

# isort: split
import httpx
import numpy as np
import torch

from dpicl import models
from dpicl.models.embedded import cached_model
from dpicl.models.server_dialects import MOST_PROMPTS
from dpicl.models.vllm_engine import VllmLM
from dpicl.results import manifest
from tests.harness.models.server_process import run_process
from tests.harness.models.vllm_process import vllm_server

#: In flight -> how many prompts are read.
ROWS = {1: 8, 8: 16, 64: 128}
#: How often each is measured: other work on the machine slows some of them.
ROUNDS = 2
LENGTH, LISTED = 32, range(100, 110)
DTYPE = "float32"
#: The columns of the table.
READERS = ("generate", "vllm:PATH", "server:URL", "bare client")
#: What `vllm_server` calls the model.
MODEL = "smollm2"

Read = Callable[[Sequence[list[int]]], object]


def measure_rate(read: Read, in_flight: int, at_once: bool, seed: int) -> dict[str, float]:
    """Tokens a second, and milliseconds of this process's CPU a row: the better of `ROUNDS`, with other prompts each.
    at_once: the reader itself keeps so many in flight."""
    random = np.random.default_rng(seed)
    # connections are open, and kernels chosen
    read(random.integers(1000, 40000, size=(in_flight, 1)).tolist())
    rates, costs = [], []
    for _ in range(ROUNDS):
        prompts = random.integers(1000, 40000, size=(ROWS[in_flight], LENGTH)).tolist()
        size = len(prompts) if at_once else in_flight
        wall, cpu = time.perf_counter(), time.process_time()
        for first in range(0, len(prompts), size):
            read(prompts[first : first + size])
        seconds, busy = time.perf_counter() - wall, time.process_time() - cpu
        rates.append(len(prompts) * LENGTH / seconds)
        costs.append(1000 * busy / len(prompts))
    return {"tokens a second": max(rates), "ms a row": min(costs)}


def read_bare(url: str, in_flight: int, prompts: Sequence[list[int]]) -> None:
    """Requests what `server:URL` does of these prompts, with so many in flight."""
    asyncio.run(_post_all(url, in_flight, prompts))


async def _post_all(url: str, in_flight: int, prompts: Sequence[list[int]]) -> None:
    size = min(MOST_PROMPTS, in_flight)
    body = {"model": MODEL, "max_tokens": 1, "logprobs": 1, "logprob_token_ids": list(LISTED)}
    window = asyncio.Semaphore(in_flight // size)
    async with httpx.AsyncClient(timeout=300) as client:

        async def post(share: Sequence[list[int]]) -> None:
            async with window:
                response = await client.post(
                    f"{url}/v1/completions", json={**body, "prompt": share}
                )
                response.raise_for_status()

        shares = [prompts[first : first + size] for first in range(0, len(prompts), size)]
        await asyncio.gather(*map(post, shares))


def measure() -> dict[str, Any]:
    import vllm

    folder = cached_model()
    model = models.load(f"vllm:{folder}?context=2048", dtype=DTYPE)
    assert isinstance(model, VllmLM)
    plain = vllm.SamplingParams(
        max_tokens=1, temperature=0.0, logprob_token_ids=list(LISTED), detokenize=False
    )

    def generate(prompts: Sequence[list[int]]) -> object:
        return model.engine.llm.generate(
            [{"prompt_token_ids": each} for each in prompts], plain, use_tqdm=False
        )

    readers: dict[str, Read] = {
        "generate": generate,
        "vllm:PATH": lambda prompts: model.listed_log_probs(prompts, LISTED),
    }
    measures = {
        f"{name}, {in_flight} in flight": measure_rate(read, in_flight, False, seed)
        for seed, (in_flight, name, read) in enumerate(
            (in_flight, name, read) for in_flight in ROWS for name, read in readers.items()
        )
    }
    with run_process(
        vllm_server(folder, "--max-logprobs", "-1", "--max-num-seqs", "64"), 600
    ) as server:
        for in_flight in ROWS:
            client = models.load(f"server:{server.url}?tokenizer={folder}&window={in_flight}")
            rate = measure_rate(
                partial(client.listed_log_probs, tokens=LISTED), in_flight, True, in_flight
            )
            measures[f"server:URL, {in_flight} in flight"] = rate
            rate = measure_rate(partial(read_bare, server.url, in_flight), in_flight, True, 99)
            measures[f"bare client, {in_flight} in flight"] = rate
    commit, changed = manifest.commit()
    return {
        "commit": commit,
        "dirty": changed,
        "machine": manifest.machine().model_dump(),
        "vllm": vllm.__version__,
        "threads": torch.get_num_threads(),
        "dtype": DTYPE,
        "measures": {
            name: {key: float(f"{each:.3g}") for key, each in rate.items()}
            for name, rate in measures.items()
        },
    }


def table(report: dict[str, Any]) -> str:
    """The measures as a Markdown table."""
    machine, measures = report["machine"], report["measures"]
    about = (
        f"{machine['cpu']}, {machine['cores']} cores, {report['threads']} threads, {report['dtype']},"
        f" vLLM {report['vllm']}, commit {str(report['commit'])[:8]}"
    )
    lines = [
        f"| {about} | `generate`, tokens/s | `vllm:PATH`, of it | `server:URL`, of it | bare client, of it"
        " | our client, ms a row |",
        "|---|---|---|---|---|---|",
    ]
    for in_flight in ROWS:
        reports = {name: measures.get(f"{name}, {in_flight} in flight") for name in READERS}
        rate = reports["generate"]["tokens a second"]
        shares = [
            f"{each['tokens a second'] / rate:.2f}" if each else "–" for each in reports.values()
        ]
        client = reports["server:URL"]["ms a row"]
        lines.append(
            f"| {in_flight} in flight | {rate:g} | {' | '.join(shares[1:])} | {client:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write what was measured")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="print a report as a table, and measure nothing"
    )
    arguments = parser.parse_args()
    report = json.loads(arguments.table.read_text()) if arguments.table else measure()
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
