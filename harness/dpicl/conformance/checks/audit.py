"""`audit`: a lower bound on epsilon from an experiment on neighbouring sets stays under what is proved.

Many runs with and without one record, which is in every sample, with the sampling of all others fixed; only the noise
is fresh in each. So the claim to refute is the composition of the spent events *without* amplification. The noise is
raised until this claim is small, so that a release that bypasses the noise shows in few runs. The record is one that
changed the outcome though the releases were given, if there is one; else the one that moves the first release most.
The score is how often each label and text is released with the record and without: this check sees what a mechanism
gives out, and nothing of how. What neighbours cost given the noisy releases is exact, by `sensitivity` and `noise`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpicl.attacks.exact_pairs import move
from dpicl.attacks.lower_bounds import lower_bound
from dpicl.conformance.bench import DELTA
from dpicl.conformance.checking import FALSE_ALARM, CheckEvidence, Pair, Verdict, failed, not_applicable, passed
from dpicl.conformance.transcript import Transcript
from dpicl.privacy import accountants
from dpicl.privacy.events import compose

#: Scores of runs with the record, and of runs without.
Scores = tuple[np.ndarray, np.ndarray]

#: Runs with the record, and as many without.
RUNS = 160
#: The claim is brought below this epsilon, if the knob reaches that far.
SMALL_CLAIM = 0.5


def audit(evidence: CheckEvidence) -> Verdict:
    """See above."""
    if evidence.bench.fixed:
        return not_applicable(evidence.bench.fixed)
    if not evidence.plain.observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    pair = max(evidence.pairs, key=_worth)
    if _worth(pair) == 0:
        return passed("no record moves a first release, so no experiment was made")
    experiment = _experiment(evidence, pair)
    if experiment is None:
        return failed("Some runs make no noisy release and others do; see `no-crash` and `seeds`.")
    claim, bound = experiment
    if bound > claim:
        found = f"epsilon = {bound:.3g} (confidence {1 - FALSE_ALARM:.2%})"
        return failed(f"Neighbours can be told apart at {found}, and {claim:.3g} is charged.")
    return passed(f"{2 * RUNS} runs with a record and without show epsilon = {bound:.3g} of {claim:.3g}")


def _worth(pair: Pair) -> float:
    """How much an experiment may show: how far the record moves the first release, as a share of the bound; far more
    where it changes the outcome though the releases are given (most for the first text: the experiment makes only one);
    0 where there is nothing to compare."""
    if not pair.observed_releases:
        return 0.0
    before, after = pair.observed_releases[0]
    moved, bound = move(after.release, before.release), before.release.bound
    share = moved / bound if bound and np.isfinite(moved) else 0.0
    first = (pair.without.released or ())[:1] != (pair.with_it.released or ())[:1]
    return share + 1000.0 * first + 100.0 * (pair.without.public != pair.with_it.public)


def _experiment(evidence: CheckEvidence, pair: Pair) -> tuple[float, float] | None:
    """(epsilon charged for one query or shot, without amplification; the lower bound); None where a run makes no noisy
    release."""
    bench = evidence.bench
    assert bench.mechanism.knob is not None
    without = replace(pair.base, script=None, single=True, knob=bench.knob(single=True))
    claim = _claim(bench.run(without))
    while claim > SMALL_CLAIM and without.knob and 2 * without.knob <= bench.mechanism.knob.high:
        without = replace(without, knob=2 * without.knob)
        claim = _claim(bench.run(without))
    with_it = replace(pair.changed, script=None, single=True, knob=without.knob)
    outside = [bench.run(replace(without, noise=seed)) for seed in range(1, RUNS + 1)]
    inside = [bench.run(replace(with_it, noise=seed)) for seed in range(RUNS + 1, 2 * RUNS + 1)]
    if not all(run.observed_releases for run in (*inside, *outside)):
        return None
    return claim, lower_bound(*_answers(inside, outside), DELTA, 1 - FALSE_ALARM, bench.seed).epsilon


def _claim(run: Transcript) -> float:
    return accountants.epsilon(compose(spend.event for spend in run.spends), DELTA).upper


def _answers(inside: Sequence[Transcript], outside: Sequence[Transcript]) -> Scores:
    """How much more often each label and text came with the record than without in the first half of the runs; the
    second half is scored."""
    half = len(inside) // 2
    with_it, without = (Counter(part for run in runs[:half] for part in _parts(run)) for runs in (inside, outside))

    def score(run: Transcript) -> float:
        return float(sum(np.log((with_it[part] + 1) / (without[part] + 1)) for part in _parts(run)))

    return np.array([score(run) for run in inside[half:]]), np.array([score(run) for run in outside[half:]])


def _parts(run: Transcript) -> list[tuple[int, str]]:
    """Labels and texts of a release with their places; ('failed') for a run that fails."""
    if run.released is None:
        return [(-1, "failed")]
    return list(enumerate(part for item in run.released for part in item))
