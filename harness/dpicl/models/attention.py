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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import torch
from torch.nn.functional import pad, scaled_dot_product_attention
from transformers.modeling_utils import AttentionInterface

from dpicl.models.pieces import JoinedKeys, Piece, causal
from dpicl.models.weights import preferred_dtype, reason

if TYPE_CHECKING:
    from dpicl.models.gpu_attention import KernelPlan

#: What transformers calls this way to attend.
NAME = "dpicl_packed_rows"
#: So many scores of a row are one product for all groups of heads, and one for each group where that has no more:
#: larger results cost more memory than time is saved.
LARGE = 2**23
#: Numbers of keys are filled up to a multiple of this, by keys that nobody sees: softmax is slow on what is left over.
STEP = 32

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Pass:
    """places: (begin, end, piece). plans: (window, heads, groups, whether scores are capped) -> how kernels compute
    such layers. masks: (piece, window, heads of a group) -> what is added to scores, the same in all layers. scores:
    one tensor, the memory of all scores: where each product gets its own, a third of the time goes into new pages.
    """

    places: Sequence[tuple[int, int, Piece]]
    plans: dict[tuple[int | None, int, int, bool], KernelPlan] = field(default_factory=dict)
    masks: dict[tuple[int, int | None, int], torch.Tensor] = field(default_factory=dict)
    scores: list[torch.Tensor] = field(default_factory=list)

    def added(
        self,
        piece: Piece,
        window: int | None,
        share: int,
        query: torch.Tensor,
    ) -> torch.Tensor:
        """[share * n, m]: zeros, and -infinity for what a token does not see; m is filled up to a multiple of STEP."""
        key = (id(piece), window, share)
        if key not in self.masks:
            mask, width = piece.mask(window, query.device)
            visible = causal(len(piece.tokens), width, query.device) if mask is None else mask
            added = torch.zeros(visible.shape, dtype=query.dtype).masked_fill_(~visible, -torch.inf)
            self.masks[key] = pad(added, (0, -width % STEP), value=-torch.inf).repeat(share, 1)
        return self.masks[key]

    def place_scores(self, groups: int, added: torch.Tensor) -> torch.Tensor:
        """[groups, n, m] for scores to which [n, m] is added; the next call takes the same memory."""
        size = groups * added.numel()
        if not self.scores or len(self.scores[0]) < size:
            self.scores[:] = [added.new_empty(size)]
        return self.scores[0][:size].view(groups, *added.shape)


_PASS: ContextVar[_Pass] = ContextVar("pass")


@contextmanager
def reading(pieces: Sequence[Piece]) -> Iterator[None]:
    """Inside this block the model reads these pieces, one after the other, and then padding."""
    ends = [*accumulate(len(piece.tokens) for piece in pieces)]
    token = _PASS.set(_Pass([*zip((0, *ends), ends, pieces, strict=False)]))
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
    others, plan = now.places, None
    if (plan_of := _plan_of(query.device.type)) is not None:
        alike = (sliding_window, query.shape[1], key.shape[1], softcap is not None)
        if alike not in now.plans:
            now.plans[alike] = plan_of(
                now.places,
                query,
                key.shape[1],
                sliding_window,
                softcap is not None,
            )
        plan = now.plans[alike]
        others = plan.others
    for begin, end, piece in others:  # before kernels compute what may see them
        piece.keep(
            layer,
            key[:, :, begin:end],
            value[:, :, begin:end],
        )
    if plan is not None:
        result = plan.multiply(layer, query, key, value, scaling)
    else:
        result = value.new_zeros(
            1,
            query.shape[2],
            query.shape[1],
            value.shape[3],
        )
    joined = JoinedKeys(layer, STEP)
    for begin, end, piece in others:
        mine = query[:, :, begin:end]
        new = (key[:, :, begin:end], value[:, :, begin:end])
        mask, width = piece.mask(sliding_window, key.device)
        if softcap is None and _is_by_products(query, key.shape[1], end - begin, width):
            added = now.added(
                piece,
                sliding_window,
                query.shape[1] // key.shape[1],
                query,
            )
            row = _products(
                mine,
                *joined.fill_up(piece, *new, width),
                added,
                scaling,
                now.place_scores,
            )
        else:
            keys, values = joined.join(piece, *new)
            row = _attention(
                mine,
                keys[:, :, -width:],
                values[:, :, -width:],
                mask,
                scaling,
                softcap,
            )
        result[:, begin:end] = row.transpose(1, 2)
    return result, None


