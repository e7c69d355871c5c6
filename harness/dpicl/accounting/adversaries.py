"""Adversaries for lower bounds on epsilon (slack.py): a pair of distributions for each part of an event.

| part of an event | the adversary's pair of distributions, with the record and without |
|---|---|
| Gaussian, Laplace | the record moves the release by the whole sensitivity: the worst pair |
| (epsilon, delta) | the pair that dominates all others (Kairouz, Oh & Viswanath 2015) |
| zCDP | the Gaussian of the same rho; xi is left out, so the bound may be loose |
| a round of AboveThreshold | a record that raises the first query to the threshold, and none of those after it |
| k bounded-range choices | two outcomes each, at both ends of a range, which may depend on earlier choices |
| Poisson sample | the mixture (1 - q) Q + q P against Q, or the other way round |

Two outcomes at the ends of the range are the worst choice for every convex aim (dpicl.accounting.bounded_range);
which range is best depends on what is aimed at. Outputs are merged, which is post-processing and loses a little.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from scipy.special import beta, expit, ndtr
from scipy.stats import laplace

from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounded_range import LOG_TAIL, most_ranges
from dpicl.accounting.decomposition import components, gaussian_multiplier, of_kind
from dpicl.accounting.events import (
    AboveThresholdDpEvent,
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
)

#: Ranges of a choice that its adversary chooses among, less one.
CELLS = 24
#: Steps of the grid for the standard deviation of one sample's loss, and the most samples, where the adversary of
#: samples of one choice each looks back.
LOOKBACK_STEPS, MOST_LOOKBACKS = 4, 4000
#: More choices on one sample are made in blocks, each by itself.
MOST_CHOICES = 400
#: Cells of a Gaussian's output, and standard deviations beyond which it is cut off.
OUTPUTS, REACH = 3000, 8.5
#: Most outcomes of a part of a sample next to another part; more are merged.
MOST_OUTCOMES = 600
#: Queries of an adversary's round of AboveThreshold after the first one.
QUESTIONS = 20

#: The likelihood ratio of a whole sample, with the record over without -> what the adversary aims at; convex.
Aim = Callable[[np.ndarray], np.ndarray]
Counted = Mapping[dp.DpEvent, int]


@dataclass(frozen=True)
class WorstPair:
    """Two distributions on the same n outcomes, float64[n] each: with the record, and without."""

    present: np.ndarray
    absent: np.ndarray

    def times(self, other: WorstPair) -> WorstPair:
        """Both outcomes, independent of each other."""
        mine, theirs = self.merge(MOST_OUTCOMES), other.merge(MOST_OUTCOMES)
        both = WorstPair(
            np.outer(mine.present, theirs.present).ravel(),
            np.outer(mine.absent, theirs.absent).ravel(),
        )
        return both.merge(MOST_OUTCOMES)

    def power(self, count: int) -> WorstPair:
        """``count`` times, independent of each other; count >= 1."""
        if count == 1:
            return self
        half = self.merge(MOST_OUTCOMES).power(count // 2)
        return half.times(half).times(self) if count % 2 else half.times(half)

    def sample(self, rate: float) -> WorstPair:
        """Of a Poisson sample: the record is in it with probability ``rate``."""
        return WorstPair((1 - rate) * self.absent + rate * self.present, self.absent)

    def swap(self) -> WorstPair:
        """The other way round: without the record, against with it."""
        return WorstPair(self.absent, self.present)

    def merge(self, number: int) -> WorstPair:
        """About so many outcomes at most: those of nearly the same likelihood ratio become one."""
        if self.present.size <= number:
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.log(self.present / self.absent)
        inside = np.isfinite(loss)
        finite = loss[inside]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        place = np.zeros(loss.size, dtype=int)  # 0, 1: ratio 0 and infinite
        place[loss == np.inf] = 1
        cell = (finite - low) / (high - low or 1.0) * number
        place[inside] = 2 + np.minimum(cell, number - 1).astype(int)
        return WorstPair(np.bincount(place, self.present), np.bincount(place, self.absent))


_NOTHING = WorstPair(np.ones(1), np.ones(1))


def compose_pairs(counted: Counted, rate: float, aim: Aim) -> WorstPair:
    """The adversary's pair for all components together, inside a Poisson sample at ``rate``; its choices come last, and
    go by the aim."""
    pairs = [
        _one(component, n)
        for component, n in merge_gaussians(counted).items()
        if not isinstance(component, BoundedRangeDpEvent)
    ]
    choices = {choice.epsilon: n for choice, n in of_kind(counted, BoundedRangeDpEvent).items()}
    main = max(choices, key=lambda size: choices[size] * size**2, default=0.0)
    for size, n in choices.items():
        if size != main:
            pairs.append(choice_ends(size, 0.6 * size).power(n))
    others = reduce(WorstPair.times, pairs) if pairs else _NOTHING
    if not main:
        return others
    rest = choices[main] % MOST_CHOICES or MOST_CHOICES
    blocks = (choices[main] - rest) // MOST_CHOICES
    pair = choices_pair(
        main,
        rest,
        rate,
        others.merge(MOST_OUTCOMES),
        moment(1.5) if blocks else aim,
    )
    if not blocks:
        return pair
    return pair.times(
        choices_pair(
            main,
            MOST_CHOICES,
            rate,
            _NOTHING,
            moment(1.5),
        ).power(blocks)
    )


def choices_pair(
    size: float,
    count: int,
    rate: float,
    known: WorstPair,
    aim: Aim,
) -> WorstPair:
    """``count`` choices of bounded range ``size``, each with the range that serves the aim best after the earlier ones.

    known: what is released from the sample before, and which the choices go by too. The state is the loss so far, on
    multiples of size / CELLS (what is known starts near one of them, and the rest is kept). With loss l a choice goes
    to l + t or l + t - size, for any t on the grid; t = 0 is to choose nothing at all, which is what is left at the
    ends of the grid.
    """
    step = size / CELLS
    both = (known.present > 0) & (known.absent > 0)
    start, first, beside = _starts(known.present[both], known.absent[both], step)
    reach = CELLS * (most_ranges(size, count) + 1)
    lowest = int(start.min()) - reach
    loss = np.arange(lowest, int(start.max()) + reach + 1) * step
    t = np.arange(CELLS + 1) * step
    # without the record, the larger loss
    high = np.exp(-t) * np.expm1(t - size) / math.expm1(-size)
    n, policy = loss.size, []
    inner = np.arange(CELLS, n - CELLS)
    value = aim(1 - rate + rate * np.exp(loss))
    for _ in range(count):
        reached = np.stack(
            [
                high[j] * value[inner + j] + (1 - high[j]) * value[inner + j - CELLS]
                for j in range(CELLS + 1)
            ]
        )
        policy.append(reached.argmax(axis=0))
        value = value.copy()
        value[inner] = reached.max(axis=0)
    absent = np.zeros((start.size, n))
    absent[np.arange(start.size), start - lowest] = first
    row = np.arange(start.size)[:, None] * n
    for chosen in reversed(policy):
        mass, after = absent[:, inner], absent.copy()
        after[:, inner] = 0.0
        for place, part in (
            (inner + chosen, high[chosen]),
            (inner + chosen - CELLS, 1 - high[chosen]),
        ):
            after += np.bincount(
                (row + place).ravel(),
                (mass * part).ravel(),
                after.size,
            ).reshape(after.shape)
        absent = after
    some = absent > 0
    present = (absent * np.exp(loss + beside[:, None]))[some]
    only = WorstPair(known.present[~both], known.absent[~both])
    return WorstPair(
        np.concatenate([present, only.present]), np.concatenate([absent[some], only.absent])
    )


def _starts(
    present: np.ndarray,
    absent: np.ndarray,
    step: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(multiple of ``step``, mass without the record, loss beside the multiple) of outcomes, those of one multiple
    merged."""
    places, which = np.unique(
        np.round(np.log(present / absent) / step).astype(int), return_inverse=True
    )
    with_it, without = np.bincount(which, present), np.bincount(which, absent)
    return places, without, np.log(with_it / without) - places * step


