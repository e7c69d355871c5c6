"""Writes the static site of one suite or of all suites.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import itemgetter
from pathlib import Path
from typing import Any

from dpicl.core.messages import epsilon_text
from dpicl.core.paths import CLONE
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.evidence import AttackBoard, Evidence, build_attacks
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.render import hosting, page
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.board_tables import carried_table, claims_table, headroom_table, methods_table
from dpicl.leaderboards.render.board_view import answer_blocks, first_level, headroom_blocks, section_blocks
from dpicl.leaderboards.render.columns import ROWS, row_data, rows_frame, to_csv
from dpicl.leaderboards.render.row_view import row_blocks, texts_blocks
from dpicl.tables.document import (
    Block,
    Column,
    Facts,
    Figure,
    Filters,
    Heading,
    Part,
    Table,
    folded_notes,
    make_table,
    words,
)

#: (name, address from the site's first page)
Link = tuple[str, str]
#: What every page links: (name, where a clone has it).
_BESIDE = (("Documentation", "docs/index.md"), ("How to cite", "CITATION.cff"), ("Licence", "LICENSE"))
_DATA = (("Results (Parquet)", "results.parquet"), ("Data card", "croissant.json"))
#: The appendix of a suite.
TEXTS = "texts.html"
_DOWNLOADS = (("CSV", "board.csv"), ("JSON", "board.json"))
_READING = (
    "Each mechanism turns private records into a few demonstrations for a language model, or into answers. Each is run"
    " with the smallest noise whose proved ε does not exceed the target ε: an upper bound computed from a ledger of"
    " what the run did with private records. The smaller ε, the more private. Zero-shot (ε = 0) uses no record at all;"
    " real demonstrations (ε = ∞) show records as they are. docs/reading-the-board.md says how it is all worked out,"
    " docs/accounting.md why ε holds."
)


def write_site(
    boards: Mapping[str, Board],
    folder: Path,
    evidence: Evidence,
    url: str | None = None,
    repository: str | None = None,
) -> Path:
    """Writes the first page, the pages of each suite in a folder of its name, the page of all attacks and the data;
    returns the path of the first page.

    boards: by the suite's name, which is the name of its folder. url: of the site, for a site map and a feed.
    repository: address that every page links, with the documentation, the citation and the licence there; without
    one a site that a clone makes has copies of them.
    Raises ResultError when it cannot, and where a file of somebody else is in the way: then nothing is written.
    """
    copies = {} if repository else _copies()
    beside = [(name, path) for name, path in _BESIDE if path in copies]
    upward = [(name, f"../{path}") for name, path in beside]
    if repository:
        beside = [("Repository", repository), *((name, f"{repository}/blob/HEAD/{path}") for name, path in _BESIDE)]
        upward = beside
    links = [("All suites", "../index.html"), ("All attacks", "../attacks/index.html"), *upward]
    first = [("All attacks", "attacks/index.html"), *_DATA, *([("Changes (Atom)", "feed.xml")] if url else []), *beside]
    files: dict[str, str | bytes] = {
        **copies,
        "attacks/index.html": attacks_page(
            build_attacks(evidence.attacks), [("All suites", "index.html"), *beside], "../"
        ),
        "index.html": suites_page(boards, first),
    }
    for name, board in boards.items():
        files |= {f"{name}/{file}": content for file, content in pages(board, links).items()}
    written = [name for name in files if name.endswith(".html")]
    files |= hosting.data_files(boards.values()) | (hosting.crawler_files(boards, written, url) if url else {})
    return page.write(files, folder)


def _copies() -> dict[str, bytes]:
    """Path -> content of the documentation, the citation and the licence; nothing where no clone has them."""
    found = [CLONE / "CITATION.cff", CLONE / "LICENSE", *(CLONE / "docs").rglob("*.md")] if CLONE else []
    return {path.relative_to(CLONE).as_posix(): path.read_bytes() for path in found if CLONE and path.is_file()}


def pages(board: Board, links: Sequence[Link] = ()) -> dict[str, str]:
    """Every file of the site of a suite: path -> text. links: more places, named on every page."""
    places = Addresses(board)
    suite = board.sections[0].group.suite
    texts = texts_blocks(board)
    nav = [("Board", "index.html"), *([("Released texts", TEXTS)] if texts else []), *links, *_DOWNLOADS]
    title = f"{suite}: private in-context learning"
    blocks: list[Block] = [Heading(f"{title}, the board", 1), *_answer(board, places), *folded_notes(board.notes)]
    for section in board.sections:
        own = section_blocks(section, places, skipped=board.skipped)
        blocks.append(Part(tuple(own), kind="group", data={"model": section.group.model}))
    files = {
        "index.html": page.render(title, blocks, here="index.html", nav=nav),
        "board.csv": to_csv(rows_frame(board)),
        "board.json": json.dumps(board_json(board), allow_nan=False) + "\n",
    }
    if texts:
        files[TEXTS] = page.render(f"Released texts of {suite}", texts, here=TEXTS, nav=nav)
    docs = dict(links).get("Documentation", "").removesuffix("/index.md")
    for section, table in ((one, table) for one in board.sections for table in one.tables):
        pairs = Pairs(table)
        for row in table.in_order:
            own = row_blocks(section, row, pairs, places, docs)
            files[places.page(row)] = page.render(f"{row.title} on {row.task}, {suite}", own, "../", nav=nav)
    return files


def _answer(board: Board, places: Addresses) -> list[Block]:
    """What a reader sees first: the answer, the table, a chart, the claims; of each section that may be compared."""
    blocks: list[Block] = []
    for section in board.sections:
        level = first_level(section)
        epsilons = sorted({row.epsilon for row in section.rows if 0 < row.epsilon < math.inf})
        own = [*answer_blocks(section, level)]
        if not section.tables:
            blocks += [*own, headroom_table(section.measured)]
            continue
        if section is board.sections[0]:
            own.append(_filters(board.sections, level))
        own.append(methods_table(section, epsilons, places))
        carried = carried_table(section, epsilons)
        own += [] if carried is None else [carried]
        if figures := _charts(section):
            own.append(Part(figures, kind="plots"))
        own += headroom_blocks(section)
        if section is board.sections[0]:
            own.append(Part((words(_READING), Facts(_legend(board), "manifest")), "How to read this board"))
        own.append(claims_table(section, places))
        blocks.append(Part(tuple(own), kind="answer", data={"model": section.group.model}))
    return blocks


def _charts(section: Section) -> tuple[Figure, ...]:
    """Score against ε of every task with a row that has one."""
    from dpicl.leaderboards.render.charts import image_address  # matplotlib, which a terminal has no need of

    return tuple(
        Figure(
            f"{table.task}: {table.metric} against ε, with 95% intervals",  # its axis names the reader
            image_address(table),
            {"task": table.task},
        )
        for table in section.tables
        if any(row.epsilon > 0 for row in table.rows)
    )


def _legend(board: Board) -> dict[str, Any]:
    """Name -> what it is, of the columns and of the marks that rows of the board have."""
    rows = (row for section in board.sections for row in section.rows)
    marks = {mark.sign: f"{mark.name}: {mark.why}" for row in rows for mark in row.marks}
    return {column.name: column.help for column in ROWS} | marks


def _filters(sections: Sequence[Section], level: float) -> Filters:
    """The filters over these sections: those with a choice. Reference baselines always stay."""
    rows = sorted((row for one in sections for row in one.rows if not row.is_reference), key=lambda row: row.epsilon)
    names = {"epsilon": "Privacy level ε", "kind": "What it releases", "queries": "Queries", "origin": "From"}
    tables = [table for section in sections for table in section.tables]
    found = [("task", "Task", {table.task: table.task for table in tables}, "")]
    models = {section.group.model: model_name(section.group.model) for section in sections}
    found.append(("model", "Model", models, ""))
    for name, label in names.items():
        values = {row_data(row)[name]: row_data(row)[name] for row in rows}
        found.append((name, label, values, epsilon_text(level) if name == "epsilon" else ""))
    return Filters(tuple(one for one in found if len(one[2]) > 1))


# Several suites, and attacks.


def suites_page(boards: Mapping[str, Board], links: list[Link]) -> str:
    """The first page: the first suite's answer, then a line for each suite. boards: by the suite's name, which names
    its folder beside the page. links: (name, address)."""
    title, (first, board) = "Private in-context learning", next(iter(boards.items()))
    table = suites_table(suites_json(boards), lambda one: {0: f"./{one['suite']}/index.html"})
    blocks = [Heading(title, 1), *_answer(board, Addresses(board, f"./{first}/")), table]
    return page.render(title, blocks, here="index.html", nav=links)


def _best(line: Mapping[str, Any]) -> str | None:
    """The first answer with a best row, else the first of all."""
    answers = line["answers"]
    return next((one["text"] for one in answers if one["best"]), answers[0]["text"] if answers else None)


def suites_table(
    lines: Sequence[Mapping[str, Any]], links: Callable[[Any], Mapping[int, str]] = lambda one: {}
) -> Table:
    """The lines of `suites_json`."""
    columns = (
        Column("suite", "suite", itemgetter("suite")),
        Column("version", "version", itemgetter("version")),
        Column("model", "model", lambda one: model_name(one["model"]), wide=True),
        Column("source", "records", itemgetter("source")),
        Column("tasks", "tasks", lambda one: ", ".join(one["tasks"]), wide=True),
        Column("rows", "rows", itemgetter("rows")),
        Column("best", "best", _best, wide=True),
    )
    return make_table("All suites", columns, lines, links=links, heading=True)


def suites_json(boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A line a section: suite, version, model, source, tasks, number of rows, and what the board says in brief."""
    return [
        {
            "suite": name,
            **{key: getattr(section.group, key) for key in ("version", "model", "source")},
            "tasks": [table.task for table in section.tables],
            "rows": len(list(section.rows)),
            "answers": [asdict(answer) | {"where": answer.where, "text": str(answer)} for answer in section.answers],
        }
        for name, board in boards.items()
        for section in board.sections
    ]


def attacks_page(board: AttackBoard, links: Sequence[Link] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    title = "Private in-context learning: attacks"
    intro = words(
        "Every attack and audit under the results folder, whether a board has a row for it or not. Proved ε is an upper"
        " bound of what a run cost; audited ε is the lower bound that the attack proves, at its confidence, by itself."
        " Rates and counts only: no private text is on this page."
    )
    blocks = [Heading(title, 1), intro, *attack_blocks(board)]
    return page.render(title, blocks, root, here="attacks/index.html", nav=links)
