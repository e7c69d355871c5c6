"""What `python -m benchmarks.gpu.cuda` checks on a GPU, on the processor."""

from typing import cast

import pytest
import torch

from benchmarks.gpu import cuda
from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.models.transformers import TransformersLM


@pytest.fixture
def tiny(tiny_folder):
    return cast(TransformersLM, models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32"))


def test_a_sound_reader_passes_every_check(tiny):
    found = cuda.check(tiny, seconds=0.1)
    assert found["agrees"] and found["batch_invariant"] and found["same_in_halves"]
    assert (
        found["tokens_per_second"] > 0 < found["plain_tokens_per_second"]
        and found["shapes"]["body"]
    )


def test_rows_that_move_when_memory_is_short_are_named(tiny, monkeypatch):
    found, read = cuda.measure(tiny), tiny.next_token_log_probs
    monkeypatch.setattr(cuda, "measure", lambda model: found)
    drift = iter(range(100))
    monkeypatch.setattr(
        tiny, "next_token_log_probs", lambda rows, *more: read(rows, *more) + 1e-6 * next(drift)
    )
    assert cuda.check(tiny, seconds=0.1)["same_in_halves"] is False


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_a_gpu_it_says_what_can_be_checked():
    with pytest.raises(ModelError, match="--device cpu"):
        cuda.run()
