"""Writes the static site of one suite or of all suites.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from dpicl.core.messages import epsilon_text, names_text
from dpicl.core.paths import CLONE
from dpicl.core.plugins import Registered
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.evidence import AttackBoard, Evidence, build_attacks
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.render import hosting, page
from dpicl.leaderboards.render.addresses import Addresses, claim_page
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.board_tables import (
    answers_table,
    headroom_table,
    methods_table,
)
from dpicl.leaderboards.render.board_view import (
    answer_blocks,
    finite_levels,
    first_level,
    header,
    section_blocks,
    task_blocks,
)
from dpicl.leaderboards.render.claims_view import TITLE as CLAIMS
from dpicl.leaderboards.render.claims_view import (
    PlacedClaim,
    claim_blocks,
    claims_blocks,
    place_claims,
)
from dpicl.leaderboards.render.columns import ROWS, row_data, rows_frame, to_csv
from dpicl.leaderboards.render.guide import Guide, make_guide
from dpicl.leaderboards.render.row_view import row_blocks, texts_blocks
from dpicl.mechanism.bases import Mechanism
from dpicl.tables.document import (
    Block,
    Column,
    Facts,
    Figure,
    Filters,
    Heading,
    Link,
    Part,
    Table,
    Words,
    folded_notes,
    make_table,
    notes,
    words,
)

#: (name, address from the site's first page)
Place = tuple[str, str]
#: What every page links: (name, where a clone has it).
_BESIDE = (
    ("Documentation", "docs/index.md"),
    ("How to cite", "CITATION.cff"),
    ("Licence", "LICENSE"),
)
_DATA = (("Results (Parquet)", "results.parquet"), ("Data card", "croissant.json"))
#: The reader of the tables that rank methods by what a model learns from their texts.
_BY_MODEL = "answered by the model"
_DOWNLOADS = (("CSV", "board.csv"), ("JSON", "board.json"))
TITLE = "Private in-context learning"
#: What the site is, in a sentence.
PURPOSE = (
    "Private records in a prompt make a language model better at a task. How much of that gain does each differentially"
    " private method keep, at a privacy loss ε that is proved?"
)
_CHARTS = (
    "Recovery at ε = {}, with 95% intervals over seeds, on every task where private records pay: 0% is the best control"
    " that reads no record, 100% real demonstrations without privacy."
)
READING = "What is this, and how do I read it?"
_READING = (
    "Each method turns private records into a few demonstrations for a language model, or into answers, with the least"
    " noise whose proved ε does not exceed the target: the smaller ε, the less anybody can learn about one record.",
    "Recovery says how much a method keeps: 0% is the best row that reads no record (below it records did not help),"
    " 100% is what real demonstrations reach without any privacy. Bars are 95% intervals over seeds. Controls are grey:"
    " simple rows that a method should beat.",
    "Proved ε is an upper bound, from a ledger of what the run did with private records; audited ε is a lower bound, by"
    " attacks; claimed ε is what the paper's formula gives. docs/reading-the-board.md says how all of it is worked out,"
    " docs/accounting.md why ε holds.",
)


def write_site(
    boards: Mapping[str, Board],
    folder: Path,
    evidence: Evidence,
    url: str | None = None,
    repository: str | None = None,
    mechanisms: Mapping[str, Registered[Mechanism]] | None = None,
) -> Path:
    """Writes the first page, the pages of each suite in a folder of its name, the page of all attacks and the data;
    returns the path of the first page.

    boards: by the suite's name, which is the name of its folder. url: of the site, for a site map and a feed.
    mechanisms: those whose papers and code pages link.
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
    code, upward_code = "mechanisms" if copies else "", "../mechanisms" if copies else ""
    if repository:
        code = upward_code = f"{repository}/blob/HEAD/mechanisms"
    attacks = build_attacks(evidence.attacks)
    claims = place_claims(boards)
    others = [("All suites", "index.html")]
    others += [("Claims", "claims/index.html")] if claims else []
    others.append(("All attacks", "attacks/index.html"))
    files: dict[str, str | bytes] = {
        **copies,
        "attacks/index.html": attacks_page(attacks, [*others, *beside], "../"),
        "index.html": suites_page(
            boards,
            [*others, *_DATA, *changes, *beside],
            make_guide(mechanisms or {}, code),
        ),
    }
    guide = make_guide(mechanisms or {}, upward_code)
    links = [*((name, f"../{path}") for name, path in others), *upward]
    for name, board in boards.items():
        files |= {f"{name}/{file}": content for file, content in pages(board, links, guide).items()}
    files |= _claims_pages(claims, [*others, *beside])
    page_names = [name for name in files if name.endswith(".html")]
    files |= hosting.data_files(boards.values())
    if url:
        files |= hosting.crawler_files(boards, page_names, url)
    return page.write(files, folder)


