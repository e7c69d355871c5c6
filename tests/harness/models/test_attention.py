"""Attention as products in bfloat16: right, and the same to the last bit wherever the numbers lie in memory."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch

from dpicl.models import attention
from dpicl.models.pieces import KeyValues, Memory, Piece, causal

#: Tokens, keys, heads, groups, size of a head: short and long rows, odd numbers, one group, a group a head, and scores
#: that are a product for each group.
SHAPES = [
    (2, 2, 9, 3, 64),
    (65, 297, 9, 3, 64),
    (20, 20, 4, 1, 14),
    (7, 90, 4, 4, 32),
    (200, 400, 8, 2, 16),
]


def make_piece(count: int, length: int, heads: int, groups: int, size: int) -> list[torch.Tensor]:
    """Queries, keys and values of one piece."""
    random = torch.Generator().manual_seed(count)
    shapes = [(1, heads, count, size), (1, groups, length, size), (1, groups, length, size)]
    return [torch.randn(shape, generator=random).bfloat16() for shape in shapes]


def branching(count: int, length: int) -> torch.Tensor:
    """bool[n, m]: each token sees half of what comes before it, and itself."""
    seen = torch.rand(count, length, generator=torch.Generator().manual_seed(1)) < 0.5
    own = torch.arange(length - count, length)
    seen[torch.arange(count), own] = True
    return seen & causal(count, length, torch.device("cpu"))


def attend(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None = None,
    scaling: float | None = None,
    others: tuple[int, int] = (0, 0),
    keeps: bool = False,
) -> torch.Tensor:
    """[1, n, heads, d] of the last n of m tokens in a pass that begins and ends with so many tokens of other rows.

    keeps: the row's keys and values are kept, else its first ones are those of a prefix.
    """
    memory, begin, count = Memory(10**9, 1), keys.shape[2] - query.shape[2], query.shape[2]
    past = KeyValues(memory, keys.shape[2] + others[0])
    past.put(0, 0, keys[:, :, :begin], values[:, :, :begin])
    own, before, after = KeyValues(memory, keys.shape[2]) if keeps else None, *others
    row = Piece([1] * count, range(begin, begin + count), begin, past, own, range(begin), mask)
    pieces = [
        Piece([1] * size, range(size), 0, None, None, ()) for size in (before, 3, after) if size
    ]
    pieces.insert(1 if before else 0, row)
    around = (0, 0, before, after + 5)
    padded = [
        torch.nn.functional.pad(each[:, :, -count:], around, value=7.0)
        for each in (query, keys, values)
    ]
    new_query, new_keys, new_values = padded
    with attention.reading(pieces):
        found, _ = attention.attend(
            SimpleNamespace(layer_idx=0), new_query, new_keys, new_values, None, scaling
        )
    return found[:, before : before + count]


@pytest.fixture(autouse=True)
def _by_products(monkeypatch):
    monkeypatch.setattr(attention, "_can_multiply_bfloat16", lambda: True)


@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_attention(shape, branches, scaling):
    query, keys, values = make_piece(*shape)
    mask = branching(*shape[:2]) if branches else None
    exact = attention._attention(
        query.double(), keys.double(), values.double(), mask, scaling, None
    )
    found = attend(query, keys, values, mask, scaling).transpose(1, 2)
    difference = (found.double() - exact).abs()
    assert difference.max() < 0.06 and difference.mean() < 0.003


@pytest.mark.parametrize("shape", SHAPES)
def test_the_place_of_the_numbers_changes_no_bit(shape):
    """Among more and fewer tokens of others, in passes of several lengths, with keys of its own and of a prefix."""
    query, keys, values = make_piece(*shape)
    expected = attend(query, keys, values)
    for others in ((0, 0), (1, 3), (50, 100), (7, 0)):
        for keeps in (False, True):
            assert torch.equal(attend(query, keys, values, others=others, keeps=keeps), expected)


def read_behind(
    begin: int, counts: Sequence[int], dtype: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Pieces of so many tokens behind one prefix, every second one branching, read together: [1, n, heads, d] of each,
    and what it is exactly."""
    heads, groups, size, total = 6, 2, 16, sum(counts)
    random = torch.Generator().manual_seed(0)
    past = KeyValues(Memory(10**9, 1), begin)
    before = [torch.randn(1, groups, begin, size, generator=random).to(dtype) for _ in range(2)]
    past.put(0, 0, *before)
    shapes = [(1, each, total, size) for each in (heads, groups, groups)]
    query, keys, values = (torch.randn(shape, generator=random).to(dtype) for shape in shapes)
    masks: list[torch.Tensor | None] = [
        None if at % 2 else branching(n, begin + n) for at, n in enumerate(counts)
    ]
    pieces = [
        Piece([1] * count, range(begin, begin + count), begin, past, None, range(begin), mask)
        for count, mask in zip(counts, masks, strict=True)
    ]
    with attention.reading(pieces):
        together, _ = attention.attend(SimpleNamespace(layer_idx=0), query, keys, values, None)
    exact, end = [], 0
    for count, mask in zip(counts, masks, strict=True):
        begin, end = end, end + count
        row_keys = torch.cat([before[0], keys[:, :, begin:end]], dim=2).double()
        row_values = torch.cat([before[1], values[:, :, begin:end]], dim=2).double()
        row_query = query[:, :, begin:end].double()
        exact.append(
            attention._attention(row_query, row_keys, row_values, mask, None, None).transpose(1, 2)
        )
    return list(together.split(list(counts), dim=1)), exact


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_pieces_behind_one_prefix_attend_to_none_of_each_other(dtype):
    """In a pass of shorter and longer ones, of which many take the place of another that was there before."""
    counts = [33, 5, 64, 20, 1, 7, 31, 8]
    for row, expected in zip(*read_behind(45, counts, dtype), strict=True):
        assert (row.double() - expected).abs().max() < (0.06 if dtype == torch.bfloat16 else 1e-5)


def test_groups_share_a_product_and_have_the_bits_of_their_own(
    monkeypatch,
):
    query, keys, values = make_piece(120, 640, 9, 3, 64)
    added = torch.zeros(120, 640, dtype=query.dtype).repeat(3, 1)
    shapes = list[tuple[int, ...]]()

    def place(groups: int, scores: torch.Tensor) -> torch.Tensor:
        shapes.append((groups, *scores.shape))
        return scores.new_empty(groups, *scores.shape)

    together = attention._products(query, keys[0], values[0], added, None, place)
    assert shapes == [(3, 360, 640)]
    monkeypatch.setattr(attention, "LARGE", added.numel())
    assert torch.equal(attention._products(query, keys[0], values[0], added, None, place), together)
    assert shapes[1:] == 3 * [(1, 360, 640)]


def test_a_piece_that_is_no_product_is_kept_before_a_later_one(
    monkeypatch,
):
    query, keys, values = make_piece(40, 40, 4, 2, 16)
    monkeypatch.setattr(
        attention, "LARGE", 2 * 20 * 40
    )  # the first 30 tokens are more, the last 10 are fewer
    own = KeyValues(Memory(10**9, 1), 40)
    row = [
        Piece([1] * 30, range(30), 0, None, own, ()),
        Piece([1] * 10, range(30, 40), 30, None, own, range(30)),
    ]
    with attention.reading(row):
        found, _ = attention.attend(SimpleNamespace(layer_idx=0), query, keys, values, None)
    exact = attention._attention(query.double(), keys.double(), values.double(), None, None, None)
    assert (found.transpose(1, 2).double() - exact).abs().max() < 0.06
