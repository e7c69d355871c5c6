"""The list of checks, each a function of one parsed submission (`Case`), and the two ways in: all checks of one
submission, and the cheap ones of all submissions for a board."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.core.messages import count
from dpicl.core.paths import CLONE, PACKAGE, shipped_suites
from dpicl.core.printable import visible
from dpicl.leaderboards.gate import code, consistency, history, ledgers, records, rerun, settings
from dpicl.leaderboards.gate.card import PLACEHOLDER, README
from dpicl.leaderboards.gate.case import Case, Request
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.leaderboards.gate.findings import Finding, NotChecked, Outcome, fault
from dpicl.leaderboards.gate.report import Examination, lines_of
from dpicl.leaderboards.gate.rerun import RerunCell
from dpicl.leaderboards.model.submissions import Submission
from dpicl.plan.suite import Suite, load_suite

#: The submissions that ship with the project.
ROOT = (CLONE or PACKAGE) / "leaderboards" / "submissions"


@dataclass(frozen=True)
class Check:
    """function: raises NotChecked where it cannot be made, DpiclError for what is wrong with the submission.

    cheap: needs no accountant, record, earlier copy or code, so that a board can make it each time. needs_results,
    needs_suite: not made for a submission without results, and for results outside the suite.
    """

    name: str
    function: Callable[[Case], Outcome]
    cheap: bool = False
    needs_results: bool = False
    needs_suite: bool = False


def _size(case: Case) -> Outcome:
    number = count(len(case.contents.content), "file")
    return Outcome(case.contents.size, f"{number} of known kinds, none too large")


def _card(case: Case) -> Outcome:
    problems = [case.contents.card_problem] if case.contents.card_problem else []
    readme = case.contents.content.get(README, b"").decode("utf-8", "replace")
    if any(line.startswith(PLACEHOLDER) for line in readme.splitlines()):
        problems.append(f"README.md still says {PLACEHOLDER}; write what a reader should know, or remove the file.")
    return Outcome(problems, "every key is there and readable")


def _schema(case: Case) -> Outcome:
    return Outcome(case.contents.schema, f"{count(len(case.results), 'result')}, each where it belongs")


#: Every check, in the order of the report; docs/submit.md says when each passes.
CHECKS = (
    Check("size", _size, cheap=True),
    Check("card", _card, cheap=True),
    Check("schema", _schema, cheap=True),
    Check("suite", settings.suite_check, cheap=True),
    Check("data", settings.data_check, needs_results=True),
    Check("seeds", settings.seeds_check, needs_results=True),
    Check("epsilon", ledgers.epsilon_check, cheap=True, needs_results=True),
    Check("consistency", consistency.consistency_check, cheap=True, needs_results=True),
    Check("commit", consistency.commit_check, needs_results=True),
    Check("duplicates", consistency.duplicates_check, needs_results=True),
    Check("reproduced", rerun.reproduced_check, cheap=True),
    Check("history", history.history_check),
    Check("private records", records.records_check, needs_results=True, needs_suite=True),
    Check("ledger", code.events_check, needs_results=True, needs_suite=True),
    Check("conformance", code.conformance_check, needs_results=True, needs_suite=True),
)


def run_checks(case: Case, names: Iterable[str] = ()) -> Iterator[Finding]:
    """The finding of each check (of these names; none: of all), made as it is asked for."""
    outside = False
    for one in CHECKS:
        if names and one.name not in names:
            continue
        if one.needs_results and not case.results:
            finding = Finding(one.name, "not checked", "there is no result")
        elif one.needs_suite and outside:
            finding = Finding(one.name, "not checked", "the results are none of the suite; fix that first")
        else:
            finding = finding_of(one.name, one.function, case)
        outside = outside or (one.name == "suite" and finding.status != "ok")
        yield finding


def finding_of(name: str, function: Callable[[Case], Outcome], case: Case) -> Finding:
    """What one check finds."""
    try:
        return function(case).finding(name)
    except NotChecked as reason:
        return Finding(name, "not checked", str(reason), tuple(reason.notes))
    except DpiclError as error:
        return Finding(name, "failed", str(error))


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
