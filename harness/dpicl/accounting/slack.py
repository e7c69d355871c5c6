"""Computes slack: the claimed upper bound on epsilon over the best known lower bound for the same event.

Matched epsilons are a fair comparison only where the bounds are equally tight. The lower bound is the cost of one
adversary, a mechanism and a neighbour that the event admits (adversaries.py), composed numerically here.

For one sample an adversary aims at the hockey-stick divergence at the claimed epsilon, and is the worst one there is,
up to the grid. So it is for samples of one choice each, which may fail: the range on one sample follows the loss of the
samples before.
For other repeated samples there is no such single aim that is quickly worked out: adversaries that aim at a moment of
the likelihood ratio (the worst ones for Renyi DP) are tried, and the best counts. So the slack of repeated samples of
several choices is at most what is said, and may be less.

Everything is rounded to the safe side. Composed losses lie on a grid: each is moved at random to the point above or
below it so that its mean stays, so the sum of T is off by more than grid * sqrt(T ln(1/eta) / 2) upwards with
probability eta at most (Hoeffding), and both are taken off.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from dp_accounting.pld.common import self_convolve
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.stats import binom

from dpicl.accounting import dp_event as dp
from dpicl.accounting.accountants import worst_group
from dpicl.accounting.adversaries import (
    CELLS,
    MOST_LOOKBACKS,
    Aim,
    Counted,
    WorstPair,
    choice_ends,
    compose_pairs,
    following_pair,
    hockey,
    merge_gaussians,
    moment,
    threshold_rounds,
)
from dpicl.accounting.bounds import LARGEST
from dpicl.accounting.decomposition import components
from dpicl.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent
from dpicl.core.errors import AccountantsDisagree

#: Beyond it, floating point takes the ratio of two probabilities for infinite.
MOST = 600.0
#: Moments of the likelihood ratio that adversaries of repeated choices aim at first, by way; then they improve.
STARTS: Mapping[int, tuple[float, ...]] = {1: (1.2, 2.5), -1: (-1.0,)}
#: How often an adversary is worked out, each time against the last one.
ROUNDS = 7
#: Of more samples the adversary who looks back aims once, and where choices may fail no other one is tried beside.
MOST_TRIED = 100
#: Rounds of AboveThreshold whose epsilon is worked out.
TRIED_ROUNDS = 40
#: A share of the claim at which an adversary who looks back need not aim again.
AIMED = 0.97
#: Rounding of the composed losses, as a share of epsilon, and the probability that it is exceeded, as one of delta.
ROUNDING, MISSED = 2e-3, 1e-3
#: What rounding errors of the Fourier transforms may add up to.
NOISE_FLOOR = 2e-11
#: Tails of a composition that are folded into each other.
TAIL = 1e-15
#: Cells of the losses of one pair; more than that is a grid for numbers too far apart.
MOST_CELLS = 1e8


@dataclass(frozen=True)
class Samples:
    """Samples at one rate in each of which all of ``inside`` is released, ``count`` of them."""

    rate: float
    inside: Counted
    count: int

    def pair(self, aim: Aim) -> WorstPair:
        """The adversary's pair of one sample."""
        return compose_pairs(self.inside, self.rate, aim).sample(self.rate)


def slack(event: dp.DpEvent, delta: float, upper: float) -> float | None:
    """``upper``, a bound on the event's epsilon at delta, over the best lower bound; None where epsilon is 0 or above
    `MOST`, or nothing is known from below.

    Raises AccountantsDisagree when the lower bound is above the upper one: then one of them is wrong.
    """
    if not 0 < upper <= MOST:
        return None
    lower = compute_lower_bound(event, delta, upper)
    return upper / lower if lower > 0 else None


def compute_lower_bound(event: dp.DpEvent, delta: float, proved: float) -> float:
    """`lower_bound`, 0 where numbers leave its range; an infinite bound sets no grid, so an adversary of about
    epsilon = 100 is looked for then.

    Raises AccountantsDisagree when the lower bound is above the proved one: then one of them is wrong.
    """
    try:
        lower = lower_bound(event, delta, proved if math.isfinite(proved) else 100.0)
    except ArithmeticError:  # numbers too far apart for any grid: nothing is known from below
        return 0.0
    return require_below_proof(lower, event, delta, proved)


