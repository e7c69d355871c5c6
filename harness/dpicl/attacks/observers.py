"""What an auditor does at the noisy releases of a mechanism: record them, or choose what they release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpicl.privacy.release_hooks import NoisyRelease


@dataclass(frozen=True)
class Observation:
    """A noisy release, and what it released."""

    noisy_release: NoisyRelease
    released: np.ndarray


@dataclass
class Recording:
    """Records every noisy release and changes nothing."""

    observed_releases: list[Observation] = field(default_factory=list)

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Observer."""
        released = draw()
        self.observed_releases.append(Observation(noisy_release, released.copy()))
        return released


@dataclass
class Forcing:
    """Makes the t-th noisy release give ``choose(t, noisy release)``, an index: teacher forcing of a noisy argmax.

    The release of a sum is then 1 at that index and 0 elsewhere; of a choice or a question, the index. A mechanism that
    releases anything but the index of the largest coordinate of a sum is not served by this.
    """

    choose: Callable[[int, NoisyRelease], int]
    noisy_releases: list[NoisyRelease] = field(default_factory=list)
    forced: list[int] = field(default_factory=list)

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Observer."""
        index = self.choose(len(self.forced), noisy_release)
        self.forced.append(index)
        self.noisy_releases.append(noisy_release)
        if noisy_release.kind != "gaussian":
            return np.array([index])
        released = np.zeros(noisy_release.clean.shape)
        released.flat[index] = 1.0
        return released


class CoupledSampling:
    """Sampling randomness that the records of a set keep when one more record stands at its end.

    Each call has a generator of its own, so a longer call begins with the values of a shorter one: two neighbouring
    sets that are sampled with it differ in one slot alone. Every run has a seed of its own, and is independent.
    """

    def __init__(self, *seed: int) -> None:
        self._seed, self._calls = seed, 0

    def uniform(self, size: int) -> np.ndarray:
        """float64[size] in [0, 1)."""
        self._calls += 1
        return np.random.default_rng((*self._seed, self._calls)).random(size)