@cache
def _plan_of(device: str) -> type[KernelPlan] | None:
    """How kernels attend: on a GPU, where its torch has brought Triton and there is a C compiler."""
    plan: type[KernelPlan] | None = (
        getattr(kernels(), "KernelPlan", None) if device == "cuda" else None
    )
    return plan


@cache
def kernels() -> ModuleType | None:
    """The kernels for a GPU; None, with a warning, where Triton cannot make them."""
    try:
        module = importlib.import_module("dpicl.models.gpu_attention")
        module.triton.runtime.driver.active.get_current_device()
    except Exception as error:  # of an import, or of a compiler that it starts
        _log.warning(
            "Rows attend one by one on the GPU, which is slow: Triton cannot be used (%s).",
            reason(error),
        )
        return None
    return module


@cache
def _can_multiply_bfloat16() -> bool:
    return preferred_dtype("cpu") == torch.bfloat16


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
        return _attend_capped(
            query,
            keys,
            values,
            causal(count, length, query.device) if mask is None else mask,
            scaling,
            softcap,
        )
    if count == 1:
        folded = query.reshape(1, groups, heads // groups, -1)
        if heads == groups:
            folded = folded.expand(-1, -1, 2, -1)
        visible = None if mask is None or bool(mask.all()) else mask
        out = scaled_dot_product_attention(folded, keys, values, attn_mask=visible, scale=scaling)
        return out[:, :, : heads // groups].reshape(1, heads, 1, -1)
    # other devices have fast kernels for equal numbers of heads only
    if keys.device.type != "cpu" and heads > groups:
        keys, values = (each.repeat_interleave(heads // groups, dim=1) for each in (keys, values))
    plain = mask is None and count == length
    if mask is None and not plain:
        mask = causal(count, length, query.device)
    return scaled_dot_product_attention(
        query,
        keys,
        values,
        attn_mask=mask,
        is_causal=plain,
        scale=scaling,
        enable_gqa=keys.shape[1] < heads,
    )


def _is_by_products(query: torch.Tensor, groups: int, count: int, width: int) -> bool:
    """Whether the attention of a piece of n tokens that see m is by products: by what all rows share, n and m alone."""
    if query.device.type != "cpu" or query.dtype != torch.bfloat16 or not _can_multiply_bfloat16():
        return False
    return count > 1 and query.shape[1] // groups * count * width <= LARGE


def _products(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    added: torch.Tensor,
    scaling: float | None,
    place_scores: Callable[[int, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """[1, heads, n, d] by products, in which a line is a token in one of the heads of a group.

    keys, values: [groups, m, d]. added: [heads / groups * n, m]. All factors are copies, so that their strides depend
    on the model, n and m alone.
    """
    scale = query.shape[3] ** -0.5 if scaling is None else scaling
    groups = len(keys)
    lines = query.reshape(groups, len(added), -1)
    step = groups if groups * added.numel() <= LARGE else 1
    parts = []
    for first in range(0, groups, step):
        part = slice(first, first + step)
        scores = place_scores(step, added)
        torch.baddbmm(
            added,
            lines[part],
            keys[part].mT,
            alpha=scale,
            out=scores,
        )
        torch.softmax(scores, dim=-1, out=scores)
        parts.append(torch.bmm(scores, values[part]))
    result = parts[0] if step == groups else torch.cat(parts)
    return result.view(1, *query.shape[1:3], -1)


def _attend_capped(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor,
    scaling: float | None,
    softcap: float,
) -> torch.Tensor:
    """Attention whose scores are softcap * tanh(score / softcap) (Gemma 2), in float32."""
    keys, values = (
        each.repeat_interleave(query.shape[1] // each.shape[1], dim=1) for each in (keys, values)
    )
    scores = query.float() @ keys.float().transpose(2, 3) * (scaling or query.shape[-1] ** -0.5)
    scores = torch.tanh(scores / softcap) * softcap
    weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
    return (weights @ values.float()).to(query.dtype)


AttentionInterface.register(NAME, attend)
