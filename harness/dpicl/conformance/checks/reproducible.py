"""`seeds` and `non-private`: a run is a function of its seeds, and at epsilon = infinity it has no noise.

So it is the same run after others, beside others in the same process (which takes turns at the model with it, as do the
shots of each), and at another time of day.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpicl.conformance.bench import Run
from dpicl.conformance.checking import CheckEvidence, Verdict, failed, not_applicable, passed
from dpicl.conformance.clock import MOMENTS, clock_at
from dpicl.conformance.dictionary import modules_of
from dpicl.conformance.transcript import ObservedRelease, Transcript


def seeds(evidence: CheckEvidence) -> Verdict:
    """The same seeds give the same run; other noise gives other releases."""
    bench, plain = evidence.bench, evidence.plain
    stranger = Run(records=evidence.other_records, sampling=5, knob=evidence.knobs[1])
    bench.run(stranger)  # it must leave no trace
    again, other = bench.run(), bench.run(Run(noise=1))
    for run in (plain, again, other):
        if run.footprint.drew:
            return failed(
                f"A run draws from the global generator of {run.footprint.drew[0]}; use `context.streams`."
            )
        if run.footprint.variables:
            name = run.footprint.variables[0]
            return failed(
                f"A run reads the environment variable {name}; let a run follow from options and seeds alone."
            )
    if not _is_same(plain, again):
        return failed(
            "Two runs with the same seeds differ; use `context.streams`, and keep nothing between runs."
        )
    beside_another, _ = bench.run_at_once([Run(), replace(stranger, noise=5)])
    if not _is_same(plain, beside_another):
        return failed(
            "Other shots or runs that are under way change a run; keep what a shot needs in local variables."
        )
    for moment in MOMENTS:
        with clock_at(moment, modules_of(type(bench.mechanism)).values()) as readings:
            run = bench.run()
        if not _is_same(plain, run):
            return failed(
                "The same seeds give another run at another time of day; do not look at the clock."
            )
        if not readings:
            break  # nobody looks at the clock
    firsts = zip(plain.observed_releases[:1], other.observed_releases[:1], strict=False)
    if any(
        a.release.kind == "gaussian" and np.array_equal(a.released, b.released) for a, b in firsts
    ):
        return failed(
            "Another noise seed gives the same noisy sum; draw it with a permit of the sample."
        )
    return passed("the same seeds, the same run; another noise seed, other noise")


def _is_same(one: Transcript, other: Transcript) -> bool:
    if one.public != other.public:
        return False
    pairs = zip(one.observed_releases, other.observed_releases, strict=False)
    return all(np.array_equal(first.released, second.released) for first, second in pairs)


def check_non_private(evidence: CheckEvidence) -> Verdict:
    """At epsilon = infinity there is no noise: the output of a noisy release is its input."""
    bench = evidence.bench
    if bench.mechanism.knob is None:
        return not_applicable("it has no knob")
    knob = bench.mechanism.knob.non_private
    where = f"At {bench.mechanism.knob.name} = {knob:g}, its own `non_private`,"
    runs = [bench.run(Run(knob=knob, noise=noise)) for noise in (0, 1)]
    for run in runs:
        if run.error is not None:
            return failed(
                f"{where} it raises {type(run.error).__name__}; make it the method without noise."
            )
        if not all(map(_is_clean, run.observed_releases)):
            return failed(f"{where} releases still have noise; let the knob turn all of it off.")
    if runs[0].public != runs[1].public:
        return failed(
            "At epsilon = infinity the noise seed changes the release; all noise must depend on the knob."
        )
    if not runs[0].observed_releases:
        return not_applicable("the mechanism makes no noisy release; see `noise`")
    return passed(
        f"{len(runs[0].observed_releases)} releases are the true sums and choices, whatever the noise seed"
    )


def _is_clean(observed: ObservedRelease) -> bool:
    clean, released = observed.release.clean, observed.released
    if observed.noise or observed.release.scale != 0:
        return False
    if observed.release.kind == "gaussian":
        return bool(np.array_equal(released, clean))
    if observed.release.kind == "threshold":
        return bool(released[0]) == bool(clean[0] >= 0)
    order = np.argsort(-clean, kind="stable")
    return order[: observed.release.count].tolist() == released.tolist()
