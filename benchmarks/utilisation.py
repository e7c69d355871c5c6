"""How much of the processor's matrix products a real cell uses.

    DPICL_DATA=… python -m benchmarks.utilisation --rounds 2 --json

Three cells of DBPedia, each run by `dpicl run` in a process of its own: Tang (its tokens are written from fresh samples
of 16 prompts), voting with a fresh sample for every query, and an evaluation after four real demonstrations.

utilisation: tokens read in a second x 2 x the parameters without embeddings, over the best rate of a product of
matrices of the same dtype, measured in the same run. A token that is read once and used again counts once.
plain: a forward pass of transformers itself over PLAIN prompts, with the same
model, dtype and threads in the same run, in tokens a second; of_plain: the cell's rate over it.
Seconds are those of the release and the evaluation, without loading and calibration.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks._report import main
from dpicl import models
from dpicl.models.transformers import TransformersLM

ROOT = Path(__file__).parents[1]
SUITE = """name: utilisation
version: 1
source: auto
models: [embedded]
seeds: [0]
epsilons: [1]
shots: 4
test_records: {documents}
tasks: [dbpedia]
mechanisms:
  - name: {mechanism}
    options: {options}
"""
#: Cell -> mechanism, options, test records.
CELLS: dict[str, tuple[str, dict[str, Any], int]] = {
    "tang": ("tang", {"slots": 16, "examples_per_slot": 1, "tokens": 20, "top_k": 10, "record_tokens": 32}, 8),
    "voting": ("voting", {"slots": 10, "examples_per_slot": 4, "record_tokens": 32, "calibrate": True}, 16),
    "evaluation": ("real_demonstrations", {}, 100),
}
#: Prompts and their tokens in a plain pass.
PLAIN = (8, 128)


def matrix_rate(dtype: torch.dtype, seconds: float = 3.0) -> float:
    """The best multiply-and-add rate of a matrix product, in operations a second (2 for each multiply and add)."""
    best, end = 0.0, time.perf_counter() + seconds
    products = [(torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype)) for m, n, k in _SIZES]
    while time.perf_counter() < end:
        for rows, weights in products:
            start = time.perf_counter()
            torch.nn.functional.linear(rows, weights)
            taken = time.perf_counter() - start
            best = max(best, 2 * rows.shape[0] * weights.shape[0] * weights.shape[1] / taken)
    return best


def plain_rate(model: TransformersLM, seconds: float = 6.0) -> float:
    """The best rate of transformers' own forward pass, in tokens a second."""
    tokens, best = torch.randint(model.vocab_size, PLAIN, generator=torch.Generator().manual_seed(0)), 0.0
    tokens, end = tokens.to(model.device), time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            start = time.perf_counter()
            model.model(tokens, use_cache=False, logits_to_keep=1).logits.cpu()
            best = max(best, tokens.numel() / (time.perf_counter() - start))
    return best


_SIZES = ((256, 1536, 576), (512, 1536, 576), (512, 576, 1536), (1024, 1024, 1024), (2048, 2048, 2048))


def run(rounds: int) -> dict[str, Any]:
    """Runs every cell ``rounds`` times."""
    model = models.load("embedded")
    assert isinstance(model, TransformersLM)
    parameters = model.identity.parameters - model.vocab_size * int(model.model.config.hidden_size)
    rates, plain = [matrix_rate(model.model.dtype)], [plain_rate(model)]
    found = dict[str, list[dict[str, Any]]]()
    for _ in range(rounds):
        for name in CELLS:
            found.setdefault(name, []).append(_cell(name))
        rates.append(matrix_rate(model.model.dtype))
        plain.append(plain_rate(model))
    rate = max(rates)
    cells = {}
    for name, turns in found.items():
        speed = median(turn["tokens"] / turn["seconds"] for turn in turns)
        cells[name] = {
            "tokens_per_second": round(speed),
            "utilisation": round(speed * 2 * parameters / rate, 3),
            "of_plain": round(speed / max(plain), 2),
            "seconds": [round(turn["seconds"], 2) for turn in turns],
        }
    return {
        "name": "utilisation",
        "cells": cells,
        "dtype": model.identity.dtype,
        "matrix_gflops": round(rate / 1e9),
        "plain": {"prompts_and_tokens": PLAIN, "tokens_per_second": round(max(plain))},
        "parameters_without_embeddings": parameters,
    }


def _cell(name: str) -> dict[str, Any]:
    """Runs one cell. Returns its tokens, and the seconds of its release and evaluation."""
    mechanism, options, documents = CELLS[name]
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "utilisation.yaml"
        suite.write_text(SUITE.format(mechanism=mechanism, options=json.dumps(options), documents=documents))
        arguments = ["run", str(suite), "--results", f"{folder}/results", "--engine", "inline"]
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}/harness", "DPICL_CACHE": f"{folder}/cache"}
        _link_models(Path(folder) / "cache")
        subprocess.run(
            [sys.executable, "-m", "dpicl", *arguments], cwd=ROOT, env=environment, check=True, capture_output=True
        )
        (path,) = (each for each in Path(folder, "results").rglob("*.json") if mechanism in each.parts)
        cost = json.loads(path.read_text())["cost"]
    seconds = cost["seconds"]["release"] + cost["seconds"]["evaluate"]
    return {"tokens": cost["tokens_read"], "seconds": seconds}


def _link_models(cache: Path) -> None:
    """An empty cache but for the models, so that every cell asks the model."""
    from dpicl.core.paths import models_folder

    cache.mkdir()
    (cache / "models").symlink_to(models_folder())


def describe(result: dict[str, Any]) -> str:
    """A line for each cell."""
    return "\n".join(
        f"{name}: {cell['tokens_per_second']} tokens a second ({cell['of_plain']} of a plain pass),"
        f" utilisation {cell['utilisation']}"
        for name, cell in result["cells"].items()
    )


if __name__ == "__main__":
    sys.exit(
        main(
            run,
            __doc__,
            describe,
            rounds={"type": int, "default": 1, "metavar": "N", "help": "how often (default: 1)"},
        )
    )
