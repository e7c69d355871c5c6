"""Checks that each result is consistent, and that its commit is known.

What a run writes fits together: scores are means of outcomes, intervals hold their score, nothing is from the future,
and the code was a commit. A file that was edited by hand mostly does not.
"""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from dpicl.core import git
from dpicl.core.errors import DpiclError
from dpicl.core.messages import count
from dpicl.data.task import Task
from dpicl.leaderboards.gate.case import Case, NotChecked, Outcome, state_problems
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
    problems = state_problems(
        (name, _contradiction(result, now)) for name, result in case.results.items()
    )
    return Outcome(problems, "scores are the means of their outcomes; nothing contradicts itself")


def _contradiction(result: Result, now: datetime) -> str:
    """Where one result does not agree with itself, or "". The schema has checked that scores are means of outcomes."""
    manifest, privacy, documents = result.manifest, result.privacy, result.documents
    for metric in _BINARY:
        if metric in documents and not {*documents[metric].outcomes} <= {0.0, 1.0}:
            return f"{metric} has an outcome out of its range; {RESEND}"
    if datetime.fromisoformat(result.created) > now + CLOCK:
        return (
            f"it was created in the future ({result.created[:25]}); set the clock and run it again."
        )
    if problem := explain_unknown_code(manifest) or explain_missing_texts(result):
        return problem
    tested = documents[result.main_metric].ids
    answered = {answer.id for answer in result.answers}
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


def commit_check(case: Case) -> Outcome:
    """Whether this repository has the commits that the results name. Raises NotChecked where it does not: an author
    may have them."""
    results = Counter(result.manifest.commit for result in case.results.values())
    named = sorted(commit for commit in results if commit and _COMMIT.fullmatch(commit))
    if case.contents.size:
        raise NotChecked("its files are refused; fix the size first")
    if not named:
        raise NotChecked("no result names a commit")
    if not git.has_repository():
        raise NotChecked("this code runs without its repository, so no commit can be looked up")
    known = git.git("rev-list", "--no-walk", "--ignore-missing", *named)
    if known is None:
        raise NotChecked("git cannot be asked")
    unknown = [commit for commit in named if commit not in known.decode("ascii").split()]
    if not unknown:
        return Outcome(
            [], f"this repository has {count(len(named), 'commit')} that the results name"
        )
    if git.git("rev-parse", "--is-shallow-repository") != b"false\n":
        raise NotChecked(
            "this clone is shallow, so commits that it lacks are unknown; `git fetch --unshallow`"
        )
    notes = [
        f"Commit {commit} of {count(results[commit], 'result')} is not in this repository."
        for commit in unknown
    ]
    raise NotChecked(
        "nobody here can tell which code ran; fetch the commits below, or ask the author for them",
        notes,
    )
