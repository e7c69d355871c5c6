"""The board of all attacks as one static page (see leaderboards/render/page.py for what a page may hold)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from markupsafe import Markup

from dpicl.leaderboards.model.attack_board import AttackBoard
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.board_charts import AUC, attack_points, auc, audited_proved, numbered
from dpicl.leaderboards.render.charts import key


def write_attacks_html(board: AttackBoard, folder: Path) -> Path:
    """Writes ``folder/index.html`` and returns its path. Raises ResultError when it cannot."""
    return page.write({"index.html": attacks_page(board)}, folder)


def attacks_page(board: AttackBoard, links: Sequence[tuple[str, str]] = (), root: str = "") -> str:
    """The whole page as text. links: (name, address from the site's first page), which is ``root`` away."""
    styles = numbered({one.subject.mechanism for table in board.tables for one in table.results} - {*BASELINES})
    return page.render(
        "attacks.html",
        root,
        board=board,
        legend=[(name, key(style)) for name, style in styles.items()],
        plots=[*_audited_plots(board, styles), *_auc_plots(board, styles)],
        nav=links,
    )


def _audited_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    """(caption, plot) for every model: all bounds, whatever the attack and the task."""
    for name, source in dict.fromkeys((table.model, table.source) for table in board.tables):
        tables = [table for table in board.tables if (table.model, table.source) == (name, source)]
        results = [one for table in tables for one in table.results]
        points = [point for one in results for point in attack_points(one.subject.mechanism, [one])]
        if plot := audited_proved(points, styles):
            yield f"audited against proved ε: {name}, {source} records", plot


def _auc_plots(board: AttackBoard, styles: dict[str, int]) -> Iterator[tuple[str, Markup]]:
    for table in board.tables:
        if found := [(one.subject.mechanism, one) for one in table.results if AUC in one.measures]:
            caption = f"{table.title}, {table.source} records, {table.model}"
            yield caption, auc(found, styles, f"{caption}: AUC against ε, with 95% intervals")
