"""Keys and values of rows that were read, and how much memory they may take."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from dpicl.core.errors import UsageError

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
    said = os.environ.get("DPICL_MEMORY", str(GIGABYTES))
    try:
        gigabytes = float(said)
    except ValueError:
        gigabytes = 0.0
    if not 0 < gigabytes < float("inf"):
        raise UsageError(f"DPICL_MEMORY is '{said}'; set it to the GB that keys and values may take, such as 4.")
    return int(gigabytes * 1e9)


class KeyValues:
    """Keys and values of one row, layer by layer. room: for how many tokens there is a place."""

    def __init__(self, memory: Memory, room: int) -> None:
        self.room = room
        self._memory, self._held = memory, 0
        self._layers: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def __del__(self) -> None:
        self._memory.held -= self._held

    def hold(self, tokens: int) -> None:
        """Notes that so many tokens have their place."""
        size = tokens * self._memory.token
        self._memory.held += size - self._held
        self._held = size

    def needs(self, tokens: int) -> int:
        """Bytes that so many tokens take beyond what is held."""
        return max(0, max(self.room, tokens) * self._memory.token - self._held)

    def has(self, layer: int) -> bool:
        """Whether something was placed in a layer."""
        return layer in self._layers

    def put(self, layer: int, begin: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Places [1, groups, n, d] behind the first ``begin`` tokens."""
        end = begin + keys.shape[2]
        old = self._layers.get(layer)
        if old is None or old[0].shape[2] < end:
            if end > self.room:
                self.room = end + end // 2
            new = tuple(each.new_empty(*each.shape[:2], self.room, each.shape[3]) for each in (keys, values))
            for grown, before in zip(new, old or (), strict=False):
                grown[:, :, :begin] = before[:, :, :begin]
            self._layers[layer] = old = (new[0], new[1])
        old[0][:, :, begin:end], old[1][:, :, begin:end] = keys, values

    def upto(self, layer: int, end: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Those of the first ``end`` tokens, [1, groups, end, d] each."""
        keys, values = self._layers[layer]
        return keys[:, :, :end], values[:, :, :end]
