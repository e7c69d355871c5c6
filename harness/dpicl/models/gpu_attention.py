"""Attention of a pass on a GPU: two kernels a layer, however many rows the pass holds.

A program computes some tokens of one piece. It reads the keys of the piece's own row alone, in their order, in blocks
that begin with the row's first key, so the bits of a row depend on nothing else; each machine measures whether that
holds (`dpicl.models.readers`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl

from dpicl.models.pieces import Piece

#: What the kernels round may have changed with it.
VERSION = f"1, Triton {triton.__version__}"
#: Lines (a token in one of the heads of a group) of a program, and how many keys it reads at once.
LINES, KEYS = 16, 32


class KernelPlan:
    """How the pieces of a pass attend in layers that are alike.

    places: (begin, end, piece). others: those whose scores are capped, or that do not see all of their row: they are
    not computed here.
    """

    def __init__(
        self,
        places: Sequence[tuple[int, int, Piece]],
        query: torch.Tensor,
        groups: int,
        window: int | None,
        capped: bool,
    ) -> None:
        (self._heads, self._tokens), self._groups = query.shape[1:3], groups
        self.others: list[tuple[int, int, Piece]] = []
        self._pieces: list[Piece] = []
        rows = list[Sequence[int]]()
        blocks = list[Sequence[int]]()
        placed = list[Sequence[int]]()
        for begin, end, piece in places:
            mask, width = piece.mask(window, query.device)
            if capped or width < piece.end:
                self.others.append((begin, end, piece))
                continue
            number, count = len(rows), len(piece.tokens)
            stored = piece.begin if piece.store is None else piece.end
            rows.append((begin, count, stored, piece.end, 0 if mask is None else mask.data_ptr()))
            blocks += [
                (number, first) for first in range(0, count * (self._heads // groups), LINES)
            ]
            if piece.store is not None:
                placed += [(number, first) for first in range(0, count, LINES)]
            self._pieces.append(piece)
        self._counts = len(blocks), len(placed)
        self._rows, self._asked, self._placed = (
            _table(each, query.device) for each in (rows, blocks, placed)
        )

    def multiply(
        self,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        scaling: float | None,
    ) -> torch.Tensor:
        """[1, T, heads, d]: the attention of the pieces, zeros elsewhere; see `attention.attend`."""
        result = value.new_zeros(1, self._tokens, self._heads, value.shape[3])
        if not self._pieces:
            return result
        query, key, value = (
            each if each.stride(3) == 1 else each.contiguous() for each in (query, key, value)
        )
        for piece in self._pieces:
            # all of them before an address is taken, since a place may move
            piece.reserve(layer, key, value)
        stores = _table([_addresses(piece, layer) for piece in self._pieces], query.device)
        new = (
            key,
            value,
            key.stride(1),
            key.stride(2),
            value.stride(1),
            value.stride(2),
            self._rows,
            stores,
        )
        sizes: dict[str, Any] = {"SIZE": query.shape[3], "WIDE": value.shape[3]}
        sizes |= {f"{name}_": max(16, triton.next_power_of_2(size)) for name, size in sizes.items()}
        asks = (self._asked, query, query.stride(1), query.stride(2), result)
        blocks = {
            "HEADS": self._heads,
            "SHARE": self._heads // self._groups,
            "LINES": LINES,
            "KEYS": KEYS,
        }
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        programs, placed = self._counts
        with torch.cuda.device_of(query):
            if placed:
                _place[placed, self._groups](*new, self._placed, BLOCK=LINES, **sizes)
            _attend[programs, self._groups](
                *new,
                *asks,
                scale,
                num_stages=1,
                **blocks,
                **sizes,
            )
        return result


def _table(rows: Sequence[Sequence[int]], device: torch.device) -> torch.Tensor:
    return torch.tensor(rows, dtype=torch.int64).to(device, non_blocking=True)


def _addresses(piece: Piece, layer: int) -> tuple[int, int, int]:
    """Where the keys and values are that were kept, or will be, and for how many tokens there is a place."""
    store = piece.store if piece.store is not None else piece.past if piece.begin else None
    if store is None:
        return 0, 0, 0
    keys, values = store.layers[layer]
    return keys.data_ptr(), values.data_ptr(), keys.shape[2]


@triton.jit
def _place(
    keys, values, kg, kt, vg, vt, rows, stores, placed,
    SIZE: tl.constexpr, WIDE: tl.constexpr, SIZE_: tl.constexpr, WIDE_: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Puts new keys and values behind those that were kept before."""
    program, group = tl.program_id(0), tl.program_id(1)
    piece = tl.load(placed + 2 * program)
    first = tl.load(placed + 2 * program + 1)
    begin = tl.load(rows + 5 * piece)
    count = tl.load(rows + 5 * piece + 1)
    end = tl.load(rows + 5 * piece + 3)
    to_keys = tl.load(stores + 3 * piece).to(keys.dtype)
    to_values = tl.load(stores + 3 * piece + 1).to(values.dtype)
    room = tl.load(stores + 3 * piece + 2)
    tokens = first + tl.arange(0, BLOCK)[:, None]
    size = tl.arange(0, SIZE_)[None, :]
    wide = tl.arange(0, WIDE_)[None, :]
    places, is_token = group * room + end - count + tokens, tokens < count
    new = tl.load(keys + group * kg + (begin + tokens) * kt + size, mask=is_token & (size < SIZE))
    tl.store(to_keys + places * SIZE + size, new, mask=is_token & (size < SIZE))
    new = tl.load(values + group * vg + (begin + tokens) * vt + wide, mask=is_token & (wide < WIDE))
    tl.store(to_values + places * WIDE + wide, new, mask=is_token & (wide < WIDE))


