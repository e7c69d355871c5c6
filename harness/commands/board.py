"""`dpicl board`: the leaderboard of a suite with the attacks on its rows, in the terminal and as a page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from harness.commands import evidence, output
from harness.commands.arguments import Subparsers, add_command, add_results_flags, board_command

if TYPE_CHECKING:
    from harness.commands.selection import Selection
    from harness.results import Result


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "board",
        "show the leaderboard of a suite; SUITE 'attacks' shows every attack and audit",
        "dpicl board quick --html site",
        _board,
    )
    add_results_flags(parser)
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the board as a page, DIR/index.html")


def _board(arguments: argparse.Namespace) -> int:
    from harness import registry
    from harness.commands.selection import report_damaged, select
    from harness.errors import ResultError

    if arguments.suite == evidence.ATTACKS:
        return evidence.show(arguments)
    selection = select(arguments)
    results, damaged = selection.store.load_all()
    report_damaged(damaged, moved=False)
    kept = [result for result in results if _belongs(result, selection)]
    if len(kept) < len(results):
        output.message(
            f"{output.count(len(results) - len(kept), 'result')} with another suite version, model, source, limit or"
            " options left out."
        )
    if not kept:
        raise ResultError(
            f"There is no result of suite {selection.suite.name} with these settings under {arguments.results};"
            f" run `dpicl run {arguments.suite}`."
        )
    boards = registry.leaderboards()
    attacks, external = evidence.load(arguments.results)
    known = boards.Evidence(tuple(attacks), tuple(external), evidence.defaults(selection.mechanisms))
    board = boards.build_board(kept, selection.asked, known)
    skipped = skip_reasons(selection, kept)
    page = registry.leaderboards("html").write_html(board, arguments.html) if arguments.html else None
    if arguments.json:
        document = boards.board_json(board)
        output.emit_json({**document, "skipped": skipped, "page": page})
        return 0
    output.emit(boards.render_terminal(board))
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
        ("dpicl list mechanisms", "what else can be compared; docs/board.md says how to read the columns"),
    ):
        output.emit(f"  {command:<36}  {what}")
    return 0


def _belongs(result: Result, selection: Selection) -> bool:
    """Whether a result may stand on the board of this selection.

    It has the suite's version and settings, one of its models and the source that is in use. A row of the suite must
    have the options that the suite gives it now; other rows (`--mechanism`, `--option`) may stand beside them.
    """
    cell = result.cell
    same = [other for other in selection.cells if (other.task, other.model) == (cell.task, cell.model)]
    if result.suite.hash != selection.suite.hash or not same:
        return False
    if (cell.source, cell.task_version) != (same[0].source, same[0].task_version):
        return False
    rows = [other for other in same if other.label == cell.label]
    return not rows or (cell.options, cell.plugin) == (rows[0].options, rows[0].plugin)


def skip_reasons(selection: Selection, results: list[Result]) -> list[dict[str, str]]:
    """Why rows of the suite have no result on a task, where the mechanism says so itself."""
    from harness.cells import build
    from harness.mechanism import Mechanism
    from harness.task import Task

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
