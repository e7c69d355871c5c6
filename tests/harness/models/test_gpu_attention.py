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
from dpicl.models.pieces import KeyValues, Memory, Piece, causal

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None
    or not (torch.cuda.is_available() or "TRITON_INTERPRET" in os.environ),
    reason="there is no GPU, and TRITON_INTERPRET=1 with Triton installed is not given",
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HEADS, GROUPS, SIZE = 6, 2, 24
#: (tokens, tokens before them, whether they are kept, whether they are branches) of the pieces of a pass.
PIECES = [
    (1, 0, True, False),
    (1, 40, True, False),
    (20, 0, False, False),
    (3, 35, False, True),
    (18, 30, True, False),
]


@pytest.fixture(autouse=True)
def kernels(monkeypatch):
    plan = importlib.import_module("dpicl.models.gpu_attention").KernelPlan
    monkeypatch.setattr(attention, "_plan_of", lambda device: plan)


def attend(wanted: list[int], dtype: torch.dtype) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For some of the pieces in one pass: what the kernels give, [n, heads, d], and softmax attention in float64."""
    memory, pieces, parts, expected = Memory(10**9, 1), [], [], []
    for number in wanted:
        count, begin, keeps, branches = PIECES[number]
        random = torch.Generator().manual_seed(number)
        query = torch.randn(1, HEADS, count, SIZE, generator=random).to(DEVICE, dtype)
        key, value = torch.randn(2, 1, GROUPS, begin + count, SIZE, generator=random).to(
            DEVICE, dtype
        )
        past = KeyValues(memory, begin + 7)
        past.put(0, 0, key[:, :, :begin], value[:, :, :begin])
        seen = causal(count, begin + count, torch.device("cpu"))
        if branches:
            seen = seen.clone()
            seen[2, begin + 1] = False
        own = KeyValues(memory, begin + count) if keeps else None
        mask = seen if branches else None
        pieces.append(
            Piece([1] * count, range(begin, begin + count), begin, past, own, range(begin), mask)
        )
        parts.append((query, key[:, :, begin:], value[:, :, begin:]))
        keys, values = (
            each.double().repeat_interleave(HEADS // GROUPS, dim=1) for each in (key, value)
        )
        whole = torch.nn.functional.scaled_dot_product_attention(
            query.double(), keys, values, attn_mask=seen.to(DEVICE)
        )
        expected.append(whole[0].transpose(0, 1))
    query, key, value = (
        torch.nn.functional.pad(torch.cat(each, dim=2), (0, 0, 0, 5))
        for each in zip(*parts, strict=True)
    )
    with attention.reading(pieces):
        found, _ = attention.attend(SimpleNamespace(layer_idx=0), query, key, value, None)
    assert not found[0, -5:].any()
    lengths = [PIECES[number][0] for number in wanted]
    return list(zip(found[0, :-5].split(lengths), expected, strict=True))


def test_kernels_give_softmax_attention():
    for found, expected in attend([0, 1, 2, 3, 4], torch.float32):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-5)


def test_a_piece_has_its_bits_beside_others():
    together = attend([4, 2, 3, 0, 1], torch.float32)
    for number, (found, _) in zip([4, 2, 3, 0, 1], together, strict=True):
        assert torch.equal(found, attend([number], torch.float32)[0][0])


@pytest.mark.skipif(
    DEVICE == "cpu", reason="there is no GPU, and Triton's interpreter does not multiply bfloat16"
)
def test_kernels_in_bfloat16():
    for found, expected in attend([0, 1, 2, 3, 4], torch.bfloat16):
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
