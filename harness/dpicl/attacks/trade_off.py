"""Computes a lower bound on epsilon from one run by a mechanism's own trade-off curve, which says
more than (epsilon, delta) at one delta.

Mahloujifar, Melis & Chaudhuri 2025, "Auditing f-differential privacy in one run", ICML
(arXiv 2410.22235). As in `dpicl.attacks.one_run`, m records are in or out by independent fair
coins, and W of n guesses about them are right. Let f be the curve that is claimed: an event that
has probability x without a record, whatever the others are, has at most F(x) = 1 - f(x) with it,
and the other way round. F is concave, so for every a

    r_a <= F(w_(a-1)),    r_a = E[W; W >= a] / m,    w_a = E[n - W; W >= a] / m,

since a right guess takes a - 1 other right ones to make a. Given P[W >= c] = alpha, the least of r
and w at every a follows downwards from r_c = alpha c / m and w_c = alpha (n - c) / m; where they
come to more than all n guesses, P[W >= c] is below alpha, so c right guesses refute the curve.

The curve is an outer one, by the accountants: F(x) <= e^epsilon x + delta for each proved
(epsilon, delta) of the event, and by complements F(x) <= 1 - e^-epsilon (1 - delta - x). A larger
F is harder to refute, so this is safe.

What is claimed: the mechanism's own event, with less and less noise as long as its curve is
refuted. So a bound above the proved epsilon refutes the proof, whatever the mechanism really does;
as a bound on epsilon itself it takes the curve to be of the event's shape, with some noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.accounting import accountants
from dpicl.accounting import dp_event as dp
from dpicl.attacks.lower_bounds import CONFIDENCE
from dpicl.attacks.one_run import RULES, OneRun

#: Deltas at which the epsilon of a curve is computed, and the grid of these rough upper bounds.
_DELTAS = np.geomspace(1e-7, 0.9, 24)
_CELLS = 400
#: Larger losses are left out: they are far beyond what guesses about so many records can show.
_MOST = 300.0
#: Tolerance of sums of all guesses, in floating point.
_ROUNDING = 1 + 1e-6
#: Noise is multiplied by powers of two, so many either way, and then halved in between so often.
_DOUBLINGS = 10
_HALVINGS = 8
#: Factor of the noise -> everything that a run may cause, of each release.
Events = Callable[[float], Sequence[dp.DpEvent]]


@dataclass(frozen=True)
class TradeOff:
    """An outer trade-off curve, the same in both directions: (epsilons[i], deltas[i])-DP for every i. float64[n] both,
    epsilons of 300 at most."""

    epsilons: np.ndarray
    deltas: np.ndarray

    def least_without(self, chance: float) -> float:
        """The least probability, with the record out, of an event of this probability with the record in."""
        growth = np.exp(self.epsilons)
        direct = (chance - self.deltas) / growth
        by_complement = 1 - self.deltas - growth * (1 - chance)
        return max(0.0, float(direct.max()), float(by_complement.max()))


def curve_of(events: Sequence[dp.DpEvent]) -> TradeOff:
    """The curve of the weakest of these events at every delta. Raises UnsupportedEvent where one has no theorem."""

    def weakest(delta: float) -> float:
        return max(accountants.rough_epsilon(event, delta, _CELLS) for event in events)

    epsilons = np.array([weakest(float(delta)) for delta in _DELTAS])
    proved = epsilons <= _MOST
    return TradeOff(epsilons[proved], _DELTAS[proved])


def is_refuted(
    curve: TradeOff,
    candidates: int,
    guesses: int,
    correct: int,
    alpha: float,
) -> bool:
    """Whether so many right guesses have a probability below alpha under this curve."""
    if not curve.deltas.size:
        return False
    right = alpha * correct / candidates
    wrong = alpha * (guesses - correct) / candidates
    for number in range(correct - 1, -1, -1):
        more = max(0.0, curve.least_without(right) - wrong)
        right += number / (guesses - number) * more
        wrong += more
        if right + wrong > guesses / candidates * _ROUNDING:
            return True
    return False


def curve_bound(events: Events, runs: Sequence[OneRun], delta: float) -> float:
    """The proved epsilon at delta of the event with least noise whose curve is refuted, 0 where none is, at 95%.

    runs: what each of `one_run.RULES` guessed; the level is divided by their number. events: with more noise the larger
    the factor is; 1 is the noise of the mechanism. Raises UnsupportedEvent where an event has no theorem.
    """
    alpha = (1 - CONFIDENCE) / len(RULES)

    def some_run_refutes(curve: TradeOff) -> bool:
        return any(
            is_refuted(curve, run.candidates, run.guesses, run.correct, alpha) for run in runs
        )

    def refutes(factor: float) -> bool:
        return some_run_refutes(curve_of(events(factor)))

    hidden = TradeOff(np.zeros(1), np.zeros(1))
    if not some_run_refutes(hidden):
        return 0.0  # guessing does as well, so no curve at all is refuted
    refuted, possible = _bracket(refutes)
    if not math.isfinite(refuted):
        return 0.0
    for _ in range(_HALVINGS):
        middle = math.sqrt(refuted * possible)
        if refutes(middle):
            refuted = middle
        else:
            possible = middle
    return max(accountants.epsilon(event, delta).upper for event in events(refuted))


def _bracket(refutes: Callable[[float], bool]) -> tuple[float, float]:
    """(a factor of the noise that is refuted, infinity where none is; half of it, which is not unless it is the
    least that is tried)."""
    factor = 1.0
    if refutes(factor):
        for _ in range(_DOUBLINGS):
            if not refutes(factor / 2):
                break
            factor /= 2
        return factor, factor / 2
    for _ in range(_DOUBLINGS):
        factor *= 2
        if refutes(factor):
            return factor, factor / 2
    return math.inf, factor