def require_below_proof(lower: float, event: dp.DpEvent, delta: float, proved: float) -> float:
    """``lower``. Raises AccountantsDisagree when it is above what is proved."""
    if lower > proved:
        raise AccountantsDisagree(
            f"An adversary costs epsilon = {lower:.6g} at delta = {delta:g}, and {proved:.6g} is proved for {event!r}:"
            " one of them is wrong. Report these numbers."
        )
    return lower


def rounds_bound(
    scale: float,
    moved: float,
    choice: float,
    count: int,
    delta: float,
    upper: float,
) -> float:
    """The epsilon at delta that the best of `threshold_rounds` reaches in ``count`` rounds, each with a choice of
    bounded range ``choice`` after it (0: none). The likeliest by mean and deviation of their loss are worked out.

    Beyond `MOST` an adversary moves queries by less, or looks at fewer rounds.
    """
    moved = min(moved, MOST / 3 * scale)
    count = max(1, min(count, int(MOST / (2 * moved / scale + choice))))
    choices = (
        [choice_ends(choice, share * choice) for share in (0.4, 0.5, 0.6)] if choice else [None]
    )

    def gain(pair: WorstPair) -> float:
        loss = np.log(np.maximum(pair.present, 1e-300) / np.maximum(pair.absent, 1e-300))
        mean = float(pair.present @ loss)
        variance = float(pair.present @ (loss - mean) ** 2)
        return count * mean + 4 * math.sqrt(count * max(0.0, variance))

    rounds = sorted(threshold_rounds(scale, moved), key=gain)[-TRIED_ROUNDS:]
    return max(
        pairs_epsilon(
            [(pair, count) for pair in (one, other) if pair is not None],
            delta,
            min(upper, MOST),
        )
        for one in rounds
        for other in choices
    )


def explain_looseness(value: float | None) -> str | None:
    """What a reader must know of a slack above `LARGEST`; None for a smaller one."""
    if value is None or value <= LARGEST:
        return None
    return (
        f"the proved epsilon is {value:.3g} times the best lower bound that is known for the same event: it may need"
        " less noise than it has (docs/accounting.md, slack)"
    )


def lower_bound(event: dp.DpEvent, delta: float, upper: float) -> float:
    """The epsilon at delta that some mechanism with this event has; 0 where none is found.

    upper: about what is to be found; sets the grid and the aim.
    """
    counted = components(worst_group(event, delta), None)
    if dp.NonPrivateDpEvent() in counted:
        return math.inf
    if upper > MOST:
        return max(
            (_two_outcomes(component, count, delta) for component, count in counted.items()),
            default=0.0,
        )
    parts = _parts(counted)
    best = _reach(parts, delta, upper, 1)
    return max(best, _reach(parts, delta, upper, -1)) if best < math.inf else best


def _two_outcomes(component: dp.DpEvent, count: int, delta: float) -> float:
    """The epsilon at delta of releases with two outcomes each, all at the same ends of a range, from their binomial
    number: what can be had of an epsilon whose likelihood ratios are no floating-point numbers. 0 for other parts."""
    match component:
        case BoundedRangeDpEvent():
            size = component.epsilon
            moves = np.linspace(0.0, component.epsilon, CELLS + 1)[1:-1]
        case EpsilonDeltaDpEvent(delta=0.0):
            size, moves = 2 * component.epsilon, np.array([component.epsilon])
        case _:
            return 0.0
    high, best = np.arange(count + 1), 0.0
    for move in moves:
        loss = high * move - (count - high) * (size - move)
        mass = binom.pmf(
            high,
            count,
            np.expm1(move - size) / np.expm1(-size),
        )

        def excess(
            x: float,
            loss: np.ndarray = loss,
            mass: np.ndarray = mass,
        ) -> float:
            return float((mass * -np.expm1(np.minimum(x - loss, 0.0))).sum()) - delta

        if excess(0.0) > 0:
            best = max(
                best,
                float(brentq(excess, 0.0, float(loss[-1]), xtol=1e-9)),
            )
    return best


def _parts(counted: Counted) -> list[Samples]:
    """Samples as they are; without sampling all Gaussians as one, all choices of one size together, the rest alone."""
    parts = []
    for component, count in merge_gaussians(counted).items():
        if isinstance(component, dp.PoissonSampledDpEvent):
            parts.append(
                Samples(component.sampling_probability, components(component.event, None), count)
            )
        elif isinstance(component, BoundedRangeDpEvent):
            parts.append(Samples(1.0, {component: count}, 1))
        else:
            parts.append(Samples(1.0, {component: 1}, count))
    return parts


