"""Splits rows into pieces: consecutive tokens that are read in one pass, with limits on the memory of their keys and
values.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import torch

from dpicl.core.errors import UsageError
from dpicl.models.tree import Tree

#: The most tokens of a piece.
PIECE = 256
#: What keys and values may take where nothing says otherwise.
GIGABYTES = 2.0


@dataclass
class Memory:
    """What keys and values may take, in bytes, and what they take now. token: what one token takes."""

    limit: int
    token: int
    held: int = 0


def memory_limit() -> int:
    """Bytes: $DPICL_MEMORY, in GB. Raises UsageError for what is no positive number."""
    text = os.environ.get("DPICL_MEMORY", str(GIGABYTES))
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise UsageError(
            f"DPICL_MEMORY is '{text}'; set it to the GB that keys and values may take, such as 4."
        )
    return int(gigabytes * 1e9)


class KeyValues:
    """Keys and values of one row. room: for how many tokens there is a place. layers: layer -> all places,
    [1, groups, room, d] each."""

    def __init__(self, memory: Memory, room: int) -> None:
        self.room = room
        self._memory, self._held = memory, 0
        self.layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __del__(self) -> None:
        self._memory.held -= self._held

    def hold(self, tokens: int) -> None:
        """Notes that so many tokens have their place."""
        size = tokens * self._memory.token
        self._memory.held += size - self._held
        self._held = size

    def count_bytes(self, tokens: int) -> int:
        """Bytes that so many tokens take beyond what is held."""
        return max(0, max(self.room, tokens) * self._memory.token - self._held)

    def put(
        self,
        layer: int,
        begin: int,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> None:
        """Places [1, groups, n, d] behind the first ``begin`` tokens."""
        end = begin + keys.shape[2]
        places = self.reserve(layer, end, keys, values, begin)
        places[0][:, :, begin:end], places[1][:, :, begin:end] = keys, values

    def reserve(
        self, layer: int, end: int, keys: torch.Tensor, values: torch.Tensor, begin: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Where those of ``room`` tokens are, or will be, [1, groups, room, d] each: of ``end`` at least. A larger
        place is like keys and values, and gets those of the first ``begin``."""
        old = self.layers.get(layer)
        if old is None or old[0].shape[2] < end:
            if end > self.room:
                self.room = end + end // 2
            new = tuple(
                each.new_empty(
                    *each.shape[:2],
                    self.room,
                    each.shape[3],
                )
                for each in (keys, values)
            )
            for grown, before in zip(new, old or (), strict=False):
                grown[:, :, :begin] = before[:, :, :begin]
            self.layers[layer] = old = (new[0], new[1])
        return old

    def read_up_to(
        self,
        layer: int,
        end: int,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the first ``end`` tokens, [1, groups, end, d] each."""
        keys, values = self.layers[layer]
        return keys[:, :, :end], values[:, :, :end]


@dataclass
class Piece:
    """Consecutive tokens of one row, read in one pass.

    begin: how many tokens of the row come before. past: whose keys and values those are. store: where the piece's are
    kept, None where nobody needs them. seen_inside: bool[n, begin + n] for tokens of a tree, None for a plain row.
    before: the positions of the row's first ``begin`` tokens, of which some may be branches.
    scored: the tokens after which log-probabilities are wanted; take: gets them, float32 [len(scored), V].
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    begin: int
    past: KeyValues | None
    store: KeyValues | None
    before: Sequence[int]
    seen_inside: torch.Tensor | None = None
    scored: Sequence[int] = ()
    take: Callable[[torch.Tensor], None] = lambda log_probs: None
    _masks: dict[int | None, tuple[torch.Tensor | None, int]] = field(
        default_factory=dict, repr=False
    )

    @property
    def end(self) -> int:
        """How many tokens of the row are read after this piece."""
        return self.begin + len(self.tokens)

    def keep(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Places the piece's keys and values [1, groups, n, d] in ``store``, where there is one, behind those that it
        may see."""
        self.reserve(layer, keys, values)
        if self.store is not None:
            self.store.put(layer, self.begin, keys, values)

    def reserve(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Makes the place for such keys and values in ``store``, where there is one, with those that come before."""
        if self.store is None:
            return
        if self.begin and self.past is not None and layer not in self.store.layers:
            self.store.put(layer, 0, *self.past.read_up_to(layer, self.begin))
        self.store.reserve(layer, self.end, keys, values, self.begin)

    def mask(
        self,
        window: int | None,
        device: torch.device,
    ) -> tuple[torch.Tensor | None, int]:
        """What each token sees of the last ``width`` keys, bool[n, width] (None: all that come before it); and width.

        window: a token sees only those that are fewer than so many positions before it.
        """
        if window not in self._masks:
            mask, width = self._mask(window)
            self._masks[window] = (None if mask is None else mask.to(device)), width
        return self._masks[window]

    def _mask(self, window: int | None) -> tuple[torch.Tensor | None, int]:
        count, length = len(self.tokens), self.end
        if window is None or max(self.positions) < window:
            return self.seen_inside, length
        if self.seen_inside is None:
            width = min(length, count + window - 1)
            return _mask_window(count, width, window), width
        inside = torch.tensor([*self.before, *self.positions])
        near = torch.tensor(list(self.positions))[:, None] - inside[None] < window
        return self.seen_inside & near, length


class JoinedKeys:
    """Keys and values of one layer, joined for one piece of a pass after the other.

    A prefix's are copied once for all pieces behind it whose rows end alike, up to ``step`` tokens: what a piece adds
    takes the place of what the one before it added.
    """

    def __init__(self, layer: int, step: int) -> None:
        self._layer, self._step = layer, step
        self._behind: dict[tuple[int, int, int], list[torch.Tensor]] = {}

    def join(
        self,
        piece: Piece,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """[1, groups, begin + n, d] each: all that a piece may see, from its own n, after `Piece.keep`; they hold until
        the next call."""
        if piece.store is not None:
            return piece.store.read_up_to(self._layer, piece.end)
        if piece.begin == 0:
            return keys, values
        places = self._place(piece, keys, values)
        return places[0][:, :, : piece.end], places[1][:, :, : piece.end]

    def fill_up(
        self, piece: Piece, keys: torch.Tensor, values: torch.Tensor, width: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """[groups, m, d] each, without gaps: the last ``width`` of the same, and then the first of these again, up to a
        multiple of ``step``."""
        if piece.store is None and piece.begin and width == piece.end:
            places = self._place(piece, keys, values)
            for each in places:
                each[:, :, width:] = each[:, :, :1]
            return places[0][0], places[1][0]
        filled = []
        for each in self.join(piece, keys, values):
            window = each[0, :, -width:]
            filled.append(
                torch.cat(
                    [
                        window,
                        window[:, :1].expand(
                            -1,
                            -width % self._step,
                            -1,
                        ),
                    ],
                    dim=1,
                )
            )
        return filled[0], filled[1]

    def _place(
        self,
        piece: Piece,
        keys: torch.Tensor,
        values: torch.Tensor,
    ) -> list[torch.Tensor]:
        """[1, groups, m, d] each, of which the first ``piece.end`` are what the piece sees."""
        assert piece.past is not None
        room = piece.end + -piece.end % self._step
        place = (id(piece.past), piece.begin, room)
        if place not in self._behind:
            new = [
                each.new_empty(
                    1,
                    each.shape[1],
                    room,
                    each.shape[3],
                )
                for each in (keys, values)
            ]
            for each, before in zip(
                new,
                piece.past.read_up_to(self._layer, piece.begin),
                strict=True,
            ):
                each[:, :, : piece.begin] = before
            self._behind[place] = new
        for each, added in zip(
            self._behind[place],
            (keys, values),
            strict=True,
        ):
            each[:, :, piece.begin : piece.end] = added
        return self._behind[place]


def row_of(
    tokens: Sequence[int],
    begin: int,
    past: KeyValues | None,
    store: KeyValues | None,
    take: Callable[[Sequence[int], torch.Tensor], None],
    tree: Tree | None = None,
    scored: Sequence[int] = (),
) -> list[Piece]:
    """The pieces of a row's next n >= 1 tokens, which stand behind the first ``begin`` ones.

    tree: the last of these tokens are branches of a tree. scored: after which of the n log-probabilities are wanted;
    take: gets some of these, and float32 [<=n, V].
    """
    stem = len(tokens) - (len(tree.depths) if tree else 0)
    positions = [begin + at for at in range(stem)]
    if tree:
        positions += [begin + stem - 1 + depth for depth in tree.depths]
    pieces = []
    for start in range(0, len(tokens), PIECE):
        end = min(start + PIECE, len(tokens))
        inside = [at for at in scored if start <= at < end]
        pieces.append(
            Piece(
                tokens[start:end],
                positions[start:end],
                begin + start,
                past,
                store,
                range(begin + start)
                if not tree or start <= stem
                else [*range(begin), *positions[:start]],
                tree.mask_seen(begin, stem, start, end) if tree and end > stem else None,
                [at - start for at in inside],
                partial(take, inside),
            )
        )
    return pieces


@lru_cache(maxsize=64)
def _mask_window(count: int, width: int, window: int) -> torch.Tensor:
    plain = causal(count, width, torch.device("cpu"))
    return plain & ~torch.ones(count, width, dtype=torch.bool).tril(width - count - window)


@lru_cache(maxsize=256)
def causal(count: int, length: int, device: torch.device) -> torch.Tensor:
    """bool[count, length]: the last ``count`` of ``length`` tokens see all that come before them, and themselves."""
    return torch.ones(
        count,
        length,
        dtype=torch.bool,
        device=device,
    ).tril(length - count)
