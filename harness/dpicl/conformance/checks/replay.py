"""`post-processing`, `public-labels` and `no-crash`: a record can influence the outcome through noisy releases alone.

A script replaces the noisy values. Then everything that an outsider sees must be the same whatever the private set is:
the number of noisy releases, their shapes, bounds and scales, what is published, and whether the run fails. This must
hold for sets that differ in one record, for sets that share nothing, and for sets that repeat the release itself.
"""

from __future__ import annotations

from collections.abc import Iterator

from dpicl.conformance.adversaries import PLANTED, SCRIPTS, plant_words, scripted
from dpicl.conformance.bench import Run
from dpicl.conformance.checking import (
    CheckEvidence,
    Verdict,
    describe_error,
    failed,
    not_applicable,
    passed,
)
from dpicl.conformance.transcript import INSTRUCTION, Transcript


def post_processing(evidence: CheckEvidence) -> Verdict:
    """The same noisy releases give the same outcome, whatever the private set."""
    if evidence.bench.unbounded:
        return not_applicable("epsilon is infinite: the release may depend on records in any way")
    compared = 0
    for name, kind, expected, run in evidence.twins():
        if run.error is None and expected.error is None and run.public != expected.public:
            return failed(_difference(expected, run, name, kind))
        compared += 1
    return passed(
        f"{compared} replays on other private sets; nothing but the noisy releases depends on records"
    )


def _difference(expected: Transcript, run: Transcript, name: str, kind: str) -> str:
    number, before = len(run.observed_releases), len(expected.observed_releases)
    pairs = zip(run.released or (), expected.released or (), strict=False)
    if number != before:
        what = f"{number} noisy releases are made in place of {before}"
    elif run.public_prompts != expected.public_prompts:
        what = "the model is asked another public prompt (`FinalPrompt`, `reader.write`)"
    elif run.released != expected.released:
        differing = (pair for pair in pairs if pair[0] != pair[1])
        new, old = next(differing, (run.released, expected.released))
        what = f"{str(new)[:80]!r} is released in place of {str(old)[:80]!r}"
    elif run.progress != expected.progress:
        what = "other progress is reported"
    else:
        what = "a noisy release states another shape, sensitivity or scale"
    ties = " (all noisy values equal)" if kind == "ties" else ""
    return f"With the same noisy releases{ties} but {name}, {what}; compute it from released and public things alone."


def public_labels(evidence: CheckEvidence) -> Verdict:
    """No text or label of a record in a release; demonstrations carry the public labels that were requested."""
    bench = evidence.bench
    if bench.unbounded:
        return not_applicable("epsilon is infinite: records may be shown")
    records = plant_words(bench.task.train, labels=not bench.task.partitioned)
    for at in range(2 * evidence.effort.scripts):
        script = scripted(SCRIPTS[at % 3], at) if at % 2 else None
        run = bench.run(Run(records=records, sampling=at, noise=at, script=script))
        released = run.released or ()
        if any(PLANTED in part for item in released for part in item):
            return failed(
                "A word of a private record was released; take labels and texts from public lists alone."
            )
        labels = tuple(item[0] for item in released if item[0] != INSTRUCTION)
        named = bool(bench.task.labels) and not bench.answers
        if named and labels not in ((), bench.shots):
            return failed(
                f"Demonstrations have the labels {labels}, not those of `context.shots`, {bench.shots}."
            )
        if run.refused:
            return failed(run.refused)
    return passed("no planted word is released; labels are the public ones")


def check_no_crash(evidence: CheckEvidence) -> Verdict:
    """No private set makes a run fail."""
    bench = evidence.bench
    if bench.unbounded:
        return not_applicable("epsilon is infinite: a failure may depend on records")
    runs = 0
    for name, run in _list_unusual_runs(evidence):
        runs += 1
        if run.error is not None:
            return failed(
                f"With {name} it raises {describe_error(run.error)}; let a slot that fails abstain."
            )
    return passed(f"{runs} runs on hostile, tiny and empty sets")


def _list_unusual_runs(evidence: CheckEvidence) -> Iterator[tuple[str, Transcript]]:
    """All runs but those on ordinary records; some sets are run with true noise as well."""
    names = list(evidence.sets)[: evidence.effort.noisy]
    for number, name in enumerate(names):
        how = Run(records=evidence.sets[name], sampling=number, noise=number)
        yield name, evidence.bench.run(how)
    for name, _, _, run in evidence.twins():
        yield name, run
