"""Computes privacy losses from the clean values of two worlds, with a canary and without.

Nothing is sampled: the noise of a release is known, so its two output distributions are, and so are those of all
releases together. Of one sample, in which the canary is for certain:

| release | with the canary against without |
|---|---|
| noisy sums | Gaussians at distance mu = |v' - v| / standard deviation; on one sample they are one: root sum mu^2 |
| a choice | softmax(z'/tau) against softmax(z/tau); an outcome of one world alone has infinite loss (goes into delta) |
| k choices in order, without replacement | sequences of classes of equal scores: inside a class all is exchangeable |
| a round of AboveThreshold | the answer to its first question; the others are left out |

If the canary is in the sample with probability q, it is ((1 - q) Q + q P, Q); independent samples compose by
convolution, in both directions (`dpicl.accounting.slack.pairs_epsilon`, which rounds down: outputs are merged, and
losses are moved so that what is found is a lower bound).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from dp_accounting import gaussian_mechanism
from scipy.special import log_ndtr, softmax

from dpicl.accounting.adversaries import MOST_OUTCOMES, WorstPair, gaussian_pair
from dpicl.accounting.slack import pairs_epsilon
from dpicl.attacks.observers import describe_release
from dpicl.core.errors import UsageError
from dpicl.privacy.above_threshold import first_chances
from dpicl.privacy.release_hooks import NoisyRelease

#: Multipliers mu are rounded down to so many digits, so that equal ones are composed at once.
_DIGITS = 5
#: A query that falls by less than this counts as constant.
_ROUNDING = 1e-9
#: A smaller mu counts as 0: its Gaussian would be lost in the grid.
_LEAST_MU = 1e-6
#: Of k ordered choices the first ones are evaluated, up to this many states (numbers left of every class).
_MOST_STATES = 1500
#: Points of the integral over the winner's noise, and how far it goes, in standard deviations.
_POINTS, _REACH = 4001, 9.0
#: `epsilon_of_mu` is rounded down by this much, ten times the accuracy of dp_accounting's search.
_SEARCH_ERROR = 1e-11


@dataclass(frozen=True)
class SampleLoss:
    """What the releases from one sample say of the canary, given that it is in the sample.

    rate: probability that it is. mu: of all its noisy sums together. pairs: of its choices and rounds.
    """

    rate: float
    mu: float
    pairs: tuple[WorstPair, ...] = ()

    @property
    def strength(self) -> float:
        """About the variance of the loss of this sample; orders canaries, and is in no bound."""
        return self.mu**2 + sum(_variance(pair) for pair in self.pairs)


def sample_loss(rate: float, releases: Sequence[tuple[NoisyRelease, NoisyRelease]]) -> SampleLoss:
    """Of the releases from one sample, each with the canary and without."""
    mus, pairs = [0.0], []
    for present, absent in releases:
        if np.array_equal(present.clean, absent.clean):
            continue  # the record moves nothing
        if present.kind == "gaussian":
            mus.append(distance(present, absent))
        elif present.count > 1:
            pairs.append(ordered_pair(present.clean, absent.clean, present.scale, present.count))
        else:
            pairs.append(WorstPair(chances(present), chances(absent)))
    return SampleLoss(rate, math.hypot(*mus), tuple(pairs))


def require_same(present: NoisyRelease, absent: NoisyRelease) -> None:
    """Raises UsageError where two releases differ in more than their clean values: no event covers that."""
    other = describe_release(absent)
    for name, value in describe_release(present).items():
        if value != other[name]:
            raise UsageError(
                f"The {name} of a release follows from private records ({value!r} with the canary, {other[name]!r}"
                " without), and no epsilon covers that; `dpicl check` looks for the reason."
            )


def distance(present: NoisyRelease, absent: NoisyRelease) -> float:
    """mu of a noisy sum: how far apart both clean values are, in standard deviations."""
    moved = float(np.linalg.norm(present.clean - absent.clean))
    if present.scale > 0:
        return moved / present.scale
    return math.inf if moved > 0 else 0.0


def move(present: NoisyRelease, absent: NoisyRelease) -> float:
    """How far a record moves the input of a release: in L2 for a sum; of a choice the range of the moves of all scores
    that both worlds have; of a query its rise, which is infinity where it falls. Infinity for what is no number."""
    if present.kind == "choice":
        scores = np.concatenate([present.clean, absent.clean])
        if np.isnan(scores).any() or np.isposinf(scores).any():
            return math.inf
        both = np.isfinite(present.clean) & np.isfinite(absent.clean)
        moves = present.clean[both] - absent.clean[both]
        return float(np.ptp(moves)) if moves.size else 0.0
    with np.errstate(invalid="ignore"):
        difference = present.clean - absent.clean
    if not np.isfinite(difference).all():
        return math.inf
    if present.kind == "gaussian":
        return float(np.linalg.norm(difference))
    return float(difference[0]) if difference[0] >= -_ROUNDING else math.inf


def exact_epsilon(losses: Sequence[SampleLoss], delta: float, upper: float) -> float:
    """The epsilon at delta of independent samples, the larger one of both directions; rounded down.

    upper: about what is to be found, such as the proved epsilon, which may be infinite; sets the grid.
    """
    if any(math.isinf(loss.mu) for loss in losses):
        return math.inf
    if all(loss.rate == 1 and not loss.pairs for loss in losses):
        return epsilon_of_mu(math.hypot(0.0, *(loss.mu for loss in losses)), delta)
    pairs = _count(losses)
    if not pairs:
        return 0.0
    reach = max(_reach(pair) for pair, _ in pairs)
    expected = upper if math.isfinite(upper) else 1.0
    size = max(expected, reach / 20)  # a grid for far larger losses than were proved is coarser
    reversed_pairs = [(pair.swap(), count) for pair, count in pairs]
    return max(pairs_epsilon(pairs, delta, size), pairs_epsilon(reversed_pairs, delta, size))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon >= 0 at delta of a mu-GDP mechanism with the Gaussian's own curve (Dong, Roth & Su 2022, corollary
    2.13), rounded down. Infinite for mu > 0 and delta = 0."""
    multiplier = 1 / mu if mu > 0 else math.inf
    return max(
        0.0, float(gaussian_mechanism.get_epsilon_gaussian(multiplier, delta)) - _SEARCH_ERROR
    )


