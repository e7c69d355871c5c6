"""`side-effects`: a run gives out nothing but its release, prints nothing about records, and keeps none of them."""

from __future__ import annotations

import re

from dpicl.harness.conformance.adversaries import PLANTED, planted
from dpicl.harness.conformance.bench import Run
from dpicl.harness.conformance.checking import CheckEvidence, Verdict, failed, passed
from dpicl.harness.conformance.dictionary import modules_of
from dpicl.harness.conformance.keeping import kept
from dpicl.harness.conformance.transcript import Transcript

_VARYING = re.compile(r"0x[0-9a-f]+|\d+")


def side_effects(evidence: CheckEvidence) -> Verdict:
    """See above. Where two runs with the same seeds print different things (times, addresses), numbers do not count."""
    bench = evidence.bench
    for run in evidence.all_runs():
        if run.footprint.acts:
            return failed(
                f"A run {run.footprint.acts[0]}; a mechanism may write to no file, process or connection: its release"
                " is all that it may give out."
            )
    if bench.unbounded:
        return passed("no file, process or connection; epsilon is infinite, so what it prints and keeps may be private")
    repeats = evidence.plain.footprint.said == bench.run().footprint.said
    plain = (lambda run: run.footprint.said) if repeats else _without_numbers
    for name, _, expected, run in evidence.twins():
        if run.error is None and expected.error is None and plain(run) != plain(expected):
            said = next((s for s in run.footprint.said if s not in expected.footprint.said), "less than before")
            return failed(
                f"With the same noisy releases but {name}, it says something else to terminal or log"
                f" ({said[:120]!r}); say nothing that depends on records."
            )
    secret = bench.run(Run(records=planted(bench.task.train, labels=not bench.task.partitioned)))
    if any(PLANTED in said for said in secret.footprint.said):
        return failed("It says a word to terminal or log that only a private record holds; say nothing of records.")
    if place := kept(modules_of(type(bench.mechanism)), bench.mechanism, bench.model, PLANTED):
        return failed(f"After a run {place} still holds private text; keep nothing between runs.")
    return passed("no file, process or connection; what it prints does not depend on records; no record is kept")


def _without_numbers(run: Transcript) -> list[str]:
    return [_VARYING.sub("#", said) for said in run.footprint.said]
