"""`post-processing`, `public-labels` and `no-crash`: the doors are the only way by which a record can matter.

A script says what leaves the doors. Then everything that an outsider sees must be the same whatever the private set is:
how many doors are passed, their shapes, bounds and scales, the release, and whether the run fails.
"""

from __future__ import annotations

from harness.conformance.adversaries import HOSTILE, PLANTED, holding, hostile, other_sets, planted, scripted
from harness.conformance.bench import Run
from harness.conformance.evidence import Evidence
from harness.conformance.transcript import Transcript
from harness.conformance.verdicts import Verdict, failed, not_applicable, passed
from harness.mechanism import AnswerMechanism

_SCRIPTS = ("random", "ties", "whole")


def post_processing(evidence: Evidence) -> Verdict:
    """Same releases, any private set: same outcome."""
    bench = evidence.bench
    if bench.unbounded:
        return not_applicable("epsilon is infinite: the release may depend on records in any way")
    compared = 0
    for at, kind in enumerate(_SCRIPTS):
        script = scripted(kind, 100 + at)
        expected = bench.run(Run(script=script, coins=at))
        for seed, (name, records) in enumerate(other_sets(bench.task, evidence.other_records).items()):
            run = bench.run(Run(records=records, script=script, coins=10 + seed))
            if run.error is None and run.public != expected.public:
                return failed(_difference(expected, run, name, kind))
            compared += 1
    return passed(f"{compared} replays on other private sets; nothing but the doors depends on records")


def _difference(expected: Transcript, run: Transcript, name: str, kind: str) -> str:
    doors, expected_doors = len(run.passages), len(expected.passages)
    what = "a door states another shape, sensitivity or scale"
    if doors != expected_doors:
        what = f"{doors} doors are passed in place of {expected_doors}"
    elif run.released != expected.released:
        pairs = zip(run.released or (), expected.released or (), strict=False)
        new, old = next(((a, b) for a, b in pairs if a != b), ((), ()))
        what = f"{str(new)[:60]!r} is released in place of {str(old)[:60]!r}"
    ties = " (all noisy values equal)" if kind == "ties" else ""
    return (
        f"With the same noisy releases{ties} but {name}, {what}; whatever follows a release, and what it is chosen"
        " from, must be computed from released and public things alone."
    )


def public_labels(evidence: Evidence) -> Verdict:
    """No text or label of a record in a release; demonstrations carry the public labels they were asked for."""
    bench = evidence.bench
    if bench.unbounded:
        return not_applicable("epsilon is infinite: records may be shown")
    records = planted(bench.task.train, labels=not bench.task.partitioned)
    for at in range(6):
        script = scripted(_SCRIPTS[at % 3], at) if at % 2 else None
        run = bench.run(Run(records=records, coins=at, noise=at, script=script))
        released = run.released or ()
        if any(PLANTED in part for item in released for part in item):
            return failed(
                "A word that only a private record holds was released; release labels, keywords and texts from public"
                " lists alone."
            )
        labels = tuple(label for label, _ in released)
        named = bool(bench.task.labels) and not isinstance(bench.mechanism, AnswerMechanism)
        if named and labels not in ((), bench.shots):
            return failed(
                f"Demonstrations have the labels {labels}, and {bench.shots} were asked for; use `context.shots` as it"
                " is."
            )
    return passed("no planted word in 6 releases; labels are the public ones")


def no_crash(evidence: Evidence) -> Verdict:
    """No private set makes a run fail."""
    bench = evidence.bench
    if bench.unbounded:
        return not_applicable("epsilon is infinite: a failure may depend on records")
    train = bench.task.train
    sets = {
        "hostile records": hostile(train),
        **{f"records of {text[:12]!r}": holding(train, text) for text in HOSTILE},
        "a single record": list(train[:1]),
        "no record": [],
    }
    for at, (name, records) in enumerate(sets.items()):
        for script in (None, scripted("whole", at)):
            run = bench.run(Run(records=records, coins=at, noise=at, script=script))
            if run.error is not None:
                return failed(
                    f"With {name} it raises {type(run.error).__name__} ({_sentence(run.error)}); map whatever a slot"
                    " says into a fixed set, and let a slot that fails abstain."
                )
    return passed(f"{2 * len(sets)} runs on hostile, tiny and empty sets")


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:100]