def winner_chances(clean: np.ndarray, sd: float) -> np.ndarray:
    """float64[K]: the probability that each coordinate of clean [K] + N(0, sd^2) is the largest, sd > 0.

    P(j) = integral of phi(x) prod_(i != j) Phi(x + (v_j - v_i)/sd) dx.
    """
    x = np.linspace(-_REACH, _REACH, _POINTS)
    apart = (clean[:, None] - clean[None, :]) / sd
    np.fill_diagonal(apart, np.inf)
    log_above_others = log_ndtr(x[None, None, :] + apart[:, :, None]).sum(axis=1)
    chances: np.ndarray = np.exp(log_above_others - x**2 / 2).sum(axis=1)
    return chances / chances.sum()


def label_only(rate: float, present: NoisyRelease, absent: NoisyRelease) -> SampleLoss:
    """The loss of a noisy vote of which the winner alone is seen."""
    with_it = winner_chances(present.clean.ravel(), present.scale)
    without = winner_chances(absent.clean.ravel(), absent.scale)
    return SampleLoss(rate, 0.0, (WorstPair(with_it, without),))


def label_only_ceiling(
    sd: float,
    slots: int,
    labels: int,
    own_slots: bool,
    delta: float,
) -> float:
    """The most epsilon at delta that the winner of one noisy vote can show about one record, which
    is in the sample for certain: over all clean votes for two of the labels. A slot may abstain, and
    one that does changes whether the difference of both counts is odd.

    sd: of the noise on every count. own_slots: the record adds a ballot; else it moves one from one
    label to another.
    """
    ceiling = 0.0
    for ballots in (slots, slots - 1):
        for first in range(ballots + 1 if own_slots else ballots):
            absent = np.zeros(labels)
            absent[:2] = first, ballots - first
            present = absent.copy()
            present[0] += 1
            present[1] -= 0 if own_slots else 1
            with_it, without = winner_chances(present, sd), winner_chances(absent, sd)
            ceiling = max(
                ceiling, _one_shot(with_it, without, delta), _one_shot(without, with_it, delta)
            )
    return ceiling


def _one_shot(present: np.ndarray, absent: np.ndarray, delta: float) -> float:
    """The epsilon at delta of two distributions of few outcomes: the largest ln((P(S) - delta) / Q(S)) over the sets S
    of the largest ratios."""
    order = np.argsort(-present / np.maximum(absent, 1e-300))
    above = np.cumsum(present[order]) - delta
    below = np.cumsum(absent[order])
    ratios = above[above > 0] / below[above > 0]
    return max(0.0, float(np.log(ratios).max(initial=0.0)))


