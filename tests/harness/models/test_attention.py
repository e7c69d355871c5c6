"""Attention as products in bfloat16: right, and the same to the last bit wherever the numbers lie in memory."""

from __future__ import annotations

import pytest
import torch

from dpicl.harness.models import attention

#: Tokens, keys, heads, groups, size of a head: short and long rows, odd numbers, one group, a group a head, and scores
#: that are a product for each group.
SHAPES = [(2, 2, 9, 3, 64), (65, 297, 9, 3, 64), (20, 20, 4, 1, 14), (7, 90, 4, 4, 32), (200, 400, 8, 2, 16)]


def made(count: int, length: int, heads: int, groups: int, size: int) -> list[torch.Tensor]:
    """Queries, keys and values of one piece."""
    random = torch.Generator().manual_seed(count)
    shapes = [(1, heads, count, size), (1, groups, length, size), (1, groups, length, size)]
    return [torch.randn(shape, generator=random).bfloat16() for shape in shapes]


def branching(count: int, length: int) -> torch.Tensor:
    """bool[n, m]: each token sees half of what comes before it, and itself."""
    seen = torch.rand(count, length, generator=torch.Generator().manual_seed(1)) < 0.5
    own = torch.arange(length - count, length)
    seen[torch.arange(count), own] = True
    return seen & attention.causal(count, length, torch.device("cpu"))


def products(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None, scaling: float | None
) -> torch.Tensor:
    return attention._products(query, keys, values, attention._added(query, keys, mask), scaling)


@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("branches", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_attention(shape: tuple[int, ...], branches: bool, scaling: float | None) -> None:
    query, keys, values = made(*shape)
    mask = branching(*shape[:2]) if branches else None
    exact = attention._attention(query.double(), keys.double(), values.double(), mask, scaling, None)
    difference = (products(query, keys, values, mask, scaling).double() - exact).abs()
    assert difference.max() < 0.06 and difference.mean() < 0.003


@pytest.mark.parametrize("shape", SHAPES)
def test_the_place_of_the_numbers_changes_no_bit(shape: tuple[int, ...]) -> None:
    """Keys in a larger place, queries among those of others, heads as neighbours in memory."""
    query, keys, values = made(*shape)
    expected = products(query, keys, values, None, None)
    for around in (1, 3, 50):
        wide = [torch.nn.functional.pad(each, (0, 0, around, 2 * around), value=7.0) for each in (query, keys, values)]
        among = [each.narrow(2, around, each.shape[2] - 3 * around) for each in wide]
        turned = [each.transpose(1, 2).contiguous().transpose(1, 2) for each in among]
        for moved in (among, turned):
            assert torch.equal(products(*moved, None, None), expected)


def test_only_rows_in_bfloat16_on_a_fast_processor_are_products(monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, _ = made(65, 297, 9, 3, 64)
    monkeypatch.setattr(attention, "_multiplies_bfloat16", lambda: True)
    assert attention._by_products(query, keys)
    assert not attention._by_products(query.float(), keys.float())
    assert not attention._by_products(query[:, :, :1], keys)
    assert not attention._by_products(query.expand(1, 9, 65, 64), keys.new_empty(1, 3, 50_000, 64))
    monkeypatch.setattr(attention, "_multiplies_bfloat16", lambda: False)
    assert not attention._by_products(query, keys)
