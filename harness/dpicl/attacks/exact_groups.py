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
from scipy.stats import binom

from dpicl.accounting import accountants
from dpicl.accounting import dp_event as dp
from dpicl.accounting.adversaries import MOST_OUTCOMES, WorstPair, cell_ends, cell_masses
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
        mixture = weights @ rows
        pairs[mixture.tobytes(), rows[0].tobytes()] += 1
    counted = []
    for (present, without), count in pairs.items():
        pair = WorstPair(np.frombuffer(present), np.frombuffer(without))
        counted.append((pair, count))
    return pairs_epsilon(counted, delta, upper) if counted else 0.0


def group_bound(event: dp.DpEvent, delta: float, copies: int) -> float:
    """The epsilon at delta that group privacy proves for so many records; infinite where none is found."""

    def bound_at(log_delta: float) -> float | None:
        try:
            epsilon = accountants.epsilon(event, math.exp(log_delta)).upper
        except UnsupportedEvent:  # so small a delta is lost in rounding errors
            return None
        for_group = copies * epsilon
        if not for_group < 700:
            return None
        growth = math.log(copies)
        if epsilon > 0:
            growth = math.log(math.expm1(for_group) / math.expm1(epsilon))
        return for_group if log_delta + growth <= math.log(delta) else None

    most = math.log(delta)
    for smallest in SMALLEST:
        least = math.log(smallest)
        best = bound_at(least)
        if best:
            break
    else:
        return math.inf
    for _ in range(_HALVINGS):
        middle = (least + most) / 2
        bound = bound_at(middle)
        if bound is None:
            most = middle
        else:
            least, best = middle, min(best, bound)
    return best


def _weights(copies: int, rate: float, slots: int | None) -> np.ndarray:
    """float64[k + 1]: the probability that j copies are in a sample, all of them in different slots. slots: 0 where it
    is no Poisson sample, and all copies are in it for sure; None where each record has its own."""
    number = np.arange(copies + 1)
    if slots == 0:
        return (number == copies).astype(float)
    apart = np.ones(copies + 1)
    if slots is not None:
        free = (1 - (number - 1) / slots).clip(0.0, 1.0)
        apart = np.cumprod(free)
    return binom.pmf(number, copies, rate) * apart


def _rows(releases: Sequence[Sequence[NoisyRelease]]) -> np.ndarray:
    """float64[k + 1, n]: the distributions of what one sample releases, with 0, 1, ..., k copies in it."""
    sums = []
    choices = []
    rounds = set()
    for worlds in releases:
        kind, permit = worlds[0].kind, worlds[0].permit
        if kind == "gaussian":
            sums.append(worlds)
        elif kind == "choice" or permit not in rounds:  # of a round the first question
            choices.append(np.stack([chances(release) for release in worlds]))
        if kind == "threshold":
            rounds.add(permit)
    projected = [_projected(sums)] if sums else []
    return reduce(_join_outcomes, [*projected, *choices])


def _projected(sums: Sequence[Sequence[NoisyRelease]]) -> np.ndarray:
    """Of all noisy sums together, one number: along the move of the first copy, in standard deviations."""

    def measure_move(world: int) -> np.ndarray:
        moves = []
        for worlds in sums:
            difference = worlds[world].clean - worlds[0].clean
            moves.append(difference.ravel() / max(worlds[0].scale, 1e-300))
        return np.concatenate(moves)

    moves = np.stack([measure_move(world) for world in range(len(sums[0]))])
    length = np.linalg.norm(moves[1])
    means = moves @ moves[1] / length if length > 0 else np.zeros(len(moves))
    largest = max(0.0, float(means.max()))
    ends = cell_ends(largest)
    return np.stack([cell_masses(ends, mean) for mean in means])


def _join_outcomes(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Both outcomes; those whose likelihood ratio of one copy to none is nearly the same become one."""
    rows = (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.nan_to_num(np.log(rows[1] / rows[0]), nan=0.0, posinf=700.0, neginf=-700.0)
    losses = np.clip(losses, -700, 700)
    share = (losses - losses.min()) / max(np.ptp(losses), 1e-12)
    cells = 4 * MOST_OUTCOMES
    place = np.round(share * 4 * MOST_OUTCOMES).astype(int)
    place[rows[0] == 0] += cells + 1  # what one world alone can release stays apart
    return np.stack([np.bincount(place, row, 2 * (cells + 1)) for row in rows])
