"""The list of all suites, with the best mechanism of each at every ε."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.standings import Ranking
from dpicl.leaderboards.model.text import epsilon_text, recovery_text
from dpicl.leaderboards.render import page


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
    """best: the rows that are first at an ε; nobody: where none is, in words. One of them says something."""
    best = [
        {
            "epsilon": epsilon_text(one.epsilon),
            "label": one.label,
            "signs": one.signs,
            "recovery": recovery_text(one.recovery),
            "of": ranking.scope,
        }
        for ranking in section.rankings
        for one in ranking.standings
        if one.rank == 1 and (one.recovery or 0) > 0
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
