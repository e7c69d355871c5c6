"""Runs the checks of the gate: all of them on one submission, and the cheap ones on every submission of a board."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.core.errors import DpiclError
from dpicl.core.grouping import group_by
from dpicl.core.messages import count, message
from dpicl.core.paths import CLONE, PACKAGE, shipped_suites
from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate import (
    code,
    consistency,
    duplicates,
    history,
    ledgers,
    records,
    settings,
)
from dpicl.leaderboards.gate.card import CARD, README, is_name
from dpicl.leaderboards.gate.case import Case, Finding, NotChecked, Outcome
from dpicl.leaderboards.gate.contents import fault, read_contents
from dpicl.leaderboards.model.submissions import PLACEHOLDER, Submission
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import load_suite

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

    def make_finding(self, case: Case) -> Finding:
        """What it finds."""
        try:
            return self.function(case).make_finding(self.name)
        except NotChecked as reason:
            return Finding(self.name, "not checked", str(reason), tuple(reason.notes))
        except DpiclError as error:
            return Finding(self.name, "failed", str(error))


def _size(case: Case) -> Outcome:
    number = count(len(case.contents.content), "file")
    return Outcome(case.contents.size, f"{number} of known kinds, none too large")


def _card(case: Case) -> Outcome:
    card, folder = case.card, case.contents.folder
    team, method = folder.parent.name, folder.name
    problems = [
        f"The {kind}'s folder is called {name!r}; use at most 40 lower-case letters, digits, '-' and '_'"
        " (and not con, nul or another device's name)."
        for kind, name in (("team", team), ("method", method))
        if not is_name(name)
    ]
    if card is None:
        problems.append(case.contents.card_problem)
    elif (card.team, card.method) != (team, method):
        problems.append(
            f"{CARD}: team and method are {card.team!r} and {card.method!r}, the folders {team!r} and {method!r}; give"
            " them the same names."
        )
    readme = case.contents.content.get(README, b"").decode("utf-8", "replace")
    if any(line.startswith(PLACEHOLDER) for line in readme.splitlines()):
        problems.append(
            f"README.md still says {PLACEHOLDER}; write what a reader should know, or remove the file."
        )
    return Outcome(problems, "every key is there and readable")


def _schema(case: Case) -> Outcome:
    return Outcome(
        case.contents.schema, f"{count(len(case.results), 'result')}, each where it belongs"
    )


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
    Check("duplicates", duplicates.duplicates_check, needs_results=True),
    Check("reproduced", code.reproduced_check, cheap=True),
    Check("history", history.history_check),
    Check("private records", records.records_check, needs_results=True, needs_suite=True),
    Check("ledger", code.events_check, needs_results=True, needs_suite=True),
    Check("conformance", code.conformance_check, needs_results=True, needs_suite=True),
)


#: Status of the check of the suite -> why what rests on it is not checked.
_OUTSIDE = {
    "failed": "the results are none of the suite; fix that first",
    "not checked": "whether the results are of the suite was not checked; fix the card first",
}


def run_checks(case: Case, checks: Iterable[Check] = CHECKS) -> Iterator[Finding]:
    """The finding of each check, made as it is asked for."""
    outside = ""
    for check in checks:
        if check.needs_results and not case.results:
            finding = Finding(check.name, "not checked", "there is no result")
        elif check.needs_suite and outside:
            finding = Finding(check.name, "not checked", outside)
        else:
            finding = check.make_finding(case)
        if check.name == "suite":
            outside = _OUTSIDE.get(finding.status, "")
        yield finding


@dataclass(frozen=True)
class Examination:
    """What the gate found. seed: of the sample of re-run cells."""

    case: Case
    findings: tuple[Finding, ...]
    seed: int | None = None

    @property
    def good(self) -> bool:
        return all(finding.status != "failed" for finding in self.findings)

    @property
    def ending(self) -> str:
        """One sentence: may it stand on the board?"""
        name = self.case.contents.name
        by_status = group_by(self.findings, "status")
        endings = {"failed": "is refused", "not checked": "passes what was checked; not checked"}
        for status, ending in endings.items():
            if status in by_status:
                checks = [finding.check for finding in by_status[status]]
                return f"{name} {ending}: {', '.join(checks)}."
        return f"{name} passes."

    def as_json(self) -> dict[str, Any]:
        """Names and sentences; no text of the results."""
        return {
            "submission": self.case.contents.name,
            "ok": self.good,
            "plugin": self.case.contents.plugin_hash,
            "checks": [asdict(finding) for finding in self.findings],
            "rerun_seed": self.seed,
        }


def examine(case: Case, again: int = 0, seed: int | None = None) -> Examination:
    """All checks of one submission. again: cells to run again. seed: of an earlier draw of cells, to repeat it.

    Never raises for any submission: an error of the gate itself is a finding, and the submission is refused.
    """
    contents = case.contents
    try:
        if contents.plugin is not None and not code.reason_not_to_run(case):
            case.announce(
                f"{contents.name}: running {contents.plugin.name}, sha256 {contents.plugin_hash}. This is not a"
                " sandbox."
            )
        findings = [*run_checks(case)]
        if again:
            if any(finding.status == "failed" for finding in findings):
                reason = "another check failed; fix that first"
            else:
                reason = code.reason_not_to_run(case)
            if reason:
                return Examination(case, (*findings, Finding("rerun", "not checked", reason)))
            seed, chosen = code.sample(contents, again, seed)
            check = Check("rerun", partial(code.rerun_check, chosen=chosen, seed=seed))
            findings.append(check.make_finding(case))
        return Examination(case, tuple(findings), seed)
    except Exception as error:  # one submission never stops the others
        return Examination(case, (Finding("gate", "failed", fault(error)),))


def find_submissions(root: Path) -> list[Path]:
    """The folders <team>/<method> below a root, sorted; README.md and files beside teams are not submissions.

    Links to folders too: they are refused with a sentence, rather than passed over. A message names a folder that
    cannot be read.
    """
    folders = [path for team in _list_folders(root) for path in _list_folders(team)]
    return [path for path in folders if path.name != "__pycache__"]


def _list_folders(folder: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        message(
            f"dpicl: {folder} cannot be read, so submissions are missing here: {error.strerror}."
        )
        return []
    return [
        folder / name for name in names if not name.startswith(".") and os.path.isdir(folder / name)
    ]


def places_check(root: Path) -> Finding:
    """Nothing lies below the root but README.md and the folders <team>/<method>, whose content is checked by itself."""
    strays = []
    for team in root.glob("*"):
        if team.name == README and team.is_file() and not team.is_symlink():
            continue
        if not _is_plain_folder(team) or not os.access(team, os.R_OK | os.X_OK):
            strays.append(team)
        else:
            strays += [path for path in team.glob("*") if not _is_plain_folder(path)]
    names = sorted(path.relative_to(root).as_posix() for path in strays)
    problems = [f"{name} is not a submission <team>/<method>; remove it." for name in names]
    outcome = Outcome(problems, "README.md and folders <team>/<method>, nothing else")
    return outcome.make_finding("places")


def _is_plain_folder(path: Path) -> bool:
    is_hidden = path.name.startswith((".", "__"))
    return path.is_dir() and not path.is_symlink() and not is_hidden


def known_suites(more: Iterable[Path] = ()) -> dict[str, Suite]:
    """Name -> suite, as shipped; suites of the files ``more`` are added, or replace shipped ones."""
    suites = (load_suite(path) for path in (*shipped_suites().values(), *more))
    return {suite.name: suite for suite in suites}


def load_submissions(
    root: Path = ROOT, suites: Mapping[str, Suite] | None = None, of: str | None = None
) -> tuple[list[Submission], list[str]]:
    """(submissions that may be shown, one sentence for each that may not). Never raises for what is in the folders.

    of: the suite that is shown; submissions to another one are skipped, unfinished ones too. None: all of them.
    Only cheap checks are made. The board itself checks that scores were measured on the right records; `examine` checks
    the rest.
    """
    suites = known_suites() if suites is None else suites
    submissions, problems = [], []
    for contents in map(read_contents, find_submissions(root)):
        if of is not None and contents.card is not None and contents.card.suite != of:
            continue
        case = Case(contents, suites, cheap=True)
        try:
            findings = run_checks(case, [check for check in CHECKS if check.cheap])
            problem = next((finding.why for finding in findings if finding.status == "failed"), "")
        except Exception as error:  # one submission never stops anybody's board
            problem = fault(error)
        if problem:
            left_out = f"Submission {contents.name} is left out: {problem} `dpicl submit {contents.folder}` says more."
            problems.append(make_visible(left_out))
        else:
            submissions.append(contents.submission())
    return submissions, problems
