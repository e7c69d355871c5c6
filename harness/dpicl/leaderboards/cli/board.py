"""`dpicl board`: the leaderboard of a suite with the attacks on its rows, in the terminal and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Unpack

from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.cli.selecting import selected
from dpicl.core.errors import UsageError
from dpicl.core.messages import message
from dpicl.leaderboards.api import BoardView, board_view, submissions_of
from dpicl.leaderboards.cli import all_boards
from dpicl.leaderboards.model.board import chosen
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.board_view import board_blocks
from dpicl.leaderboards.render.html import write_site
from dpicl.leaderboards.render.page import refuse_among, web_address
from dpicl.results.store import no_collection
from dpicl.tables.document import Block


def _web_address(value: Any) -> str:
    """Raises ValueError with the rest of a sentence."""
    if web_address(str(value)) is None:
        raise ValueError(f"must be an address such as https://example.org/board, not {value!r:.60}")
    return str(value).rstrip("/")


Address = Annotated[str | None, p.Flag(metavar="URL", check=_web_address)]


class OfBoard(p.OfResults, total=False):
    """Which results and submissions stand on a board."""

    submissions: Annotated[
        p.OnePath, p.Flag("submitted methods to show (default: those of the project)", metavar="DIR")
    ]
    no_submissions: Annotated[bool, p.Flag("show our own results alone")]


def view(suite: str | Path, given: OfBoard) -> BoardView:
    """The board of a suite. Raises ResultError without a result for it."""
    selection = selected(suite, given)  # type: ignore[arg-type]
    folder = given.get("submissions")
    own = (
        [] if given.get("no_submissions") else submissions_of(_path(folder), message, str(suite), selection.suite.name)
    )
    return board_view(selection, own, message)


def _path(given: Path | str | None) -> Path | None:
    return None if given is None else Path(given)


def _answer(view: BoardView, given: Mapping[str, Any]) -> Answer:
    return Answer({**board_json(view.board), "page": view.page}, _shown(view, given))


def _shown(view: BoardView, given: Mapping[str, Any]) -> Iterator[Block | str]:
    selection = view.selection
    attacks, full = bool(given.get("attacks")), bool(given.get("full") or given.get("mechanism"))
    epsilons = p.as_list(given.get("epsilon") or ())
    epsilon = float(epsilons[0]) if epsilons else None
    yield from board_blocks(view.board, attacks=attacks, full=full, epsilon=epsilon)
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
    html: Annotated[p.OnePath | None, p.Flag(metavar="DIR")] = None,
    url: Address = None,
    repository: Address = None,
    **given: Unpack[OfBoard],
) -> BoardView | Answer:
    """The board of a suite (a file, or the name of a shipped one) from the results in a folder.

    The suite "all" lists every suite, "attacks" every attack and audit.
    Raises UsageError for what is not known, ResultError where there is no result.

    mechanism: row or mechanism of the board; may be repeated (or A,B).
    epsilon: target epsilon; may be repeated (or A,B).
    attacks: also show every attack on the rows.
    full: show every table of every task, not the answer alone.
    html: also write the board as a site, DIR/index.html.
    url: where the site will stand; it gets a site map and a feed of changes.
    repository: of this benchmark; every page links it, its documentation and its licence.
    """
    folder = _path(html)
    refuse_among([p.folder_of(given)], folder)
    if (url or repository) and (suite == all_boards.ATTACKS or folder is None):
        raise UsageError("--url and --repository are of a site of suites: `dpicl board all --html DIR`, or SUITE.")
    with no_collection():  # what a board is made of stays until the command ends
        if suite in (all_boards.ALL, all_boards.ATTACKS):
            chosen_rows = {"--task": task, "--mechanism": mechanism, "--epsilon": epsilon, "--attacks": attacks}
            if wrong := [flag for flag, value in chosen_rows.items() if value]:
                raise UsageError(f"{wrong[0]} chooses what is shown of one suite; give its name in place of '{suite}'.")
            if suite == all_boards.ATTACKS:
                return all_boards.every_attack(given, folder)
            sent = [] if given.get("no_submissions") else submissions_of(_path(given.get("submissions")), message, None)
            return all_boards.all_suites(given, sent, folder, url, repository)
        made = view(suite, given)
        page = None
        if folder is not None:
            own, every = made.selection, build_attacks(made.evidence.attacks, made.evidence.external)
            page = write_site({own.suite.name: made.board}, folder, own.mechanisms, every, url, repository)
        shown = chosen(made.board, p.as_list(task), p.as_list(mechanism), p.as_list(epsilon))
        return replace(made, board=shown, page=page)
