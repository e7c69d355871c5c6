"""`sensitivity` and `private-reads`: what one record moves, and where it may be read."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from dpicl.conformance.checking import CheckEvidence, Pair, Verdict, failed, not_applicable, passed
from dpicl.conformance.transcript import ObservedRelease
from dpicl.core.messages import count

#: Rounding of sums of rows.
_SLACK = 1e-9
#: The kit's noise is secure, which makes failures of a choice likelier by less than this share; that is charged to the
#: part of delta for floating point (dpicl.privacy.secure_release).
_FAILURES = 1e-3
#: What `move` measures.
_MEASURES = {"gaussian": "L2 norm", "choice": "range", "threshold": "a query, which may only rise"}


def move(before: ObservedRelease, after: ObservedRelease) -> float:
    """How far one record moves the input of a release: in L2, the range of the moves of all scores (choice), or how far
    it raises a query (threshold), which is infinity where it lowers it."""
    if before.shape.kind == "choice":
        if any(np.isnan(each.clean).any() or np.isposinf(each.clean).any() for each in (before, after)):
            return float("inf")
        both = np.isfinite(before.clean) & np.isfinite(after.clean)  # see `betrayed` for the others
        return float(np.ptp(after.clean[both] - before.clean[both])) if both.any() else 0.0
    with np.errstate(invalid="ignore"):
        difference = after.clean - before.clean
    if not np.isfinite(difference).all():
        return float("inf")
    if before.shape.kind == "gaussian":
        return float(np.linalg.norm(difference))
    return float(difference[0]) if difference[0] >= -_SLACK else float("inf")


def betrayed(before: ObservedRelease, after: ObservedRelease) -> float:
    """The probability, the larger one of both runs, of choosing what the other one cannot choose: a score of -infinity
    is no candidate (dpicl.privacy.limited_domain)."""
    if before.shape.kind != "choice" or not before.shape.scale > 0:
        return 0.0
    chances = [softmax(each.clean / each.shape.scale) for each in (before, after)]
    return float(max(chances[0][np.isneginf(after.clean)].sum(), chances[1][np.isneginf(before.clean)].sum()))


def sensitivity(evidence: CheckEvidence) -> Verdict:
    """No neighbour moves the input of a noisy release by more than the release states."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    if not evidence.plain.observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    compared, worst = 0, 0.0
    for pair in evidence.pairs:
        for before, after in pair.observed_releases:
            moved, bound = move(before, after), before.shape.bound
            if moved > bound * (1 + _SLACK) + _SLACK:
                how = f"{moved:.4g} ({_MEASURES[before.shape.kind]})"
                return failed(f"One more record moved a release by {how}, not {bound:.4g}; bound each row by itself.")
            lost, paid = betrayed(before, after), pair.with_it.paid_delta(after)
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
        if not pair.holds(after) and not np.array_equal(before.clean, after.clean, equal_nan=True):
            return "A record moved a release of a sample without it; make each release from its own sample alone."
    sampled = any(pair.added in sample.members for sample in pair.with_it.samples)
    if not sampled and pair.without.public != pair.with_it.public:
        return "A record that no sample holds changed what was released; look at samples alone."
    return None
