"""Attention for rows of different lengths that are packed into one pass, each computed exactly as if it were alone.

transformers hands every layer's queries, keys and values to the function that is registered here. It cuts them into
the pieces of the pass, and computes each piece by itself, in the shapes that its own row has: nothing is padded, so the
bits of a row cannot depend on what stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Protocol, cast

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import AttentionInterface

#: What transformers calls this way to attend.
NAME = "dpicl_packed_rows"


class Packed(Protocol):
    """Consecutive tokens of one row (dpicl.harness.models.reading)."""

    tokens: Sequence[int]

    def seen(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all that the piece may see, from its own."""

    def mask(self, window: int | None, device: torch.device) -> tuple[torch.Tensor | None, int]:
        """What each token sees of the last keys, None for all that come before it; and how many keys those are."""


_PIECES: ContextVar[Sequence[Packed]] = ContextVar("pieces")


@contextmanager
def reading(pieces: Sequence[Packed]) -> Iterator[None]:
    """Inside this block the model reads these pieces, one after the other, and then padding."""
    token = _PIECES.set(pieces)
    try:
        yield
    finally:
        _PIECES.reset(token)


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """The attention of one layer over all pieces of a pass, [1, T, heads, d]; padding gets zeros.

    query: [1, heads, T, d]. key, value: [1, groups, T, d], where heads is a multiple of groups.
    """
    result = value.new_zeros(1, query.shape[2], query.shape[1], value.shape[3])
    end, layer = 0, int(cast("int", module.layer_idx))
    for piece in _PIECES.get():
        begin, end = end, end + len(piece.tokens)
        keys, values = piece.seen(layer, key[:, :, begin:end], value[:, :, begin:end])
        mask, width = piece.mask(sliding_window, key.device)
        if width < keys.shape[2]:
            keys, values = keys[:, :, -width:], values[:, :, -width:]
        row = _attention(query[:, :, begin:end], keys, values, mask, scaling, softcap)
        result[:, begin:end] = row.transpose(1, 2)
    return result, None


def _attention(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    softcap: float | None,
) -> torch.Tensor:
    """[1, heads, n, d] of n tokens that see m. mask: bool[n, m]; None: each token sees what comes before it.

    The heads of a group are the rows of one product where there is only one token. A product of one row is never
    computed: libraries do it by another path, whose rounding depends on where the numbers lie in memory.
    """
    heads, count = query.shape[1:3]
    groups, length = keys.shape[1:3]
    if softcap is not None:
        return _capped(
            query, keys, values, causal(count, length, query.device) if mask is None else mask, scaling, softcap
        )
    if count == 1:
        folded = query.reshape(1, groups, heads // groups, -1)
        if heads == groups:
            folded = folded.expand(-1, -1, 2, -1)
        seen = None if mask is None or bool(mask.all()) else mask
        out = scaled_dot_product_attention(folded, keys, values, attn_mask=seen, scale=scaling)
        return out[:, :, : heads // groups].reshape(1, heads, 1, -1)
    if keys.device.type != "cpu" and heads > groups:  # other devices have fast kernels for equal numbers of heads only
        keys, values = (each.repeat_interleave(heads // groups, dim=1) for each in (keys, values))
    plain = mask is None and count == length
    if mask is None and not plain:
        mask = causal(count, length, query.device)
    return scaled_dot_product_attention(
        query, keys, values, attn_mask=mask, is_causal=plain, scale=scaling, enable_gqa=keys.shape[1] < heads
    )


def _capped(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
    scaling: float | None,
    softcap: float,
) -> torch.Tensor:
    """Attention whose scores are softcap * tanh(score / softcap) (Gemma 2), in float32."""
    keys, values = (each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (keys, values))
    scores = query.float() @ keys.float().transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    scores = torch.tanh(scores / softcap) * softcap
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return (weights @ values.float()).to(query.dtype)


@lru_cache(maxsize=256)
def causal(count: int, length: int, device: torch.device) -> torch.Tensor:
    """bool[count, length]: the last ``count`` of ``length`` tokens see all that come before them, and themselves."""
    return torch.ones(count, length, dtype=torch.bool, device=device).tril(length - count)


AttentionInterface.register(NAME, attend)
