"""The gate: what a submission must be before it stands on the board. docs/submitting.md is its reference.

`load_submissions` is what the board needs: all that pass the cheap checks. `examine` is the whole gate for one of them.
No check runs code that was sent, unless it is told to (`run_code`), and then in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dpicl.harness.core.paths import shipped_suites
from dpicl.harness.run.suite import Suite, load_suite
from dpicl.leaderboards.gate.examination import (
    Examination,
    Request,
    cheap_problem,
    examine,
    find_submissions,
    places_check,
    read_all,
    read_contents,
)
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import visible

__all__ = [
    "ROOT",
    "Examination",
    "Request",
    "examine",
    "find_submissions",
    "known_suites",
    "load_submissions",
    "places_check",
    "read_all",
    "read_contents",
]

#: The submissions that ship with the project.
ROOT = Path(__file__).resolve().parent.parent / "submissions"


def known_suites(more: Iterable[Path] = ()) -> dict[str, Suite]:
    """Name -> suite, as shipped; ``more`` are files whose suites are known as well, or instead."""
    suites = (load_suite(path) for path in (*shipped_suites().values(), *more))
    return {suite.name: suite for suite in suites}


def load_submissions(
    root: Path = ROOT, suites: Mapping[str, Suite] | None = None, of: str | None = None
) -> tuple[list[Submission], list[str]]:
    """(submissions that may be shown, one sentence for each that may not). Never raises for what is in the folders.

    of: the suite that is shown; submissions to another one are passed over. None: all of them.
    Only cheap checks: card, files, suite and settings, each result against itself, ledgers added up. That scores are
    measured on the right records is what the board itself looks at; the rest is for `examine`.
    """
    suites = known_suites() if suites is None else suites
    found, problems = [], []
    for contents in read_all(root):
        if of is not None and contents.card is not None and contents.card.suite != of:
            continue
        if problem := cheap_problem(contents, suites):
            said = f"Submission {contents.name} is left out: {problem} `dpicl submit {contents.folder}` says more."
            problems.append(visible(said))
        else:
            found.append(contents.submission())
    return found, problems
