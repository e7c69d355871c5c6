"""The static site of a suite, and of all suites: render/site says what pages show, page.py what they may hold.

`pages` makes every file of a site as text, from a board alone; the rest writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dpicl.harness.core.plugins import Registered
from dpicl.leaderboards.compare.track import Track, build_tracks
from dpicl.leaderboards.model.attacks import AttackBoard
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import columns
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.model.ranks import rank_notes
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import Ranking, TaskTable, first_per_query, recovery_notes
from dpicl.leaderboards.model.text import PER_QUERY_NOTE, epsilon_text, recovery_text
from dpicl.leaderboards.render import board_charts, page, track
from dpicl.leaderboards.render.board_charts import AUC, numbered, series_styles
from dpicl.leaderboards.render.charts import key
from dpicl.leaderboards.render.site.addresses import Addresses, mechanism_file
from dpicl.leaderboards.render.site.comparison import comparison
from dpicl.leaderboards.render.site.downloads import board_csv, board_json_text
from dpicl.leaderboards.render.site.mechanism_page import labels_of, mechanism_view
from dpicl.leaderboards.render.site.row_page import row_view

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
    nav = [("Board", "index.html"), ("Compare rows", "compare.html")]
    nav += [("Retired versions", "retired.html")] if board.retired else []
    tracks = _tracks(board)
    nav += [("Across releases", "track.html")] if tracks else []
    shared: dict[str, Any] = {"nav": [*nav, *links], "downloads": True}
    files = {
        "index.html": page.render(
            "board.html",
            board=board,
            views=[section_view(section, addresses) for section in board.sections],
            filters=filters(board.sections),
            mechanisms=[(label, mechanism_file(label)) for label in labels_of(board)],
            skipped=skipped,
            per_query_note=PER_QUERY_NOTE,
            **shared,
        ),
        "compare.html": page.render("compare.html", compared=comparison(board, addresses), **shared),
        "board.csv": board_csv(board, addresses),
        "board.json": board_json_text(board),
    }
    if board.retired:
        views = [section_view(section, addresses) for section in board.retired]
        files["retired.html"] = page.render("retired.html", views=views, per_query_note=PER_QUERY_NOTE, **shared)
    if tracks:
        files["track.html"] = track.render_page(tracks, shared["nav"])
    for label in labels_of(board):
        view = mechanism_view(board, label, addresses, mechanisms or {})
        files[mechanism_file(label)] = page.render("mechanism.html", "../", view=view, **shared)
    for section in (*board.sections, *board.retired):
        for table in section.tables:
            for row in table.all_rows:
                view = row_view(section, table, row, addresses, frozen=section in board.retired)
                files[addresses.page(row)] = page.render("row.html", "../", view=view, **shared)
    return files


def _tracks(board: Board) -> tuple[Track, ...]:
    """Scores across releases of the model; none where no row was run with two of them."""
    results = [result for section in board.sections for row in section.rows for result in row.results]
    models = [(result.manifest.model, result.manifest.dtype) for result in results]
    if len({(model.name, model.sha256, model.revision, dtype) for model, dtype in models}) < 2:
        return ()
    tracks = build_tracks(results, by="model")
    return tracks if any(len(track.points) > 1 for track in tracks) else ()


def section_view(section: Section, addresses: Addresses) -> dict[str, Any]:
    """What the template shows of a section. addresses: where the pages of its rows are."""
    styles = series_styles(section.tables)
    return {
        "section": section,
        "legend": [(label, addresses.mechanism(label), key(style)) for label, style in styles.items()],
        "plots": {table.task: board_charts.privacy_utility(table, styles) for table in section.tables},
        "epsilons": {table.task: board_charts.three_epsilons(table) for table in section.tables},
        "epsilon_key": board_charts.epsilon_key(),
        "audited_plot": board_charts.audited_proved(list(board_charts.row_points(section.rows)), styles),
        "auc_plots": list(_auc_plots(section.tables, styles)),
        "notes": {table.task: [*rank_notes(table), *recovery_notes(table)] for table in section.tables},
        "columns": columns,
        "explained": first_per_query(section.tables),
        "addresses": addresses,
        "facets": facets,
    }


def facets(row: Row) -> dict[str, str]:
    """What a filter can ask of a row, by the name of the filter; task, kind of task and model are the table's."""
    return {
        "epsilon": epsilon_text(row.epsilon),
        "kind": "reference baselines" if row.is_baseline else row.results[0].kind,
        "queries": "any" if row.queries is None else "finite",
        "origin": "ours" if row.submission is None else "submitted",
    }


