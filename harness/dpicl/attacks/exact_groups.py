"""Exact audits with several copies of a canary, compared with the bound of group privacy.

The neighbours are the empty set and k copies alone. Each copy is in a sample by a coin of its own and in a slot that is
drawn for it. With j copies in different slots the clean values of a sample are known (a run of the mechanism with j
copies), so of its output distribution P this part is: the sum over j of P[j copies are in it, all in different slots]
P_j, with P_0 as without any. What is left of P, copies that share a slot, is not looked at: it is no less than 0, so
that what is found is a lower bound, in the direction of the copies against none. Slots are exchangeable.

Of one sample, noisy sums are projected on the move of the first copy; of choices in order the first is seen.

The upper end: an (epsilon, delta')-DP mechanism is (k epsilon, delta' (e^(k epsilon) - 1)/(e^epsilon - 1))-DP for
groups of k (Vadhan 2017, "The complexity of differential privacy", lemma 2.2), for the best delta'.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import reduce

import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from dpicl.accounting import accountants
from dpicl.accounting import dp_event as dp
from dpicl.accounting.adversaries import MOST_OUTCOMES, OUTPUTS, REACH, WorstPair
from dpicl.accounting.slack import pairs_epsilon
from dpicl.attacks.exact_pairs import chances
from dpicl.attacks.exact_worlds import World, require_aligned
from dpicl.core.errors import UnsupportedEvent
from dpicl.privacy.release_hooks import NoisyRelease

#: The smallest delta' that is tried, the first that the accountants take: that of samples is lost in rounding errors.
SMALLEST = (1e-14, 1e-11, 1e-10)
#: Halvings of ln(delta') when the best one is looked for.
_HALVINGS = 12


def group_epsilon(worlds: Sequence[World], delta: float, upper: float) -> float:
    """What 0, 1, ..., k copies in every sample show, float >= 0. worlds: one for each number, along one path. upper:
    about what is to be found; sets the grid."""
    absent, copies = worlds[0], len(worlds) - 1
    for world in worlds[1:]:
        require_aligned(world, absent)
    of_sample: dict[int, list[list[NoisyRelease]]] = defaultdict(list)
    for at, sample in enumerate(absent.sample_of):
        if worlds[1].records_in(sample) != absent.records_in(sample):
            of_sample[sample].append([world.observed_releases[at].release for world in worlds])
    pairs: Counter[tuple[bytes, bytes]] = Counter()
    for sample, releases in of_sample.items():
        rows = _rows(releases)
        weights = _weights(copies, absent.samples[sample].rate, absent.slots_of(sample))
        pairs[(weights @ rows).tobytes(), rows[0].tobytes()] += 1
    known = [(WorstPair(np.frombuffer(p), np.frombuffer(q)), count) for (p, q), count in pairs.items()]
    return pairs_epsilon(known, delta, upper) if known else 0.0


def group_bound(event: dp.DpEvent, delta: float, copies: int) -> float:
    """The epsilon at delta that group privacy proves for so many records; infinite where none is found."""

    def find(log_delta: float) -> float | None:
        try:
            own = accountants.epsilon(event, math.exp(log_delta)).upper
        except UnsupportedEvent:  # so small a delta is lost in rounding errors
            return None
        if not copies * own < 700:
            return None
        growth = math.log(math.expm1(copies * own) / math.expm1(own)) if own > 0 else math.log(copies)
        return copies * own if log_delta + growth <= math.log(delta) else None

    most = math.log(delta)
    least, best = next(((math.log(d), own) for d in SMALLEST if (own := find(math.log(d)))), (most, None))
    for _ in range(_HALVINGS):
        if best is None:
            break
        middle = (least + most) / 2
        here = find(middle)
        if here is None:
            most = middle
        else:
            least, best = middle, min(best, here)
    return math.inf if best is None else best


def _weights(copies: int, rate: float, slots: int | None) -> np.ndarray:
    """float64[k + 1]: the probability that j copies are in a sample, all of them in different slots. slots: 0 where it
    is no Poisson sample, and all copies are in it for sure; None where each record has its own."""
    number = np.arange(copies + 1)
    if slots == 0:
        return (number == copies).astype(float)
    apart = np.ones(copies + 1) if slots is None else np.cumprod(np.maximum(0.0, 1 - (number - 1) / slots).clip(max=1))
    return binom.pmf(number, copies, rate) * apart


def _rows(releases: Sequence[Sequence[NoisyRelease]]) -> np.ndarray:
    """float64[k + 1, n]: the distributions of what one sample releases, with 0, 1, ..., k copies in it."""
    sums = [each for each in releases if each[0].kind == "gaussian"]
    first = {each[0].permit: each for each in reversed(releases) if each[0].kind == "threshold"}  # of every round
    choices = [each for each in releases if each[0].kind == "choice" or each is first.get(each[0].permit)]
    return reduce(
        _join_outcomes,
        [*([_projected(sums)] if sums else []), *(np.stack([chances(one) for one in each]) for each in choices)],
    )


def _projected(sums: Sequence[Sequence[NoisyRelease]]) -> np.ndarray:
    """Of all noisy sums together, one number: along the move of the first copy, in standard deviations."""

    def measure_move(world: int) -> np.ndarray:
        each = [(own[world].clean - own[0].clean).ravel() / max(own[0].scale, 1e-300) for own in sums]
        return np.concatenate(each)

    moves = np.stack([measure_move(world) for world in range(len(sums[0]))])
    length = np.linalg.norm(moves[1])
    means = moves @ moves[1] / length if length > 0 else np.zeros(len(moves))
    ends = np.concatenate([[-np.inf], np.linspace(-REACH, max(0.0, float(means.max())) + REACH, OUTPUTS), [np.inf]])
    return np.stack([np.where(ends[1:] < m, np.diff(ndtr(ends - m)), -np.diff(ndtr(m - ends))) for m in means])


def _join_outcomes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Both outcomes; those whose likelihood ratio of one copy to none is nearly the same become one."""
    rows = (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        loss = np.clip(np.nan_to_num(np.log(rows[1] / rows[0]), nan=0.0, posinf=700.0, neginf=-700.0), -700, 700)
    place = np.round((loss - loss.min()) / max(np.ptp(loss), 1e-12) * 4 * MOST_OUTCOMES).astype(int)
    # What one world alone can release stays apart.
    place += (4 * MOST_OUTCOMES + 1) * (rows[0] == 0)
    return np.stack([np.bincount(place, row, 8 * MOST_OUTCOMES + 2) for row in rows])
