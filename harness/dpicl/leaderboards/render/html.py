"""Writes the static site of one suite or of all suites.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter, itemgetter
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
from dpicl.leaderboards.render.board_tables import (
    carried_table,
    claims_table,
    headroom_table,
    methods_table,
)
from dpicl.leaderboards.render.board_view import (
    answer_blocks,
    first_level,
    headroom_blocks,
    section_blocks,
)
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
_BESIDE = (
    ("Documentation", "docs/index.md"),
    ("How to cite", "CITATION.cff"),
    ("Licence", "LICENSE"),
)
_DATA = (("Results (Parquet)", "results.parquet"), ("Data card", "croissant.json"))
#: The appendix of a suite.
TEXTS = "texts.html"
#: The reader of the tables that rank methods by what a model learns from their texts.
_BY_MODEL = "answered by the model"
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
    if repository:
        documents = [(name, f"{repository}/blob/HEAD/{path}") for name, path in _BESIDE]
        beside = upward = [("Repository", repository), *documents]
    else:
        beside = [(name, path) for name, path in _BESIDE if path in copies]
        upward = [(name, f"../{path}") for name, path in beside]
    changes = [("Changes (Atom)", "feed.xml")] if url else []
    attacks = build_attacks(evidence.attacks)
    files: dict[str, str | bytes] = {
        **copies,
        "attacks/index.html": attacks_page(attacks, [("All suites", "index.html"), *beside], "../"),
        "index.html": suites_page(
            boards, [("All attacks", "attacks/index.html"), *_DATA, *changes, *beside]
        ),
    }
    links = [("All suites", "../index.html"), ("All attacks", "../attacks/index.html"), *upward]
    for name, board in boards.items():
        files |= {f"{name}/{file}": content for file, content in pages(board, links).items()}
    page_names = [name for name in files if name.endswith(".html")]
    files |= hosting.data_files(boards.values())
    if url:
        files |= hosting.crawler_files(boards, page_names, url)
    return page.write(files, folder)


def _copies() -> dict[str, bytes]:
    """Path -> content of the documentation, the citation and the licence; nothing where no clone has them."""
    if CLONE is None:
        return {}
    paths = [CLONE / "CITATION.cff", CLONE / "LICENSE", *(CLONE / "docs").rglob("*.md")]
    return {
        path.relative_to(CLONE).as_posix(): path.read_bytes() for path in paths if path.is_file()
    }


def pages(board: Board, links: Sequence[Link] = ()) -> dict[str, str]:
    """Every file of the site of a suite: path -> text. links: more places, named on every page."""
    places = Addresses(board)
    suite = board.sections[0].group.suite
    texts = texts_blocks(board)
    nav = [
        ("Board", "index.html"),
        *([("Released texts", TEXTS)] if texts else []),
        *links,
        *_DOWNLOADS,
    ]
    title = f"{suite}: private in-context learning"
    blocks: list[Block] = [
        Heading(f"{title}, the board", 1),
        *_answer(board, places),
        *folded_notes(board.notes),
    ]
    for section in board.sections:
        tables = section_blocks(section, places, skipped=board.skipped)
        blocks.append(Part(tuple(tables), kind="group", data={"model": section.group.model}))
    files = {
        "index.html": page.render(title, blocks, here="index.html", nav=nav),
        "board.csv": to_csv(rows_frame(board)),
        "board.json": json.dumps(board_json(board), allow_nan=False) + "\n",
    }
    if texts:
        files[TEXTS] = page.render(f"Released texts of {suite}", texts, here=TEXTS, nav=nav)
    docs = dict(links).get("Documentation", "").removesuffix("/index.md")
    for section in board.sections:
        for table in section.tables:
            pairs = Pairs(table)
            for row in table.in_order:
                of_row = row_blocks(section, row, pairs, places, docs)
                files[places.page(row)] = page.render(
                    f"{row.place}, {suite}", of_row, "../", nav=nav
                )
    return files


def _answer(board: Board, places: Addresses) -> list[Block]:
    """What a reader sees first: the answer, the table, a chart, the claims; of each section that may be compared."""
    blocks: list[Block] = []
    for section in board.sections:
        level = first_level(section)
        epsilons = sorted({row.epsilon for row in section.rows if 0 < row.epsilon < math.inf})
        answer = [*answer_blocks(section, level)]
        if not section.tables:
            blocks += [*answer, headroom_table(section.measured)]
            continue
        if section is board.sections[0]:
            answer.append(_filters(board, level))
        answer.append(methods_table(section, epsilons, places))
        if carried := carried_table(section, epsilons):
            answer.append(carried)
        if figures := _charts(section, level):
            answer.append(Part(figures, kind="plots"))
        answer += headroom_blocks(section)
        if section is board.sections[0]:
            legend = Facts(_legend(board), "manifest")
            answer.append(Part((words(_READING), legend), "How to read this board"))
        answer.append(claims_table(section, places))
        blocks.append(Part(tuple(answer), kind="answer", data={"model": section.group.model}))
    return blocks


def _charts(section: Section, level: float) -> tuple[Figure, ...]:
    """The recovery of all rows on every task that rewards private records; those that the model answers first."""
    from dpicl.leaderboards.render import charts  # a terminal has no need of it

    figures = []
    for table in sorted(section.tables, key=lambda table: table.reader != _BY_MODEL):
        if charts.recovered_rows(table, level):
            caption = (
                f"{table.task}: recovery at ε = {epsilon_text(level)}, {table.describe_metrics()}"
            )
            panel = charts.recovery_panel(table, level)
            figures.append(Figure(caption, charts.image_address(panel), {"task": table.task}))
    return tuple(figures)


def _legend(board: Board) -> dict[str, Any]:
    """Name -> what it is, of the columns and of the marks that rows of the board have."""
    marks = {mark.sign: f"{mark.name}: {mark.why}" for row in board.rows for mark in row.marks}
    return {column.name: column.help for column in ROWS} | marks


def _filters(board: Board, level: float) -> Filters:
    """The filters of a board: those with a choice. Reference baselines always stay."""
    rows = sorted((row for row in board.rows if not row.is_reference), key=attrgetter("epsilon"))
    data = [row_data(row) for row in rows]
    tasks = [table.task for section in board.sections for table in section.tables]
    models = [section.group.model for section in board.sections]
    filters = [
        ("task", "Task", dict(zip(tasks, tasks, strict=True)), ""),
        ("model", "Model", {model: model_name(model) for model in models}, ""),
    ]
    for name, label, first in (
        ("epsilon", "Privacy level ε", epsilon_text(level)),
        ("kind", "What it releases", ""),
        ("queries", "Queries", ""),
        ("origin", "From", ""),
    ):
        filters.append((name, label, {of_row[name]: of_row[name] for of_row in data}, first))
    return Filters(tuple(item for item in filters if len(item[2]) > 1))


# Several suites, and attacks.


def suites_page(boards: Mapping[str, Board], links: list[Link]) -> str:
    """The first page: the first suite's answer, then a line for each suite. boards: by the suite's name, which names
    its folder beside the page. links: (name, address)."""
    title = "Private in-context learning"
    first, board = next(iter(boards.items()))
    table = suites_table(suites_json(boards), has_links=True)
    blocks = [Heading(title, 1), *_answer(board, Addresses(board, f"./{first}/")), table]
    return page.render(title, blocks, here="index.html", nav=links)


def _best(suite: Mapping[str, Any]) -> str | None:
    """The first answer with a best row, else the first of all."""
    answers = sorted(suite["answers"], key=lambda answer: not answer["best"])
    return answers[0]["text"] if answers else None


def suites_table(suites: Sequence[Mapping[str, Any]], has_links: bool = False) -> Table:
    """The suites as `suites_json` has them. has_links: whether their names link their pages."""

    def links(suite: Mapping[str, Any]) -> dict[int, str]:
        return {0: f"./{suite['suite']}/index.html"} if has_links else {}

    columns = (
        Column("suite", "suite", itemgetter("suite")),
        Column("version", "version", itemgetter("version")),
        Column("model", "model", itemgetter("model"), model_name, wide=True),
        Column("source", "records", itemgetter("source")),
        Column("tasks", "tasks", itemgetter("tasks"), ", ".join, wide=True),
        Column("rows", "rows", itemgetter("rows")),
        Column("best", "best", _best, wide=True),
    )
    return make_table("All suites", columns, suites, links=links, heading=True)


def suites_json(boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A line a section: suite, version, model, source, tasks, number of rows, and the board in brief."""
    return [
        _section_json(name, section) for name, board in boards.items() for section in board.sections
    ]


def _section_json(suite: str, section: Section) -> dict[str, Any]:
    group = section.group
    return {
        "suite": suite,
        "version": group.version,
        "model": group.model,
        "source": group.source,
        "tasks": [table.task for table in section.tables],
        "rows": len(list(section.rows)),
        "answers": [
            asdict(answer) | {"where": answer.where, "text": str(answer)}
            for answer in section.answers
        ],
    }


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
