"""Draws noisy sums, noisy choices and answers of AboveThreshold, each with a permit. Noise is added nowhere else.

A permit is the right to one release that was charged for (`Sample.spend` gives it). It holds the noise source and takes
the amount of noise from the event that was charged, so a release cannot be made with less noise than was paid for, with
another source, or twice. The primitive states by how much one record may move the input (``bound``, ``width``). Where
noise is secure, input and amount are prepared for floating point (dpicl.privacy.secure_release).

An auditor may observe every noisy release (`observing`): it sees the input and the output, checks the stated bound,
and may replace the noisy output by its own. Without an observer the noise is drawn from the permit's source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import flatten
from dpicl.core.errors import BudgetExceeded, PluginError, UnsupportedEvent
from dpicl.core.exact_noise import step_of
from dpicl.core.seeds import NoiseSource
from dpicl.privacy.secure_release import (
    choice_margin,
    prepared_scores,
    prepared_sum,
    sum_margin,
    threshold_margin,
)


@dataclass(frozen=True)
class NoisyRelease:
    """One release, before its noise.

    clean: a sum ('gaussian', any shape), scores [K] ('choice'), prepared where noise is secure, or a query minus its
        threshold, [1] ('threshold'): one question of a round. Private.
    bound: the most that one record moves it, as the primitive states: in L2 ('gaussian'), the range of the moves of
        all scores ('choice'), or upwards and never downwards ('threshold').
    scale: standard deviation of the noise on every coordinate; for a choice the temperature, which multiplies standard
        Gumbel noise; for a question that of its exponential noise, and of its threshold's. 0 is no noise.
    count: how many of the K are chosen, in order ('choice').
    grid: a sum and its noise are multiples of this; 0: they are not rounded.
    ids: int64[K], what the coordinates stand for: public token ids, in which a choice is told; None: their places.
    permit: what it was drawn with.
    """

    kind: Literal["gaussian", "choice", "threshold"]
    clean: np.ndarray
    bound: float
    scale: float
    count: int = 0
    grid: float = 0.0
    ids: np.ndarray | None = field(default=None, compare=False)
    permit: Permit | None = field(default=None, repr=False, compare=False)


class Observer(Protocol):
    """Sees every noisy release while a mechanism runs."""

    def intercept(
        self,
        noisy_release: NoisyRelease,
        draw: Callable[[], np.ndarray],
    ) -> np.ndarray:
        """What is released: the noisy sum, the indices that were chosen, or [1] for "above" and [0] for "below".
        ``draw()`` makes it with fresh noise."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Inside this block the observer sees every noisy release of this thread."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


