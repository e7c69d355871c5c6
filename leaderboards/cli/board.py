"""`dpicl board`: the leaderboard of a suite with the attacks on its rows, in the terminal and as a page."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command, add_results_flags, board_command
from dpicl.leaderboards.cli import all_boards, evidence


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = add_command(
        subparsers,
        "board",
        "show the leaderboard of a suite; SUITE 'all' lists all suites, 'attacks' shows every attack and audit",
        "dpicl board quick --html site",
        _board,
    )
    add_results_flags(parser)
    parser.add_argument(
        "--submissions", type=Path, metavar="DIR", help="submitted methods to show (default: those of the project)"
    )
    parser.add_argument("--no-submissions", action="store_true", help="show our own results alone")
    parser.add_argument("--retired", action="store_true", help="also show results of retired versions of the suite")
    parser.add_argument("--html", type=Path, metavar="DIR", help="also write the board as a site, DIR/index.html")


def _board(arguments: argparse.Namespace) -> int:
    from dpicl.harness.core.errors import ResultError
    from dpicl.harness.mechanism import registry
    from dpicl.harness.run.fingerprints import Fingerprints
    from dpicl.harness.run.presence import at_hand
    from dpicl.harness.run.selection import report_damaged, select

    if arguments.suite == evidence.ATTACKS:
        return evidence.show(arguments)
    if arguments.suite == evidence.ALL:
        return all_boards.show(arguments)
    selection = select(arguments)
    results, damaged = selection.store.load_all()
    report_damaged(damaged, moved=False)
    suite, standing = selection.suite, registry.leaderboards("comparability")
    kept = [result for result in results if standing.may_stand(result, suite, selection.cells)]
    submissions = evidence.submissions_of(arguments, suite.name)
    old = [result for result in results if standing.is_retired(result, suite)]
    if left_out := len(results) - len(kept) - len(old):
        output.message(
            f"{output.count(left_out, 'result')} with other suite settings, model, source, limit or options left out."
        )
    submitted, _ = registry.leaderboards("submitted").on_the_board(submissions)
    retired = [*old, *(result for result in submitted if standing.is_retired(result, suite))]
    if retired and not arguments.retired:
        output.message(
            f"{output.count(len(retired), 'result')} of retired versions of {selection.suite.name}: see --retired."
        )
    if not kept and not (retired and arguments.retired):
        raise ResultError(
            f"There is no result of suite {selection.suite.name} with these settings under {arguments.results};"
            f" run `dpicl run {arguments.suite}`."
        )
    boards = registry.leaderboards()
    kept, notes = at_hand(kept, Fingerprints(download=False))
    attacks, external = evidence.load(arguments.results)
    known = boards.Evidence(tuple(attacks), tuple(external), evidence.defaults(selection.mechanisms))
    board = boards.build_board(kept, selection.asked, known, submissions, retired)
    board = replace(board, notes=(*notes, *board.notes))
    skipped = evidence.skip_reasons(selection, kept)
    page = None
    if arguments.html:
        every = boards.build_attacks(attacks, external) if attacks or external else None
        page = registry.leaderboards("html").write_html(board, arguments.html, selection.mechanisms, skipped, every)
    if arguments.json:
        document = boards.board_json(board)
        output.emit_json({**document, "skipped": skipped, "page": page})
        return 0
    output.emit(registry.leaderboards("terminal").render_terminal(board, retired=arguments.retired), styled=True)
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