def following_pair(
    size: float,
    rate: float,
    count: int,
    threshold: float,
    way: int,
) -> WorstPair:
    """``count`` samples at ``rate``, each with one choice of bounded range ``size`` whose range follows the loss so far
    so as to make the divergence at the threshold large; ``way`` as in `_reach`.

    First backwards: what is reached from each loss on a grid, and by which of CELLS + 1 ranges. Then forwards, with
    exact masses: outcomes whose losses are next to each other are merged, which is post-processing.
    """
    t = np.arange(CELLS + 1) * (size / CELLS)
    # m - 1, of the likelihood ratio m of one sample
    ends = rate * np.expm1(np.stack([t, t - size]))
    high = -ends[1] / (ends[0] - ends[1])
    absent = np.stack([high, 1 - high])
    present, move = absent * (1 + ends), way * np.log1p(ends)
    first = present if way == 1 else absent
    step = math.sqrt(float((first * move**2).sum(axis=0).max())) / LOOKBACK_STEPS
    widest = float(np.ptp(move))
    deviation = math.sqrt(-LOG_TAIL / 2 * count)
    reach = math.ceil((min(count, count * widest / 8 + deviation) + 1) * widest / step)
    loss = np.arange(-reach, reach + 1) * step
    cell = np.floor(move / step).astype(int)
    share = move / step - cell
    pad = int(np.abs(cell).max()) + 1
    value, policy = np.maximum(0.0, -np.expm1(threshold - loss)), []
    for _ in range(count):
        wide = np.pad(value, (pad, pad + 1), mode="edge")
        best = np.zeros(loss.size)
        which = np.zeros(loss.size, dtype=np.int8)
        for j in range(CELLS + 1):
            reached = np.zeros(loss.size)
            for end in (0, 1):
                at = pad + cell[end, j]
                below = wide[at : at + loss.size]
                above = wide[at + 1 : at + 1 + loss.size]
                reached += first[end, j] * ((1 - share[end, j]) * below + share[end, j] * above)
            which[reached > best] = j
            np.maximum(best, reached, out=best)
        policy.append(which)
        value = best
    with_it, without = np.zeros(loss.size), np.zeros(loss.size)
    with_it[reach] = without[reach] = 1.0
    for chosen in reversed(policy):
        some = np.flatnonzero((with_it > 0) & (without > 0))
        picked = chosen[some]
        here = way * np.log(with_it[some] / without[some])
        next_with, next_without = np.zeros(loss.size), np.zeros(loss.size)
        for end in (0, 1):
            at = np.clip(
                np.round((here + move[end, picked]) / step).astype(int) + reach,
                0,
                2 * reach,
            )
            next_with += np.bincount(at, with_it[some] * present[end, picked], loss.size)
            next_without += np.bincount(at, without[some] * absent[end, picked], loss.size)
        with_it, without = next_with, next_without
    return WorstPair(with_it, without)


