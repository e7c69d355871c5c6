"""Slack: the claimed upper bound on epsilon over the best lower bound that is known for the same event.

Matched epsilons are a fair comparison only where the bounds are equally tight. The lower bound is the cost of one
adversary, a mechanism and a neighbour that the event admits, composed numerically:

| part of an event | the adversary's pair of distributions, with the record and without |
|---|---|
| Gaussian, Laplace | the record moves the release by the whole sensitivity: the worst pair |
| (epsilon, delta) | the pair that dominates all others (Kairouz, Oh & Viswanath 2015) |
| zCDP | the Gaussian of the same rho; xi is left out, so the bound may be loose |
| k bounded-range choices | two outcomes each, at both ends of a range, which may depend on earlier choices |
| Poisson sample | the mixture (1 - q) Q + q P against Q, or the other way round |

Two outcomes at the ends of the range are the worst choice for every convex aim (dpicl.harness.privacy.bounded_range);
which range is best depends on what is aimed at. For one sample the hockey-stick divergence at the claimed epsilon is
aimed at, and the adversary is the worst one there is, up to the grid. So it is for samples of one choice each: the
range on one sample follows the loss of the samples before. For other repeated samples there is no such single aim that
is quickly worked out: adversaries that aim at a moment of the likelihood ratio (the worst ones for Renyi DP) are tried,
and the best counts. So the slack of repeated samples of choices is at most what is said, and may be less.

Everything is rounded to the safe side. Outputs are merged, which is post-processing and loses a little. Composed losses
lie on a grid: each is moved at random to the point above or below it so that its mean stays, so the sum of T is off by
more than grid * sqrt(T ln(1/eta) / 2) upwards with probability eta at most (Hoeffding), and both are taken off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
from dp_accounting import dp_event as dp
from dp_accounting.pld.common import self_convolve
from scipy.signal import fftconvolve
from scipy.special import ndtr
from scipy.stats import laplace

from dpicl.harness.core.errors import AccountantsDisagree
from dpicl.harness.privacy.accountants import worst_group
from dpicl.harness.privacy.decomposition import NON_PRIVATE, components, gaussian_multiplier
from dpicl.harness.privacy.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent, LabelResponseDpEvent

#: Where a theorem or an exact recursion gives the upper bound, the slack is to be at most this.
LARGEST = 1.05
#: Moments of the likelihood ratio that adversaries of repeated choices aim at first, by way; then they improve.
STARTS: Mapping[int, tuple[float, ...]] = {1: (1.2, 2.5), -1: (-1.0,)}
#: How often an adversary is worked out, each time against the last one.
ROUNDS = 7
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
#: Rounding of the composed losses, as a share of epsilon, and the probability that it is exceeded, as one of delta.
ROUNDING, MISSED = 2e-3, 1e-3
#: What rounding errors of the Fourier transforms may add up to.
NOISE_FLOOR = 2e-11
#: Tails of a composition that are folded into each other.
TAIL = 1e-15
#: ln of the probability that choices reach the end of their grid.
_LOG_TAIL = -41.0

#: The likelihood ratio of a whole sample, with the record over without -> what the adversary aims at; convex.
Aim = Callable[[np.ndarray], np.ndarray]
Counted = Mapping[dp.DpEvent, int]


@dataclass(frozen=True)
class Samples:
    """Samples at one rate in each of which all of ``inside`` is released, ``count`` of them."""

    rate: float
    inside: Counted
    count: int

    def pair(self, aim: Aim) -> WorstPair:
        """The adversary's pair of one sample."""
        return composed(self.inside, self.rate, aim).sampled(self.rate)