@triton.jit
def _attend(
    keys, values, kg, kt, vg, vt, rows, stores, blocks, queries, qh, qt, result, scale,
    HEADS: tl.constexpr, SHARE: tl.constexpr, LINES: tl.constexpr, KEYS: tl.constexpr,
    SIZE: tl.constexpr, WIDE: tl.constexpr, SIZE_: tl.constexpr, WIDE_: tl.constexpr,
):  # fmt: skip
    """Softmax attention of some lines of a piece, in float32, as its keys come (Milakov and Gimelshein 2018)."""
    program, group = tl.program_id(0), tl.program_id(1)
    piece = tl.load(blocks + 2 * program)
    first = tl.load(blocks + 2 * program + 1)
    begin = tl.load(rows + 5 * piece)
    count = tl.load(rows + 5 * piece + 1)
    stored = tl.load(rows + 5 * piece + 2)
    end = tl.load(rows + 5 * piece + 3)
    address = tl.load(rows + 5 * piece + 4)
    mask, branches = address.to(tl.pointer_type(tl.int8)), address != 0
    old_keys = tl.load(stores + 3 * piece).to(keys.dtype)
    old_values = tl.load(stores + 3 * piece + 1).to(values.dtype)
    room = tl.load(stores + 3 * piece + 2)

    lines = first + tl.arange(0, LINES)
    tokens, heads, is_line = lines // SHARE, group * SHARE + lines % SHARE, lines < count * SHARE
    size = tl.arange(0, SIZE_)[None, :]
    wide = tl.arange(0, WIDE_)[None, :]
    query = tl.load(
        queries + heads[:, None] * qh + (begin + tokens)[:, None] * qt + size,
        mask=is_line[:, None] & (size < SIZE),
        other=0.0,
    )
    largest = tl.full([LINES], -float("inf"), tl.float32)
    total = tl.zeros([LINES], tl.float32)
    summed = tl.zeros([LINES, WIDE_], tl.float32)
    last = tl.minimum(end, end - count + (first + LINES - 1) // SHARE + 1)
    for start in range(0, last, KEYS):
        places = start + tl.arange(0, KEYS)
        old = (places < stored)[:, None]
        new = ((places >= stored) & (places < end))[:, None]
        stored_at = (group * room + places)[:, None]
        at = (begin + places - stored)[:, None]
        key = tl.load(
            old_keys + stored_at * SIZE + size,
            mask=old & (size < SIZE),
            other=0.0,
        )
        key += tl.load(
            keys + group * kg + at * kt + size,
            mask=new & (size < SIZE),
            other=0.0,
        )
        value = tl.load(
            old_values + stored_at * WIDE + wide,
            mask=old & (wide < WIDE),
            other=0.0,
        )
        value += tl.load(
            values + group * vg + at * vt + wide,
            mask=new & (wide < WIDE),
            other=0.0,
        )
        plain = places[None, :] <= (end - count + tokens)[:, None]
        inside = is_line[:, None] & (places < end)[None, :]
        branch = (
            tl.load(
                mask + tokens[:, None] * end + places[None, :],
                mask=inside & branches,
                other=0,
            )
            != 0
        )
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
        scores = tl.where(
            (branch | (plain & (branches == 0))) & inside,
            scores,
            -float("inf"),
        )
        higher = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(higher == -float("inf"), 0.0, higher)
        weights = tl.exp(scores - shift[:, None])
        before = tl.exp(largest - shift)
        total, largest = total * before + tl.sum(weights, 1), higher
        summed = summed * before[:, None] + tl.dot(
            weights.to(value.dtype),
            value,
            input_precision="ieee",
        )
    summed = summed / tl.where(is_line, total, 1.0)[:, None]
    tl.store(
        result + ((begin + tokens) * HEADS + heads)[:, None] * WIDE + wide,
        summed.to(result.dtype.element_ty),
        mask=is_line[:, None] & (wide < WIDE),
    )