def chances(release: NoisyRelease) -> np.ndarray:
    """float64[K]: the probability of every outcome of a choice of one; [2] of "below" and "above" for the first
    question of a round."""
    flat = release.clean.ravel().astype(np.float64)
    if release.kind == "threshold":
        return first_chances(float(flat[0]), release.scale)
    if release.scale > 0:
        return softmax(flat / release.scale)
    return (np.arange(flat.size) == flat.argmax()).astype(float)


def ordered_pair(
    present: np.ndarray,
    absent: np.ndarray,
    temperature: float,
    count: int,
) -> WorstPair:
    """Of ``count`` indices drawn in order without replacement from softmax(score / temperature), float64[K] both.

    Indices with the same two scores are exchangeable, so only the class of each is looked at; of more states than
    `_MOST_STATES` the last draws are left out, which is post-processing.
    """
    scores, sizes = np.unique(np.stack([present, absent], axis=1), axis=0, return_counts=True)
    weights_present, weights_absent = (softmax(column / temperature) for column in scores.T)
    states = {tuple(sizes.tolist()): WorstPair(np.ones(1), np.ones(1))}
    for _ in range(count):
        following: dict[tuple[int, ...], list[WorstPair]] = {}
        for left, pair in states.items():
            of_present = _class_chances(left, weights_present)
            of_absent = _class_chances(left, weights_absent)
            for drawn in np.flatnonzero(left):
                after = (*left[:drawn], left[drawn] - 1, *left[drawn + 1 :])
                outcome = WorstPair(
                    pair.present * of_present[drawn], pair.absent * of_absent[drawn]
                )
                following.setdefault(after, []).append(outcome)
        if not following or len(following) > _MOST_STATES:
            break
        states = {left: _join(pairs) for left, pairs in following.items()}
    return _join(list(states.values()))


def _class_chances(left: Sequence[int], weights: np.ndarray) -> np.ndarray:
    """The probability of each class at the next draw. left: numbers of it that are left. weights: of one of each."""
    mass = np.array(left) * weights
    return mass / max(mass.sum(), 1e-300)


def _join(pairs: Sequence[WorstPair]) -> WorstPair:
    """All outcomes of several parts of one pair."""
    present = np.concatenate([pair.present for pair in pairs])
    absent = np.concatenate([pair.absent for pair in pairs])
    possible = (present > 0) | (absent > 0)
    return WorstPair(present[possible], absent[possible]).merge(MOST_OUTCOMES)


def _count(losses: Sequence[SampleLoss]) -> list[tuple[WorstPair, int]]:
    """Pairs with how often they happen; equal samples of sums alone are one pair."""
    sums = Counter((loss.rate, _round_down(loss.mu)) for loss in losses if not loss.pairs)
    counted = []
    for (rate, mu), count in sums.items():
        if mu > _LEAST_MU:
            counted.append((gaussian_pair(1 / mu).sample(rate), count))
    certain = [loss for loss in losses if loss.pairs and loss.rate == 1]
    together = _round_down(math.hypot(0.0, *(loss.mu for loss in certain)))
    if together > _LEAST_MU:
        counted.append((gaussian_pair(1 / together), 1))
    counted += [(pair.merge(4 * MOST_OUTCOMES), 1) for loss in certain for pair in loss.pairs]
    for loss in losses:
        if loss.pairs and loss.rate < 1:
            gaussian = [gaussian_pair(1 / loss.mu)] if loss.mu > _LEAST_MU else []
            product = reduce(WorstPair.times, [*gaussian, *loss.pairs])
            counted.append((product.sample(loss.rate), 1))
    return counted


def _round_down(mu: float) -> float:
    """To `_DIGITS` digits: a pair of a smaller mu is the same one with more noise, so a bound stays one."""
    if mu <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(mu)) - _DIGITS + 1)
    return min(mu, math.floor(mu / step) * step)


def _reach(pair: WorstPair) -> float:
    """The largest finite loss, of either sign, of outcomes that have mass."""
    losses, _ = _finite_losses(pair, 1e-18)
    return float(np.abs(losses).max(initial=0.0))


def _variance(pair: WorstPair) -> float:
    losses, masses = _finite_losses(pair)
    return float(masses @ (losses - masses @ losses) ** 2)


def _finite_losses(
    pair: WorstPair,
    least: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """(losses, masses without the record) of outcomes of more than the least mass in both worlds."""
    both = (pair.present > least) & (pair.absent > least)
    present, absent = pair.present[both], pair.absent[both]
    return np.log(present / absent), absent
