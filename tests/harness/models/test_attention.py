"""Attention as products in bfloat16: right, and the same to the last bit wherever the numbers lie in memory."""

from types import SimpleNamespace

import pytest
import torch

from dpicl.models import attention
from dpicl.models.pieces import KeyValues, Memory, Piece
from tests.harness.models.passes import Part, attend

#: Tokens, tokens before them; heads, groups, size of a head: short and long rows, odd numbers, one group, a group a
#: head, and scores that are a product for each group.
SHAPES = [
    (2, 0, (9, 3, 64)),
    (65, 232, (9, 3, 64)),
    (20, 0, (4, 1, 14)),
    (7, 83, (4, 4, 32)),
    (200, 200, (8, 2, 16)),
]


@pytest.fixture(autouse=True)
def _by_products(monkeypatch):
    monkeypatch.setattr(attention, "_can_multiply_bfloat16", lambda: True)


@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize(("count", "begin", "shape"), SHAPES)
def test_products_are_attention(count, begin, shape, branches, scaling):
    part = Part(count, begin, branches=branches)
    ((found, exact),) = attend([part], torch.bfloat16, shape, scaling=scaling)
    difference = (found.double() - exact).abs()
    assert difference.max() < 0.06 and difference.mean() < 0.003


@pytest.mark.parametrize(("count", "begin", "shape"), SHAPES)
def test_the_place_of_the_numbers_changes_no_bit(count, begin, shape):
    """Among more and fewer tokens of others, in passes of several lengths, with keys of its own and of a prefix."""
    expected = attend([Part(count, begin)], torch.bfloat16, shape)[0][0]
    for before, after in ((1, 3), (50, 100), (7, 1)):
        for keeps in (False, True):
            parts = [Part(before), Part(count, begin, keeps=keeps), Part(3), Part(after)]
            assert torch.equal(attend(parts, torch.bfloat16, shape)[1][0], expected)


@pytest.mark.parametrize(("dtype", "near"), [(torch.bfloat16, 0.06), (torch.float32, 1e-5)])
def test_pieces_behind_one_prefix_attend_to_none_of_each_other(dtype, near):
    """In a pass of shorter and longer ones, of which many take the place of another that was there before."""
    counts = (33, 5, 64, 20, 1, 7, 31, 8)
    parts = [Part(count, 45, branches=at % 2 == 0) for at, count in enumerate(counts)]
    for found, exact in attend(parts, dtype, shared=True):
        assert (found.double() - exact).abs().max() < near


def test_groups_share_a_product_and_have_the_bits_of_their_own(monkeypatch):
    query = torch.randn(1, 9, 120, 64).bfloat16()
    keys, values = torch.randn(2, 3, 640, 64).bfloat16()
    added = torch.zeros(120, 640, dtype=query.dtype).repeat(3, 1)
    shapes = []

    def place(groups, scores):
        shapes.append((groups, *scores.shape))
        return scores.new_empty(groups, *scores.shape)

    together = attention._products(query, keys, values, added, None, place)
    assert shapes == [(3, 360, 640)]
    monkeypatch.setattr(attention, "LARGE", added.numel())
    assert torch.equal(attention._products(query, keys, values, added, None, place), together)
    assert shapes[1:] == 3 * [(1, 360, 640)]


def test_a_piece_that_is_no_product_is_kept_before_a_later_one(monkeypatch):
    query = torch.randn(1, 4, 40, 16).bfloat16()
    keys, values = torch.randn(2, 1, 2, 40, 16).bfloat16()
    # the first 30 tokens are more, the last 10 are fewer
    monkeypatch.setattr(attention, "LARGE", 2 * 20 * 40)
    own = KeyValues(Memory(10**9, 1), 40)
    row = [
        Piece([1] * 30, range(30), 0, None, own, ()),
        Piece([1] * 10, range(30, 40), 30, None, own, range(30)),
    ]
    with attention.reading(row):
        found, _ = attention.attend(SimpleNamespace(layer_idx=0), query, keys, values, None)
    exact = attention._attention(query.double(), keys.double(), values.double(), None, None, None)
    assert (found.transpose(1, 2).double() - exact).abs().max() < 0.06
