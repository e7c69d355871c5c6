"""Attention for rows of different lengths that are packed into one pass, each computed exactly as if it were alone.

transformers hands every layer's queries, keys and values to the function that is registered here. It cuts them into
the pieces of the pass, and computes each piece by itself, in the shapes that its own row has: nothing is padded, so the
bits of a row cannot depend on what stands beside it. On a GPU kernels of our own do the same for all pieces at once.

In bfloat16 on a CPU that multiplies it fast, scores are products of oneDNN, and rounded to bfloat16 as transformers'
own eager attention does: torch's flash kernel takes two to three times as long there.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers.modeling_utils import AttentionInterface

from dpicl.models.pieces import KeyValues, Piece, causal
from dpicl.models.weights import preferred_dtype, reason

if TYPE_CHECKING:
    from dpicl.models.gpu_attention import KernelPlan

#: What transformers calls this way to attend.
NAME = "dpicl_packed_rows"
_KERNELS = "dpicl.models.gpu_attention"
#: So many scores of a row are one product for all groups of heads, and up to the second number one for each group:
#: larger results cost more memory than time is saved.
SMALL, LARGE = 2**19, 2**23
#: Numbers of keys are filled up to a multiple of this, by keys that nobody sees: softmax is slow on what is left over.
STEP = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pass:
    """pieces: what is read. plans: (window, heads, groups, whether scores are capped) -> the plan of such layers."""

    pieces: Sequence[Piece]
    plans: dict[tuple[int | None, int, int, bool], _Plan | KernelPlan] = field(default_factory=dict)


_PASS: ContextVar[_Pass] = ContextVar("pass")


@contextmanager
def reading(pieces: Sequence[Piece]) -> Iterator[None]:
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
    layer, now = int(cast("int", module.layer_idx)), _PASS.get()
    alike = (sliding_window, query.shape[1], key.shape[1], softcap is not None)
    if alike not in now.plans:
        plan_of = _plan_of(query.device.type)
        now.plans[alike] = plan_of(now.pieces, query, key.shape[1], sliding_window, softcap is not None)
    plan = now.plans[alike]
    for begin, end, piece in plan.kept:
        piece.keep(layer, key[:, :, begin:end], value[:, :, begin:end])
    result = plan.multiply(layer, query, key, value, scaling)
    for begin, end, piece in plan.others:
        keys, values = piece.seen(layer, key[:, :, begin:end], value[:, :, begin:end])
        mask, width = piece.mask(sliding_window, key.device)
        if width < keys.shape[2]:
            keys, values = keys[:, :, -width:], values[:, :, -width:]
        row = _attention(query[:, :, begin:end], keys, values, mask, scaling, softcap)
        result[:, begin:end] = row.transpose(1, 2)
    return result, None


@cache
def _plan_of(device: str) -> type[_Plan | KernelPlan]:
    """How pieces attend: on a GPU by kernels, where its torch has brought Triton and there is a C compiler."""
    return _Plan if device != "cuda" or kernels() is None else importlib.import_module(_KERNELS).KernelPlan


@cache
def kernels() -> str | None:
    """The version of the kernels for a GPU; None, with a warning, where Triton cannot make them."""
    try:
        found = importlib.import_module(_KERNELS)
        found.triton.runtime.driver.active.get_current_device()
    except Exception as error:  # of an import, or of a compiler that it starts
        _log.warning("Rows attend one by one on the GPU, which is slow: Triton cannot be used (%s).", reason(error))
        return None
    return str(found.VERSION)


@cache
def _multiplies_bfloat16() -> bool:
    return preferred_dtype("cpu") == torch.bfloat16


def _by_products(query: torch.Tensor, groups: int, count: int, width: int) -> bool:
    """Whether the attention of a piece of n tokens that see m is by products: by what all rows share, n and m alone."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or not _multiplies_bfloat16():
        return False
    return count > 1 and query.shape[1] // groups * count * width <= LARGE


@dataclass(frozen=True)
class _Product:
    """A piece whose attention is by products. asked, seen: the first line of its queries, and of its keys. added: what
    the scores of a group get, [heads of a group * n, m]: 0 where a token sees a key, else -infinity."""

    asked: int
    seen: int
    added: torch.Tensor


