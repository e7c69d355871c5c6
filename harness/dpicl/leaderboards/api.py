"""Builds the board of a suite from a results folder, for `dpicl board`, `dpicl plot` and `dpicl compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.attacks.results import AttackResult
from dpicl.attacks.store import load_attacks
from dpicl.core.errors import UsageError
from dpicl.core.messages import count, message
from dpicl.core.paths import find_suite
from dpicl.core.plugins import Registered
from dpicl.leaderboards.gate.examination import ROOT, known_suites, load_submissions
from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.model.comparability import Admission
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.render.board_view import board_blocks
from dpicl.leaderboards.render.columns import rows_frame
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import resolve_options
from dpicl.plan.presence import describe_completeness, find_skipped, select_current
from dpicl.plan.selection import Selection
from dpicl.plan.tuning import describe_tuning
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Damaged, describe_unread, report_damaged
from dpicl.tables.document import Block
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

#: Of a suite without `private_share`.
_SAME_RECORDS = "All seeds share one set of private records, so intervals say nothing about other records of the kind."


@dataclass(frozen=True, repr=False)
class BoardView(Shown):
    """A board and what it was built from. page: of its site, where one was written."""

    board: Board
    selection: Selection
    evidence: Evidence
    page: Path | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row for each row of the board, as in board.csv."""
        return rows_frame(self.board)

    def blocks(self) -> list[Block]:
        return board_blocks(self.board)


def view_of(
    results: Sequence[Result],
    selection: Selection,
    evidence: Evidence,
    submissions: Sequence[Submission],
    records: Fingerprints | None = None,
    damaged: Sequence[Damaged] = (),
) -> BoardView | None:
    """The board of those of these results that may stand on it; None where none may. records: at hand, where they were
    looked at already. damaged: what is no result, or could not be read."""
    suite = selection.suite
    kept = select_standing(results, selection)
    if not kept:
        return None
    kept, current = select_current(kept, records or Fingerprints(download=False))
    left_out = find_skipped(selection.cells, selection.mechanisms)
    missing = describe_completeness(suite.name, selection.cells, kept, left_out)
    warnings = [*describe_unread(damaged), *([missing] if missing else []), *current]
    about = [] if suite.private_share else [_SAME_RECORDS]
    notes = [*warnings, *about, *describe_tuning(suite, kept), *readings(selection, kept)]
    made = build_board(kept, selection.asked, evidence, submissions, suite.margin, suite.planned)
    there = {(result.cell.label, result.cell.task) for result in kept}
    reasons = {(cell.label, cell.task): left_out[cell.id] for cell in selection.cells if cell.id in left_out}
    skipped = [
        {"label": label, "task": task, "reason": reason}
        for (label, task), reason in reasons.items()
        if (label, task) not in there
    ]
    notes += made.notes
    made = replace(made, notes=tuple(notes), warnings=tuple(warnings))
    made = replace(made, skipped=tuple(skipped), tasks=tuple(suite.tasks))
    return BoardView(made, selection, evidence)


def select_standing(results: Sequence[Result], selection: Selection) -> list[Result]:
    """Those that may stand on the board of a selection; a sentence about all others.

    Results of an earlier version of a task stand there as long as there is none of its present version.
    """
    suite, admission = selection.suite, Admission(selection.suite, selection.cells)
    admitted = [result for result in results if admission.can_admit(result)]
    new = {result.cell.task for result in admitted if admission.is_current(result)}
    kept = [result for result in admitted if admission.is_current(result) or result.cell.task not in new]
    if left_out := len(results) - len(admitted):
        what = "with another suite version or settings, model, source, limit or options left out"
        message(f"{suite.name}: {count(left_out, 'result')} {what}.")
    if earlier := {result.cell.task for result in kept} - new:
        message(
            f"{suite.name}: results of an earlier version of {', '.join(sorted(earlier))}; `dpicl run` makes new ones."
        )
    return kept


def submissions_of(folder: Path | None, asked: str | None, suite: str | None = None) -> list[Submission]:
    """The submissions (to one suite) that pass the gate's cheap checks; a sentence for each other one.

    folder: None for those of the project. asked: a suite's file or name that is known besides the shipped ones.
    Raises UsageError for a folder that is not there.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give one with <team>/<method> below it, or --no-submissions.")
    more = [] if asked is None else [find_suite(asked)]
    found, problems = load_submissions(folder or ROOT, known_suites(more), suite)
    for problem in problems:
        message(f"dpicl: {problem}")
    return found


def read_attacks(results: Path) -> list[AttackResult]:
    """Every attack result; a message says which files are none, or could not be read."""
    attacks, damaged = load_attacks(results)
    report_damaged(damaged)
    return attacks


def load_evidence(results: Path, mechanisms: Mapping[str, Registered[Mechanism]]) -> Evidence:
    """What `read_attacks` finds, as boards take it."""

    def defaults(mechanism: str, task: str) -> Mapping[str, Any]:
        return resolve_options(mechanisms[mechanism].cls, task, {}) if mechanism in mechanisms else {}

    return Evidence(tuple(read_attacks(results)), defaults)


def readings(selection: Selection, results: Sequence[Result]) -> list[str]:
    """A sentence for each mechanism of which something is our reading and not its paper's text."""
    shown = {result.cell.mechanism for result in results} & selection.mechanisms.keys()
    said = {name: selection.mechanisms[name].cls.reading for name in sorted(shown)}
    return [f"{name} is our reading of its paper: {reading}." for name, reading in said.items() if reading]