def filters(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The filters over these sections: name, label and values that occur, in a sensible order."""
    tables = [table for section in sections for table in section.tables]
    rows = sorted((row for section in sections for row in section.rows), key=lambda row: row.epsilon)
    of_rows = {"epsilon": "target ε", "kind": "Kind of row", "queries": "Q, queries covered", "origin": "From"}
    found: list[tuple[str, str, Iterable[str]]] = [
        ("task", "Task", (table.task for table in tables)),
        ("taskkind", "Kind of task", (table.kind for table in tables)),
        ("model", "Model", (section.group.model for section in sections)),
        *((name, label, [facets(row)[name] for row in rows]) for name, label in of_rows.items()),
    ]
    return [{"name": name, "label": label, "values": list(dict.fromkeys(values))} for name, label, values in found]


def _auc_plots(tables: Iterable[TaskTable], styles: dict[str, int]) -> Iterator[tuple[str, str, Markup]]:
    """(task, caption, plot) for every membership attack on every task."""
    for table in tables:
        rows = table.all_rows
        found = [(row.label, one) for row in rows for one in row.audit.attacks if AUC in one.measures]
        for name in dict.fromkeys(one.attack for _, one in found):
            title = f"{table.task}: AUC of {name} against ε, with 95% intervals"
            plot = board_charts.auc([pair for pair in found if pair[1].attack == name], styles, title)
            yield table.task, f"{table.task}: {name}", plot


def suites_page(boards: Mapping[str, Board], links: list[tuple[str, str]]) -> str:
    """The page. boards: by the suite's name, which names its folder beside the page. links: (name, address)."""
    retired = [name for name, board in boards.items() if board.retired]
    return page.render("suites.html", sections=suites_json(boards), retired=retired, nav=links)


def suites_json(boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A line a section: suite, version, model, source, tasks, rows, and the best at each ε in words."""
    return [
        {
            "suite": name,
            **{key: getattr(section.group, key) for key in ("version", "model", "source")},
            **_summary(section),
        }
        for name, board in boards.items()
        for section in board.sections
    ]


def _summary(section: Section) -> dict[str, Any]:
    """best: the rows that may be first at an ε; nobody: where none is, in words. One of them says something."""
    best = [
        {
            "epsilon": epsilon_text(one.epsilon),
            "label": one.label,
            "signs": one.signs,
            "recovery": recovery_text(one.recovery),
            "tied": one.rank.low < one.rank.high,
            "of": ranking.scope,
        }
        for ranking in section.rankings
        for one in ranking.standings
        if one.rank is not None and one.rank.first and (one.recovery or 0) > 0
    ]
    nobody = [said for ranking in section.rankings for said in _nobody(ranking)]
    return {
        "tasks": [table.task for table in section.tables],
        "rows": len(list(section.rows)),
        "best": best,
        "nobody": nobody if best or nobody else ["no row has a rank"],
    }


def _nobody(ranking: Ranking) -> Iterator[str]:
    """Where nobody is best: no mean recovery at all, or none above 0% at an ε."""
    if not ranking.tasks:
        yield f"{ranking.title}: {ranking.says}"
        return
    for epsilon in dict.fromkeys(one.epsilon for one in ranking.standings if not one.is_baseline and one.epsilon > 0):
        placed = [one for one in ranking.standings if one.epsilon == epsilon and one.rank is not None]
        if not any((one.recovery or 0) > 0 for one in placed):
            what = "no mean recovery is above 0%" if placed else "no row has a mean recovery"
            yield f"ε = {epsilon_text(epsilon)}: {what} ({ranking.scope})"


def attacks_page(board: AttackBoard, links: Sequence[tuple[str, str]] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    styles = numbered({one.subject.mechanism for table in board.tables for one in table.results} - {*BASELINES})
    return page.render(
        "attacks.html",
        root,
        board=board,
        legend=[(name, key(style)) for name, style in styles.items()],
        plots=[*_audited_plots(board, styles), *_attack_auc_plots(board, styles)],
        nav=links,
    )


def _audited_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    """(caption, plot) for every model: all bounds, whatever the attack and the task."""
    for name, source in dict.fromkeys((table.model, table.source) for table in board.tables):
        tables = [table for table in board.tables if (table.model, table.source) == (name, source)]
        results = [one for table in tables for one in table.results]
        points = [point for one in results for point in board_charts.attack_points(one.subject.mechanism, [one])]
        if plot := board_charts.audited_proved(points, styles):
            yield f"audited against proved ε: {name}, {source} records", plot


def _attack_auc_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    for table in board.tables:
        if found := [(one.subject.mechanism, one) for one in table.results if AUC in one.measures]:
            caption = f"{table.title}, {table.source} records, {table.model}"
            yield caption, board_charts.auc(found, styles, f"{caption}: AUC against ε, with 95% intervals")