def hockey(threshold: float) -> Aim:
    return lambda ratio: np.maximum(ratio - math.exp(threshold), 0.0)


def moment(order: float) -> Aim:
    def aim(ratio: np.ndarray) -> np.ndarray:
        logs = order * np.log(ratio)
        return np.exp(logs - logs.max())

    return aim


def _one(component: dp.DpEvent, count: int) -> WorstPair:
    """The worst pair of an elementary component or a sample, ``count`` times."""
    match component:
        case dp.GaussianDpEvent():
            one = gaussian_pair(component.noise_multiplier)
        case dp.ZCDpEvent():
            return (
                gaussian_pair(math.sqrt(1 / (2 * component.rho * count)))
                if component.rho
                else _NOTHING
            )
        case dp.LaplaceDpEvent():
            ends = np.concatenate(
                [
                    [-np.inf],
                    np.linspace(0, 1, MOST_OUTCOMES),
                    [np.inf],
                ]
            )
            scale = component.noise_multiplier
            one = WorstPair(
                np.diff(laplace.cdf(ends, 1, scale)),
                np.diff(laplace.cdf(ends, 0, scale)),
            )
        case EpsilonDeltaDpEvent():
            likely = (1 - component.delta) * expit(component.epsilon)
            rest = (1 - component.delta) * expit(-component.epsilon)
            one = WorstPair(
                np.array([component.delta, likely, rest, 0]),
                np.array([0, rest, likely, component.delta]),
            )
        case AboveThresholdDpEvent():
            one = round_adversary(component.epsilon)
        case dp.PoissonSampledDpEvent():
            inside = components(component.event, None)
            rate = component.sampling_probability
            one = compose_pairs(inside, rate, moment(2.0)).sample(rate)
        case _:
            raise TypeError(f"no adversary is known for {component!r}")
    return one.power(count)