@dataclass(frozen=True)
class WorstPair:
    """Two distributions on the same n outcomes, float64[n] each: with the record, and without."""

    present: np.ndarray
    absent: np.ndarray

    def times(self, other: WorstPair) -> WorstPair:
        """Both outcomes, independent of each other."""
        mine, theirs = self.merged(MOST_OUTCOMES), other.merged(MOST_OUTCOMES)
        both = WorstPair(np.outer(mine.present, theirs.present).ravel(), np.outer(mine.absent, theirs.absent).ravel())
        return both.merged(MOST_OUTCOMES)

    def power(self, count: int) -> WorstPair:
        """``count`` times, independent of each other; count >= 1."""
        if count == 1:
            return self
        half = self.merged(MOST_OUTCOMES).power(count // 2)
        return half.times(half).times(self) if count % 2 else half.times(half)

    def sampled(self, rate: float) -> WorstPair:
        """Of a Poisson sample: the record is in it with probability ``rate``."""
        return WorstPair((1 - rate) * self.absent + rate * self.present, self.absent)

    def merged(self, number: int) -> WorstPair:
        """About so many outcomes at most: those of nearly the same likelihood ratio become one."""
        if self.present.size <= number:
            return self
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = np.log(self.present / self.absent)
        inside = np.isfinite(loss)
        low, high = (loss[inside].min(), loss[inside].max()) if inside.any() else (0.0, 0.0)
        place = np.zeros(loss.size, dtype=int)  # 0, 1: ratio 0 and infinite
        place[loss == np.inf] = 1
        place[inside] = 2 + np.minimum((loss[inside] - low) / (high - low or 1.0) * number, number - 1).astype(int)
        return WorstPair(np.bincount(place, self.present), np.bincount(place, self.absent))


_NOTHING = WorstPair(np.ones(1), np.ones(1))


def slack(event: dp.DpEvent, delta: float, upper: float) -> float | None:
    """``upper``, a bound on the event's epsilon at delta, over the best lower bound; None where epsilon is 0 or
    infinite, or nothing is known from below.

    Raises AccountantsDisagree when the lower bound is above the upper one: then one of them is wrong.
    """
    if not 0 < upper < math.inf:
        return None
    lower = lower_bound(event, delta, upper)
    if lower > upper:
        raise AccountantsDisagree(
            f"An adversary costs epsilon = {lower:.6g} at delta = {delta:g}, and {upper:.6g} is proved for {event!r}:"
            " one of them is wrong. Report these numbers."
        )
    return upper / lower if lower > 0 else None


def loose(value: float | None) -> str | None:
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
    if NON_PRIVATE in counted:
        return math.inf
    parts = _parts(counted)
    best = _reached(parts, delta, upper, 1)
    return max(best, _reached(parts, delta, upper, -1)) if best < math.inf else best


def _parts(counted: Counted) -> list[Samples]:
    """Samples as they are; without sampling all Gaussians as one, all choices of one size together, the rest alone."""
    parts = []
    for component, count in _merged_gaussians(counted).items():
        if isinstance(component, dp.PoissonSampledDpEvent):
            parts.append(Samples(component.sampling_probability, components(component.event, None), count))
        elif isinstance(component, BoundedRangeDpEvent):
            parts.append(Samples(1.0, {component: count}, 1))
        else:
            parts.append(Samples(1.0, {component: 1}, count))
    return parts


def _reached(parts: list[Samples], delta: float, upper: float, way: int) -> float:
    """The largest epsilon that adversaries reach, for a record that is removed (way 1) or added (way -1).

    Each one is improved part by part: given the others' composition, the divergence at the epsilon that was found is an
    aim for one sample of a part.
    """
    if looked := _looking_back(parts):
        rate, size, count = looked
        pair = following_pair(size, rate, count, upper, way)
        return _epsilon([(pair if way == 1 else WorstPair(pair.absent, pair.present), 1)], delta, upper)
    chooses = any(isinstance(component, BoundedRangeDpEvent) for part in parts for component in part.inside)
    alone = sum(part.count for part in parts) == 1
    starts = [_hockey(way * upper), *(_moment(order) for order in (STARTS[way] if chooses and not alone else ()))]
    best = 0.0
    for start in starts:
        aims, target = [start] * len(parts), upper
        for _ in range(ROUNDS if chooses else 1):
            pairs = [part.pair(aim) for part, aim in zip(parts, aims, strict=True)]
            counts = [part.count for part in parts]
            seen = pairs if way == 1 else [WorstPair(pair.absent, pair.present) for pair in pairs]
            found = _epsilon(list(zip(seen, counts, strict=True)), delta, upper)
            best = max(best, found)
            if alone or not 0 < found < math.inf:
                break
            target = found
            aims = [_given(pairs, counts, at, way * target, upper) for at in range(len(parts))]
    return best


def _looking_back(parts: list[Samples]) -> tuple[float, float, int] | None:
    """(rate, epsilon', number) where everything is samples of one choice each; None elsewhere."""
    if len(parts) != 1 or not 1 < parts[0].count <= MOST_LOOKBACKS or sum(parts[0].inside.values()) != 1:
        return None
    (choice,) = parts[0].inside
    return (parts[0].rate, choice.epsilon, parts[0].count) if isinstance(choice, BoundedRangeDpEvent) else None


def following_pair(size: float, rate: float, count: int, threshold: float, way: int) -> WorstPair:
    """``count`` samples at ``rate``, each with one choice of bounded range ``size`` whose range follows the loss so far
    so as to make the divergence at the threshold large; ``way`` as in `_reached`.

    First backwards: what is reached from each loss on a grid, and by which of CELLS + 1 ranges. Then forwards, with
    exact masses: outcomes whose losses are next to each other are merged, which is post-processing.
    """
    t = np.arange(CELLS + 1) * (size / CELLS)
    ends = rate * np.expm1(np.stack([t, t - size]))  # m - 1, of the likelihood ratio m of one sample
    high = -ends[1] / (ends[0] - ends[1])
    absent = np.stack([high, 1 - high])
    present, move = absent * (1 + ends), way * np.log1p(ends)
    first = present if way == 1 else absent
    step = math.sqrt(float((first * move**2).sum(axis=0).max())) / LOOKBACK_STEPS
    widest = float(np.ptp(move))
    reach = math.ceil((min(count, count * widest / 8 + math.sqrt(-_LOG_TAIL / 2 * count)) + 1) * widest / step)
    loss = np.arange(-reach, reach + 1) * step
    cell = np.floor(move / step).astype(int)
    share, pad = move / step - cell, int(np.abs(cell).max()) + 1
    value, policy = np.maximum(0.0, -np.expm1(threshold - loss)), []
    for _ in range(count):
        wide = np.pad(value, (pad, pad + 1), mode="edge")
        best, which = np.zeros(loss.size), np.zeros(loss.size, dtype=np.int8)
        for j in range(CELLS + 1):
            reached = np.zeros(loss.size)
            for end in (0, 1):
                at = pad + cell[end, j]
                below, above = wide[at : at + loss.size], wide[at + 1 : at + 1 + loss.size]
                reached += first[end, j] * ((1 - share[end, j]) * below + share[end, j] * above)
            which[reached > best] = j
            np.maximum(best, reached, out=best)
        policy.append(which)
        value = best
    with_it, without = np.zeros(loss.size), np.zeros(loss.size)
    with_it[reach] = without[reach] = 1.0
    for chosen in reversed(policy):
        some = np.flatnonzero((with_it > 0) & (without > 0))
        picked, here = chosen[some], way * np.log(with_it[some] / without[some])
        next_with, next_without = np.zeros(loss.size), np.zeros(loss.size)
        for end in (0, 1):
            at = np.clip(np.round((here + move[end, picked]) / step).astype(int) + reach, 0, 2 * reach)
            next_with += np.bincount(at, with_it[some] * present[end, picked], loss.size)
            next_without += np.bincount(at, without[some] * absent[end, picked], loss.size)
        with_it, without = next_with, next_without
    return WorstPair(with_it, without)


def _given(pairs: list[WorstPair], counts: list[int], at: int, threshold: float, upper: float) -> Aim:
    """The divergence at the threshold of everything, as an aim for one more sample of a part: with R the likelihood
    ratio of this sample and R' that of all the rest, E (R R' - a)_+ = R E (R' - a/R)_+."""
    rest = [(pair, n - (here == at)) for here, (pair, n) in enumerate(zip(pairs, counts, strict=True))]
    loss, mass, infinite, _ = _composed([(pair, n) for pair, n in rest if n], upper, 1e-9)

    def aim(ratio: np.ndarray) -> np.ndarray:
        return ratio * _deltas(loss, mass, infinite, threshold - np.log(ratio))

    return aim


def composed(counted: Counted, rate: float, aim: Aim) -> WorstPair:
    """The adversary's pair for all components together, inside a Poisson sample at ``rate``; its choices come last, and
    go by the aim."""
    pairs = [
        _one(component, n)
        for component, n in _merged_gaussians(counted).items()
        if not isinstance(component, BoundedRangeDpEvent)
    ]
    choices = {component.epsilon: n for component, n in counted.items() if isinstance(component, BoundedRangeDpEvent)}
    main = max(choices, key=lambda size: choices[size] * size**2, default=0.0)
    for size, n in choices.items():
        if size != main:
            pairs.append(_choice(size, 0.6 * size).power(n))
    others = reduce(WorstPair.times, pairs) if pairs else _NOTHING
    if not main:
        return others
    rest = choices[main] % MOST_CHOICES or MOST_CHOICES
    blocks = (choices[main] - rest) // MOST_CHOICES
    own = choices_pair(main, rest, rate, others.merged(MOST_OUTCOMES), _moment(1.5) if blocks else aim)
    if not blocks:
        return own
    return own.times(choices_pair(main, MOST_CHOICES, rate, _NOTHING, _moment(1.5)).power(blocks))


def choices_pair(size: float, count: int, rate: float, known: WorstPair, aim: Aim) -> WorstPair:
    """``count`` choices of bounded range ``size``, each with the range that serves the aim best after the earlier ones.

    known: what is released from the sample before, and which the choices go by too. The state is the loss so far, on
    multiples of size / CELLS (what is known starts near one of them, and the rest is kept). With loss l a choice goes
    to l + t or l + t - size, for any t on the grid; t = 0 is to choose nothing at all, which is what is left at the
    ends of the grid.
    """
    step = size / CELLS
    both = (known.present > 0) & (known.absent > 0)
    start, first, beside = _starts(known.present[both], known.absent[both], step)
    reach = CELLS * (min(count, math.ceil(count * size / 8 + math.sqrt(-_LOG_TAIL / 2 * count)) + 1) + 1)
    lowest = int(start.min()) - reach
    loss = np.arange(lowest, int(start.max()) + reach + 1) * step
    t = np.arange(CELLS + 1) * step
    high = np.exp(-t) * np.expm1(t - size) / math.expm1(-size)  # without the record, the larger loss
    n, policy = loss.size, []
    inner, value = np.arange(CELLS, n - CELLS), aim(1 - rate + rate * np.exp(loss))
    for _ in range(count):
        reached = np.stack(
            [high[j] * value[inner + j] + (1 - high[j]) * value[inner + j - CELLS] for j in range(CELLS + 1)]
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
        for place, part in ((inner + chosen, high[chosen]), (inner + chosen - CELLS, 1 - high[chosen])):
            after += np.bincount((row + place).ravel(), (mass * part).ravel(), after.size).reshape(after.shape)
        absent = after
    some = absent > 0
    present = (absent * np.exp(loss + beside[:, None]))[some]
    only = WorstPair(known.present[~both], known.absent[~both])
    return WorstPair(np.concatenate([present, only.present]), np.concatenate([absent[some], only.absent]))


def _starts(present: np.ndarray, absent: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(multiple of ``step``, mass without the record, loss beside the multiple) of outcomes, those of one multiple
    merged."""
    places, which = np.unique(np.round(np.log(present / absent) / step).astype(int), return_inverse=True)
    with_it, without = np.bincount(which, present), np.bincount(which, absent)
    return places, without, np.log(with_it / without) - places * step


def _hockey(threshold: float) -> Aim:
    return lambda ratio: np.maximum(ratio - math.exp(threshold), 0.0)


def _moment(order: float) -> Aim:
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
                else WorstPair(*np.ones((2, 1)))
            )
        case dp.LaplaceDpEvent():
            ends = np.concatenate([[-np.inf], np.linspace(0, 1, MOST_OUTCOMES), [np.inf]])
            scale = component.noise_multiplier
            one = WorstPair(np.diff(laplace.cdf(ends, 1, scale)), np.diff(laplace.cdf(ends, 0, scale)))
        case LabelResponseDpEvent():  # of two labels
            likely = 1 / (1 + math.exp(-component.epsilon))
            one = WorstPair(np.array([likely, 1 - likely]), np.array([1 - likely, likely]))
        case EpsilonDeltaDpEvent():
            likely = (1 - component.delta) / (1 + math.exp(-component.epsilon))
            rest = 1 - component.delta - likely
            one = WorstPair(np.array([component.delta, likely, rest, 0]), np.array([0, rest, likely, component.delta]))
        case dp.PoissonSampledDpEvent():
            inside = components(component.event, None)
            rate = component.sampling_probability
            one = composed(inside, rate, _moment(2.0)).sampled(rate)
        case _:
            raise TypeError(f"no adversary is known for {component!r}")
    return one.power(count)


def gaussian_pair(multiplier: float) -> WorstPair:
    """A Gaussian whose mean moves by the whole sensitivity, its output rounded to cells."""
    move = 1 / multiplier
    ends = np.concatenate([[-np.inf], np.linspace(-REACH, move + REACH, OUTPUTS), [np.inf]])
    below, above = ndtr(ends), ndtr(-ends)  # the tail on either side keeps its digits
    shifted, shifted_above = ndtr(ends - move), ndtr(move - ends)
    absent = np.where(ends[1:] < 0, np.diff(below), -np.diff(above))
    present = np.where(ends[1:] < move, np.diff(shifted), -np.diff(shifted_above))
    return WorstPair(present, absent)


def _choice(size: float, t: float) -> WorstPair:
    """One choice with the losses t and t - size."""
    high = math.expm1(t - size) / math.expm1(-size)
    present = np.array([high, 1 - high])
    return WorstPair(present, present * np.exp([-t, size - t]))


def _merged_gaussians(counted: Counted) -> dict[dp.DpEvent, int]:
    """The same components with one Gaussian for all."""
    plain = {component: n for component, n in counted.items() if isinstance(component, dp.GaussianDpEvent)}
    rest = {component: n for component, n in counted.items() if component not in plain}
    return rest | ({dp.GaussianDpEvent(gaussian_multiplier(plain)): 1} if plain else {})


def _epsilon(pairs: list[tuple[WorstPair, int]], delta: float, upper: float) -> float:
    """Lower bound on epsilon at delta of independent pairs, each so many times; 0 where none is found."""
    missed = MISSED * delta
    loss, mass, infinite, deviation = _composed(pairs, upper, missed)
    return max(0.0, _threshold(loss, mass, infinite, delta + missed + NOISE_FLOOR) - deviation)


def _composed(
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
        offset, own = self_convolve(mass, count, TAIL) if count > 1 else (0, mass)
        total = fftconvolve(total, np.maximum(own, 0.0)) if total.size > 1 else np.maximum(own, 0.0)
        lowest, finite = lowest + start * count + offset, finite * (1 - infinite) ** count
    return (lowest + np.arange(total.size)) * grid, np.maximum(total, 0.0), 1 - finite, grid * deviation


def _deltas(loss: np.ndarray, mass: np.ndarray, infinite: float, x: np.ndarray) -> np.ndarray:
    """infinite + sum of mass (1 - e^(x - loss))_+ at every x."""
    above = np.append(np.cumsum(mass[::-1])[::-1], 0.0)
    with np.errstate(over="ignore"):
        weighed = np.append(np.cumsum((mass * np.exp(-np.maximum(loss, -600.0)))[::-1])[::-1], 0.0)
        at = np.searchsorted(loss, x, side="right")
        return infinite + np.maximum(0.0, above[at] - np.exp(x) * weighed[at])


def _losses(pair: WorstPair, grid: float) -> tuple[np.ndarray, int, float]:
    """(masses on the grid, the first point, mass of infinite loss) under the first distribution of the pair."""
    some = (pair.present > 1e-18) & (pair.absent > 0)
    mass, exact = pair.present[some], np.log(pair.present[some] / pair.absent[some]) / grid
    cell = np.floor(exact).astype(int)
    lowest, share = int(cell.min()), exact - cell
    size = int(cell.max()) - lowest + 2
    masses = np.bincount(cell - lowest, mass * (1 - share), size) + np.bincount(cell - lowest + 1, mass * share, size)
    return masses, lowest, float(pair.present[pair.absent == 0].sum())


def _threshold(loss: np.ndarray, mass: np.ndarray, infinite: float, delta: float) -> float:
    """The largest x with infinite + sum of mass (1 - e^(x - loss))_+ >= delta; 0 where even x = 0 has less."""
    if infinite >= delta:
        return math.inf
    loss, mass = loss[::-1], mass[::-1]
    inside = loss > 0
    above, weighed = np.cumsum(mass[inside]), np.cumsum(mass[inside] * np.exp(-loss[inside]))
    deltas = infinite + above - np.exp(loss[inside]) * weighed  # at x = each loss; rises as x falls
    reached = np.flatnonzero(deltas >= delta)
    last = int(reached[0]) - 1 if reached.size else above.size - 1  # x lies below this loss, and above the next one
    if last < 0 or infinite + above[last] <= delta:
        return 0.0
    return max(0.0, math.log((infinite + above[last] - delta) / weighed[last]))
