"""Builds the board of a suite from a results folder, for `dpicl board`, `dpicl plot` and `dpicl compare`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
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
    """A board and what it was built from. left_out: about results that may not stand on it, as among the board's
    warnings. page: of its site, where one was written."""

    board: Board
    selection: Selection
    evidence: Evidence
    left_out: tuple[str, ...] = ()
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
    """The board of the results that may stand on it; None where none may. records: at hand, where they were read
    before. damaged: invalid files, and files that could not be read."""
    suite = selection.suite
    results, left_out = _select_eligible(results, selection)
    if not results:
        for sentence in left_out:
            message(f"{suite.name}: {sentence}")
        return None
    results, outdated = select_current(results, records or Fingerprints(download=False))
    skipped_cells = find_skipped(selection.cells, selection.mechanisms)
    left_out_cells = [cell for cell, _ in skipped_cells]
    missing = describe_completeness(suite.name, selection.cells, results, left_out_cells)
    warnings = [*describe_unread(damaged), *filter(None, [missing]), *outdated, *left_out]
    notes = [*warnings]
    if not suite.private_share:
        notes.append(_SAME_RECORDS)
    notes += [*describe_tuning(suite, results), *readings(selection, results)]
    board = build_board(
        results, selection.suite_name, evidence, submissions, suite.margin, suite.planned
    )
    with_results = {(result.cell.label, result.cell.task) for result in results}
    skipped = {
        (cell.label, cell.task): {"label": cell.label, "task": cell.task, "reason": reason}
        for cell, reason in skipped_cells
        if (cell.label, cell.task) not in with_results
    }
    board = replace(
        board,
        notes=(*notes, *board.notes),
        warnings=tuple(warnings),
        skipped=tuple(skipped.values()),
        tasks=tuple(suite.tasks),
    )
    return BoardView(board, selection, evidence, tuple(left_out))


def _select_eligible(
    results: Sequence[Result], selection: Selection
) -> tuple[list[Result], list[str]]:
    """The results that may stand on the board of a selection, and what is said about the others.

    Results of an earlier version of a task stand there as long as there is none of its present version.
    """
    admission = Admission(selection.suite, selection.cells)
    admitted = [result for result in results if admission.can_admit(result)]
    current = [result for result in admitted if admission.is_current(result)]
    tasks = {result.cell.task for result in current}
    earlier = {result.cell.task for result in admitted} - tasks
    sentences = []
    left_out = len(results) - len(admitted)
    if left_out:
        sentences.append(
            f"{count(left_out, 'result')} with another suite version or settings, model, source, limit or options left"
            " out."
        )
    if earlier:
        names = ", ".join(sorted(earlier))
        sentences.append(f"Results of an earlier version of {names}; `dpicl run` makes new ones.")
    eligible = [
        result for result in admitted if admission.is_current(result) or result.cell.task in earlier
    ]
    return eligible, sentences


def submissions_of(
    folder: Path | None,
    suite_file: str | None,
    suite: str | None = None,
) -> list[Submission]:
    """The submissions (to one suite) that pass the gate's cheap checks; a message about each other one.

    folder: None for those of the project. suite_file: a suite's file or name that is known besides the shipped ones.
    Raises UsageError for a folder that is not there.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"There is no folder {folder}; give one with <team>/<method> below it, or --no-submissions."
        )
    files = [] if suite_file is None else [find_suite(suite_file)]
    submissions, problems = load_submissions(folder or ROOT, known_suites(files), suite)
    for problem in problems:
        message(f"dpicl: {problem}")
    return submissions


def read_attacks(results: Path) -> list[AttackResult]:
    """Every attack result; a message names invalid files, and files that could not be read."""
    attacks, damaged = load_attacks(results)
    report_damaged(damaged)
    return attacks


def load_evidence(results: Path, mechanisms: Mapping[str, Registered[Mechanism]]) -> Evidence:
    """The attacks of a results folder, and the default options of known mechanisms."""

    @cache
    def default_options(mechanism: str, task: str) -> Mapping[str, Any]:
        return (
            resolve_options(mechanisms[mechanism].cls, task, {}) if mechanism in mechanisms else {}
        )

    return Evidence(tuple(read_attacks(results)), default_options)


def readings(selection: Selection, results: Sequence[Result]) -> list[str]:
    """A sentence for each mechanism of which something is our reading and not its paper's text."""
    shown = {result.cell.mechanism for result in results} & selection.mechanisms.keys()
    texts = [(name, selection.mechanisms[name].cls.reading) for name in sorted(shown)]
    return [f"{name} is our reading of its paper: {text}." for name, text in texts if text]
