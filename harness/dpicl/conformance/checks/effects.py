"""`side-effects`: a run gives out nothing but its release, prints nothing about records, and leaves nothing behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from dpicl.conformance.adversaries import PLANTED, plant_words, scripted
from dpicl.conformance.bench import Run
from dpicl.conformance.checking import CheckEvidence, Verdict, failed, passed
from dpicl.conformance.transcript import Transcript

_VARYING = re.compile(r"0x[0-9a-f]+|\d+")


def side_effects(evidence: CheckEvidence) -> Verdict:
    """See above. Where two runs with the same seeds print different things (times, addresses), numbers do not count."""
    bench = evidence.bench
    for run in evidence.all_runs():
        if run.footprint.acts:
            return failed(
                f"A run {run.footprint.acts[0]}; its release is all that a mechanism may give out."
            )
    if bench.unbounded:
        return passed(
            "no file, process or connection; epsilon is infinite, so what it prints and keeps may be private"
        )
    repeats = evidence.plain.footprint.printed == bench.run().footprint.printed

    def mask_varying(run: Transcript) -> list[str]:
        return [line if repeats else _VARYING.sub("#", line) for line in run.footprint.printed]

    for name, _, expected, run in evidence.twins():
        if (
            run.error is None
            and expected.error is None
            and mask_varying(run) != mask_varying(expected)
        ):
            new = [line for line in run.footprint.printed if line not in expected.footprint.printed]
            line = new[0] if new else "less than before"
            return failed(
                f"With the same noisy releases but {name}, it prints or logs something else: {line[:120]!r}."
            )
    planted = plant_words(bench.task.train, labels=not bench.task.partitioned)
    secret = bench.run(Run(records=planted))
    if any(PLANTED in line for line in secret.footprint.printed):
        return failed(
            "It prints or logs a word that only a private record holds; say nothing of records."
        )
    problem = _find_left_behind(evidence)
    if problem:
        return failed(problem)
    return passed(
        "no file, process or connection; what it prints does not depend on records; no record is kept"
    )


def _find_left_behind(evidence: CheckEvidence) -> str | None:
    """What is wrong if runs leave another state behind where records are others and noisy releases the same, each in a
    process as good as new; if a second run changes it again; or if other code was replaced."""
    bench, state = evidence.bench, evidence.bench.checkpoint
    place = state.find_replaced()
    if place:
        return f"It puts something of its own in the place of {place}; leave other code as it is."
    other = next(iter(evidence.sets.values()))
    first = Run(script=scripted("random", 0))
    second = replace(first, records=other, sampling=1)
    states = []
    for how in (first, second):
        state.restore()
        bench.run(how)
        states.append(state.read())
    place = _find_change(*states)
    if place:
        return f"With the same noisy releases but other records, a run changes {place}; keep nothing of records."
    bench.run(second)
    place = _find_change(states[1], state.read())
    if place:
        return f"Every run changes {place}, so a run depends on those before it; keep nothing between runs."
    return None


def _find_change(
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
) -> str | None:
    for place in {**before, **after}:
        if before.get(place) != after.get(place):
            return place
    return None