def _claims_pages(claims: Mapping[str, list[PlacedClaim]], nav: Sequence[Place]) -> dict[str, str]:
    """The page of all planned claims, and one for each."""
    if not claims:
        return {}
    first = "claims/index.html"
    files = {first: page.render(CLAIMS, claims_blocks(claims), "../", here=first, nav=nav)}
    for name, placed in claims.items():
        files[claim_page(name)] = page.render(name, claim_blocks(name, placed), "../", nav=nav)
    return files


def _copies() -> dict[str, bytes]:
    """Path -> content of the documentation, the citation, the licence and the mechanisms; nothing where no clone has
    them."""
    if CLONE is None:
        return {}
    paths = [CLONE / "CITATION.cff", CLONE / "LICENSE", *(CLONE / "docs").rglob("*.md")]
    paths += (CLONE / "mechanisms").glob("*.py")
    return {
        path.relative_to(CLONE).as_posix(): path.read_bytes() for path in paths if path.is_file()
    }


def pages(board: Board, links: Sequence[Place] = (), guide: Guide | None = None) -> dict[str, str]:
    """Every file of the site of a suite: path -> text. links: more places, named on every page. guide: what pages say
    of methods and tasks."""
    places = Addresses(board)
    suite = board.sections[0].group.suite
    nav = [("Board", "index.html"), *links, *_DOWNLOADS]
    title = f"{suite}: private in-context learning"
    blocks: list[Block] = [
        Heading(f"{title}, the board", 1),
        _reading(board),
        *_first_screens(board.sections, places, guide),
        *folded_notes(board.notes),
    ]
    way = "../" if "Claims" in dict(links) else None
    for section in board.sections:
        tables = section_blocks(section, places, skipped=board.skipped, claims=way)
        blocks.append(Part(tuple(tables), kind="group", data={"model": section.group.model}))
    files = {
        "index.html": page.render(title, blocks, here="index.html", nav=nav),
        "board.csv": to_csv(rows_frame(board)),
        "board.json": json.dumps(board_json(board), allow_nan=False) + "\n",
    }
    docs = dict(links).get("Documentation", "").removesuffix("/index.md")
    for section in board.sections:
        for table in section.tables:
            of_task = _task_page(board, section, table, places, guide)
            title = f"{table.task}, {suite}"
            files[places.task(table)] = page.render(title, of_task, "../", nav=nav)
            pairs = Pairs(table)
            for row in table.in_order:
                of_row = row_blocks(section, table, row, pairs, places, docs, guide)
                files[places.page(row)] = page.render(
                    f"{row.place}, {suite}", of_row, "../", nav=nav
                )
    return files


def _first_screens(
    sections: Sequence[Section], places: Addresses, guide: Guide | None
) -> list[Block]:
    """What a reader sees first of each of these sections: the charts of recovery, the table, and what to use."""
    blocks: list[Block] = []
    for section in sections:
        level = first_level(section)
        group = section.group
        suite = f"{make_visible(group.suite)}, version {make_visible(group.version)}"
        screen: list[Block] = [words(suite, "quiet")]
        screen.append(header(section, level))
        if not section.tables:
            screen.append(headroom_table(section.measured))
        else:
            screen += _chart_blocks(section.tables, level, places)
            if section is sections[0]:
                screen.append(_filters(sections, epsilon_text(level)))
            screen.append(methods_table(section, finite_levels(section), places, guide))
            screen += _meanings(section, guide)
            screen += [Heading("What to use, and what beats it"), *answer_blocks(section, level)]
            controls = answers_table(section, level)
            screen.append(Part((controls,), "Controls that do as well, and headroom"))
        blocks.append(Part(tuple(screen), kind="answer", data={"model": section.group.model}))
    return blocks


def _chart_blocks(tables: Sequence[TaskTable], level: float, places: Addresses) -> Iterator[Block]:
    """The charts of tasks that a model answers; those that a classifier reads are one click away."""
    answered = [table for table in tables if table.reader == _BY_MODEL]
    others = [table for table in tables if table.reader != _BY_MODEL]
    shown = _recovery_charts(answered, level, places)
    folded = _recovery_charts(others, level, places)
    if not shown:
        shown, folded = folded, ()
    if shown:
        yield words(_CHARTS.format(epsilon_text(level)), "quiet")
    if figures := (*shown, *_score_charts(tables)):
        yield Part(figures, kind="plots")
    if folded:
        names = names_text(figure.data["task"] for figure in folded)
        yield Part(
            (Part(folded, kind="plots"),), f"Recovery as a classifier of the texts sees it: {names}"
        )


def _meanings(section: Section, guide: Guide | None) -> list[Block]:
    """What each method of a section does, one click away."""
    if guide is None:
        return []
    names = sorted({row.mechanism for row in section.rows})
    known = {name: guide.methods[name].summary for name in names if name in guide.methods}
    return [Part((Facts(known, "manifest meanings"),), "What each method does")] if known else []


