"""The two ways into the gate: all checks of one submission, and the cheap ones of all submissions for a board."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from dpicl.core.messages import count
from dpicl.core.paths import CLONE, PACKAGE, shipped_suites
from dpicl.core.printable import visible
from dpicl.leaderboards.gate import code, rerun
from dpicl.leaderboards.gate.card import README
from dpicl.leaderboards.gate.case import Case, Request
from dpicl.leaderboards.gate.checks import CHECKS, finding_of, run_checks
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.leaderboards.gate.findings import Finding, Outcome, fault
from dpicl.leaderboards.gate.report import Examination, lines_of
from dpicl.leaderboards.gate.rerun import RerunCell
from dpicl.leaderboards.model.submissions import Submission
from dpicl.plan.suite import Suite, load_suite

#: The submissions that ship with the project.
ROOT = (CLONE or PACKAGE) / "leaderboards" / "submissions"


def examine(contents: Contents, request: Request, others: Sequence[Contents] = ()) -> Examination:
    """All checks of one submission. others: further submissions, among which it must not be a duplicate.

    Never raises for any submission: an error of the gate itself is a finding, and the submission is refused.
    """
    try:
        case = Case(contents, request, others)
        if contents.plugin is not None and not code.reason_not_to_run(contents, request.run_code):
            request.announce(code.announcement(contents))
        findings = [*run_checks(case)]
        seed: int | None = None
        cells: list[RerunCell] = []
        if request.rerun:
            finding, seed, cells = _rerun(case, findings)
            findings.append(finding)
        lines = [] if cheap_problem(contents, request.suites) else lines_of(case, cells)
        return Examination(contents, tuple(findings), tuple(lines), tuple(cells), seed)
    except Exception as error:  # one submission never stops the others
        return Examination(contents, (Finding("gate", "failed", fault(error)),))


def _rerun(case: Case, findings: Sequence[Finding]) -> tuple[Finding, int | None, list[RerunCell]]:
    """(finding, seed of the sample, cells that were run again)."""
    contents, request = case.contents, case.request
    failed = any(finding.status == "failed" for finding in findings)
    reason = "another check failed; fix that first" if failed else code.reason_not_to_run(contents, request.run_code)
    if reason:
        return Finding("rerun", "not checked", reason), None, []
    seed, chosen = rerun.sample(contents, request.rerun, request.rerun_seed)
    number = count(len(contents.results), "cell")
    request.announce(f"{contents.name}: running {len(chosen)} of {number} again, seed {seed}.")
    cells: list[RerunCell] = []

    def run_again(case: Case) -> Outcome:
        cells.extend(rerun.rerun(case, chosen))
        return rerun.rerun_outcome(contents, cells, seed)

    return finding_of("rerun", run_again, case), seed, cells


def cheap_problem(contents: Contents, suites: Mapping[str, Suite]) -> str:
    """The first sentence of the cheap checks, or ""; for the board. Never raises."""
    try:
        case = Case(contents, Request(suites, cheap=True))
        found = run_checks(case, [one.name for one in CHECKS if one.cheap])
        return next((finding.why for finding in found if finding.status == "failed"), "")
    except Exception as error:  # one submission never stops anybody's board
        return fault(error)


def find_submissions(root: Path) -> list[Path]:
    """The folders <team>/<method> below a root, sorted; README.md and files beside teams are not submissions."""
    return [path for team in _folders(root) for path in _folders(team) if path.name != "__pycache__"]


def _folders(place: Path) -> list[Path]:
    """Links to folders too: they are refused with a sentence, rather than passed over."""
    return [path for path in _children(place) if path.is_dir() and not path.name.startswith(".")]


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # `places_check` says so


def places_check(root: Path) -> Finding:
    """Nothing lies below the root but README.md and the folders <team>/<method>, whose content is checked by itself."""
    strays = []
    for path in _children(root):
        if path.name == README and path.is_file() and not path.is_symlink():
            continue
        if not _is_plain_folder(path) or not os.access(path, os.R_OK | os.X_OK):
            strays.append(path.name)
        if _is_plain_folder(path):
            inside = (one for one in _children(path) if one.name == "__pycache__" or not _is_plain_folder(one))
            strays += [f"{path.name}/{one.name}" for one in inside]
    problems = [f"{name} is no submission <team>/<method>; remove it." for name in strays]
    return Outcome(problems, "README.md and folders <team>/<method>, nothing else").finding("places")


def _is_plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def known_suites(more: Iterable[Path] = ()) -> dict[str, Suite]:
    """Name -> suite, as shipped; suites of the files ``more`` are added, or replace shipped ones."""
    suites = (load_suite(path) for path in (*shipped_suites().values(), *more))
    return {suite.name: suite for suite in suites}


def load_submissions(
    root: Path = ROOT, suites: Mapping[str, Suite] | None = None, of: str | None = None
) -> tuple[list[Submission], list[str]]:
    """(submissions that may be shown, one sentence for each that may not). Never raises for what is in the folders.

    of: the suite that is shown; submissions to another one are passed over. None: all of them.
    Only cheap checks are made. The board itself checks that scores were measured on the right records; `examine` checks
    the rest.
    """
    suites = known_suites() if suites is None else suites
    found, problems = [], []
    for contents in map(read_contents, find_submissions(root)):
        if of is not None and contents.card is not None and contents.card.suite != of:
            continue
        if problem := cheap_problem(contents, suites):
            left_out = f"Submission {contents.name} is left out: {problem} `dpicl submit {contents.folder}` says more."
            problems.append(visible(left_out))
        else:
            found.append(contents.submission())
    return found, problems
