"""The whole gate for one submission: every check in order, and the reviewer's table."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.core.messages import count
from dpicl.core.paths import CLONE, PACKAGE, shipped_suites
from dpicl.leaderboards.gate import code, history, ledgers, records
from dpicl.leaderboards.gate.card import PLACEHOLDER, README, Card
from dpicl.leaderboards.gate.consistency import commit_check, consistency_check, duplicates_check
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.leaderboards.gate.findings import Finding, fault, not_checked, verdict
from dpicl.leaderboards.gate.report import Examination, lines_of
from dpicl.leaderboards.gate.rerun import RerunCell, reproduced_check, rerun, rerun_check, sample
from dpicl.leaderboards.gate.settings import data_check, load_reference, seeds_check, suite_check
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.model.text import visible
from dpicl.plan.suite import Suite, load_suite
from dpicl.results.schema import Result

#: The submissions that ship with the project.
ROOT = (CLONE or PACKAGE) / "leaderboards" / "submissions"
_NO_RESULT = "there is no result"
_REFUSED = "its files are refused; fix the size first"


@dataclass(frozen=True)
class Request:
    """How to examine. results: folder of the results of record. base: an earlier copy. rerun: cells to run again.

    run_code: whether submitted code may run. announce: called with one line before it does. maintainer: whether
    footnotes, marks and records of re-runs may be new.
    """

    suites: Mapping[str, Suite]
    results: Path
    base: Path | None = None
    run_code: bool = False
    maintainer: bool = False
    rerun: int = 0
    rerun_seed: int | None = None
    announce: Callable[[str], None] = field(default=lambda line: None)


def examine(contents: Contents, request: Request, others: Sequence[Contents] = ()) -> Examination:
    """All checks of one submission. others: further submissions, among which it must not be a duplicate.

    Never raises for any submission: an error of the gate itself is a finding, and the submission is refused.
    """
    try:
        return _examine(contents, request, others)
    except Exception as error:  # one submission never stops the others
        return Examination(contents, (Finding("gate", "failed", fault(error)),), ())


def _examine(contents: Contents, request: Request, others: Sequence[Contents]) -> Examination:
    card = contents.card
    reference = _reference(request, card) if card else []
    before = None if contents.size else history.files_before(request.base, contents.folder)
    frozen = history.frozen(contents, before)
    shipped = request.suites.get(card.suite) if card and not frozen else None
    suite = suite_check(contents, request.suites, frozen)
    of_results: Mapping[str, Callable[[], Finding]] = {
        "data": lambda: data_check(contents, reference),
        "seeds": lambda: seeds_check(contents, reference, shipped),
        "epsilon": lambda: ledgers.epsilon_check(contents, request.run_code),
        "consistency": lambda: consistency_check(contents),
        "commit": lambda: commit_check(contents, frozen),
        "duplicates": lambda: duplicates_check(contents, _of_others(reference, contents), others),
    }
    findings = [
        verdict("size", contents.size, f"{count(len(contents.files), 'file')} of known kinds, none too large"),
        verdict("card", _card_problems(contents), "every key is there and readable"),
        verdict("schema", contents.schema, f"{count(len(contents.results), 'result')}, each where it belongs"),
        suite,
        *(check() if contents.results else not_checked(name, _NO_RESULT) for name, check in of_results.items()),
        reproduced_check(contents),
        history.history_check(contents, before, request.suites, request.maintainer),
        *_by_running(contents, request, reference, suite),
    ]
    seed: int | None = None
    cells: list[RerunCell] = []
    if request.rerun:
        again, seed, cells = _rerun(contents, request, findings)
        findings.append(again)
    shown = not cheap_problem(contents, request.suites)
    made = [one.reproduction("this run") for one in cells]
    lines = lines_of(contents, reference, history.scores_before(contents, before), made) if shown else []
    return Examination(contents, tuple(findings), tuple(lines), tuple(cells), seed)


def _reference(request: Request, card: Card) -> list[Result]:
    """The results of record of the card's suite version; with the settings of the suite where that version ships."""
    suite = request.suites.get(card.suite)
    ships = suite is not None and str(suite.version) == str(card.suite_version)
    return load_reference(request.results, card.suite, card.suite_version, suite.hash if suite and ships else None)


def _of_others(reference: Sequence[Result], contents: Contents) -> list[Result]:
    """The results of record without what the submitter's own runs left in their folder."""
    return [one for one in reference if one.cell.plugin is None or one.cell.plugin != contents.plugin_hash]


