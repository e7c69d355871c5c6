"""`audit`: the epsilon that a record shows on neighbouring sets, worked out exactly, stays under what was charged.

Of all pairs of neighbours (calibrated, not at an end of the knob) the one whose record moves its releases most, as a
share of what they state. The clean values and the noise of both runs are known, and so are the distributions of what
they release (dpicl.attacks.exact_pairs). The claim is the composition of the events that were spent from the samples
with the record, *without* amplification. So this check compares the noise that is drawn with the accounting of what was
charged, as `dpicl audit --exact` does for a row; `noise` and `post-processing` see that nothing else is released.
"""

from __future__ import annotations

from dpicl.attacks.exact_pairs import exact_epsilon
from dpicl.attacks.exact_worlds import Seen
from dpicl.conformance.bench import DELTA
from dpicl.conformance.checking import CheckEvidence, Pair, Verdict, failed, not_applicable, passed
from dpicl.core.messages import count
from dpicl.privacy import accountants
from dpicl.privacy.events import compose

#: Rounding of sums of rows.
_SLACK = 1e-6


def audit(evidence: CheckEvidence) -> Verdict:
    """See above."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    if not evidence.plain.observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    calibrated = (pair for pair in evidence.pairs if pair.base.knob in evidence.knobs[:2])
    pair, seen = max(((pair, _seen(pair)) for pair in calibrated), key=lambda one: _moved(one[1]))
    if _moved(seen) == 0:
        return passed("no record moves a release of a sample that holds it")
    samples = {sample for sample, *_ in seen.moved}
    spent = compose(spend.event for spend in pair.with_it.spends if spend.sample in samples)
    claim = accountants.epsilon(spent, DELTA).upper
    shown = exact_epsilon(seen.losses, DELTA, claim)
    if shown > claim * (1 + _SLACK):
        return failed(f"One record shows epsilon = {shown:.3g}, and {claim:.3g} is charged; see `sensitivity`.")
    return passed(f"{count(len(seen.moved), 'release')} with a record and without show {shown:.3g} of {claim:.3g}")


def _seen(pair: Pair) -> Seen:
    """The releases from samples with the record, in both runs."""
    numbered = ((pair.with_it.sample_of(after), before, after) for before, after in pair.observed_releases)
    return Seen.of(
        (sample, 1.0, after.release, before.release)
        for sample, before, after in numbered
        if sample is not None and pair.holds(after)
    )


def _moved(seen: Seen) -> float:
    return sum(share**2 for share in seen.shares)
