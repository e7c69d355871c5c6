"""Composes the cost of several releases from one private set.

Each release is an event of its own, and its settings are taken as chosen before any of them was made: then theorems of
adaptive composition hold for all of them at once. There are two proofs, and the smaller bound counts:

* **together**: all events as one composition. Where a release has groups (one a label), it is replaced by one event
  that costs a record of any group at least as much (`join_groups`). So nothing rests on a record having the same label,
  or the same list of labels, in two releases;
* **added**: each of n releases at delta / n, by its own proof; epsilons and deltas add up. It is worked out where no
  theorem covers the composition, or where a release's groups differ so that `join_groups` costs more than each of them.

*Why `join_groups` is a bound.* A record pays for one branch of a release. A branch is dominated where for every kind of
component there are no fewer in the other one: leaving a release out is post-processing. And a Poisson sample at a rate
q is dominated by one at q' > q: with (P, Q) what dominates the inside, (1 - q) Q + q P is the mixture, at q / q', of
(1 - q') Q + q' P and of Q, so its hockey-stick divergence from Q (and Q's from it) is, by joint convexity, at most that
of the former at every epsilon. So most components of each kind, at the largest rate, dominate every branch. Pairs that
dominate compose (Zhu, Dong & Wang 2022, theorems 10 and 11).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from dpicl.accounting import accountants, calibration_cache
from dpicl.accounting import dp_event as dp
from dpicl.accounting.bounds import Bounds
from dpicl.accounting.decomposition import groups, recompose
from dpicl.accounting.events import ParallelDpEvent, compose
from dpicl.accounting.group_privacy import of_person
from dpicl.core.errors import AccountantsDisagree, UnsupportedEvent
from dpicl.core.output_cache import key_of
from dpicl.core.seeds import LEAST_SECURE_DELTA, SECURE_SHARE, accounted_delta
from dpicl.privacy.secure_release import floating_point_delta

#: (event, delta) -> bounds. Raises UnsupportedEvent and AccountantsDisagree.
Accountant = Callable[[dp.DpEvent, float], Bounds]
#: (events, delta, accountant) -> bounds. Raises as the accountant.
Proof = Callable[[Sequence[dp.DpEvent], float, Accountant], Bounds]
#: How many shares of delta for floating point are tried, and how many of a record for a person.
_SHARES, _GROUP_STEPS = 4, 8


def join_groups(event: dp.DpEvent) -> dp.DpEvent:
    """An event without groups that costs a record of any group of ``event`` at least as much, in any composition."""
    worst: Counter[tuple[dp.DpEvent, bool]] = Counter()
    rates: dict[dp.DpEvent, float] = {}
    for branch in groups(event).values():
        counts: Counter[tuple[dp.DpEvent, bool]] = Counter()
        for component, count in branch.items():
            sampled = isinstance(component, dp.PoissonSampledDpEvent)
            inside = component.event if sampled else component
            if sampled:
                rates[inside] = max(rates.get(inside, 0.0), component.sampling_probability)
            counts[inside, sampled] += count
        worst |= counts
    return recompose(
        {
            dp.PoissonSampledDpEvent(rates[inside], inside) if sampled else inside: count
            for (inside, sampled), count in worst.items()
        }
    )


def total(
    events: Sequence[dp.DpEvent],
    delta: float,
    quick: bool = False,
) -> Bounds:
    """Bounds of the epsilon of all releases together at this delta, with secure noise: accounted at delta - 1e-7, or
    where that does not pay for the floating point of all of them, at less, down to half of delta.

    quick: by a bound that is found in seconds, as valid and some percent larger. Infinite where nothing finite is
    proved, or half of delta does not pay. Raises UsageError for a delta below 1e-6, UnsupportedEvent where no theorem
    covers the events.
    """
    accounted = accounted_delta(delta, "secure")
    if not events:
        return Bounds(0.0, 0.0, 0.0, {"exact": 0.0})
    # its sums are added up
    everything = ParallelDpEvent(tuple((str(at), event) for at, event in enumerate(events)))
    for _ in range(_SHARES):
        best = _find_smallest(events, accounted, quick)
        needed = floating_point_delta(everything, best.upper) if math.isfinite(best.upper) else 0.0
        if needed <= max(SECURE_SHARE, delta - accounted):
            return best
        if 2 * needed > delta / 2:
            break
        accounted = delta - 2 * needed
    note = "no share of delta pays for the floating point of all releases"
    return Bounds(
        math.inf,
        math.inf,
        math.inf,
        best.accountants,
        (*best.notes, note),
    )


def _find_smallest(events: Sequence[dp.DpEvent], delta: float, quick: bool) -> Bounds:
    """The smaller of the two proofs. Raises UnsupportedEvent where there is none."""
    proofs = [_prove(_bound_together, events, delta, quick)]
    if proofs == [None] or (not quick and any(map(_is_loose, events))):
        proofs.append(_prove(_add_up, events, delta, quick))
    known = [bounds for bounds in proofs if bounds is not None]
    if not known:
        raise UnsupportedEvent(
            "No theorem covers these releases together, so nothing is known of what they cost."
        )
    return min(known, key=lambda bounds: bounds.upper)


def person_total(events: Sequence[dp.DpEvent], delta: float, rows: int) -> float:
    """An upper bound, found in seconds and stored, of the epsilon of all releases for a person with at most so many
    records in each; infinite where none is found. Raises UnsupportedEvent as `total`, UsageError for a delta below
    1e-6.

    events: of one record. rows: more than 1 by group privacy, which holds for what a record's releases cost together.
    """
    key = key_of(
        "over releases",
        list(map(repr, events)),
        delta,
        rows,
        calibration_cache.accounting_code(),
    )
    if stored := calibration_cache.read_value(calibration_cache.DEFAULT, key):
        return float(stored[0])
    bound = (
        total(events, delta, quick=True).upper if rows == 1 else _group_total(events, delta, rows)
    )
    calibration_cache.write_value(calibration_cache.DEFAULT, key, bound)
    return bound


def _group_total(events: Sequence[dp.DpEvent], delta: float, rows: int) -> float:
    """The lemma of `group_privacy` at a record's delta that is small enough for the epsilon that it gives."""
    share = delta / rows
    for _ in range(_GROUP_STEPS):
        if share < LEAST_SECURE_DELTA:
            break
        upper = total(events, share, quick=True).upper
        epsilon, needed = of_person(upper, share, rows)
        if needed <= delta:
            return epsilon
        share *= delta / needed * (1 - 1e-3)
    return math.inf


def _is_loose(event: dp.DpEvent) -> bool:
    """Whether no group alone costs what `join_groups` does."""
    return join_groups(event) not in map(recompose, groups(event).values())


def _prove(
    proof: Proof,
    events: Sequence[dp.DpEvent],
    delta: float,
    quick: bool,
) -> Bounds | None:
    """What a proof gives; None where it does not cover the events."""
    try:
        return proof(events, delta, accountants.quick_epsilon if quick else accountants.epsilon)
    except (UnsupportedEvent, AccountantsDisagree):
        return None


def _bound_together(events: Sequence[dp.DpEvent], delta: float, account: Accountant) -> Bounds:
    bounds = account(compose(map(join_groups, events)), delta)
    return replace(
        bounds, accountants={**bounds.accountants, "over_releases": "composition of all events"}
    )


def _add_up(events: Sequence[dp.DpEvent], delta: float, account: Accountant) -> Bounds:
    each = [account(event, delta / len(events)).upper for event in events]
    value = math.fsum(each)
    accountants = {
        "added": each,
        "over_releases": f"the sum of {len(each)} proofs, each at delta / {len(each)}",
    }
    return Bounds(0.0, value, value, accountants)
