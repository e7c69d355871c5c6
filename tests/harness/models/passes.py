"""A pass of pieces with random queries, keys and values: what attention gives, and exact softmax attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import torch

from dpicl.models import attention
from dpicl.models.pieces import KeyValues, Memory, Piece, causal


@dataclass(frozen=True)
class Part:
    """So many tokens of a row, after ``begin`` of it. keeps: their keys and values are kept. branches: each token sees
    half of what comes before it, and itself."""

    count: int
    begin: int = 0
    keeps: bool = False
    branches: bool = False

    @property
    def end(self) -> int:
        return self.begin + self.count

    def seen(self) -> torch.Tensor:
        """bool[n, m]"""
        everything = causal(self.count, self.end, torch.device("cpu"))
        if not self.branches:
            return everything
        half = torch.rand(everything.shape, generator=torch.Generator().manual_seed(1)) < 0.5
        half[torch.arange(self.count), torch.arange(self.begin, self.end)] = True
        return half & everything


def attend(
    parts: Sequence[Part],
    dtype: torch.dtype,
    shape: tuple[int, int, int] = (6, 2, 16),
    device: str = "cpu",
    shared: bool = False,
    scaling: float | None = None,
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """For each part: what attention gives, [n, heads, d], and softmax attention in float64.

    A part has the same numbers in any pass. shape: heads, groups, size of a head. shared: all begin with one prefix.
    """
    heads, groups, size = shape
    memory, pieces, columns, exact = Memory(10**9, 1), [], [], []
    pasts: dict[int, KeyValues] = {}
    for number, part in enumerate(parts):
        begin, end = part.begin, part.end
        prefix = torch.Generator().manual_seed(begin)
        own = torch.Generator().manual_seed(1000 + end)
        before = torch.randn(2, 1, groups, begin, size, generator=prefix)
        new = torch.randn(2, 1, groups, part.count, size, generator=own)
        query = torch.randn(1, heads, part.count, size, generator=own).to(device, dtype)
        key, value = torch.cat([before, new], dim=3).to(device, dtype)
        past = pasts.setdefault(0 if shared else number, KeyValues(memory, begin + 7))
        past.put(0, 0, key[:, :, :begin], value[:, :, :begin])
        seen, kept = part.seen(), KeyValues(memory, end) if part.keeps else None
        mask = seen if part.branches else None
        tokens, places = [1] * part.count, range(begin, end)
        pieces.append(Piece(tokens, places, begin, past, kept, range(begin), mask))
        columns.append((query, key[:, :, begin:], value[:, :, begin:]))
        keys, values = (
            each.double().repeat_interleave(heads // groups, 1) for each in (key, value)
        )
        whole = torch.nn.functional.scaled_dot_product_attention(
            query.double(), keys, values, attn_mask=seen.to(device), scale=scaling
        )
        exact.append(whole[0].transpose(0, 1))
    query, key, value = (
        torch.nn.functional.pad(torch.cat(column, dim=2), (0, 0, 0, 5))
        for column in zip(*columns, strict=True)
    )
    with attention.reading(pieces):
        found, _ = attention.attend(SimpleNamespace(layer_idx=0), query, key, value, None, scaling)
    assert not found[0, -5:].any()
    rows = found[0, :-5].split([part.count for part in parts])
    return list(zip(rows, exact, strict=True))
