"""Attention of a pass on a CPU: the pieces that continue the same keys attend to them together (cascade attention).

Pieces that stand behind the same tokens, and have alike lengths, are computed a block at a time: one product scores all
their tokens against the keys that they share, one scores each piece against itself, and one softmax goes over both
(Juravsky et al. 2024, Hydragen, section 3.1, which merges two softmaxes instead). A shared key is never copied for a
piece.

All products of a block have shapes that follow from the length of its pieces and from the tokens before them: a block
with too few pieces is filled up. So a piece's bits depend on its own tokens and on what stands before it, as far as a
line of a product is computed alike wherever it stands, which every machine measures (`dpicl.models.readers`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from dpicl.models.pieces import KeyValues, Piece, causal
from dpicl.models.weights import preferred_dtype

#: A place in a pass: where a piece's tokens begin and end.
Place = tuple[int, int, Piece]
#: Lengths of pieces, and numbers of shared keys, are filled up to multiples of this: softmax is slow on what is left.
STEP = 32
#: So many tokens are a block, unless a piece is longer.
BLOCK = 192
#: Blocks with more scores are not computed here: they would cost more memory than time is saved.
LARGE = 2**25


@dataclass(frozen=True)
class _Block:
    """Pieces that are computed together.

    shared: the keys and values before them, of which they see the first ``begin``; None for rows from their first token
    on. tokens: int64[pieces * length], the place in the pass of every token; what fills a piece up repeats its first
    token. real: which of them are no filling. seen: [pieces * share, length, length] zeros, and -infinity for what a
    token does not see of its own piece, where ``share`` heads share keys.
    """

    shared: KeyValues | None
    begin: int
    length: int
    tokens: torch.Tensor
    real: torch.Tensor
    seen: torch.Tensor


class CascadePlan:
    """How the pieces of a pass attend in layers that are alike.

    places: (begin, end, piece). others: pieces that are not computed here: single tokens, those that do not see all of
    their row or stand behind very many tokens, and those whose scores are capped.
    """

    def __init__(
        self, places: Sequence[Place], query: torch.Tensor, groups: int, window: int | None, capped: bool
    ) -> None:
        self._groups, self._share = groups, query.shape[1] // groups
        self.others: list[Place] = []
        alike: dict[tuple[int, int, int, int], list[Place]] = defaultdict(list)
        for place in places:
            piece = place[2]
            length = len(piece.tokens) + -len(piece.tokens) % STEP
            count = _pieces_a_block(piece, length)
            is_cut = _hides_shared(piece) or (window is not None and max(piece.positions) >= window)
            is_large = query.shape[1] * count * length * (piece.begin + length) > LARGE
            if capped or is_cut or is_large or len(piece.tokens) < 2 or not _is_fast(query.dtype):
                self.others.append(place)
            else:
                alike[id(_shared(piece)), piece.begin, length, count].append(place)
        self._places = [place for members in alike.values() for place in members]
        self._blocks = []
        for (_, _, length, count), members in alike.items():
            for first in range(0, len(members), count):
                block = self._block(members[first : first + count], length, count, query.dtype)
                self._blocks.append(block)

    def _block(self, members: list[Place], length: int, count: int, dtype: torch.dtype) -> _Block:
        """members: at most ``count`` places; the first one fills the block up."""
        filled = [*members, *members[:1] * (count - len(members))]
        offsets = torch.arange(length)
        tokens, real = [], []
        for number, (begin, end, _) in enumerate(filled):
            inside = offsets < end - begin
            tokens.append(begin + offsets * inside)
            real.append(inside & (number < len(members)))
        hidden = torch.stack([~_seen_inside(piece, length) for _, _, piece in filled])
        seen = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, -torch.inf)
        piece = members[0][2]
        return _Block(
            _shared(piece),
            piece.begin,
            length,
            torch.cat(tokens),
            torch.cat(real),
            seen.repeat(self._groups, self._share, 1),
        )

    def multiply(
        self, layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scaling: float | None
    ) -> torch.Tensor:
        """[1, T, heads, d]: the attention of the pieces, zeros elsewhere; see `attention.attend`."""
        result = value.new_zeros(query.shape[2], query.shape[1], value.shape[3])
        scale = query.shape[3] ** -0.5 if scaling is None else scaling
        queries, keys, values = (each[0].transpose(0, 1) for each in (query, key, value))
        for begin, end, piece in self._places:
            piece.keep(layer, key[:, :, begin:end], value[:, :, begin:end])
        shared = _SharedKeys(layer)
        for block in self._blocks:
            inner = self._attend(block, shared, queries, keys, values, scale)
            result[block.tokens[block.real]] = inner[block.real]
        return result[None]

    def _attend(
        self,
        block: _Block,
        shared: _SharedKeys,
        queries: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        scale: float,
    ) -> torch.Tensor:
        """[pieces * length, heads, d] of a block. queries: [T, heads, d]; keys, values: [T, groups, d].

        A line is a token in one of the heads of a group; the lines of a group share its keys.
        """
        groups, share, length = self._groups, self._share, block.length
        count = len(block.tokens) // length
        lines = queries[block.tokens].view(count, length, groups, share, -1)
        lines = lines.permute(2, 0, 3, 1, 4).reshape(groups * count, share * length, -1)
        inner_keys = self._by_group(keys[block.tokens], count)
        inner_values = self._by_group(values[block.tokens], count)
        inner = torch.baddbmm(block.seen, lines, inner_keys.mT, alpha=scale)
        if block.shared is None:
            result = torch.bmm(inner.softmax(dim=-1), inner_values)
        else:
            hidden, outer_keys, outer_values = shared.read(block.shared, block.begin)
            by_group = lines.view(groups, count * share * length, -1)
            outer = torch.baddbmm(hidden, by_group, outer_keys.mT, alpha=scale)
            width = outer.shape[2]
            inner_by_group = inner.view(groups, -1, length)
            weights = torch.cat([outer, inner_by_group], dim=2).softmax(dim=-1)
            outer.copy_(weights[:, :, :width])  # products read factors without gaps
            inner_by_group.copy_(weights[:, :, width:])
            result = torch.bmm(outer, outer_values).view(groups * count, share * length, -1)
            result = torch.baddbmm(result, inner, inner_values)
        by_token = result.view(groups, count, share, length, -1).permute(1, 3, 0, 2, 4)
        return by_token.reshape(count * length, groups * share, -1)

    def _by_group(self, rows: torch.Tensor, count: int) -> torch.Tensor:
        """[groups * pieces, length, d] of [pieces * length, groups, d]."""
        size = rows.shape[2]
        by_group = rows.view(count, -1, self._groups, size).permute(2, 0, 1, 3)
        return by_group.reshape(self._groups * count, -1, size)


class _SharedKeys:
    """The keys and values that blocks of a layer share, each filled up once."""

    def __init__(self, layer: int) -> None:
        self._layer = layer
        self._known: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def read(self, store: KeyValues, end: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """[1, 1, n] zeros, and -infinity for the filling; keys and values [groups, n, d], of which ``end`` are real."""
        if (id(store), end) not in self._known:
            fill = -end % STEP
            keys, values = (
                torch.cat([each, each[:, :, :1].expand(-1, -1, fill, -1)], dim=2)[0]
                for each in store.read_up_to(self._layer, end)
            )
            hidden = keys.new_zeros(1, 1, end + fill)
            hidden[:, :, end:] = -torch.inf
            self._known[id(store), end] = hidden, keys, values
        return self._known[id(store), end]


def _shared(piece: Piece) -> KeyValues | None:
    """Where the keys and values before a piece are."""
    if piece.begin == 0:
        return None
    return piece.own if piece.past is None else piece.past


def _hides_shared(piece: Piece) -> bool:
    """Whether a token does not see all that stands before the piece: of a tree that has more than one piece."""
    return piece.seen_inside is not None and not bool(piece.seen_inside[:, : piece.begin].all())


def _pieces_a_block(piece: Piece, length: int) -> int:
    """How many pieces a block has: one where nobody else can stand behind the same tokens."""
    return 1 if piece.begin and piece.past is None else max(1, BLOCK // length)


def _seen_inside(piece: Piece, length: int) -> torch.Tensor:
    """bool[length, length]: what every token of a filled piece sees of it."""
    seen = causal(length, length, torch.device("cpu"))
    if piece.seen_inside is not None:
        count = len(piece.tokens)
        seen = seen.clone()
        seen[:count, :count] = piece.seen_inside[:, piece.begin :]
    return seen


def _is_fast(dtype: torch.dtype) -> bool:
    return dtype in (torch.float32, preferred_dtype("cpu"))
