"""Observers of a mechanism's noisy releases: they record them, or choose what is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from dpicl.privacy.release_hooks import NoisyRelease

#: (number of a release in its run, the release) -> what it gives.
Policy = Callable[[int, NoisyRelease], np.ndarray]


@dataclass(frozen=True)
class Observation:
    """A noisy release, and what it released."""

    release: NoisyRelease
    released: np.ndarray


def describe_release(release: NoisyRelease) -> dict[str, object]:
    """What is public about a release: everything but its values."""
    return {
        "size": release.clean.shape,
        "kind": release.kind,
        "bound": release.bound,
        "scale": release.scale,
        "count": release.count,
        "grid": release.grid,
    }


@dataclass
class Recording:
    """Records every noisy release. path: what they give in place of noise; None draws the noise."""

    path: Policy | None = None
    observed_releases: list[Observation] = field(default_factory=list)

    def intercept(
        self,
        noisy_release: NoisyRelease,
        draw: Callable[[], np.ndarray],
    ) -> np.ndarray:
        """See Observer."""
        number = len(self.observed_releases)
        released = draw() if self.path is None else self.path(number, noisy_release)
        self.observed_releases.append(Observation(noisy_release, released.copy()))
        return released
