"""The model of the task ginc: its weights, training to the bit, and which tasks it goes with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.core.files import file_sha256
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models import ginc
from dpicl.models.base import ChatPrompt
from dpicl.models.ginc_corpus import language
from dpicl.models.transformers import TransformersLM
from dpicl.plan.expand import expand
from dpicl.plan.suite import Suite

TINY = ginc.Training(1, 16, 2, 64, documents=12, batch=4, rate=1e-2, warm_up=1)
MECHANISMS = load_mechanisms()


def test_the_weights_are_those_of_the_committed_results():
    first = next(Path(__file__).parents[3].glob("results/ginc/ginc/*/ginc/*.json"))
    model = ginc.load_ginc("cpu", None)
    assert json.loads(first.read_text())["manifest"]["model"]["sha256"] == model.identity.sha256
    assert ginc.validation_loss(model.model, ginc.TRAINING) == pytest.approx(1.25386, abs=1e-4)


def test_a_training_is_the_same_whatever_else_is_random(tmp_path):
    files = [tmp_path / name for name in "abc"]
    before = torch.get_rng_state()
    ginc.pretrain(TINY, files[0])
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    torch.set_num_threads(2)
    np.random.default_rng().random(3)
    ginc.pretrain(TINY, files[1])
    assert torch.get_num_threads() == 2
    assert not torch.are_deterministic_algorithms_enabled()
    torch.set_num_threads(1)
    ginc.pretrain(replace(TINY, seed=1), files[2])
    first, second, other = map(file_sha256, files)
    assert first == second != other


def test_every_block_begins_with_the_end_of_text():
    blocks = list(ginc.batches(TINY))
    assert len(blocks) == TINY.steps == 3
    assert {tuple(block.shape) for block in blocks} == {(4, 64)}
    rows = {tuple(row) for block in blocks for row in block.tolist()}
    assert {row[0] for row in rows} == {150} and len(rows) == 12


def test_it_is_read_in_packed_rows():
    model = models.load("ginc", device="cpu")
    assert isinstance(model, TransformersLM)
    assert model.identity.batch_invariant is not None
    assert (model.identity.name, model.identity.dtype, len(model.identity.sha256 or "")) == (
        "ginc",
        "float32",
        64,
    )
    assert models.load("ginc", device="cpu").identity == model.identity
    text = " ".join(language().words[:4])
    assert model.encode(text) == [0, 1, 2, 3]
    assert model.encode(ChatPrompt(text, " ac")) == [0, 1, 2, 3, 3]
    assert model.decode([1, 150, 2]) == " ".join(language().words[1:3])
    assert model.encode("what is this") == [151] * 3
    assert (model.lead_tokens, model.eos_token_id, model.vocab_size, model.max_length) == (
        1,
        150,
        152,
        128,
    )
    # A text begins as documents did in training.
    alone = model.model(torch.tensor([[150, 3, 4]])).logits[0, -1].log_softmax(-1)
    assert model.next_token_log_probs([[3, 4]])[0].numpy() == pytest.approx(
        alone.detach().numpy(), abs=1e-4
    )


def test_training_lowers_the_loss(tmp_path):
    more = replace(TINY, documents=300)
    still = ginc.pretrain(replace(more, rate=1e-9), tmp_path / "b")
    assert ginc.pretrain(more, tmp_path / "a") < still - 0.5


def suite(**changes: object) -> Suite:
    settings = {"name": "s", "version": 1, "models": ["embedded"], "seeds": [0], "epsilons": [1]}
    return Suite.model_validate(
        {**settings, "tasks": ["trec", "ginc"], "mechanisms": [{"name": "tang"}], **changes}
    )


@pytest.mark.parametrize(
    ("wanted", "read"),
    [
        (["embedded"], {("trec", "embedded"), ("ginc", "ginc")}),
        (["sim"], {("trec", "sim"), ("ginc", "sim")}),
        (["embedded", "hf:x"], {("trec", "embedded"), ("trec", "hf:x"), ("ginc", "ginc")}),
        (["embedded", "ginc"], {("trec", "embedded"), ("ginc", "ginc")}),
    ],
)
def test_a_suite_reads_the_task_with_its_own_model(wanted, read):
    cells = expand(suite(models=wanted), MECHANISMS)
    assert {(cell.task, cell.model) for cell in cells} == read
    assert len(cells) == len(read)
