"""The list of all suites, with the best mechanism of each at every ε."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leaderboards import page
from leaderboards.board import Board, Section
from leaderboards.site.addresses import rows_of
from leaderboards.standings import Standing
from leaderboards.text import epsilon_text, recovery_text


def suites_page(boards: Mapping[str, Board], folders: Mapping[str, str], links: list[tuple[str, str]]) -> str:
    """The page. boards, folders: by the suite's name; a folder is below that of the page. links: (name, address)."""
    sections = [
        {"suite": name, "folder": folders[name], "section": section, **_summary(section)}
        for name, board in boards.items()
        for section in board.sections
    ]
    retired = [(name, folders[name], len(board.retired)) for name, board in boards.items() if board.retired]
    return page.render("suites.html", sections=sections, retired=retired, nav=links, downloads=False)


def suites_json(boards: Mapping[str, Board]) -> list[dict[str, Any]]:
    """A line a section: suite, version, model, source, tasks, rows, and the best at each ε in words."""
    return [
        {
            "suite": name,
            "version": section.group.version,
            "model": section.group.model,
            "source": section.group.source,
            **_summary(section),
        }
        for name, board in boards.items()
        for section in board.sections
    ]


def _summary(section: Section) -> dict[str, Any]:
    return {
        "tasks": [table.task for table in section.tables],
        "rows": sum(1 for _ in rows_of(section)),
        "best": [
            {
                "epsilon": epsilon_text(one.epsilon),
                "label": one.label,
                "recovery": recovery_text(one.recovery),
                "of": of,
            }
            for of, one in _best(section)
        ],
    }


def _best(section: Section) -> list[tuple[str, Standing]]:
    """(ranking's title, first in it) for every ε of every ranking; nobody who recovers nothing is best."""
    return [
        (ranking.title, one)
        for ranking in section.rankings
        for one in ranking.standings
        if one.rank == 1 and one.recovery is not None and one.recovery > 0
    ]