class _Plan:
    """How the pieces of a pass attend in layers that are alike: found in the first of them.

    Queries, keys and values of a layer are gathered once, so that those of each piece stand together, head by head:
    the strides of a product's factors depend on the model, n and m alone. Where their first number lies may depend on
    the pass; that it changes no bit is tested, and measured on each machine (dpicl.models.readers).

    kept: (begin, end, piece) of those whose keys and values are kept. others: of those whose attention is not by
    products.
    """

    def __init__(
        self, pieces: Sequence[Piece], query: torch.Tensor, groups: int, window: int | None, capped: bool
    ) -> None:
        (self._heads, self._tokens), self._groups = query.shape[1:3], groups
        self.others: list[tuple[int, int, Piece]] = []
        self.kept: list[tuple[int, int, Piece]] = []
        self._products: list[_Product] = []
        lengths, chosen, end = dict[KeyValues, int](), list[tuple[int, Piece]](), 0
        for piece in pieces:
            begin, end = end, end + len(piece.tokens)
            if piece.own is not None:
                self.kept.append((begin, end, piece))
            width = piece.mask(window, query.device)[1]
            if capped or not _by_products(query, groups, end - begin, width):
                self.others.append((begin, end, piece))
                continue
            chosen.append((begin, piece))
            if (store := piece.own or piece.past) is not None:
                lengths[store] = max(lengths.get(store, 0), piece.begin if piece.own is None else piece.end)
        self._stores = list(lengths.items())
        places = dict(zip(lengths, accumulate(lengths.values(), initial=self._tokens), strict=False))
        asked, seen = [torch.empty(0, dtype=torch.long)], [torch.empty(0, dtype=torch.long)]
        for begin, piece in chosen:
            new = torch.arange(begin, begin + len(piece.tokens))
            store = piece.own or piece.past
            keys = torch.arange(piece.end) + (places[store] if store is not None else 0)
            if piece.own is None:
                keys[piece.begin :] = new
            mask, width = piece.mask(window, query.device)
            keys, fill = keys[-width:], -width % STEP
            hidden = ~(causal(len(new), width, query.device) if mask is None else mask)
            added = torch.zeros(hidden.shape, dtype=query.dtype).masked_fill_(hidden, -torch.inf)
            added = torch.nn.functional.pad(added, (0, fill), value=-torch.inf).repeat(self._heads // groups, 1)
            self._products.append(_Product(sum(map(len, asked)), sum(map(len, seen)), added))
            asked.append(_lines(new, self._heads))
            seen.append(_lines(torch.cat([keys, keys[:1].expand(fill)]), groups))
        self._asked, self._seen = torch.cat(asked), torch.cat(seen)
        # Where the result of each token and head is found; that of padding and others stands behind all of them.
        self._back = torch.full((self._tokens * self._heads,), len(self._asked))
        self._back[self._asked] = torch.arange(len(self._asked))

    def multiply(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """[1, T, heads, d]: the attention of the pieces that are products, zeros elsewhere; see `attend`."""
        size, wide, groups = query.shape[3], value.shape[3], self._groups
        if not self._products:
            return value.new_zeros(1, self._tokens, self._heads, wide)
        before = [store.upto(layer, length) for store, length in self._stores]
        asked = _rows(query).index_select(0, self._asked)
        keys = _rows(key, [each[0] for each in before]).index_select(0, self._seen)
        values = _rows(value, [each[1] for each in before]).index_select(0, self._seen)
        found, scale = value.new_empty(len(asked) + 1, wide), size**-0.5 if scaling is None else scaling
        found[-1] = 0
        for each in self._products:
            lines, width = each.added.shape
            step = groups if groups * lines * width <= SMALL else 1
            for group in range(0, groups, step):
                first, begin = each.asked + group * lines, each.seen + group * width
                mine = asked.as_strided((step, lines, size), (lines * size, size, 1), first * size)
                theirs = keys.as_strided((step, size, width), (width * size, 1, size), begin * size)
                worth = values.as_strided((step, width, wide), (width * wide, wide, 1), begin * wide)
                result = found.as_strided((step, lines, wide), (lines * wide, wide, 1), first * wide)
                scores = torch.baddbmm(each.added, mine, theirs, alpha=scale)
                torch.bmm(scores.softmax(dim=-1), worth, out=result)
        return found.index_select(0, self._back).view(1, self._tokens, self._heads, wide)


def _lines(tokens: torch.Tensor, heads: int) -> torch.Tensor:
    """Numbers of the lines of these tokens, head by head, where a token has a line for each head."""
    return (tokens * heads + torch.arange(heads)[:, None]).flatten()


def _rows(tensor: torch.Tensor, before: Sequence[torch.Tensor] = ()) -> torch.Tensor:
    """[T * heads, d] of [1, heads, T, d]: token by token, and those of others behind them."""
    lines = torch.cat([each.transpose(1, 2) for each in (tensor, *before)], dim=1) if before else tensor.transpose(1, 2)
    return lines.reshape(-1, tensor.shape[3])


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


AttentionInterface.register(NAME, attend)