def _reading(board: Board) -> Part:
    """What a stranger asks first, one click away."""
    legend = Facts(_legend(board), "manifest")
    return Part((*notes(_READING, ""), legend), READING)


def _task_page(
    board: Board, section: Section, table: TaskTable, places: Addresses, guide: Guide | None
) -> Iterator[Block]:
    """A task: what it asks, its headroom, charts, rows and texts."""
    group = section.group
    suite = Link(f"{group.suite}, version {group.version}", "index.html")
    yield Words((suite, f" › {table.task}"))
    yield Heading(f"{table.task}, {model_name(group.model)}, {group.source} records", 1)
    if guide and guide.tasks.get(table.task):
        yield words(f"{guide.tasks[table.task]}.", "lead")
    figures = (*_recovery_charts([table], first_level(section), places), *_score_charts([table]))
    if figures:
        yield Part(figures, kind="plots")
    yield headroom_table([table])
    yield _filters([replace(section, tables=(table,))])
    yield from task_blocks(table, places, False, board.skipped)
    yield from texts_blocks(table)


def _recovery_charts(
    tables: Sequence[TaskTable], level: float, places: Addresses
) -> tuple[Figure, ...]:
    """The recovery of all rows on every task that rewards private records."""
    from dpicl.leaderboards.render import charts  # a terminal has no need of it

    figures = []
    for table in tables:
        if charts.recovered_rows(table, level):
            caption = f"{table.task}: {table.describe_metrics()}"
            figure = charts.page_figure(caption, charts.recovery_panel(table, level), table.task)
            figures.append(replace(figure, link=places.task(table)))
    return tuple(figures)


def _score_charts(tables: Sequence[TaskTable]) -> tuple[Figure, ...]:
    """The scores of a task that stands alone, where there are more than two levels of ε."""
    from dpicl.leaderboards.render import charts

    if len(tables) != 1:
        return ()
    (table,) = tables
    levels = {row.epsilon for row in table.rows if 0 < row.epsilon < math.inf}
    if len(levels) <= 2:
        return ()
    panel = charts.score_panel(table)
    caption = f"{table.task}: score at every ε"
    return (charts.page_figure(caption, panel, table.task, left=charts.AXIS),)


def _legend(board: Board) -> dict[str, Any]:
    """Name -> what it is, of the columns and of the marks that rows of the board have."""
    marks = {mark.sign: f"{mark.name}: {mark.why}" for row in board.rows for mark in row.marks}
    return {column.name: column.help for column in ROWS} | marks


def _filters(sections: Sequence[Section], epsilon: str = "") -> Filters:
    """The filters of a page with these sections: those with a choice. Reference baselines always stay. epsilon: the one
    that is shown first; "": all."""
    rows = [row for section in sections for row in section.rows if not row.is_reference]
    data = [row_data(row) for row in sorted(rows, key=attrgetter("epsilon"))]
    tasks = [table.task for section in sections for table in section.tables]
    models = [section.group.model for section in sections]
    filters = [
        ("task", "Task", dict(zip(tasks, tasks, strict=True)), ""),
        ("model", "Model", {model: model_name(model) for model in models}, ""),
    ]
    for name, label, first in (
        ("epsilon", "Privacy level ε", epsilon),
        ("kind", "What it releases", ""),
        ("queries", "Queries", ""),
        ("origin", "From", ""),
    ):
        filters.append((name, label, {of_row[name]: of_row[name] for of_row in data}, first))
    return Filters(tuple(item for item in filters if len(item[2]) > 1))


# Several suites, and attacks.


def suites_page(boards: Mapping[str, Board], links: list[Place], guide: Guide | None = None) -> str:
    """The first page: charts, table and answer of the first suite's first section, then a line for each suite.

    boards: by the suite's name, which names its folder beside the page. links: (name, address). guide: what the page
    says of methods and tasks.
    """
    first, board = next(iter(boards.items()))
    places = Addresses(board, f"./{first}/")
    blocks = [
        Heading(TITLE, 1),
        words(PURPOSE, "lead"),
        _reading(board),
        *_first_screens(board.sections[:1], places, guide),
        suites_table(suites_json(boards), has_links=True),
    ]
    return page.render(TITLE, blocks, here="index.html", nav=links)


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


def attacks_page(board: AttackBoard, links: Sequence[Place] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    title = "Private in-context learning: attacks"
    intro = words(
        "Every attack and audit under the results folder, whether a board has a row for it or not. Proved ε is an upper"
        " bound of what a run cost; audited ε is the lower bound that the attack proves, at its confidence, by itself."
        " Rates and counts only: no private text is on this page."
    )
    blocks = [Heading(title, 1), intro, *attack_blocks(board)]
    return page.render(title, blocks, root, here="attacks/index.html", nav=links)
