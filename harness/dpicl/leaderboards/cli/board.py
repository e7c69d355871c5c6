"""`dpicl board`: the leaderboard of a suite with the attacks on its rows, in the terminal and as a page."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import (
    Parser,
    Subparsers,
    add_command,
    add_results_flags,
    epsilon,
    selected,
)
from dpicl.core.errors import UsageError
from dpicl.core.memory import no_collection
from dpicl.leaderboards.api import BoardView, board_view, skip_reasons, submissions_of
from dpicl.leaderboards.cli import all_boards
from dpicl.leaderboards.model.attacks import build_attacks
from dpicl.leaderboards.model.board import chosen
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import write_html
from dpicl.leaderboards.render.page import refuse_among
from dpicl.leaderboards.render.terminal import render_terminal


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(subparsers, "board", "dpicl board field --task agnews --epsilon 1 --html site", _board)
    add_flags(parser)
    add_filters(parser)
    parser.add_argument("--attacks", action="store_true", help="also show every attack on the rows")
    parser.add_argument("--full", action="store_true", help="show every table of every task, not the answer alone")
    parser.add_argument("--retired", action="store_true", help="also show results of retired versions of the suite")
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the board as a site, DIR/index.html")


def add_flags(parser: Parser) -> None:
    """Which results and submissions stand on the board."""
    add_results_flags(parser)
    parser.add_argument(
        "--submissions", type=Path, metavar="DIR", help="submitted methods to show (default: those of the project)"
    )
    parser.add_argument("--no-submissions", action="store_true", help="show our own results alone")


def add_filters(parser: Parser) -> None:
    """What is shown of a board. The board itself is the whole suite's, so these are other names than in `selected`."""
    for flag, kept, letter, what, type in (
        ("--task", "tasks", "T", "task", str),
        ("--mechanism", "labels", "M", "row or mechanism of the board", str),
        ("--epsilon", "epsilons", "E", "target epsilon", epsilon),
    ):
        parser.repeated(flag, letter, what, type, dest=kept)


def submitted(arguments: argparse.Namespace, file: str | None, suite: str | None = None) -> list[Submission]:
    """The submissions that the flags select; see `submissions_of`."""
    return [] if arguments.no_submissions else submissions_of(arguments.submissions, output.message, file, suite)


def view(arguments: argparse.Namespace, retired: bool = False) -> BoardView:
    """The board that the flags of `add_flags` select. Raises ResultError without a result for it."""
    selection = selected(arguments)
    own = submitted(arguments, arguments.suite, selection.suite.name)
    return board_view(selection, own, retired, output.message)


def refuse_filters(arguments: argparse.Namespace) -> None:
    """Raises UsageError for a flag that chooses rows of one suite."""
    for flag, given in (
        ("--task", "tasks"),
        ("--mechanism", "labels"),
        ("--epsilon", "epsilons"),
        ("--attacks", "attacks"),
    ):
        if getattr(arguments, given):
            raise UsageError(
                f"{flag} chooses what is shown of one suite; give its name in place of '{arguments.suite}'."
            )


def _board(arguments: argparse.Namespace) -> int:
    with no_collection():  # what a board is made of stays until the command ends
        return _shown(arguments)


def _shown(arguments: argparse.Namespace) -> int:
    refuse_among([arguments.results], arguments.html)
    if arguments.suite in (all_boards.ATTACKS, all_boards.ALL):
        refuse_filters(arguments)
    if arguments.suite == all_boards.ATTACKS:
        return all_boards.show_attacks(arguments)
    if arguments.suite == all_boards.ALL:
        return all_boards.show(arguments, submitted(arguments, None))
    made = view(arguments, arguments.retired)
    board, selection = made.board, made.selection
    shown = chosen(board, arguments.tasks, arguments.labels, arguments.epsilons)
    skipped = skip_reasons(selection, made.kept)
    page = None
    if arguments.html:
        attacks, external = made.evidence.attacks, made.evidence.external
        every = build_attacks(attacks, external) if attacks or external else None
        page = write_html(board, arguments.html, selection.mechanisms, skipped, every)
    tasks, labels = arguments.tasks, arguments.labels
    skipped = [one for one in skipped if (not tasks or one["task"] in tasks) and (not labels or one["label"] in labels)]
    if arguments.json:
        output.emit_json({**board_json(shown), "skipped": skipped, "page": page})
        return 0
    full = arguments.full or bool(arguments.labels)
    epsilon = arguments.epsilons[0] if arguments.epsilons else None
    text = render_terminal(shown, retired=arguments.retired, attacks=arguments.attacks, full=full, epsilon=epsilon)
    output.emit(text, styled=True)
    for item in skipped if full or arguments.attacks else ():
        output.emit(f"{item['label']} does not do {item['task']}: {item['reason']}")
    command = selection.command("board")
    if page:
        output.emit(f"Page: {page}")
    output.emit(f"Next: {command} --full, --attacks or --html site; {selection.command('compare ROW ROW --suite')}")
    return 0
