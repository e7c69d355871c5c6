"""Attention for rows of different lengths that are packed into one pass, each computed exactly as if it were alone.

transformers hands every layer's queries, keys and values to the function that is registered here. It cuts them into
the pieces of the pass, and computes each piece by itself, in the shapes that its own row has: nothing is padded, so the
bits of a row cannot depend on what stands beside it.

In bfloat16 on a CPU that multiplies it fast, scores are products of oneDNN, and rounded to bfloat16 as transformers'
own eager attention does: torch's flash kernel takes two to three times as long there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol, cast

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import AttentionInterface

from dpicl.harness.models.weights import preferred_dtype

#: What transformers calls this way to attend.
NAME = "dpicl_packed_rows"
#: So many scores of a row are one product for all groups of heads, and up to the second number one for each group:
#: larger results cost more memory than time is saved.
SMALL, LARGE = 2**19, 2**23


class Packed(Protocol):
    """Consecutive tokens of one row (dpicl.harness.models.reading)."""

    tokens: Sequence[int]

    def seen(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values of all that the piece may see, from its own."""

    def mask(self, window: int | None, device: torch.device) -> tuple[torch.Tensor | None, int]:
        """What each token sees of the last keys, None for all that come before it; and how many keys those are."""


@dataclass(frozen=True)
class _Pass:
    """pieces: what is read. added: (piece, window, heads of a group) -> what scores get in such layers."""

    pieces: Sequence[Packed]
    added: dict[tuple[int, int | None, int], torch.Tensor] = field(default_factory=dict)


_PASS: ContextVar[_Pass] = ContextVar("pass")


@contextmanager
def reading(pieces: Sequence[Packed]) -> Iterator[None]:
    """Inside this block the model reads these pieces, one after the other, and then padding."""
    token = _PASS.set(_Pass(pieces))
    try:
        yield
    finally:
        _PASS.reset(token)


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
    end, layer, now = 0, int(cast("int", module.layer_idx)), _PASS.get()
    for at, piece in enumerate(now.pieces):
        begin, end = end, end + len(piece.tokens)
        keys, values = piece.seen(layer, key[:, :, begin:end], value[:, :, begin:end])
        mask, width = piece.mask(sliding_window, key.device)
        if width < keys.shape[2]:
            keys, values = keys[:, :, -width:], values[:, :, -width:]
        own = query[:, :, begin:end]
        if softcap is None and _by_products(own, keys):
            alike = (at, sliding_window, own.shape[1] // keys.shape[1])
            if alike not in now.added:
                now.added[alike] = _added(own, keys, mask)
            row = _products(own, keys, values, now.added[alike], scaling)
        else:
            row = _attention(own, keys, values, mask, scaling, softcap)
        result[:, begin:end] = row.transpose(1, 2)
    return result, None


@cache
def _multiplies_bfloat16() -> bool:
    return preferred_dtype("cpu") == torch.bfloat16


def _by_products(query: torch.Tensor, keys: torch.Tensor) -> bool:
    """Whether the attention of a piece is `_products`: by what all rows share and its own numbers of tokens."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or not _multiplies_bfloat16():
        return False
    (heads, count), (groups, length) = query.shape[1:3], keys.shape[1:3]
    return count > 1 and heads // groups * count * length <= LARGE


def _added(query: torch.Tensor, keys: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """What the scores of a group get, [heads of a group * n, m]: 0 where a token sees a key, -infinity elsewhere."""
    if mask is None:
        mask = causal(query.shape[2], keys.shape[2], query.device)
    hidden = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
    return hidden.repeat(query.shape[1] // keys.shape[1], 1)


def _products(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, added: torch.Tensor, scaling: float | None
) -> torch.Tensor:
    """[1, heads, n, d] of n tokens that see m: the heads of a group are the rows of one product.

    The strides of the factors depend on the model, n and m alone. Where their first number lies may depend on the pass;
    that it changes no bit is tested, and measured on each machine (dpicl.harness.models.readers).
    """
    heads, count, size = query.shape[1:]
    groups, length = keys.shape[1:3]
    rows, keys, values = query.reshape(groups, -1, size), keys[0].contiguous(), values[0].contiguous()
    scale, result = size**-0.5 if scaling is None else scaling, rows.new_empty(*rows.shape[:2], values.shape[2])
    step = groups if heads * count * length <= SMALL else 1
    for begin in range(0, groups, step):
        part = slice(begin, begin + step)
        scores = torch.baddbmm(added, rows[part], keys[part].transpose(1, 2), alpha=scale)
        torch.bmm(scores.softmax(dim=-1), values[part], out=result[part])
    return result.view(1, heads, count, -1)


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
