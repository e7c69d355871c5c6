"""Noisy sums of distributions that lie near a public one: a smaller ball around it needs less noise (Gao et al., ICLR
2025: AdaDPSyn, in a version that is proved here)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import gaussian
from dpicl.core.errors import UsageError
from dpicl.privacy.primitives import (
    SIMPLEX_DIAMETER,
    SIMPLEX_RADIUS,
    GaussianSum,
    check_slots,
    clip_norm,
    project_sub_simplex,
)
from dpicl.privacy.private_set import Sample


@dataclass(frozen=True)
class NearCentre:
    """Argmax of a noisy sum of distributions over a public set of K things, each first drawn into a ball around a
    public centre c, whose radius R is the smallest that holds enough of them.

    1. A noisy histogram of the slots' distances to c, by the public ``radii``: one record moves one slot from bin to
       bin, sqrt(2) in L2 (with ``own_slots`` it adds one: 1). R is the first radius at which the noisy counts reach
       ``share`` of the ``expected`` slots, a constant; where none does, nothing is drawn in.
    2. expected * c + the sum of the slots' p - c, projected into the ball of radius R. The projection is 1-Lipschitz,
       so one record moves the sum by at most min(2R, sqrt(2)), or R with ``own_slots``. R follows from a release, and
       the noise is a public multiple of that bound, whatever R is: a Gaussian mechanism of a fixed multiplier.

    Both are Gaussian mechanisms on one sample, the second chosen by the first: together one of the multiplier
    ``noise_multiplier``, since 1/sigma^2 = w/sigma^2 + (1 - w)/sigma^2. w: ``histogram_share``.
    """

    noise_multiplier: float
    radii: tuple[float, ...]
    expected: float
    share: float = 0.8
    histogram_share: float = 0.1
    own_slots: bool = False

    def __post_init__(self) -> None:
        increasing = all(
            low < high
            for low, high in zip(
                (0.0, *self.radii),
                self.radii,
                strict=False,
            )
        )
        if not self.radii or not increasing or not math.isfinite(self.radii[-1]):
            raise UsageError("The radii of a ball must be above 0, finite and increasing.")
        if not 0 < self.histogram_share < 1 or not 0 < self.share <= 1 or not self.expected > 0:
            raise UsageError(
                "The share of slots must lie in (0, 1], that of the histogram between 0 and 1."
            )

    @property
    def event(self) -> dp.DpEvent:
        return dp.ComposedDpEvent((self._histogram, self._sum))

    @property
    def _histogram(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier / math.sqrt(self.histogram_share))

    @property
    def _sum(self) -> dp.DpEvent:
        return gaussian(self.noise_multiplier / math.sqrt(1 - self.histogram_share))

    def choose(
        self,
        rows: np.ndarray,
        centre: np.ndarray,
        sample: Sample,
        ids: np.ndarray,
    ) -> int:
        """The id of the largest noisy coordinate. rows: [M, K], one a slot. centre: float64[K], public, a distribution.
        ids: int64[K], what the coordinates stand for.

        Without noise the plain sum decides. Raises PluginError as `GaussianSum.choose` does.
        """
        check_slots(rows, self.own_slots, sample)
        if self.noise_multiplier == 0:
            return GaussianSum(0.0, self.own_slots).choose(rows, sample, ids)
        bounded, middle = project_sub_simplex(rows), project_sub_simplex(centre[None])[0]
        radius = self._radius(np.linalg.norm(bounded - middle, axis=1), sample)
        if radius is None:
            total = bounded
            bound = SIMPLEX_RADIUS if self.own_slots else SIMPLEX_DIAMETER
            base = 0.0
        else:
            total, base = clip_norm(bounded - middle, radius), self.expected * middle
            bound = radius if self.own_slots else min(2 * radius, SIMPLEX_DIAMETER)
        noisy = sample.spend(self._sum).noisy_sum(
            total.sum(axis=0),
            bound,
            ids=ids,
        )
        return int(ids[int(np.argmax(base + noisy))])

    def _radius(self, distances: np.ndarray, sample: Sample) -> float | None:
        counts = np.bincount(
            np.searchsorted(self.radii, distances), minlength=len(self.radii) + 1
        ).astype(np.float64)
        bound = 1.0 if self.own_slots else math.sqrt(2)
        inside = (
            np.cumsum(sample.spend(self._histogram).noisy_sum(counts, bound)[:-1])
            >= self.share * self.expected
        )
        return self.radii[int(inside.argmax())] if inside.any() else None
