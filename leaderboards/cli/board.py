"""`dpicl board`: the leaderboard of a suite with the attacks on its rows, in the terminal and as a page."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Parser, Subparsers, add_command, add_results_flags, board_command, selected
from dpicl.leaderboards.cli import all_boards, evidence

if TYPE_CHECKING:
    from dpicl.harness.attacks.results import AttackResult, External
    from dpicl.harness.run.results import Result
    from dpicl.harness.run.selection import Selection
    from dpicl.leaderboards.model.board import Board
    from dpicl.leaderboards.model.submissions import Submission


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "board",
        "show the leaderboard of a suite; SUITE 'all' lists all suites, 'attacks' shows every attack and audit",
        "dpicl board quick --html site",
        _board,
    )
    add_flags(parser)
    parser.add_argument("--retired", action="store_true", help="also show results of retired versions of the suite")
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the board as a site, DIR/index.html")


def add_flags(parser: Parser) -> None:
    """Which results and submissions stand on the board."""
    add_results_flags(parser)
    parser.add_argument(
        "--submissions", type=Path, metavar="DIR", help="submitted methods to show (default: those of the project)"
    )
    parser.add_argument("--no-submissions", action="store_true", help="show our own results alone")


@dataclass(frozen=True)
class Built:
    """A board and what it was made of. kept: our results on it."""

    board: Board
    selection: Selection
    kept: list[Result]
    attacks: tuple[AttackResult, ...]
    external: tuple[External, ...]


def build(arguments: argparse.Namespace) -> Built:
    """The board that the flags ask for (of `add_flags`, and `retired`). Raises ResultError without a result for it."""
    from dpicl.harness.core.errors import ResultError
    from dpicl.harness.mechanism import registry
    from dpicl.harness.run.fingerprints import Fingerprints
    from dpicl.harness.run.presence import at_hand

    selection = selected(arguments)
    results, damaged = selection.store.load_all()
    output.report_damaged(damaged, moved=False)
    suite, standing = selection.suite, registry.leaderboards("comparability")
    kept = [result for result in results if standing.may_stand(result, suite, selection.cells)]
    submissions = submissions_of(arguments, suite.name)
    old = [result for result in results if standing.is_retired(result, suite)]
    if left_out := len(results) - len(kept) - len(old):
        output.message(
            f"{output.count(left_out, 'result')} with other suite settings, model, source, limit or options left out."
        )
    submitted, _ = registry.leaderboards("submitted").on_the_board(submissions)
    retired = [*old, *(result for result in submitted if standing.is_retired(result, suite))]
    if retired and not arguments.retired:
        count = output.count(len(retired), "result")
        output.message(f"{count} of retired versions of {selection.suite.name}: see `dpicl board --retired`.")
    if not kept and not (retired and arguments.retired):
        raise ResultError(
            f"There is no result of suite {selection.suite.name} with these settings under {arguments.results};"
            f" run `dpicl run {arguments.suite}`."
        )
    boards = registry.leaderboards()
    kept, notes = at_hand(kept, Fingerprints(download=False))
    known = evidence.known(arguments.results, selection.mechanisms)
    board = boards.build_board(kept, selection.asked, known, submissions, retired)
    return Built(replace(board, notes=(*notes, *board.notes)), selection, kept, known.attacks, known.external)


def _board(arguments: argparse.Namespace) -> int:
    from dpicl.harness.mechanism import registry

    if arguments.suite == evidence.ATTACKS:
        return evidence.show(arguments)
    if arguments.suite == all_boards.ALL:
        return all_boards.show(arguments)
    built, boards = build(arguments), registry.leaderboards()
    board, selection = built.board, built.selection
    skipped = skip_reasons(selection, built.kept)
    page = None
    if arguments.html:
        every = boards.build_attacks(built.attacks, built.external) if built.attacks or built.external else None
        page = registry.leaderboards("html").write_html(board, arguments.html, selection.mechanisms, skipped, every)
    if arguments.json:
        document = boards.board_json(board)
        output.emit_json({**document, "skipped": skipped, "page": page})
        return 0
    output.emit(boards.render_terminal(board, retired=arguments.retired), styled=True)
    for item in skipped:
        output.emit(f"{item['label']} does not do {item['task']}: {item['reason']}")
    if page:
        output.emit(f"Page: {page}")
        return 0
    output.emit("Next")
    for command, what in (
        (f"{board_command(arguments)} --html site", "this board as a page, with plots and what was released"),
        (board_command(arguments, "plan"), "which cells are done, which are left, and what they cost"),
        ("dpicl board attacks", "every attack and audit, also of what has no row here"),
        ("dpicl list mechanisms", "what else can be compared; docs/reading-the-board.md says how to read the columns"),
    ):
        output.emit(f"  {command:<36}  {what}")
    return 0


def submissions_of(arguments: argparse.Namespace, suite: str | None = None) -> list[Submission]:
    """The submissions (to one suite) that pass the gate's cheap checks; a sentence on stderr for each other one."""
    from dpicl.harness.core.errors import UsageError
    from dpicl.harness.core.paths import find_suite
    from dpicl.harness.mechanism import registry

    if arguments.no_submissions:
        return []
    folder: Path | None = arguments.submissions
    if folder is not None and not folder.is_dir():
        raise UsageError(f"There is no folder {folder}; give one with <team>/<method> below it, or --no-submissions.")
    gate = registry.leaderboards("gate")
    found: list[Submission]
    more = [] if arguments.suite == all_boards.ALL else [find_suite(arguments.suite)]
    found, problems = gate.load_submissions(folder or gate.ROOT, gate.known_suites(more), suite)
    for problem in problems:
        output.message(f"dpicl: {problem}")
    return found


def skip_reasons(selection: Selection, results: list[Result]) -> list[dict[str, str]]:
    """Why rows of the suite have no result on a task, where the mechanism says so itself."""
    from dpicl.harness.data.task import Task
    from dpicl.harness.mechanism.bases import Mechanism
    from dpicl.harness.mechanism.options import build

    there = {(result.cell.label, result.cell.task) for result in results}
    reasons: dict[tuple[str, str], str] = {}
    for cell in selection.cells:
        key = (cell.label, cell.task)
        cls = selection.mechanisms[cell.mechanism].cls
        if key in there or key in reasons or cls.skip is Mechanism.skip:
            continue
        if reason := build(cls, cell.options).skip(Task.without_records(cell.task)):
            reasons[key] = reason
    return [{"label": label, "task": task, "reason": reason} for (label, task), reason in reasons.items()]
