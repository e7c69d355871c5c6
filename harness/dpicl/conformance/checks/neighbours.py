"""`sensitivity`, `private-reads` and `audit`: what one record moves and shows, and where it may be read."""

from __future__ import annotations

import numpy as np

from dpicl.accounting import accountants
from dpicl.accounting.events import compose
from dpicl.attacks.exact_pairs import chances, exact_epsilon, move
from dpicl.attacks.exact_worlds import Comparison, Moved
from dpicl.conformance.bench import DELTA
from dpicl.conformance.checking import (
    QUICK,
    CheckEvidence,
    Pair,
    Verdict,
    failed,
    not_applicable,
    passed,
)
from dpicl.core.messages import count
from dpicl.privacy.release_hooks import NoisyRelease

#: Tolerances for rounding, of sums of rows and of epsilon.
_SLACK, _AUDIT_SLACK = 1e-9, 1e-6
#: The kit's noise is secure, which makes failures of a choice likelier by less than this share; that is charged to the
#: part of delta for floating point (dpicl.privacy.secure_release).
_FAILURES = 1e-3
#: What `move` measures, by kind of release.
_MEASURES = {"gaussian": "L2 norm", "choice": "range", "threshold": "a query, which may only rise"}


def measure_betrayal(before: NoisyRelease, after: NoisyRelease) -> float:
    """The probability, the larger one of both runs, of choosing what the other one cannot choose: a score of -infinity
    is no candidate (dpicl.privacy.limited_domain)."""
    if before.kind != "choice" or not before.scale > 0:
        return 0.0
    lost = chances(before)[np.isneginf(after.clean)].sum()
    gained = chances(after)[np.isneginf(before.clean)].sum()
    return float(max(lost, gained))


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
                return failed(
                    f"One more record moved a release by {how}, not {bound:.4g}; bound each row by itself."
                )
            lost = measure_betrayal(before.release, after.release)
            paid = pair.with_it.paid_delta(after)
            if lost > paid * (1 + _FAILURES):
                return failed(
                    f"A record decides what can be chosen ({lost:.2g}); delta = {paid:.2g} is charged."
                )
            compared += 1
            worst = max(worst, moved / bound if bound else 0.0)
    # few runs may miss the records that matter
    if worst == 0 and evidence.effort.rounds < QUICK.rounds:
        return sensitivity(CheckEvidence(evidence.bench, QUICK))
    if worst == 0:
        return failed(
            f"No record moved any of {count(compared, 'release')}; choose options for which records matter."
        )
    cut = sorted({name for run in evidence.runs for name in run.footprint.cut})
    why = f"{count(compared, 'release')} of neighbours; the largest move is {worst:.3f} of what is stated"
    if cut:
        why += f"; {cut[0]} gets counts above 1 and counts 1: pass 0 or 1 for each word, as it does nothing else"
    return passed(why)


def private_reads(evidence: CheckEvidence) -> Verdict:
    """Records are read only out of samples, and only for the releases that were charged to that sample."""
    if evidence.bench.unbounded:
        return not_applicable("all records are read, at epsilon = infinity")
    for run in evidence.all_runs():
        if run.footprint.reaching:
            return failed(
                f"A run {run.footprint.reaching[0]}; read records out of `sample.slots` alone."
            )
        if run.strangers:
            strangers = count(len(run.strangers), "record")
            return failed(
                f"{strangers} read that no sample held; read records out of `sample.slots` alone."
            )
    for pair in evidence.pairs:
        problem = _find_move_from_outside(pair)
        if problem:
            return failed(problem)
    return passed(
        f"{len(evidence.pairs)} pairs of neighbours; no record matters outside of its sample"
    )


def _find_move_from_outside(pair: Pair) -> str | None:
    """What is wrong if a record moves releases whose sample does not hold it."""
    for before, after in pair.observed_releases:
        moved = not np.array_equal(before.release.clean, after.release.clean, equal_nan=True)
        if moved and not pair.is_record_sampled(after):
            return "A record moved a release of a sample without it; make each release from its own sample alone."
    sampled = any(pair.added in sample.members for sample in pair.with_it.samples)
    if not sampled and pair.without.public != pair.with_it.public:
        return "A record that no sample holds changed what was released; look at samples alone."
    return None


def audit(evidence: CheckEvidence) -> Verdict:
    """The epsilon that a record shows on neighbouring sets, worked out exactly, stays under what was charged.

    Of all pairs of neighbours (calibrated, not at an end of the knob) the one whose record moves its releases most, as
    a share of what they state. The clean values and the noise of both runs are known, and so are the distributions of
    what they release (dpicl.attacks.exact_pairs). The claim is the composition of the events that were spent from the
    samples with the record, *without* amplification. So this compares the noise that is drawn with the accounting of
    what was charged, as `dpicl audit --exact` does for a row; `noise` and `post-processing` see that nothing else is
    released.
    """
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    if not evidence.plain.observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    calibrated = (pair for pair in evidence.pairs if pair.base.knob in evidence.knobs[:2])
    comparisons = ((pair, _compare(pair)) for pair in calibrated)
    pair, worst = max(comparisons, key=lambda compared: _sum_squares(compared[1]))
    if _sum_squares(worst) == 0:
        return passed("no record moves a release of a sample that holds it")
    samples = {moved.sample for moved in worst.moved}
    spent = compose(spend.event for spend in pair.with_it.spends if spend.sample in samples)
    claim = accountants.epsilon(spent, DELTA).upper
    shown = exact_epsilon(worst.losses, DELTA, claim)
    if shown > claim * (1 + _AUDIT_SLACK):
        return failed(
            f"One record shows epsilon = {shown:.3g}, and {claim:.3g} is charged; see `sensitivity`."
        )
    return passed(
        f"{count(len(worst.moved), 'release')} with a record and without show {shown:.3g} of {claim:.3g}"
    )


def _compare(pair: Pair) -> Comparison:
    """The releases from samples with the record, in both runs."""
    releases = []
    for before, after in pair.observed_releases:
        sample = pair.with_it.sample_of(after)
        if sample is not None and pair.is_record_sampled(after):
            releases.append(Moved(sample, 1.0, after.release, before.release))
    return Comparison.of(releases)


def _sum_squares(comparison: Comparison) -> float:
    return sum(share**2 for share in comparison.shares)