class Permit:
    """The right to one release, used once.

    event: what was charged: ``count`` times one Gaussian mechanism, bounded-range choice or zCDP release, a round of
        AboveThreshold, or NonPrivate, which is a release without noise. Raises UnsupportedEvent for anything else.
    noise: where its noise comes from. used: called when it is used. require_valid: raises where it no longer counts,
        since its sample was closed.
    """

    __slots__ = ("_count", "_event", "_noise", "_require_valid", "_used")

    def __init__(
        self,
        event: dp.DpEvent,
        noise: NoiseSource,
        used: Callable[[], None] = lambda: None,
        require_valid: Callable[[], None] = lambda: None,
    ) -> None:
        components = flatten(event)
        if len(components) != 1:
            raise UnsupportedEvent(
                f"One permit pays for one kind of release, not for {event!r}; spend them one by one."
            )
        ((self._event, self._count),) = components.items()
        self._noise: NoiseSource | None = noise
        self._used, self._require_valid = used, require_valid

    def noisy_sum(
        self, clean: np.ndarray, bound: float, grid: float = 0.0, ids: np.ndarray | None = None
    ) -> np.ndarray:
        """float64 of the same shape: clean + N(0, (sigma * bound)^2) on every coordinate, sigma the event's multiplier.

        bound: the most that one record moves ``clean`` in L2. So it is a Gaussian mechanism of that multiplier.
        grid: a power of 2; what is released is a multiple of it, as the sum and its noise are, which are both rounded
            (`round_to_grid`, `round_noise`): so its lowest bits are those of the noise. Of whole numbers (an integer
            dtype) ``clean`` counts steps and is exact, and ``bound`` is that of clean * grid. Floats are rounded, which
            adds grid * sqrt(K) to the bound of K coordinates. 0: nothing is rounded.
        ids: see `NoisyRelease`.
        Raises BudgetExceeded for a permit that was used, UnsupportedEvent where the event is that of a choice,
        PluginError for a bound that is not above 0 (that would be no noise), and for a grid that is no power of 2.
        """
        _require_positive("bound of a sum", bound)
        multiplier = self._multiplier()
        if grid:
            clean, rounding = round_to_grid(clean, grid)
            bound += rounding
        scale, noise = multiplier * bound, self._use()
        if scale > 0 and not noise.seeded:
            scale *= 1 + sum_margin(multiplier, clean.size)
            clean = prepared_sum(clean, scale)
        return _observe(
            NoisyRelease("gaussian", clean, bound, scale, grid=grid, ids=ids, permit=self),
            lambda: (
                clean
                + round_noise(
                    noise.gaussian(scale, clean.size),
                    grid,
                    scale,
                ).reshape(clean.shape)
            ),
        )

    def noisy_choice(
        self,
        scores: np.ndarray,
        width: float,
        ids: np.ndarray | None = None,
    ) -> list[int]:
        """Places of the min(count, K) best of K scores under Gumbel noise, best first; without noise the truly best.

        width: the range of the moves of all scores when one record is added or removed. One index is a draw from
        softmax(scores / temperature), temperature = width / epsilon', a bounded-range choice of the event's epsilon';
        several are as many draws without replacement (Durfee & Rogers 2019). Of equal scores the first.
        ids: see `NoisyRelease`.
        Raises BudgetExceeded for a permit that was used, UnsupportedEvent where the event is that of a sum, PluginError
        for a width that is not above 0.
        """
        return self._choices([scores], width, self._count, ids)[0]

    def joint_choice(self, scores: Sequence[np.ndarray], width: float) -> list[int]:
        """One index of each of several rows of scores, by one permit: a single choice of the tuple of them.

        width: the range of the moves of all rows together: the sum over rows of the ranges of their moves. Raises as
        `noisy_choice` does.
        """
        return [chosen[0] for chosen in self._choices(scores, width, 1)]

    def threshold_round(self, threshold: float, bound: float) -> Callable[[float], bool]:
        """One round of AboveThreshold: says of one query after another whether it is above a noisy threshold, until
        one is.

        threshold: public. bound: the most by which one record raises a query; it must lower none. The noise of the
        threshold is drawn once, that of every query afresh, both from bound/epsilon * Exp(1). The permit is used now;
        a question after the first "above" raises BudgetExceeded. Raises as `noisy_sum` does.
        """
        _require_positive("bound of a query", bound)
        epsilon = self._round_epsilon()
        scale = bound / epsilon if math.isfinite(epsilon) else 0.0
        noise, over = self._use(), False
        if scale > 0 and not noise.seeded:
            scale *= 1 + threshold_margin(epsilon)
        of_threshold: list[np.ndarray] = []

        def is_query_above(query: float) -> bool:
            nonlocal over
            if over:
                raise BudgetExceeded(
                    "This round ended with its first query above the threshold: a second one needs a second charge, and"
                    " a threshold with fresh noise. Nothing was drawn."
                )
            self._require_valid()
            release = NoisyRelease(
                "threshold",
                np.array([query - threshold]),
                bound,
                scale,
                permit=self,
            )

            def draw() -> np.ndarray:
                if scale > 0 and not of_threshold:
                    of_threshold.append(noise.gumbel(1))
                return is_above(
                    release,
                    *of_threshold,
                    *([noise.gumbel(1)] if scale > 0 else ()),
                )

            over = bool(_observe(release, draw)[0])
            return over

        return is_query_above

    def _choices(
        self, rows: Sequence[np.ndarray], width: float, count: int, ids: np.ndarray | None = None
    ) -> list[list[int]]:
        _require_positive("width of a choice", width)
        epsilon = self._range_epsilon()
        temperature = width / epsilon if math.isfinite(epsilon) else 0.0
        noise, chosen = self._use(), []
        if temperature > 0 and not noise.seeded:
            temperature *= 1 + choice_margin(epsilon, max(count, len(rows)))
            rows = [prepared_scores(scores, temperature) for scores in rows]
        for scores in rows:
            best = min(count, len(scores))
            release = NoisyRelease("choice", scores, width, temperature, best, ids=ids, permit=self)
            chosen.append(
                [
                    int(at)
                    for at in _observe(
                        release,
                        partial(_best, release, noise),
                    )
                ]
            )
        return chosen

    def _multiplier(self) -> float:
        match self._event:
            case dp.GaussianDpEvent() if self._count == 1:
                return float(self._event.noise_multiplier)
            case dp.ZCDpEvent(xi=0.0) if self._count == 1:
                return math.sqrt(1 / (2 * self._event.rho))
            case dp.NonPrivateDpEvent():
                return 0.0
        raise UnsupportedEvent(
            f"{self._count} x {self._event!r} was spent, and a noisy sum is one Gaussian mechanism."
        )

    def _range_epsilon(self) -> float:
        match self._event:
            case dp.BoundedRangeDpEvent():
                return float(self._event.epsilon)
            case dp.ZCDpEvent(xi=0.0):
                return math.sqrt(8 * self._event.rho)
            case dp.NonPrivateDpEvent():
                return math.inf
        raise UnsupportedEvent(
            f"{self._event!r} was spent, and a noisy choice is a bounded-range event."
        )

    def _round_epsilon(self) -> float:
        match self._event:
            case dp.AboveThresholdDpEvent() if self._count == 1:
                return float(self._event.epsilon)
            case dp.NonPrivateDpEvent():
                return math.inf
        raise UnsupportedEvent(
            f"{self._count} x {self._event!r} was spent, and a round is one of AboveThreshold."
        )

    def _use(self) -> NoiseSource:
        if self._noise is None:
            raise BudgetExceeded(
                "This permit was used: a second release needs a second charge. Nothing was drawn."
            )
        self._require_valid()
        noise, self._noise = self._noise, None
        self._used()
        return noise


