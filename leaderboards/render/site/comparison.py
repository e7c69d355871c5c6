"""Two rows side by side: their numbers and settings, and a row beside all that it is compared with.

The page of a row says how sure each of its differences is, and has its numbers for the page that puts two rows side by
side, which holds their names alone and reads the pages of the two that are chosen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from dpicl.harness.core.vocabulary import model_name
from dpicl.leaderboards.compare.named_rows import row_name
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import words
from dpicl.leaderboards.model.pairs import Pairs, pair_words
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import score_text
from dpicl.leaderboards.render.site.addresses import Addresses

#: Rows that the page of a row is compared with, those with the nearest scores; `dpicl compare` has the others. Fewer
#: where the table of its task is so long that these tables would be most of the site.
MOST_RIVALS, FEW_RIVALS, LONG_TABLE = 40, 10, 200
#: The same where rows have no pages of their own.
FEWEST_RIVALS = 5


def beside(pairs: Pairs, row: Row, addresses: Addresses) -> list[dict[str, Any]]:
    """The rows of its task that a row stands beside, best first: each with the difference, and what it says."""
    most = FEWEST_RIVALS if addresses.together else FEW_RIVALS if pairs.rows > LONG_TABLE else MOST_RIVALS
    rivals = sorted(pairs.rivals(row), key=lambda one: abs(one.score - row.score))[:most]
    rivals.sort(key=lambda one: one.score if row.lower_is_better(row.metric) else -one.score)
    found = [(one, pairs.difference(row, one)) for one in rivals]
    return [
        {
            "id": addresses.of(one),
            "page": addresses.page(one),
            "row": one,
            "found": difference,
            "says": pair_words(row.title, one.title, difference),
        }
        for one, difference in found
    ]


@dataclass(frozen=True)
class PairData:
    """What the page of two rows needs, and what it reads from the pages of the rows that are chosen.

    choices: of every row its id, page, title, task and the place of its section in ``places``. names: lists of names.
    rows: by id, with numbers and settings in words, each the place of their names and the values.
    """

    choices: list[dict[str, Any]]
    places: list[str]
    names: list[tuple[str, ...]]
    rows: Mapping[str, Mapping[str, Any]]

    def given(self, ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        """What a page that shows these rows gives to the page of two rows."""
        return {name: self.rows[name] for name in ids}


def comparison(board: Board, addresses: Addresses) -> PairData:
    """What every pair of rows of the current sections needs to stand side by side."""
    names: dict[tuple[str, ...], int] = {}

    def short(values: dict[str, str]) -> list[str | int]:
        return [names.setdefault(tuple(values), len(names)), *values.values()]

    choices, rows = [], {}
    for number, section in enumerate(board.sections):
        for row in section.rows:
            choices.append(_choice(number, row, addresses))
            words = {"numbers": short(_numbers(row)), "settings": short(_settings(section, row))}
            rows[addresses.of(row)] = _given(number, row) | words
    return PairData(choices, [_where(section) for section in board.sections], list(names), rows)


def _where(section: Section) -> str:
    group = section.group
    return f"{group.suite} version {group.version}, {model_name(group.model)}, {group.source} records"


def _titled(row: Row) -> str:
    return f"{row.title}{'' if row.mode == 'proved' else ', paper accounting'}"


def _choice(number: int, row: Row, addresses: Addresses) -> dict[str, Any]:
    where = {"id": addresses.of(row), "page": addresses.page(row), "section": number}
    return {**where, "title": _titled(row), "task": row.task}


def _given(number: int, row: Row) -> dict[str, Any]:
    return {
        "title": _titled(row),
        "task": row.task,
        "section": number,
        "name": row_name(row),
        "score": score_text(row.score),
        "level": "" if row.at_an_end else f"{row.epsilon:g} {row.mode}",
    }


def _numbers(row: Row) -> dict[str, str]:
    seconds = fmean(sum(result.cost.seconds.values()) for result in row.results)
    tokens = fmean(result.cost.tokens_read for result in row.results)
    found = words(row)
    found["proved ε"] = " ".join([found["proved ε"], *(f"{mark.sign} {mark.name}" for mark in row.marks)])
    if row.audit.best is not None:
        found["audited ε"] += f" ({attack_name(row.audit.best)})"
    return found | {
        "seconds a seed": f"{seconds:,.0f}",
        "tokens read a seed": f"{tokens:,.0f}",
    }


def _settings(section: Section, row: Row) -> dict[str, str]:
    """Everything that was set, by name; options of the mechanism after the rest."""
    first = row.results[0]
    cell, knob = first.cell, first.privacy.knob
    fixed: dict[str, Any] = {
        "suite version": f"{section.group.suite} {section.group.version}",
        "task": cell.task,
        "mechanism": cell.mechanism,
        "model": model_name(cell.model),
        "records": section.group.source,
        "δ": f"{cell.delta:g}",
        "accounting": cell.mode,
        "noise": cell.noise,
        "shots": cell.shots,
        "test records": "all" if cell.test_records is None else cell.test_records,
        "records a class": "all" if cell.train_records is None else cell.train_records,
        "knob": "none" if knob is None else f"{knob.name} = {knob.value:.6g}",
        "submitted by": "–" if row.submission is None else row.submission.team,
    }
    options = {f"option {name}": json.dumps(value) for name, value in sorted(cell.options.items())}
    return {name: str(value) for name, value in fixed.items()} | options
