"""`sensitivity` and `private-reads`: what one record moves, and where it may be read."""

from __future__ import annotations

import numpy as np

from dpicl.attacks.exact_pairs import chances, move
from dpicl.conformance.checking import CheckEvidence, Pair, Verdict, failed, not_applicable, passed
from dpicl.core.messages import count
from dpicl.privacy.release_hooks import NoisyRelease

#: Rounding of sums of rows.
_SLACK = 1e-9
#: The kit's noise is secure, which makes failures of a choice likelier by less than this share; that is charged to the
#: part of delta for floating point (dpicl.privacy.secure_release).
_FAILURES = 1e-3
#: What `move` measures, by kind of release.
_MEASURES = {"gaussian": "L2 norm", "choice": "range", "threshold": "a query, which may only rise"}


def betrayed(before: NoisyRelease, after: NoisyRelease) -> float:
    """The probability, the larger one of both runs, of choosing what the other one cannot choose: a score of -infinity
    is no candidate (dpicl.privacy.limited_domain)."""
    if before.kind != "choice" or not before.scale > 0:
        return 0.0
    own, other = chances(before), chances(after)
    return float(max(own[np.isneginf(after.clean)].sum(), other[np.isneginf(before.clean)].sum()))


def sensitivity(evidence: CheckEvidence) -> Verdict:
    """No neighbour moves the input of a noisy release by more than the release states."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    if not evidence.plain.observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    compared, worst = 0, 0.0
    for pair in evidence.pairs:
        for before, after in pair.observed_releases:
            moved, bound = move(after.release, before.release), before.release.bound
            if moved > bound * (1 + _SLACK) + _SLACK:
                how = f"{moved:.4g} ({_MEASURES[before.release.kind]})"
                return failed(f"One more record moved a release by {how}, not {bound:.4g}; bound each row by itself.")
            lost, paid = betrayed(before.release, after.release), pair.with_it.paid_delta(after)
            if lost > paid * (1 + _FAILURES):
                return failed(f"A record decides what can be chosen ({lost:.2g}); delta = {paid:.2g} is charged.")
            compared, worst = compared + 1, max(worst, moved / bound if bound else 0.0)
    if worst == 0:
        return failed(f"No record moved any of {count(compared, 'release')}; choose options for which records matter.")
    return passed(f"{count(compared, 'release')} of neighbours; the largest move is {worst:.3f} of what is stated")


def private_reads(evidence: CheckEvidence) -> Verdict:
    """Records are read only out of samples, and only for the releases that were charged to that sample."""
    if evidence.bench.unbounded:
        return not_applicable("all records are read, at epsilon = infinity")
    for run in evidence.all_runs():
        if run.footprint.reaching:
            return failed(f"A run {run.footprint.reaching[0]}; read records out of `sample.slots` alone.")
        if run.strangers:
            strangers = count(len(run.strangers), "record")
            return failed(f"{strangers} read that no sample held; read records out of `sample.slots` alone.")
    for pair in evidence.pairs:
        if problem := _moved_from_outside(pair):
            return failed(problem)
    return passed(f"{len(evidence.pairs)} pairs of neighbours; no record matters outside of its sample")


def _moved_from_outside(pair: Pair) -> str | None:
    """What is wrong if a record moves releases whose sample does not hold it."""
    for before, after in pair.observed_releases:
        if not pair.holds(after) and not np.array_equal(before.release.clean, after.release.clean, equal_nan=True):
            return "A record moved a release of a sample without it; make each release from its own sample alone."
    sampled = any(pair.added in sample.members for sample in pair.with_it.samples)
    if not sampled and pair.without.public != pair.with_it.public:
        return "A record that no sample holds changed what was released; look at samples alone."
    return None
