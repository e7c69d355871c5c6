"""What an auditor does at the doors of a mechanism: note what passes, or let chosen things be released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpicl.harness.privacy.release_hooks import Door


@dataclass(frozen=True)
class Observation:
    """A door, and what left by it."""

    door: Door
    released: np.ndarray


@dataclass
class Recording:
    """Notes every passage and changes nothing."""

    passages: list[Observation] = field(default_factory=list)

    def passes(self, door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Watcher."""
        released = draw()
        self.passages.append(Observation(door, released.copy()))
        return released


@dataclass
class Forcing:
    """Lets the t-th door release what ``choose(t, door)`` says, an index: teacher forcing of a noisy argmax.

    The release of a sum is then 1 at that index and 0 elsewhere; of a choice, the index. A mechanism that releases
    anything but the index of the largest coordinate of a sum is not served by this.
    """

    choose: Callable[[int, Door], int]
    passages: list[Observation] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)

    def passes(self, door: Door, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Watcher."""
        index = self.choose(len(self.passages), door)
        if door.kind == "choice":
            released = np.array([index])
        else:
            released = np.zeros(door.clean.shape)
            released.flat[index] = 1.0
        self.forced.append(index)
        self.passages.append(Observation(door, released))
        return released


class CoupledCoins:
    """Sampling coins that the records of a set keep when one more record stands at its end.

    Each call has a generator of its own, so a longer call begins with the values of a shorter one. Two neighbouring
    sets that are dealt with these coins differ in one slot alone. Every run has a seed of its own, and is independent.
    """

    def __init__(self, *seed: int) -> None:
        self._seed, self._calls = seed, 0

    def uniform(self, size: int) -> np.ndarray:
        """float64[size] in [0, 1)."""
        self._calls += 1
        return np.random.default_rng((*self._seed, self._calls)).random(size)
