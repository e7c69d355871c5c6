"""The whole gate for one submission: every check in order, and the reviewer's table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dpicl.harness.core.errors import DpiclError
from dpicl.harness.core.git import GitError
from dpicl.harness.run.results import Result
from dpicl.harness.run.suite import Suite
from dpicl.leaderboards.gate import code, history, ledgers, paid, records, reproductions
from dpicl.leaderboards.gate.card import PLACEHOLDER, Card
from dpicl.leaderboards.gate.consistency import consistency_check, duplicates_check
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.leaderboards.gate.findings import Finding, fault, not_checked, verdict
from dpicl.leaderboards.gate.folder import README, repository_mark
from dpicl.leaderboards.gate.references import data_check, load_reference
from dpicl.leaderboards.gate.rerun import Again, rerun, rerun_check, sample
from dpicl.leaderboards.gate.settings import seeds_check, suite_check
from dpicl.leaderboards.gate.table import Line, lines_of
from dpicl.leaderboards.model.text import visible

_REFUSED = "its files are refused, so nothing is started for it; fix the size first"


@dataclass(frozen=True)
class Request:
    """How to examine. results: folder of the results of record. base: what was there before. rerun: cells to run again.

    run_code: whether the code that was sent may run. announce: called with one line before it does.
    maintainer: whether footnotes, marks and records of re-runs may be new.
    """

    suites: Mapping[str, Suite]
    results: Path
    base: history.Base | None = None
    run_code: bool = False
    maintainer: bool = False
    rerun: int = 0
    rerun_seed: int | None = None
    announce: Callable[[str], None] = field(default=lambda line: None)


@dataclass(frozen=True)
class Examination:
    """What the gate found. seed: of the sample of re-run cells."""

    contents: Contents
    findings: tuple[Finding, ...]
    lines: tuple[Line, ...]
    again: tuple[Again, ...] = ()
    seed: int | None = None

    @property
    def good(self) -> bool:
        return all(finding.status != "failed" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Names, sentences and numbers; no text of the results."""
        return {
            "submission": self.contents.name,
            "ok": self.good,
            "hash": self.contents.hash,
            "plugin": self.contents.plugin_hash,
            "checks": [asdict(finding) for finding in self.findings],
            "rows": [asdict(line) for line in self.lines],
            "rerun_seed": self.seed,
        }


def examine(contents: Contents, request: Request, others: Sequence[Contents] = ()) -> Examination:
    """All checks of one submission. others: further submissions, among which it must not be a duplicate.

    Never raises for what was sent: where the gate itself fails, that is a finding, and the submission is refused.
    """
    try:
        return _examine(contents, request, others)
    except Exception as error:  # one submission never stops the others
        return Examination(contents, (Finding("gate", "failed", fault(error)),), ())


def _examine(contents: Contents, request: Request, others: Sequence[Contents]) -> Examination:
    card = contents.card
    reference = _reference(request, card) if card else []
    base = None if contents.size else request.base
    frozen = history.frozen(contents, base)
    count = len(contents.files)
    suite = suite_check(contents, request.suites, frozen)
    findings = [
        verdict("size", contents.size, f"{count} files of known kinds, none too large"),
        verdict("card", _card_problems(contents), "every key is there and readable"),
        verdict("schema", contents.schema, f"{len(contents.results)} results, each where it belongs"),
        suite,
        data_check(contents, reference),
        seeds_check(contents, reference, request.suites.get(card.suite) if card and not frozen else None),
        ledgers.epsilon_check(contents, request.run_code),
        consistency_check(contents),
        duplicates_check(contents, reference, others),
        reproductions.reproduced_check(contents),
        _history(contents, request, base),
    ]
    findings += _by_running(contents, request, reference, suite)
    again: list[Again] = []
    seed = None
    if request.rerun:
        seed, again = _again(contents, request, findings)
    shown = not cheap_problem(contents, request.suites)
    made = [one.reproduction("this run") for one in again]
    before = _scores_before(contents, base)
    lines = lines_of(contents, reference, before, made) if shown else []
    return Examination(contents, tuple(findings), tuple(lines), tuple(again), seed)


def _reference(request: Request, card: Card) -> list[Result]:
    """The results of record of the card's suite version; with the settings of the suite where that version ships."""
    suite = request.suites.get(card.suite)
    ships = suite is not None and str(suite.version) == str(card.suite_version)
    return load_reference(request.results, card.suite, card.suite_version, suite.hash if suite and ships else None)


def _card_problems(contents: Contents) -> list[str]:
    problems = [contents.card_problem] if contents.card is None else []
    readme = contents.content.get(README, b"").decode("utf-8", "replace")
    if any(line.startswith(PLACEHOLDER) for line in readme.splitlines()):
        problems.append(f"README.md still says {PLACEHOLDER}; write what a reader should know, or remove the file.")
    return problems