def _reach(
    parts: list[Samples],
    delta: float,
    upper: float,
    way: int,
) -> float:
    """The largest epsilon that adversaries reach, for a record that is removed (way 1) or added (way -1).

    Each one is improved part by part: given the others' composition, the divergence at the epsilon that was found is an
    aim for one sample of a part.
    """
    best = 0.0
    if looked := _looking_back(parts):
        best = _compare_with_look_back(looked, delta, upper, way)
        # else the aim is not the worst one for sure
        if not looked.failure or looked.count > MOST_TRIED:
            return best
    chooses = any(
        isinstance(component, BoundedRangeDpEvent) for part in parts for component in part.inside
    )
    alone = sum(part.count for part in parts) == 1
    starts = [
        hockey(way * upper),
        *(moment(order) for order in (STARTS[way] if chooses and not alone else ())),
    ]
    if chooses and alone:  # no range on the grid may reach what is claimed
        starts.append(hockey(way * 0.95 * upper))
    for start in starts:
        aims, target = [start] * len(parts), upper
        for _ in range(ROUNDS if chooses else 1):
            pairs = [part.pair(aim) for part, aim in zip(parts, aims, strict=True)]
            counts = [part.count for part in parts]
            directed = pairs if way == 1 else [pair.swap() for pair in pairs]
            reached = pairs_epsilon(list(zip(directed, counts, strict=True)), delta, upper)
            best = max(best, reached)
            if alone or not 0 < reached < math.inf:
                break
            target = reached
            aims = [
                _aim_given(
                    pairs,
                    counts,
                    at,
                    way * target,
                    upper,
                )
                for at in range(len(parts))
            ]
    return best


@dataclass(frozen=True)
class _LookingBack:
    """Samples of one choice each, ``count`` of them. rate: given that no release shows for certain whether the record
    is in its sample; failure: the probability that some release does."""

    rate: float
    size: float
    failure: float
    count: int

    def pair(self, upper: float, way: int) -> WorstPair:
        """The adversary's pair; one outcome, which is none without the record, stands for every failure."""
        pair = following_pair(self.size, self.rate, self.count, upper, way)
        present = np.append(pair.present * (1 - self.failure), self.failure)
        return WorstPair(present, np.append(pair.absent, 0.0))


def _looking_back(parts: list[Samples]) -> _LookingBack | None:
    """Where everything is samples of one choice each, which may fail; None elsewhere."""
    choices, rates, fine = set[tuple[float, dp.DpEvent]](), [], 1.0
    for part in parts:
        inside = dict(part.inside)
        failures = {
            c: inside.pop(c)
            for c in part.inside
            if isinstance(c, EpsilonDeltaDpEvent) and not c.epsilon
        }
        if sum(inside.values()) != 1:
            return None
        passes = math.prod((1 - component.delta) ** n for component, n in failures.items())
        fails = part.rate * (1 - passes)
        choices.add((part.rate, next(iter(inside))))
        rates.append((part.rate - fails) / (1 - fails))
        fine *= (1 - fails) ** part.count
    count = sum(part.count for part in parts)
    if len(choices) != 1 or not 1 < count <= MOST_LOOKBACKS:
        return None
    ((_, choice),) = choices
    return (
        _LookingBack(
            min(rates),
            choice.epsilon,
            1 - fine,
            count,
        )
        if isinstance(choice, BoundedRangeDpEvent)
        else None
    )


def _compare_with_look_back(looked: _LookingBack, delta: float, upper: float, way: int) -> float:
    """What its adversary reaches, who aims at the claim, and where that was far too much at what was found."""

    def reach(aim: float) -> float:
        pair = looked.pair(aim, way)
        return pairs_epsilon(
            [(pair if way == 1 else pair.swap(), 1)],
            delta,
            upper,
        )

    best = reach(upper)
    again = looked.count <= MOST_TRIED and 0 < best < AIMED * upper
    return max(best, reach(best)) if again else best


def _aim_given(
    pairs: list[WorstPair],
    counts: list[int],
    at: int,
    threshold: float,
    upper: float,
) -> Aim:
    """The divergence at the threshold of everything, as an aim for one more sample of a part: with R the likelihood
    ratio of this sample and R' that of all the rest, E (R R' - a)_+ = R E (R' - a/R)_+."""
    rest = [
        (pair, n - (here == at)) for here, (pair, n) in enumerate(zip(pairs, counts, strict=True))
    ]
    loss, mass, infinite, _ = _compose(
        [(pair, n) for pair, n in rest if n],
        upper,
        1e-9,
    )

    def aim(ratio: np.ndarray) -> np.ndarray:
        return ratio * _deltas(loss, mass, infinite, threshold - np.log(ratio))

    return aim