def gaussian_pair(multiplier: float) -> WorstPair:
    """A Gaussian whose mean moves by the whole sensitivity, its output rounded to cells."""
    move = 1 / multiplier
    ends = cell_ends(move)
    return WorstPair(cell_masses(ends, move), cell_masses(ends, 0.0))


def cell_ends(farthest: float) -> np.ndarray:
    """float64[OUTPUTS + 2]: the ends of the cells of a Gaussian output whose mean lies between 0 and the farthest."""
    inner = np.linspace(-REACH, farthest + REACH, OUTPUTS)
    return np.concatenate([[-np.inf], inner, [np.inf]])


def cell_masses(ends: np.ndarray, mean: float) -> np.ndarray:
    """The mass of N(mean, 1) in every cell; the tail on either side keeps its digits."""
    below = np.diff(ndtr(ends - mean))
    above = -np.diff(ndtr(mean - ends))
    return np.where(ends[1:] < mean, below, above)


def round_adversary(epsilon: float) -> WorstPair:
    """A round whose first query is at the threshold with the record, and lower by the whole bound without; `QUESTIONS`
    more are at the threshold in any case.

    With w = e^(-noise of the threshold/b), uniform on (0, 1), the first query is above with probability c w, c = 1 or
    e^-epsilon, and each later one with probability w. The bound of a round is of two outcomes that none has, so it is
    not tight.
    """
    later = np.arange(1, QUESTIONS + 1)

    def outcomes(c: float) -> np.ndarray:
        never = beta(1, QUESTIONS + 1) - c * beta(2, QUESTIONS + 1)
        return np.array([c / 2, *(beta(2, later) - c * beta(3, later)), never])

    return WorstPair(outcomes(1.0), outcomes(math.exp(-epsilon)))


def threshold_rounds(scale: float, moved: float) -> Iterator[WorstPair]:
    """Rounds of AboveThreshold as it is published: Laplace noise of this scale on the threshold and twice as much on
    every query, which one record moves by ``moved`` either way. Most queries fall with the record, and the last rises;
    or the other way round. They differ in how many queries there are, and how far from the threshold.

    Outcomes: one of the first is above, the last one is, none is. The integrals over the threshold's noise are by
    Gauss-Legendre quadrature between its kinks, exact up to floating point.
    """
    nodes, weights = np.polynomial.legendre.leggauss(20)

    def outcomes(first: float, last: float, number: int) -> np.ndarray:
        ends = np.unique(
            [
                *np.linspace(-REACH, REACH, 18) * 4,
                *np.clip([0.0, first, last], -4 * REACH, 4 * REACH),
            ]
        )
        half = np.diff(ends)[:, None] / 2
        noise = (ends[:-1, None] + half + half * nodes).ravel()
        mass = (half * weights).ravel() * laplace.pdf(noise)
        below = number * laplace.logcdf(noise - first, scale=2)
        quiet = np.exp(below) * mass
        beside = [laplace.sf(noise - last, scale=2), laplace.cdf(noise - last, scale=2)]
        return np.array([-np.expm1(below) @ mass, *(float(quiet @ one) for one in beside)])

    move = moved / scale
    for number in (0, 1, 2, 4, 10):
        for first in range(-6, 3) if number else (0,):
            for last in range(-3, 4):
                pair = WorstPair(
                    outcomes(first - move, last + move, number),
                    outcomes(first, last, number),
                )
                yield from (pair, pair.swap())


def choice_ends(size: float, t: float) -> WorstPair:
    """One choice with the losses t and t - size."""
    high = math.expm1(t - size) / math.expm1(-size)
    present = np.array([high, 1 - high])
    return WorstPair(present, present * np.exp([-t, size - t]))


def merge_gaussians(counted: Counted) -> dict[dp.DpEvent, int]:
    """The same components with one Gaussian for all."""
    plain = of_kind(counted, dp.GaussianDpEvent)
    rest = {component: n for component, n in counted.items() if component not in plain}
    return rest | ({dp.GaussianDpEvent(gaussian_multiplier(plain)): 1} if plain else {})
