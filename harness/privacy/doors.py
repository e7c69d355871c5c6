"""The two doors by which anything leaves a primitive: a noisy sum and a noisy choice. Noise is added nowhere else.

Both state by how much one record may move what goes through (``bound``, ``width``). An auditor stands at the doors
(`watching`): it sees what went in and what came out, checks the statement, and may answer in the noise's place. No
watcher, no difference: the noise is drawn from the source that was given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from harness.seeds import NoiseSource


@dataclass(frozen=True)
class Door:
    """One passage, before its noise.

    clean: a sum ('gaussian', any shape), or scores [K] ('choice'). Private.
    bound: the most that one record moves it, as the primitive states: in L2 ('gaussian'), or the range of the moves of
        all scores ('choice').
    scale: standard deviation of the noise on every coordinate; for a choice the temperature, which multiplies standard
        Gumbel noise. 0 is no noise.
    count: how many of the K are chosen, in order ('choice').
    """

    kind: Literal["gaussian", "choice"]
    clean: np.ndarray
    bound: float
    scale: float
    count: int = 0


class Watcher(Protocol):
    """Stands at the doors while a mechanism runs."""

    def passes(self, door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """What leaves: ``draw()`` makes it with fresh noise. The noisy sum, or the indices that were chosen."""


_WATCHER: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watching(watcher: Watcher) -> Iterator[None]:
    """Inside this block the watcher stands at every door of this thread."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def noisy_sum(clean: np.ndarray, bound: float, multiplier: float, noise: NoiseSource) -> np.ndarray:
    """float64 of the same shape: clean + N(0, (multiplier * bound)^2) on every coordinate.

    bound: the most that one record moves ``clean`` in L2. So the release is a Gaussian mechanism of that multiplier.
    """
    door = Door("gaussian", clean, bound, multiplier * bound)
    return _through(door, lambda: clean + noise.gaussian(door.scale, clean.size).reshape(clean.shape))


def noisy_choice(scores: np.ndarray, width: float, temperature: float, noise: NoiseSource, count: int = 1) -> list[int]:
    """The min(count, K) best of K scores under Gumbel noise, best first; at temperature 0 the truly best.

    width: the range of the moves of all scores when one record is added or removed. One index is a draw from
    softmax(scores / temperature), a bounded-range choice of epsilon' = width / temperature; several are as many draws
    without replacement (Durfee & Rogers 2019). Of equal scores the first.
    """
    door = Door("choice", scores, width, temperature, min(count, len(scores)))

    def draw() -> np.ndarray:
        noisy = scores / temperature + noise.gumbel(len(scores)) if temperature > 0 else scores
        if door.count == 1:
            return np.array([noisy.argmax()])
        return np.argsort(-noisy, kind="stable")[: door.count]

    return [int(at) for at in _through(door, draw)]


def _through(door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
    watcher = _WATCHER.get()
    return draw() if watcher is None else watcher.passes(door, draw)