def _history(contents: Contents, request: Request, base: history.Base | None) -> Finding:
    if contents.size:
        return not_checked("history", _REFUSED)
    try:
        found = history.history_check(contents, base, request.suites)
        problem = "" if base is None or request.maintainer else reproductions.maintainers_problem(contents, base)
    except GitError as error:
        return verdict("history", [str(error)], "")
    if not problem:
        return found
    earlier = [found.why] if found.status == "failed" else []
    return verdict("history", [*earlier, problem], "", found.others)


def _scores_before(contents: Contents, base: history.Base | None) -> Mapping[str, float]:
    try:
        return history.scores_before(contents, base)
    except GitError:
        return {}  # the finding of `_history` says why


def _by_running(contents: Contents, request: Request, reference: Sequence[Result], suite: Finding) -> Sequence[Finding]:
    """The checks that load records, and those that run the mechanism; none where its cells may not even exist."""
    if suite.status != "ok":
        why = "the results are none of the suite; fix that first" if contents.results else "there is no result"
        return [not_checked(name, why) for name in ("private records", "ledger", "conformance")]
    found = [records.records_check(contents, reference)]
    if contents.size:
        return [*found, not_checked("ledger", _REFUSED), not_checked("conformance", _REFUSED)]
    if contents.plugin is not None and not code.may_run(contents, request.run_code):
        request.announce(code.announcement(contents))
    found.append(code.events_check(contents, request.run_code))
    found.append(code.conformance_check(contents, request.run_code))
    return found


def _again(contents: Contents, request: Request, findings: list[Finding]) -> tuple[int | None, list[Again]]:
    if any(finding.status == "failed" for finding in findings):
        findings.append(not_checked("rerun", "another check failed; fix that first"))
        return None, []
    if reason := code.may_run(contents, request.run_code):
        findings.append(not_checked("rerun", reason))
        return None, []
    seed, chosen = sample(contents, request.rerun, request.rerun_seed)
    request.announce(f"{contents.name}: running {len(chosen)} of {len(contents.results)} cells again, seed {seed}.")
    try:
        again = rerun(contents, chosen, request.run_code)
    except DpiclError as error:
        findings.append(verdict("rerun", [str(error)], ""))
        return seed, []
    findings.append(rerun_check(contents, again, seed))
    return seed, again


def find_submissions(root: Path) -> list[Path]:
    """The folders <team>/<method> below a root, sorted; README.md and files beside teams are not submissions."""
    return [
        path
        for team in _children(root)
        if _may_be_one(team)
        for path in _children(team)
        if _may_be_one(path) and path.name != "__pycache__"
    ]


def _may_be_one(path: Path) -> bool:
    """Links too: they are refused with a sentence, rather than passed over."""
    return path.is_dir() and not path.name.startswith(".")


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
        if path.name.startswith(".") or path.is_symlink() or not path.is_dir():
            strays.append(path.name)
            continue
        if not os.access(path, os.R_OK | os.X_OK):
            strays.append(path.name)
        strays += [
            f"{path.name}/{one.name}"
            for one in _children(path)
            if one.name.startswith(".") or one.name == "__pycache__" or one.is_symlink() or not one.is_dir()
        ]
    problems = [f"{name} is no submission <team>/<method>; remove it." for name in strays]
    if mark := repository_mark(root):
        problems.insert(0, f"The folder of all teams is a git repository itself ({mark}); remove that.")
    return verdict("places", problems, "README.md and folders <team>/<method>, nothing else")


def cheap_problem(contents: Contents, suites: Mapping[str, Suite]) -> str:
    """The first sentence of the checks that need no accountant and no records, or ""; for the board. Never raises."""
    try:
        return visible(_cheap_problem(contents, suites))
    except Exception as error:  # one submission never stops anybody's board
        return fault(error)


def _cheap_problem(contents: Contents, suites: Mapping[str, Suite]) -> str:
    for problems in (contents.size, [contents.card_problem] if contents.card is None else [], contents.schema):
        if problems:
            return problems[0]
    retired = contents.card is not None and any(
        suite.name == contents.card.suite and str(suite.version) != str(contents.card.suite_version)
        for suite in suites.values()
    )
    for check in (
        lambda: suite_check(contents, suites, frozen=retired),
        lambda: consistency_check(contents),
        lambda: reproductions.reproduced_check(contents),
    ):
        if (found := check()).status == "failed":
            return found.why
    for name, result in contents.results.items():
        if problem := ledgers.ledger_problem(result) or paid.unspent(result):
            return f"{name}: {problem}"
    return ""


def read_all(root: Path) -> list[Contents]:
    """Every submission below a root."""
    return [read_contents(folder) for folder in find_submissions(root)]
