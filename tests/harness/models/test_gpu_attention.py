"""The kernels that attend on a GPU: there, or as Triton's interpreter runs them (`pip install triton`, and
TRITON_INTERPRET=1 in the environment)."""

from __future__ import annotations

import importlib
import os
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch

from dpicl.models import attention
from dpicl.models.pieces import KeyValues, Memory, Piece
from tests.harness.models.passes import Part, attend

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None
    or not (torch.cuda.is_available() or "TRITON_INTERPRET" in os.environ),
    reason="there is no GPU, and TRITON_INTERPRET=1 with Triton installed is not given",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HEADS, GROUPS, SIZE = SHAPE = 6, 2, 24
PARTS = [
    Part(18, 30, keeps=True),
    Part(20),
    Part(3, 35, branches=True),
    Part(1, keeps=True),
    Part(1, 40, keeps=True),
]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    plan = importlib.import_module("dpicl.models.gpu_attention").KernelPlan
    monkeypatch.setattr(attention, "_plan_of", lambda device: plan)


def test_kernels_give_softmax_attention():
    for found, expected in attend(PARTS, torch.float32, SHAPE, DEVICE):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def test_a_piece_has_its_bits_beside_others():
    together = attend(PARTS, torch.float32, SHAPE, DEVICE)
    for part, (found, _) in zip(PARTS, together, strict=True):
        assert torch.equal(found, attend([part], torch.float32, SHAPE, DEVICE)[0][0])


@pytest.mark.skipif(
    DEVICE == "cpu", reason="there is no GPU, and Triton's interpreter does not multiply bfloat16"
)
def test_kernels_in_bfloat16():
    for found, expected in attend(PARTS, torch.bfloat16, SHAPE, DEVICE):
        torch.testing.assert_close(found.double(), expected, atol=3e-2, rtol=3e-2)


def test_the_end_of_a_row_that_is_longer_than_a_window():
    """The kernels compute its first piece, and what they keep is there for the second, which they do not compute."""
    query, key, value = (
        torch.randn(1, heads, 7, SIZE, device=DEVICE) for heads in (HEADS, GROUPS, GROUPS)
    )
    own = KeyValues(Memory(10**9, 1), 7)
    pieces = [
        Piece([1] * n, range(at, at + n), at, None, own, range(at)) for at, n in ((0, 4), (4, 3))
    ]
    with attention.reading(pieces):
        found, _ = attention.attend(
            SimpleNamespace(layer_idx=0), query, key, value, None, sliding_window=4
        )
    keys, values = (each.repeat_interleave(HEADS // GROUPS, dim=1) for each in (key, value))
    seen = torch.ones(7, 7, dtype=torch.bool, device=DEVICE).tril().triu(-3)
    expected = torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
    torch.testing.assert_close(found, expected.transpose(1, 2), atol=1e-5, rtol=1e-5)
