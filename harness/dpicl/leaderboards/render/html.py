"""The static site of a suite, and of all suites: render/site says what pages show, page.py what they may hold.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.answers import overall
from dpicl.leaderboards.model.attacks import AttackBoard
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.model.ranks import Pairs
from dpicl.leaderboards.model.text import PER_QUERY_NOTE
from dpicl.leaderboards.render import board_charts, page
from dpicl.leaderboards.render.board_charts import AUC
from dpicl.leaderboards.render.charts import fixed_looks, key
from dpicl.leaderboards.render.site.addresses import Addresses
from dpicl.leaderboards.render.site.attack_summary import all_attacks_summary
from dpicl.leaderboards.render.site.downloads import board_csv, board_json_text
from dpicl.leaderboards.render.site.mechanism_page import mechanism_view
from dpicl.leaderboards.render.site.row_page import beside, row_view, short_view
from dpicl.leaderboards.render.site.section_page import filters, legend, section_view

#: (name, address from the site's first page)
Link = tuple[str, str]
#: A mechanism that cannot do a task: label, task, reason.
Skipped = Mapping[str, str]


def write_html(
    board: Board,
    folder: Path,
    mechanisms: Mapping[str, Registered] | None = None,
    skipped: Sequence[Skipped] = (),
    attacks: AttackBoard | None = None,
) -> Path:
    """Writes the site of a suite and returns the path of its first page. Raises ResultError when it cannot.

    mechanisms: the registry, for what mechanisms are. attacks: of all suites, for a page of its own.
    """
    links = [] if attacks is None else [("All attacks", "attacks/index.html")]
    files = pages(board, mechanisms or {}, skipped, links)
    if attacks is not None:
        files["attacks/index.html"] = attacks_page(attacks, [("Board", "index.html")], "../")
    return page.write(files, folder)


def write_all(
    boards: Mapping[str, Board],
    folder: Path,
    mechanisms: Mapping[str, Registered],
    skipped: Mapping[str, Sequence[Skipped]],
    attacks: AttackBoard,
) -> Path:
    """Writes the list of suites, the site of each in a folder of its name, and the page of all attacks.

    boards, skipped: by the suite's name, which is the name of its folder. Raises ResultError when it cannot.
    """
    folder = Path(folder)
    links = [("All suites", "../index.html"), ("All attacks", "../attacks/index.html")]
    for name, board in boards.items():
        page.write(pages(board, mechanisms, skipped.get(name, ()), links), folder / name)
    shared = {
        "attacks/index.html": attacks_page(attacks, [("All suites", "index.html")], "../"),
        "index.html": suites_page(boards, [("All attacks", "attacks/index.html")]),
    }
    return page.write(shared, folder)


def pages(
    board: Board,
    mechanisms: Mapping[str, Registered] | None = None,
    skipped: Sequence[Skipped] = (),
    links: Sequence[Link] = (),
) -> dict[str, str]:
    """Every file of the site of a suite: path -> text. links: more places, named on every page."""
    addresses = Addresses(board)
    looks = fixed_looks(row.label for section in (*board.sections, *board.retired) for row in section.rows)
    nav = [("Board", "index.html")]
    nav += [("Retired versions", "retired.html")] if board.retired else []
    shared: dict[str, Any] = {"nav": [*nav, *links], "downloads": True, "suite": _suite_of(board)}
    files = {
        "index.html": page.render(
            "board.html",
            board=board,
            views=[section_view(section, addresses, looks) for section in board.sections],
            filters=filters(board.sections),
            skipped=skipped,
            per_query_note=PER_QUERY_NOTE,
            legend=legend(board),
            **shared,
        ),
        "board.csv": board_csv(board, addresses),
        "board.json": board_json_text(board),
    }
    if board.retired:
        views = [section_view(section, addresses, looks) for section in board.retired]
        files["retired.html"] = page.render("retired.html", views=views, per_query_note=PER_QUERY_NOTE, **shared)
    details: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for section in (*board.sections, *board.retired):
        frozen = any(section is one for one in board.retired)
        for table in section.tables:
            pairs = Pairs(table)
            for row in table.all_rows:
                rivals = [] if frozen else beside(pairs, row, addresses)
                if addresses.together and not frozen:
                    details[row.label].append(short_view(section, row, addresses, rivals))
                    continue
                view = row_view(section, table, row, addresses, frozen, rivals)
                files[addresses.own_page(row)] = page.render("row.html", "../", view=view, **shared)
    for file, labels in addresses.labels.items():
        own = [one for label in labels for one in details[label]]
        view = mechanism_view(board, labels, addresses, mechanisms or {}, looks) | {"details": own}
        files[file] = page.render("mechanism.html", "../", view=view, **shared)
    return files


def _suite_of(board: Board) -> str:
    """What titles call the board: the suite of its newest section."""
    return next((section.group.suite for section in (*board.sections, *board.retired)), "no results")


def suites_page(boards: Mapping[str, Board], links: list[tuple[str, str]]) -> str:
    """The page. boards: by the suite's name, which names its folder beside the page. links: (name, address)."""
    retired = [name for name, board in boards.items() if board.retired]
    return page.render("suites.html", sections=suites_json(boards), retired=retired, nav=links)


def suites_json(boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A line a section: suite, version, model, source, tasks, number of rows, and what the board says in brief."""
    return [
        {
            "suite": name,
            **{key: getattr(section.group, key) for key in ("version", "model", "source")},
            "tasks": [table.task for table in section.tables],
            "rows": len(list(section.rows)),
            "answers": [asdict(answer) | {"text": str(answer)} for answer in overall(section.answers)],
        }
        for name, board in boards.items()
        for section in board.sections
    ]


def attacks_page(board: AttackBoard, links: Sequence[tuple[str, str]] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    styles = fixed_looks({one.subject.mechanism for table in board.tables for one in table.results} - {*BASELINES})
    bounds = list(_audited_plots(board, styles))
    return page.render(
        "attacks.html",
        root,
        board=board,
        summary=all_attacks_summary(board),
        legend=[(name, key(style)) for name, style in styles.items()],
        plots=[*bounds, *_attack_auc_plots(board, styles)],
        bounds=len(bounds),
        nav=links,
    )


def _audited_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    """(caption, plot) for every model: all bounds, whatever the attack and the task."""
    for name, source in dict.fromkeys((table.model, table.source) for table in board.tables):
        tables = [table for table in board.tables if (table.model, table.source) == (name, source)]
        results = [one for table in tables for one in table.results]
        points = [point for one in results for point in board_charts.attack_points(one.subject.mechanism, [one])]
        if plot := board_charts.audited_proved(points, styles):
            yield f"audited against proved ε: {model_name(name)}, {source} records", plot


def _attack_auc_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    for table in board.tables:
        if found := [(one.subject.mechanism, one) for one in table.results if AUC in one.measures]:
            caption = f"{table.title}, {table.source} records, {model_name(table.model)}"
            yield caption, board_charts.auc(found, styles, f"{caption}: AUC against ε, with 95% intervals")