def pairs_epsilon(
    pairs: list[tuple[WorstPair, int]],
    delta: float,
    upper: float,
) -> float:
    """Lower bound on epsilon at delta of independent pairs, each so many times, for the present world against the
    absent one; 0 where none is found, infinity where outcomes of the first alone have mass delta.

    upper: about what is to be found; sets the grid.
    """
    missed = MISSED * delta
    loss, mass, infinite, deviation = _compose(pairs, upper, missed)
    return max(0.0, _threshold(loss, mass, infinite, delta + missed + NOISE_FLOOR) - deviation)


def _compose(
    pairs: list[tuple[WorstPair, int]], upper: float, missed: float
) -> tuple[np.ndarray, np.ndarray, float, float]:
    """(losses in order, their masses, the infinite mass, how far up rounding moves the sum but with probability
    ``missed``) of independent pairs, each so many times."""
    number = sum(count for _, count in pairs)
    deviation = math.sqrt(max(number, 1) / 2 * math.log(1 / missed))
    grid = ROUNDING * upper / deviation
    total, lowest, finite = np.ones(1), 0, 1.0
    for pair, count in pairs:
        mass, start, infinite = _losses(pair, grid)
        offset, convolved = self_convolve(mass, count, TAIL) if count > 1 else (0, mass)
        positive = np.maximum(convolved, 0.0)
        total = fftconvolve(total, positive) if total.size > 1 else positive
        lowest, finite = lowest + start * count + offset, finite * (1 - infinite) ** count
    return (
        (lowest + np.arange(total.size)) * grid,
        np.maximum(total, 0.0),
        1 - finite,
        grid * deviation,
    )


def _deltas(
    loss: np.ndarray,
    mass: np.ndarray,
    infinite: float,
    x: np.ndarray,
) -> np.ndarray:
    """infinite + sum of mass (1 - e^(x - loss))_+ at every x."""
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    with np.errstate(over="ignore"):
        absent = mass * np.exp(-np.maximum(loss, -600.0))
        weighed = np.append(np.cumsum(absent[::-1])[::-1], 0.0)
        at = np.searchsorted(loss, x, side="right")
        return infinite + np.maximum(0.0, above[at] - np.exp(x) * weighed[at])


def _losses(pair: WorstPair, grid: float) -> tuple[np.ndarray, int, float]:
    """(masses on the grid, the first point, mass of infinite loss) under the first distribution of the pair."""
    some = (pair.present > 1e-18) & (pair.absent > 0)
    with np.errstate(all="ignore"):  # a grid of 0 is refused below
        mass = pair.present[some]
        exact = np.log(pair.present[some] / pair.absent[some]) / grid
    if exact.size and not np.ptp(exact) < MOST_CELLS:
        raise OverflowError("losses too far apart for a grid")
    cell = np.floor(exact).astype(int)
    lowest, share = int(cell.min()), exact - cell
    size = int(cell.max()) - lowest + 2
    masses = np.bincount(
        cell - lowest,
        mass * (1 - share),
        size,
    ) + np.bincount(cell - lowest + 1, mass * share, size)
    return masses, lowest, float(pair.present[pair.absent == 0].sum())


def _threshold(
    loss: np.ndarray,
    mass: np.ndarray,
    infinite: float,
    delta: float,
) -> float:
    """The largest x with infinite + sum of mass (1 - e^(x - loss))_+ >= delta; 0 where even x = 0 has less."""
    if infinite >= delta:
        return math.inf
    loss, mass = loss[::-1], mass[::-1]
    inside = loss > 0
    above = np.cumsum(mass[inside])
    weighed = np.cumsum(mass[inside] * np.exp(-loss[inside]))
    deltas = infinite + above - np.exp(loss[inside]) * weighed  # at x = each loss; rises as x falls
    reached = np.flatnonzero(deltas >= delta)
    # x lies below this loss, and above the next one
    last = int(reached[0]) - 1 if reached.size else above.size - 1
    if last < 0 or infinite + above[last] <= delta:
        return 0.0
    return max(0.0, math.log((infinite + above[last] - delta) / weighed[last]))
