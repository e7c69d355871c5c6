"""Does a result agree with itself, and is it the only one of its kind?

What a run writes fits together: scores are means of outcomes, intervals hold their score, nothing is from the future,
and the code was a commit. A file that was edited by hand mostly does not. Two submissions with the same outcomes on
every record of every cell are one submission.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from dpicl.harness.run.results import Result
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, by_sentence, not_checked, verdict
from dpicl.leaderboards.gate.paid import missing_texts
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT

_ROUNDING = 1e-9
#: Metrics whose outcomes are right or wrong.
_BINARY = ("acc", "acc_calibrated", "exact_match")
_CLOCK = timedelta(days=1)
_COMMIT = re.compile(r"[0-9a-f]{40}")


def consistency_check(contents: Contents, now: datetime | None = None) -> Finding:
    """Every result against itself."""
    if not contents.results:
        return not_checked("consistency", "there is no result")
    now = now or datetime.now(UTC)
    found = ((name, contradiction(result, now)) for name, result in contents.results.items())
    problems = by_sentence((name, problem) for name, problem in found if problem)
    return verdict("consistency", problems, "scores are the means of their outcomes; nothing contradicts itself")


def contradiction(result: Result, now: datetime) -> str:
    """Where one result does not agree with itself, or ""."""
    return _scores(result) or _times(result, now) or _answers(result) or _claims(result)


def _scores(result: Result) -> str:
    """Right or wrong is 1 or 0; that scores are means of their outcomes is the schema's business."""
    for metric in set(_BINARY) & result.documents.keys():
        if any(one not in (0.0, 1.0) for one in result.documents[metric].outcomes):
            return f"{metric} has an outcome out of its range; send what `dpicl run` wrote."
    return ""


def _times(result: Result, now: datetime) -> str:
    if datetime.fromisoformat(result.created) > now + _CLOCK:
        return f"it was created in the future ({result.created[:25]}); set the clock and run it again."
    if result.manifest.dirty:
        return "it was run with uncommitted changes; commit them and run it again."
    commit = result.manifest.commit
    if commit is None or result.manifest.dirty is None:
        return "it was run outside the repository, so no commit is known; run it in a clone."
    if not _COMMIT.fullmatch(commit):
        return "its commit is none; send what `dpicl run` wrote."
    if not result.manifest.packages.get("torch"):
        return "its manifest names no packages; send what `dpicl run` wrote."
    return ""


def _answers(result: Result) -> str:
    """Released things are counted right, and belong to test records."""
    if problem := missing_texts(result):
        return problem
    if result.manifest.data.test_records != len(result.documents[result.main_metric].ids):
        return "its manifest counts other test records than it has outcomes; send what `dpicl run` wrote."
    ids = {one.id for one in result.answers}
    if ids and not ids >= set(result.documents[result.main_metric].ids):
        return "some test records have an outcome and no answer; send what `dpicl run` wrote."
    return ""


def _claims(result: Result) -> str:
    """What the file says about epsilon besides the proof: one query costs no more than all."""
    single = result.privacy.epsilon_per_query
    if single is not None and not single <= result.privacy.epsilon_proved * (1 + _ROUNDING):
        return f"its epsilon for one query, {single:g}, is above that of all; send what `dpicl run` wrote."
    return ""


def duplicates_check(contents: Contents, reference: Sequence[Result], others: Iterable[Contents]) -> Finding:
    """Against the results of record and every other submission: no cell twice, no method under two names."""
    if not contents.results:
        return not_checked("duplicates", "there is no result")
    rivals: dict[str, list[Result]] = {
        "the results of record": [result for result in reference if result.cell.mechanism not in (ZERO_SHOT, REAL_DATA)]
    }
    rivals |= {one.name: list(one.results.values()) for one in others if one.name != contents.name}
    own = {result.cell_id for result in contents.results.values()}
    problems = []
    for name, results in rivals.items():
        if both := own & {result.cell_id for result in results}:
            problems.append(f"{len(both)} of its cells are those of {name} already; send only what is new.")
        elif label := _copied(list(contents.results.values()), results):
            problems.append(
                f"All outcomes are those of {label} in {name}, record by record; send a method of its own, or explain"
                " it to the maintainers."
            )
    return verdict("duplicates", problems, f"none of its cells or methods is in {len(rivals)} other sources")


def _copied(own: Sequence[Result], results: Sequence[Result]) -> str:
    """The row of ``results`` that has the same outcomes in every cell of ``own``, or ""."""
    mine = _outcomes(own)
    by_label: dict[str, list[Result]] = {}
    for result in results:
        by_label.setdefault(result.cell.label, []).append(result)
    for label, rows in by_label.items():
        theirs = _outcomes(rows)
        if mine and all(theirs.get(key) == outcome for key, outcome in mine.items()):
            return label
    return ""


def _outcomes(results: Iterable[Result]) -> Mapping[tuple[object, ...], tuple[object, ...]]:
    found: dict[tuple[object, ...], tuple[object, ...]] = {}
    for result in results:
        cell, documents = result.cell, result.documents.get(result.main_metric)
        if documents is not None:
            key = (cell.suite, str(cell.suite_version), cell.model, cell.task, cell.epsilon, cell.seed)
            found[key] = (*documents.ids, *documents.outcomes)
    return found
