"""The embedded model on CUDA: the same log-probabilities as on the CPU, and the two model benchmarks on the GPU.

    python -m benchmarks.gpu.cuda --json

Needs a GPU and refuses to run without one. The sides agree when next-token log-probabilities, a decoded continuation
and label scores differ by at most 1e-3 in float32, and both benchmarks agree. ours_seconds is CUDA's time,
reference_seconds the CPU's.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import torch

from benchmarks import cached_decoding, prefix_evaluation
from benchmarks._report import main, report
from dpicl import models
from dpicl.core.errors import DpiclError, ModelError
from dpicl.data.task import Task
from dpicl.models.base import LanguageModel

TOLERANCE = 1e-3
PROMPTS = 32
APPENDED = 8


def run() -> dict[str, Any]:
    """Compares CUDA with the CPU, then runs both benchmarks on CUDA."""
    if not torch.cuda.is_available():
        raise ModelError("This benchmark needs a CUDA device and there is none here; the others run on the CPU.")
    torch.backends.cuda.matmul.allow_tf32 = False
    task = Task.load("dbpedia", "auto", limit_train=4, limit_test=PROMPTS)
    on_cpu, cpu_seconds = _readings(models.load("embedded", device="cpu", dtype="float32"), task)
    on_cuda, cuda_seconds = _readings(models.load("embedded", device="cuda", dtype="float32"), task)
    differences = {name: float((on_cuda[name] - on_cpu[name]).abs().max()) for name in on_cpu}
    benchmarks = [
        prefix_evaluation.run(device="cuda", documents=50),
        cached_decoding.run(device="cuda", prompts=64, tokens=50),
    ]
    return report(
        "cuda",
        cuda_seconds,
        cpu_seconds,
        max(differences.values()) <= TOLERANCE and all(benchmark["agreement"] for benchmark in benchmarks),
        largest_differences=differences,
        gpu=torch.cuda.get_device_name(),
        benchmarks=benchmarks,
    )


def _readings(model: LanguageModel, task: Task) -> tuple[dict[str, torch.Tensor], float]:
    """What the model says in each of its three ways of reading, and the seconds that took (after a warm-up)."""
    prompts = [model.encode(task.query(record.text)) for record in task.test]
    prefix = model.encode(task.icl_prefix(task.train[:4]))
    endings = [model.encode(f" {label}") for label in task.labels]
    model.next_token_log_probs(prompts[:2])
    start = time.perf_counter()
    readings = {"next_token": model.next_token_log_probs(prompts)}
    decoder = model.decoder(prompts)
    for token in model.encode(" The quick brown fox jumps over the dog.")[:APPENDED]:
        decoder.append(token)
    readings["decoded"] = decoder.log_probs
    scores = model.score([([*prefix, *prompt], endings) for prompt in prompts], model.prefix(prefix))
    readings["scores"] = torch.tensor(scores)
    return readings, time.perf_counter() - start


if __name__ == "__main__":
    try:
        sys.exit(main(run))
    except DpiclError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