def _card_problems(contents: Contents) -> list[str]:
    problems = [contents.card_problem] if contents.card_problem else []
    readme = contents.content.get(README, b"").decode("utf-8", "replace")
    if any(line.startswith(PLACEHOLDER) for line in readme.splitlines()):
        problems.append(f"README.md still says {PLACEHOLDER}; write what a reader should know, or remove the file.")
    return problems


def _by_running(contents: Contents, request: Request, reference: Sequence[Result], suite: Finding) -> Sequence[Finding]:
    """The checks that load records, and those that run the mechanism; none for results outside the suite."""
    if suite.status != "ok":
        why = "the results are none of the suite; fix that first" if contents.results else _NO_RESULT
        return [not_checked(name, why) for name in ("private records", "ledger", "conformance")]
    found = [records.records_check(contents, reference)]
    if contents.size:
        return [*found, not_checked("ledger", _REFUSED), not_checked("conformance", _REFUSED)]
    if contents.plugin is not None and not code.may_run(contents, request.run_code):
        request.announce(code.announcement(contents))
    found.append(code.events_check(contents, request.run_code))
    found.append(code.conformance_check(contents, request.run_code))
    return found


def _rerun(
    contents: Contents, request: Request, findings: Sequence[Finding]
) -> tuple[Finding, int | None, list[RerunCell]]:
    """(finding, seed of the sample, cells that were run again)."""
    failed = any(finding.status == "failed" for finding in findings)
    reason = "another check failed; fix that first" if failed else code.may_run(contents, request.run_code)
    if reason:
        return not_checked("rerun", reason), None, []
    seed, chosen = sample(contents, request.rerun, request.rerun_seed)
    request.announce(
        f"{contents.name}: running {len(chosen)} of {count(len(contents.results), 'cell')} again, seed {seed}."
    )
    try:
        cells = rerun(contents, chosen, request.run_code, request.announce)
    except DpiclError as error:
        return verdict("rerun", [str(error)]), seed, []
    return rerun_check(contents, cells, seed), seed, cells


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
        if not _plain_folder(path) or not os.access(path, os.R_OK | os.X_OK):
            strays.append(path.name)
        if _plain_folder(path):
            inside = (one for one in _children(path) if one.name == "__pycache__" or not _plain_folder(one))
            strays += [f"{path.name}/{one.name}" for one in inside]
    problems = [f"{name} is no submission <team>/<method>; remove it." for name in strays]
    return verdict("places", problems, "README.md and folders <team>/<method>, nothing else")


def _plain_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not path.name.startswith(".")


def cheap_problem(contents: Contents, suites: Mapping[str, Suite]) -> str:
    """The first sentence of the checks that need no accountant and no records, or ""; for the board. Never raises."""
    try:
        return visible(_cheap_problem(contents, suites))
    except Exception as error:  # one submission never stops anybody's board
        return fault(error)


def _cheap_problem(contents: Contents, suites: Mapping[str, Suite]) -> str:
    unread = next(filter(None, (*contents.size, contents.card_problem, *contents.schema)), "")
    if unread or contents.card is None:
        return unread
    shipped = suites.get(contents.card.suite)
    retired = shipped is not None and str(shipped.version) != str(contents.card.suite_version)
    for check in (partial(suite_check, suites=suites, frozen=retired), consistency_check, reproduced_check):
        if (found := check(contents)).status == "failed":
            return found.why
    for name, result in contents.results.items():
        if problem := ledgers.ledger_problem(result) or ledgers.unspent(result):
            return f"{name}: {problem}"
    return ""


def known_suites(more: Iterable[Path] = ()) -> dict[str, Suite]:
    """Name -> suite, as shipped; suites of the files ``more`` are added, or replace shipped ones."""
    suites = (load_suite(path) for path in (*shipped_suites().values(), *more))
    return {suite.name: suite for suite in suites}


def load_submissions(
    root: Path = ROOT, suites: Mapping[str, Suite] | None = None, of: str | None = None
) -> tuple[list[Submission], list[str]]:
    """(submissions that may be shown, one sentence for each that may not). Never raises for what is in the folders.

    of: the suite that is shown; submissions to another one are passed over. None: all of them.
    Only cheap checks: card, files, suite and settings, each result against itself, ledgers added up. The board itself
    checks that scores were measured on the right records; `examine` checks the rest.
    """
    suites = known_suites() if suites is None else suites
    found, problems = [], []
    for contents in map(read_contents, find_submissions(root)):
        if of is not None and contents.card is not None and contents.card.suite != of:
            continue
        if problem := cheap_problem(contents, suites):
            said = f"Submission {contents.name} is left out: {problem} `dpicl submit {contents.folder}` says more."
            problems.append(visible(said))
        else:
            found.append(contents.submission())
    return found, problems
