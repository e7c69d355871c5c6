"""How a transformer is read: left-padded batches of equal cost, shared prefixes, and caches that grow in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from transformers.cache_utils import Cache, DynamicLayer

#: The model as a function: (tokens[B, L], positions[B, L], mask bool[B, L, K], cache, kept) -> logits[B, kept, V].
Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor | None, Cache | None, int], torch.Tensor]


def common_prefix_length(prompts: Sequence[Sequence[int]]) -> int:
    """How many tokens all prompts begin with; at most the length of the shortest."""
    if not prompts:
        return 0
    first, last = min(map(tuple, prompts)), max(map(tuple, prompts))
    for index, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return index
    return min(len(first), len(last))


def batches(costs: Sequence[int], budget: int, fill: float = 0.0) -> Iterator[list[int]]:
    """Indices in batches of similar cost, each with (largest cost) x (size) <= budget, or a single index.

    costs: int[N], the tokens of each row; every index comes once, dearest rows first.
    fill: a row joins a batch only when it fills at least this share of the batch's width (the rest would be padding).
    """
    batch: list[int] = []
    for index in sorted(range(len(costs)), key=lambda i: -costs[i]):
        widest = costs[batch[0]] if batch else 0
        if batch and (widest * (len(batch) + 1) > budget or costs[index] < fill * widest):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


class GrowingLayer(DynamicLayer):
    """One layer's keys and values in a buffer with room to grow: a decoded token does not copy the whole past."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room
        self._buffers: tuple[torch.Tensor, torch.Tensor] | None = None

    def start_from(self, keys: torch.Tensor, values: torch.Tensor, rows: int) -> None:
        """Begins after a shared prefix: keys and values [1, heads, P, d], expanded to all rows without a copy."""
        self.dtype, self.device = keys.dtype, keys.device
        self.keys, self.values = keys.expand(rows, -1, -1, -1), values.expand(rows, -1, -1, -1)
        self.is_initialized = True

    def content(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values so far, [B, heads, length, d] each."""
        assert self.keys is not None
        assert self.values is not None
        return self.keys, self.values

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: object, **kwargs: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends [B, heads, L, d] and returns everything so far, [B, heads, past + L, d]."""
        past = self.get_seq_length()
        if past == 0 and self.room == 0:
            self.start_from(key_states, value_states, key_states.shape[0])
            return key_states, value_states
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        total = past + key_states.shape[-2]
        if self._buffers is None or self._buffers[0].shape[-2] < total:
            keys, values = self.content()
            self._buffers = (
                self._enlarged(key_states, keys, past, total),
                self._enlarged(value_states, values, past, total),
            )
        for buffer, new in zip(self._buffers, (key_states, value_states), strict=True):
            buffer[:, :, past:total] = new
        self.keys, self.values = (buffer[:, :, :total] for buffer in self._buffers)
        return self.keys, self.values

    def _enlarged(self, new: torch.Tensor, old: torch.Tensor, past: int, total: int) -> torch.Tensor:
        buffer = new.new_empty((*new.shape[:2], total + self.room, new.shape[-1]))
        if past:
            buffer[:, :, :past] = old
        return buffer

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps only some rows of the batch (ascending int64[<=B]); in the buffer, only rows that move are copied."""
        if self._buffers is None:
            super().batch_select_indices(indices)
            return
        count, total = len(indices), self.get_seq_length()
        moved = int((indices == torch.arange(count, device=indices.device)).sum())
        for buffer in self._buffers:
            buffer[moved:count, :, :total] = buffer[:, :, :total].index_select(0, indices[moved:])
        keys, values = self._buffers
        self._buffers = keys[:count], values[:count]
        self.keys, self.values = (buffer[:, :, :total] for buffer in self._buffers)


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of a shared prefix of P tokens: a pair of tensors [1, heads, P, d] for every layer."""

    tokens: tuple[int, ...]
    layers: tuple[tuple[torch.Tensor, torch.Tensor], ...]


def read_prefix(forward: Forward, tokens: Sequence[int], layers: int, device: torch.device) -> KeyValues:
    """Reads a sequence of P >= 1 tokens once."""
    made = [GrowingLayer(room=0) for _ in range(layers)]
    ids = torch.tensor([list(tokens)], device=device)
    forward(ids, torch.arange(len(tokens), device=device)[None], None, Cache(layers=list(made)), 1)
    return KeyValues(tuple(tokens), tuple(layer.content() for layer in made))


@dataclass(frozen=True)
class Layout:
    """A left-padded batch after an optional shared prefix of P tokens.

    tokens, positions: int64[B, W]; real: bool[B, W], False on padding; past: bool[B, P], the prefix tokens a row sees.
    """

    tokens: torch.Tensor
    positions: torch.Tensor
    real: torch.Tensor
    past: torch.Tensor

    @property
    def visible(self) -> torch.Tensor:
        """bool[B, P + W]: the keys that exist for each row."""
        return torch.cat([self.past, self.real], dim=1)

    def causal_mask(self) -> torch.Tensor | None:
        """bool[B, W, P + W]: what each token attends to; None where plain causal attention says it all."""
        width = self.tokens.shape[1]
        if self.past.shape[1] == 0 and bool(self.real.all()):
            return None
        causal = torch.ones(width, width, dtype=torch.bool, device=self.real.device).tril()
        inside = causal[None] & self.real[:, None, :]
        return torch.cat([self.past[:, None, :].expand(-1, width, -1), inside], dim=2)


def lay_out(tails: Sequence[Sequence[int]], shared: KeyValues | None, device: torch.device) -> Layout:
    """Left-pads B token sequences that follow a shared prefix.

    An empty tail reads the last token of the prefix a second time and hides the first reading: every row has a token.
    """
    length = len(shared.tokens) if shared else 0
    rows = [list(tail) or [shared.tokens[-1]] for tail in tails] if shared else [list(tail) for tail in tails]
    width = max(map(len, rows))
    starts = [length - (not tail) for tail in tails]
    tokens = torch.tensor([[0] * (width - len(row)) + row for row in rows], device=device)
    pads = torch.tensor([width - len(row) for row in rows], device=device)[:, None]
    columns = torch.arange(width, device=device)[None]
    first = torch.tensor(starts, device=device)[:, None]
    positions = (first + columns - pads).clamp(min=0)
    past = torch.arange(length, device=device)[None] < first
    return Layout(tokens, positions, columns >= pads, past)


def cache_after(shared: KeyValues | None, rows: int, layers: int, room: int) -> Cache:
    """A cache for a batch of rows that all come after the shared prefix, with room to decode."""
    made = [GrowingLayer(room) for _ in range(layers)]
    if shared:
        for layer, (keys, values) in zip(made, shared.layers, strict=True):
            layer.start_from(keys, values, rows)
    return Cache(layers=list(made))


class Rows:
    """B sequences that were read once and grow by one token each at a time; ``logits`` [B, V] is what comes next."""

    def __init__(
        self,
        forward: Forward,
        tails: Sequence[Sequence[int]],
        shared: KeyValues | None,
        layers: int,
        device: torch.device,
        room: int,
    ) -> None:
        layout = lay_out(tails, shared, device)
        self._forward = forward
        self._cache = cache_after(shared, len(tails), layers, room)
        self._visible = layout.visible
        self._next = layout.positions[:, -1:] + 1
        self.logits = forward(layout.tokens, layout.positions, layout.causal_mask(), self._cache, 1)[:, -1]

    def append(self, tokens: torch.Tensor) -> None:
        """Appends tokens int64[B], one to each row."""
        self._visible = torch.cat([self._visible, self._visible.new_ones(len(tokens), 1)], dim=1)
        self.logits = self._forward(tokens[:, None], self._next, self._visible[:, None, :], self._cache, 1)[:, -1]
        self._next = self._next + 1

    def keep(self, indices: torch.Tensor) -> None:
        """Drops all rows but these (int64[<=B])."""
        self._cache.batch_select_indices(indices)
        self._visible, self._next = self._visible[indices], self._next[indices]
        self.logits = self.logits[indices]