def round_noise(noise: np.ndarray, grid: float, scale: float) -> np.ndarray:
    """Noise of this scale as the nearest multiples of ``grid``, a power of 2, which floats hold exactly; 0: as it is.

    Secure noise is whole steps and a half. Where the grid is its step, halves go up: to the even neighbour, all noise
    would lie on twice the grid, and what is released would tell whether the sum is even.
    """
    if not grid:
        return noise
    steps = noise / grid
    return (np.floor(steps + 0.5) if grid == step_of(scale) else np.rint(steps)) * grid


def round_to_grid(clean: np.ndarray, grid: float) -> tuple[np.ndarray, float]:
    """(float64 multiples of ``grid`` for a sum, by how much more one record may move them in L2 than the sum).

    Whole numbers count steps: they stay, and so does the bound. Floats are rounded by at most grid/2 each, so two sums
    come to differ by at most grid more in each of K coordinates: by grid * sqrt(K) more in L2. Whatever is private, no
    value is refused: beyond 2^53 steps, where floats lack multiples, a sum is cut off, which brings no two further
    apart, and what is no number counts as 0. Raises PluginError for a grid that is no power of 2, or far from 1.
    """
    if not _GRIDS[0] <= grid <= _GRIDS[1] or math.frexp(grid)[0] != 0.5:
        raise PluginError(
            f"The grid of a noisy sum must be a power of 2 between 2^-900 and 2^900, not {grid!r}."
        )
    exact = np.issubdtype(np.asarray(clean).dtype, np.integer)
    with np.errstate(over="ignore"):
        steps = np.nan_to_num(np.asarray(clean, dtype=np.float64)) / (1.0 if exact else grid)
    return np.rint(steps.clip(-(2.0**53), 2.0**53)) * grid, 0.0 if exact else grid * math.sqrt(
        np.size(clean)
    )


#: The smallest and the largest grid: float64 holds 2^53 steps of it, and a step of its rounding.
_GRIDS = (2.0**-900, 2.0**900)


def _require_positive(what: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise PluginError(
            f"The {what} must be above 0 and finite, not {value!r}: noise is scaled by it."
        )


def _best(release: NoisyRelease, noise: NoiseSource) -> np.ndarray:
    """The ``count`` best indices of a choice under fresh noise."""
    noisy = release.clean
    if release.scale > 0:
        noisy = noisy / release.scale + noise.gumbel(len(noisy))
    if release.count == 1:
        return np.array([noisy.argmax()])
    return np.argsort(-noisy, kind="stable")[: release.count]


def is_above(release: NoisyRelease, *gumbel: np.ndarray) -> np.ndarray:
    """[1] where the query is above its threshold, [0] where it is not.

    gumbel: standard Gumbel noise [1] of the threshold, then of the query; e^-it is exponential. None where scale is 0.
    """
    if not gumbel:
        return (release.clean >= 0).astype(np.int64)
    of_threshold, of_query = gumbel
    return (release.clean / release.scale + np.exp(-of_query) >= np.exp(-of_threshold)).astype(
        np.int64
    )


def _observe(release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
    observer = _OBSERVER.get()
    return draw() if observer is None else observer.intercept(release, draw)
