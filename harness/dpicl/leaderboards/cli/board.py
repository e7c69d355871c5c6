"""`dpicl board`: shows the leaderboard of a suite in the terminal or as a page; `all` is every shipped suite with
results, `attacks` every attack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Unpack

from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.cli.selecting import select_cells
from dpicl.core.cell import Cell
from dpicl.core.collection import pause_collection
from dpicl.core.errors import ResultError, UsageError
from dpicl.core.messages import message
from dpicl.core.paths import CLONE, shipped_suites
from dpicl.core.plugins import Registered
from dpicl.leaderboards.api import BoardView, load_evidence, read_attacks, submissions_of, view_of
from dpicl.leaderboards.model.board import Board, choose_part
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.render import page as pages
from dpicl.leaderboards.render.as_json import VERSION, attacks_json, board_json
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.board_view import board_blocks
from dpicl.leaderboards.render.html import attacks_page, suites_json, suites_table, write_site
from dpicl.leaderboards.render.matrix import list_entries, matrix_blocks
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.selection import Selection
from dpicl.plan.suite import Suite
from dpicl.plan.suite_files import load_suite
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import Damaged, Store, report_damaged
from dpicl.tables.document import Block

#: The words in place of a suite.
ALL, ATTACKS = "all", "attacks"
#: The suites that come first, where they have results: the run of record, and the finished run.
OF_RECORD = ("record", "ginc")


def _web_address(value: Any) -> str:
    """Raises ValueError with the rest of a sentence."""
    if pages.web_address(str(value)) is None:
        raise ValueError(f"must be an address such as https://example.org/board, not {value!r:.60}")
    return str(value).rstrip("/")


Address = Annotated[str | None, p.Flag(metavar="URL", check=_web_address)]


class OfBoard(p.OfResults, total=False):
    """Which results and submissions stand on a board."""

    submissions: Annotated[
        p.OnePath,
        p.Flag("submitted methods to show (default: those of the project)", metavar="DIR"),
    ]
    no_submissions: Annotated[bool, p.Flag("show our own results alone")]


def view(suite: str | Path, options: OfBoard) -> BoardView:
    """The board of a suite. Raises ResultError without a result for it."""
    selection = select_cells(suite, options)  # type: ignore[arg-type]
    results, damaged = selection.store.load_all()
    report_damaged(damaged)
    evidence = load_evidence(selection.store.results, selection.mechanisms)
    submissions = _submissions(options, str(suite), selection.suite.name)
    board_view = view_of(results, selection, evidence, submissions, damaged=damaged)
    if board_view is None:
        raise ResultError(
            f"There is no result of suite {selection.suite.name} with these settings under {selection.store.results};"
            f" run `{selection.command('run')}`, or name the folder that has them with --results."
        )
    return board_view


def _submissions(
    options: OfBoard,
    suite_file: str | None = None,
    suite: str | None = None,
) -> list[Submission]:
    if options.get("no_submissions"):
        return []
    folder = options.get("submissions")
    return submissions_of(None if folder is None else Path(folder), suite_file, suite)


def _answer(view: BoardView, options: Mapping[str, Any]) -> Answer:
    document = {**board_json(view.board), "page": view.page}
    if not options.get("matrix"):
        return Answer(document, _show(view, options))
    entries = list_entries(
        view.selection, [result for row in view.board.rows for result in row.results]
    )
    document["matrix"] = [entry.to_json() for entry in entries]
    return Answer(document, matrix_blocks(entries))


def _show(view: BoardView, options: Mapping[str, Any]) -> Iterator[Block | str]:
    selection = view.selection
    epsilons = p.as_list(options.get("epsilon") or ())
    yield from board_blocks(
        view.board,
        attacks=bool(options.get("attacks")),
        full=bool(options.get("full") or options.get("mechanism")),
        epsilon=float(epsilons[0]) if epsilons else None,
    )
    command = selection.command("board")
    if view.page:
        yield f"Page: {view.page}"
    yield f"Next: {command} --full, --attacks or --html site; {selection.command('compare ROW ROW --suite')}"


@p.verb("dpicl board ginc --epsilon 1 --html site", answer=_answer)
def board(
    suite: p.SuiteName,
    *,
    task: p.Tasks = (),
    mechanism: p.Rows = (),
    epsilon: p.SomeEpsilons = (),
    attacks: bool = False,
    full: bool = False,
    matrix: bool = False,
    html: Annotated[p.OnePath | None, p.Flag(metavar="DIR")] = None,
    url: Address = None,
    repository: Address = None,
    **options: Unpack[OfBoard],
) -> BoardView | Answer:
    """The board of a suite (a file, or the name of a shipped one) from the results in a folder.

    The suite "all" lists every suite, "attacks" every attack and audit.
    Raises UsageError for what is not known, ResultError where there is no result.

    mechanism: row or mechanism of the board; may be repeated (or A,B).
    epsilon: target epsilon; may be repeated (or A,B).
    attacks: also show every attack on the rows.
    full: show every table of every task, not the answer alone.
    matrix: show every mechanism on every task instead: what ran, and why the rest cannot.
    html: also write the board as a site, DIR/index.html.
    url: where the site will stand; it gets a site map and a feed of changes.
    repository: of this benchmark; every page links it, its documentation and its licence (default: copies in DIR).
    """
    folder = None if html is None else Path(html)
    if (url or repository) and (suite == ATTACKS or folder is None):
        raise UsageError(
            "--url and --repository are of a site of suites: `dpicl board all --html DIR`, or SUITE."
        )
    with pause_collection():  # what a board is made of stays until the command ends
        if suite in (ALL, ATTACKS):
            of_one_suite = {
                "--task": task,
                "--mechanism": mechanism,
                "--epsilon": epsilon,
                "--attacks": attacks,
                "--limit": options.get("test_records"),
                "--source": options.get("source"),
                "--model": options.get("model"),
            }
            for flag, value in of_one_suite.items():
                if value:
                    raise UsageError(
                        f"{flag} chooses what is shown of one suite; give its name in place of '{suite}'."
                    )
            if suite == ATTACKS:
                return _every_attack(options, folder)
            return _all_suites(options, folder, url, repository)
        whole = view(suite, options)
        page = None
        if folder is not None:
            boards = {whole.selection.suite.name: whole.board}
            page = write_site(
                boards, folder, whole.evidence, url, repository, whole.selection.mechanisms
            )
        shown = choose_part(whole.board, p.as_list(task), p.as_list(mechanism), p.as_list(epsilon))
        return replace(whole, board=shown, page=page)


def _all_suites(
    options: OfBoard,
    html: Path | None,
    url: str | None,
    repository: str | None,
) -> Answer:
    """Every suite with all of its models and sources of records; no data set needs to be there."""
    submissions = _submissions(options)
    mechanisms = load_mechanisms(p.as_list(options.get("plugins") or ()))
    folder = p.folder_of(options)
    evidence = load_evidence(folder, mechanisms)
    records = Fingerprints(download=False)
    boards: dict[str, Board] = {}
    for name, path in _every_suite().items():
        suite = load_suite(path)
        results, damaged, selection = _results(folder, path, suite, mechanisms)
        to_suite = [submission for submission in submissions if submission.is_of(suite.name)]
        board_view = view_of(results, selection, evidence, to_suite, records, damaged)
        if board_view is not None:
            boards[name] = board_view.board
            for sentence in board_view.left_out:  # the list of suites has no notes
                message(f"{name}: {sentence}")
    if not boards:
        raise ResultError(
            f"There is no result of a shipped suite under {folder}; make some with `dpicl run quick`."
        )
    page = write_site(boards, html, evidence, url, repository, mechanisms) if html else None
    suites = suites_json(boards)
    end = f"Page: {page}" if page else "Next: dpicl board all --html site"
    return Answer(
        {"schema_version": VERSION, "suites": suites, "page": page}, [suites_table(suites), end]
    )


def _every_suite() -> dict[str, Path]:
    """Name of a folder of pages -> file of every shipped suite; those of `OF_RECORD` come first, then the next versions
    that a clone has, as 'record-next'."""
    shipped = shipped_suites()
    first = {name: shipped.pop(name) for name in OF_RECORD if name in shipped}
    coming = sorted((CLONE / "leaderboards/next").glob("*.yaml")) if CLONE else []
    later = {f"{path.stem}-next": path for path in coming if "." not in path.stem}
    return first | later | shipped


def _results(
    folder: Path, path: Path, suite: Suite, mechanisms: Mapping[str, Registered[Mechanism]]
) -> tuple[list[Result], list[Damaged], Selection]:
    """(every result of the suite; invalid and unreadable files; the cells of every model and source of records that has
    results)."""
    store = Store(folder, suite.name)
    results, damaged = store.load_all()
    report_damaged(damaged)
    current = [result for result in results if result.suite.hash == suite.hash]
    models = sorted({result.cell.model for result in current})
    cells: list[Cell] = []
    for source in sorted({result.cell.source for result in current}):
        chosen = suite.model_copy(update={"models": models, "source": source})
        cells += expand(chosen, mechanisms)
    written_as = suite.name
    if CLONE and path not in shipped_suites().values():
        written_as = path.relative_to(CLONE).as_posix()
    return results, damaged, Selection(written_as, suite, dict(mechanisms), cells, store)


def _every_attack(options: OfBoard, html: Path | None) -> Answer:
    """Every attack and audit under a results folder, whether a suite has a row for it or not."""
    board = build_attacks(read_attacks(p.folder_of(options)))
    blocks: list[Block | str] = [*attack_blocks(board)]
    page = None
    if html:
        page = pages.write({"index.html": attacks_page(board)}, html)
        blocks.append(f"Page: {page}")
    return Answer({**attacks_json(board), "page": page}, blocks)
