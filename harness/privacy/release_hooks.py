"""What a primitive releases: a noisy sum or a noisy choice, drawn with a permit. Noise is added nowhere else.

A permit is the right to one release that was charged for (`Sample.spend` gives it). It holds the noise source and takes
the amount of noise from the event that was charged, so a release cannot be made with less noise than was paid for, with
another source, or twice. The primitive states by how much one record may move the input (``bound``, ``width``).

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
from dp_accounting import dp_event as dp

from dpicl.harness.core.errors import BudgetExceeded, PluginError, UnsupportedEvent
from dpicl.harness.core.seeds import NoiseSource
from dpicl.harness.privacy.events import BoundedRangeDpEvent, LabelResponseDpEvent, flatten


@dataclass(frozen=True)
class NoisyRelease:
    """One release, before its noise.

    clean: a sum ('gaussian', any shape), or scores [K] ('choice'). Private.
    bound: the most that one record moves it, as the primitive states: in L2 ('gaussian'), or the range of the moves of
        all scores ('choice').
    scale: standard deviation of the noise on every coordinate; for a choice the temperature, which multiplies standard
        Gumbel noise. 0 is no noise.
    count: how many of the K are chosen, in order ('choice').
    permit: what it was drawn with.
    """

    kind: Literal["gaussian", "choice"]
    clean: np.ndarray
    bound: float
    scale: float
    count: int = 0
    permit: Permit | None = field(default=None, repr=False, compare=False)


class Observer(Protocol):
    """Sees every noisy release while a mechanism runs."""

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """What is released: the noisy sum, or the indices that were chosen. ``draw()`` makes it with fresh noise."""


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

    event: what was charged: ``count`` times one Gaussian mechanism, bounded-range choice or zCDP release, or
        a randomised label, NonPrivate, which is a release without noise. Raises UnsupportedEvent for anything else.
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

    def noisy_sum(self, clean: np.ndarray, bound: float) -> np.ndarray:
        """float64 of the same shape: clean + N(0, (sigma * bound)^2) on every coordinate, sigma the event's multiplier.

        bound: the most that one record moves ``clean`` in L2. So it is a Gaussian mechanism of that multiplier.
        Raises BudgetExceeded for a permit that was used, UnsupportedEvent where the event is that of a choice,
        PluginError for a bound that is not above 0 (that would be no noise).
        """
        _require_positive("bound of a sum", bound)
        scale = self._multiplier() * bound
        noise = self._use()
        return _observed(
            NoisyRelease("gaussian", clean, bound, scale, permit=self),
            lambda: clean + noise.gaussian(scale, clean.size).reshape(clean.shape),
        )

    def noisy_choice(self, scores: np.ndarray, width: float) -> list[int]:
        """The min(count, K) best of K scores under Gumbel noise, best first; without noise the truly best.

        width: the range of the moves of all scores when one record is added or removed. One index is a draw from
        softmax(scores / temperature), temperature = width / epsilon', a bounded-range choice of the event's epsilon';
        several are as many draws without replacement (Durfee & Rogers 2019). Of equal scores the first.
        Raises BudgetExceeded for a permit that was used, UnsupportedEvent where the event is that of a sum, PluginError
        for a width that is not above 0.
        """
        return self._choices([scores], width, self._count)[0]

    def joint_choice(self, scores: Sequence[np.ndarray], width: float) -> list[int]:
        """One index of each of several rows of scores, by one permit: a single choice of the tuple of them.

        width: the range of the moves of all rows together: the sum over rows of the ranges of their moves. Raises as
        `noisy_choice` does.
        """
        return [chosen[0] for chosen in self._choices(scores, width, 1)]

    def _choices(self, rows: Sequence[np.ndarray], width: float, count: int) -> list[list[int]]:
        _require_positive("width of a choice", width)
        epsilon = self._range_epsilon()
        temperature = width / epsilon if math.isfinite(epsilon) else 0.0
        noise, chosen = self._use(), []
        for scores in rows:
            release = NoisyRelease("choice", scores, width, temperature, min(count, len(scores)), self)
            chosen.append([int(at) for at in _observed(release, partial(_best, release, noise))])
        return chosen

    def _multiplier(self) -> float:
        match self._event:
            case dp.GaussianDpEvent() if self._count == 1:
                return float(self._event.noise_multiplier)
            case dp.ZCDpEvent(xi=0.0) if self._count == 1:
                return math.sqrt(1 / (2 * self._event.rho))
            case dp.NonPrivateDpEvent():
                return 0.0
        raise UnsupportedEvent(f"{self._count} x {self._event!r} was spent, and a noisy sum is one Gaussian mechanism.")

    def _range_epsilon(self) -> float:
        match self._event:
            case BoundedRangeDpEvent():
                return float(self._event.epsilon)
            case LabelResponseDpEvent():  # one label's score rises by 1 and another's falls by 1: a range of 2
                return 2 * float(self._event.epsilon)
            case dp.ZCDpEvent(xi=0.0):
                return math.sqrt(8 * self._event.rho)
            case dp.NonPrivateDpEvent():
                return math.inf
        raise UnsupportedEvent(f"{self._event!r} was spent, and a noisy choice is a bounded-range event.")

    def _use(self) -> NoiseSource:
        if self._noise is None:
            raise BudgetExceeded("This permit was used: a second release needs a second charge. Nothing was drawn.")
        self._require_valid()
        noise, self._noise = self._noise, None
        self._used()
        return noise


def _require_positive(what: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise PluginError(f"The {what} must be above 0 and finite, not {value!r}: noise is scaled by it.")


def _best(release: NoisyRelease, noise: NoiseSource) -> np.ndarray:
    """The ``count`` best indices of a choice under fresh noise."""
    noisy = release.clean
    if release.scale > 0:
        noisy = noisy / release.scale + noise.gumbel(len(noisy))
    if release.count == 1:
        return np.array([noisy.argmax()])
    return np.argsort(-noisy, kind="stable")[: release.count]


def _observed(release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
    observer = _OBSERVER.get()
    return draw() if observer is None else observer.passes(release, draw)
