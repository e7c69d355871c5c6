"""Checks on a GPU what dpicl needs of it, and writes a report.

    python -m benchmarks.gpu.cuda --out cuda-report.json
    python -m benchmarks.gpu.cuda --device cpu --out cpu-report.json

For the embedded model in float32 and bfloat16: packed rows against transformers' own logits; whether a row keeps its
bits beside others, in passes of the sizes that were measured on the device; whether texts keep theirs when a pass runs
out of memory and is read again in halves; tokens a second beside a plain forward pass of transformers. The report names
device and versions; exit code 1 where a check fails. docs/reports/performance.md has what an H200 said.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch

from dpicl import models
from dpicl.core.errors import DpiclError, ModelError
from dpicl.models.readers import measure
from dpicl.models.transformers import TransformersLM

DTYPES = ("float32", "bfloat16")
CHECKS = ("agrees", "batch_invariant", "same_in_halves")
#: Rows whose reading is timed, and the longest of them in tokens.
ROWS, LONGEST = 64, 160
#: Prompts and their tokens in a plain pass.
PLAIN = (8, 128)


def run(device: str = "cuda") -> dict[str, Any]:
    """The report. Raises ModelError where there is no such device."""
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise ModelError(
            "There is no CUDA device here; --device cpu makes the same checks on the processor."
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    loaded = ((dtype, models.load("embedded", device=device, dtype=dtype)) for dtype in DTYPES)
    measured = {dtype: check(cast(TransformersLM, model)) for dtype, model in loaded}
    return {
        "device": torch.cuda.get_device_name(device) if device.startswith("cuda") else device,
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "models": measured,
        "agreement": all(
            one["agrees"] and one["batch_invariant"] and one["same_in_halves"] is not False
            for one in measured.values()
        ),
    }


def check(model: TransformersLM, seconds: float = 6.0) -> dict[str, Any]:
    """The checks of one model in one number format. seconds: for the plain pass."""
    measured = measure(model)
    random = torch.Generator().manual_seed(0)
    lengths = torch.linspace(8, min(LONGEST, model.max_length - 2), ROWS).long().tolist()
    rows = [
        torch.randint(model.vocab_size, (length,), generator=random).tolist() for length in lengths
    ]
    start = time.perf_counter()
    whole, taken = model.next_token_log_probs(rows), time.perf_counter() - start
    halved = None
    if len(measured.body) > 1:  # a pass of the only size that keeps bits cannot be halved
        with run_out_of_memory(model, max(measured.body)) as failed:
            halved = torch.equal(whole, model.next_token_log_probs(rows)) and bool(failed)
    return {
        "agrees": measured.agrees,
        "batch_invariant": measured.alone,
        "shapes": {"body": measured.body, "output": measured.output},
        "same_in_halves": halved,
        "tokens_per_second": round(sum(lengths) / taken),
        "plain_tokens_per_second": round(plain_rate(model, seconds)),
    }


def plain_rate(model: TransformersLM, seconds: float) -> float:
    """The best rate of transformers' own forward pass, in tokens a second."""
    tokens, best = (
        torch.randint(model.vocab_size, PLAIN, generator=torch.Generator().manual_seed(0)),
        0.0,
    )
    tokens, end = tokens.to(model.device), time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            start = time.perf_counter()
            model.model(tokens, use_cache=False, logits_to_keep=1).logits.cpu()
            best = max(best, tokens.numel() / (time.perf_counter() - start))
    return best


@contextmanager
def run_out_of_memory(model: TransformersLM, most: int) -> Iterator[list[int]]:
    """Inside, passes of at least so many tokens fail as they do where memory is short; yields the sizes that did."""
    failed: list[int] = []

    def fail(module: Any, inputs: Any, named: dict[str, Any]) -> None:
        tokens = next(each for each in (*inputs, *named.values()) if isinstance(each, torch.Tensor))
        if tokens.numel() >= most:
            failed.append(tokens.numel())
            raise torch.OutOfMemoryError("planted")

    handle = model.model.register_forward_pre_hook(fail, with_kwargs=True)
    try:
        yield failed
    finally:
        handle.remove()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="cuda, cuda:N or cpu")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the report goes")
    arguments = parser.parse_args()
    try:
        report = run(arguments.device)
    except DpiclError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    text = json.dumps(report, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text, encoding="utf-8")
    sys.exit(0 if report["agreement"] else 1)
