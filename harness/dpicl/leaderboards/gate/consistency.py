"""Checks that each result is consistent and that there is no second one for its cell.

What a run writes fits together: scores are means of outcomes, intervals hold their score, nothing is from the future,
and the code was a commit. A file that was edited by hand mostly does not. Two submissions with the same outcomes on
every record of every cell are one submission.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dpicl.core.errors import DpiclError
from dpicl.data.task import Task
from dpicl.leaderboards.gate.case import Case, Outcome, state_problems
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.results.schema import Manifest, Result

#: Metrics whose outcomes are right or wrong.
_BINARY = ("acc", "acc_calibrated", "acc_nearest", "acc_logistic", "exact_match")
RESEND = "send what `dpicl run` wrote."
#: What a clock may be ahead of ours.
CLOCK = timedelta(days=1)
_COMMIT = re.compile(r"[0-9a-f]{40}")


def consistency_check(case: Case) -> Outcome:
    """Every result against itself."""
    now = datetime.now(UTC)
    problems = state_problems((name, _contradiction(result, now)) for name, result in case.results.items())
    return Outcome(problems, "scores are the means of their outcomes; nothing contradicts itself")


def _contradiction(result: Result, now: datetime) -> str:
    """Where one result does not agree with itself, or "". The schema has checked that scores are means of outcomes."""
    manifest, privacy, documents = result.manifest, result.privacy, result.documents
    odd = (m for m in _BINARY if m in documents and not {*documents[m].outcomes} <= {0.0, 1.0})
    if metric := next(odd, ""):
        return f"{metric} has an outcome out of its range; {RESEND}"
    if datetime.fromisoformat(result.created) > now + CLOCK:
        return f"it was created in the future ({result.created[:25]}); set the clock and run it again."
    if problem := explain_unknown_code(manifest) or explain_missing_texts(result):
        return problem
    tested, answered = documents[result.main_metric].ids, {one.id for one in result.answers}
    if manifest.data.test_records != len(tested):
        return f"its manifest counts other test records than it has outcomes; {RESEND}"
    if answered and not answered >= set(tested):
        return f"some test records have an outcome and no answer; {RESEND}"
    single = privacy.epsilon_per_query
    if single is not None and not single <= privacy.epsilon_proved * (1 + 1e-9):
        return f"its epsilon for one query, {single:g}, is above that of all; {RESEND}"
    return ""


def explain_unknown_code(manifest: Manifest) -> str:
    """Why a manifest does not say which code ran, or ""."""
    if manifest.dirty:
        return "it was run with uncommitted changes; commit them and run it again."
    if manifest.commit is None or manifest.dirty is None:
        return "it was run outside the repository, so no commit is known; run it in a clone."
    if not _COMMIT.fullmatch(manifest.commit) or not manifest.packages.get("torch"):
        return f"its manifest names no commit, or no packages; {RESEND}"
    return ""


def explain_missing_texts(result: Result) -> str:
    """Why released texts are missing, or "". A task may forbid texts that retell real records: `dpicl run` has none."""
    count = result.released_count
    if not result.cell.epsilon > 0 or result.texts:
        return ""
    if not count:
        return f"it has an epsilon and released nothing; {RESEND}"
    with suppress(DpiclError):
        if replace(Task.read_public(result.cell.task), source=result.cell.source).restricted:
            return ""
    return f"it counts {count} released texts and holds none; {RESEND}"


def duplicates_check(case: Case) -> Outcome:
    """Against the results of record (but for what the submitter's own runs left there) and every other submission: no
    cell twice, no method under two names."""
    own, plugin = case.results.values(), case.contents.plugin_hash
    of_record = [
        one
        for one in case.reference
        if one.cell.mechanism not in BASELINES and (one.cell.plugin is None or one.cell.plugin != plugin)
    ]
    others = {one.name: list(one.results.values()) for one in case.others if one.name != case.contents.name}
    rivals = {"the results of record": of_record, **others}
    problems = []
    for name, results in rivals.items():
        if both := {one.cell_id for one in own} & {one.cell_id for one in results}:
            problems.append(f"{len(both)} of its cells are those of {name} already; send only what is new.")
        elif label := _find_copied_row(own, results):
            problems.append(
                f"All outcomes are those of {label} in {name}, record by record; send a method of its own, or explain"
                " it to the maintainers."
            )
    return Outcome(problems, f"none of its cells or methods is in {len(rivals)} other sources")


def _find_copied_row(own: Iterable[Result], results: Iterable[Result]) -> str:
    """The row of ``results`` that has the same outcomes in every cell of ``own``, or ""."""
    mine = {_outcomes(result) for result in own}
    by_label: dict[str, set[tuple[object, ...]]] = defaultdict(set)
    for result in results:
        by_label[result.cell.label].add(_outcomes(result))
    return next((label for label, theirs in by_label.items() if mine and mine <= theirs), "")


def _outcomes(result: Result) -> tuple[object, ...]:
    """A cell but for its row, with the outcome of every test record, in whatever order they stand."""
    cell, documents = result.cell, result.documents[result.main_metric]
    key = (cell.suite, str(cell.suite_version), cell.model, cell.task, cell.epsilon, cell.seed)
    return *key, frozenset(zip(documents.ids, documents.outcomes, strict=True))
