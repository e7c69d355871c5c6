"""The page of a mechanism, or of a method that was submitted: what it is, and all of its rows over tasks and ε."""

from __future__ import annotations

import json
import re
import sys
from bisect import bisect
from collections.abc import Mapping, Sequence
from typing import Any

from dpicl.core.plugins import Registered
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.columns import columns
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.render.board_charts import epsilon_key, three_epsilons
from dpicl.leaderboards.render.site.addresses import Addresses
from dpicl.leaderboards.render.site.section_page import task_plots

_ARXIV = re.compile(r"\b\d{4}\.\d{4,5}\b")
#: Rows' names on a board up to which each has plots of its own; with more, drawing them would take most of the time.
MOST_DRAWN = 40
#: Other names of a mechanism that its page links, those that follow it in the alphabet.
MOST_SIBLINGS = 40
#: A paragraph, or the points of a list.
Block = str | tuple[str, ...]


def about(registered: Registered) -> dict[str, Any]:
    """The documentation of the file (what is done, and why it is private), that of the class (its options), its paper
    and its code's origin."""
    cls = registered.cls
    own = cls.__dict__.get("__doc__") or ""
    if own.startswith(f"{cls.__name__}("):  # the signature that a dataclass without a docstring gets
        own = ""
    text = sys.modules[cls.__module__].__doc__ or ""
    papers = [(number, f"https://arxiv.org/abs/{number}") for number in _ARXIV.findall(cls.source or "")]
    blocked = [*blocks(text), *blocks(own)]
    return {"blocks": blocked, "source": cls.source, "papers": papers, "origin": registered.origin}


def blocks(text: str) -> list[Block]:
    """The paragraphs of a docstring; one whose lines begin with '1.', '2.' ... is a list of points."""
    found: list[Block] = []
    for part in re.split(r"\n\s*\n", text.replace("``", "").strip()):
        if re.match(r"\s*1\. ", part):
            points = re.split(r"(?m)^\s*\d+\. ", part)[1:]
            found.append(tuple(" ".join(point.split()) for point in points))
        else:
            found.append(" ".join(part.split()))
    return found


def labels_of(board: Board) -> list[str]:
    """Every row's name on the board, in the order of the alphabet."""
    return sorted({row.label for section in board.sections for row in section.rows})


def mechanism_view(
    board: Board,
    labels: Sequence[str],
    addresses: Addresses,
    mechanisms: Mapping[str, Registered],
    looks: Mapping[str, int],
) -> dict[str, Any]:
    """What the template shows of a mechanism, or of several rows' names of one that share a page. mechanisms: the
    registry; what is not in it has no documentation. looks: see `fixed_looks`."""
    drawn = len(labels_of(board)) <= MOST_DRAWN
    parts = [part for section in board.sections if (part := _part(section, labels, looks, drawn))]
    rows = [row for part in parts for row in part["rows"]]
    submission = rows[0].submission
    known = mechanisms.get(rows[0].mechanism) if submission is None else None
    names = {row.mechanism for row in rows}
    others = {row.label for section in board.sections for row in section.rows if row.mechanism in names}
    return {
        "label": labels[0] if len(labels) == 1 else f"{labels[0]} to {labels[-1]}",
        "shared": len(labels) > 1,
        "mechanism": rows[0].mechanism,
        "about": None if known is None else about(known),
        "submission": submission,
        "reproduced": [again for row in rows for again in row.reproduced],
        "reported": [row for row in rows if row.reported is not None],
        "siblings": [(other, addresses.mechanism(other)) for other in _following(labels, others)],
        "parts": parts,
        "addresses": addresses,
        "epsilon_key": epsilon_key(),
    }


def _part(section: Section, labels: Sequence[str], looks: Mapping[str, int], drawn: bool) -> dict[str, Any] | None:
    """A section's rows of these names, the options where it is one, and the plots if ``drawn``; None where it has
    none."""
    wanted = set(labels)
    own = {table.task: [row for row in table.all_rows if row.label in wanted] for table in section.tables}
    tables = [table.only(wanted) for table in section.tables if own[table.task]]
    if not tables:
        return None
    rows = [row for table in tables for row in own[table.task]]
    return {
        "section": section,
        "rows": rows,
        "columns": columns(rows),
        "plots": [plot for table in tables if drawn for plot in task_plots(table, looks)],
        "epsilons": [(table.task, plot) for table in tables if drawn and (plot := three_epsilons(table)) is not None],
        "tasks": [table.task for table in tables],
        "options": _options({table.task: own[table.task][0] for table in tables}) if len(wanted) == 1 else [],
        "attacked": [row for row in rows if row.audit.attacks or row.audit.external],
    }


def _following(labels: Sequence[str], others: set[str]) -> list[str]:
    """The other names, in the order of the alphabet; of many those that follow these, from the first again."""
    found = sorted(others.difference(labels))
    if len(found) <= MOST_SIBLINGS:
        return found
    first = bisect(found, labels[-1])
    return [*found[first:], *found[:first]][:MOST_SIBLINGS]


def _options(by_task: Mapping[str, Row]) -> list[tuple[str, list[str]]]:
    """(option, its value on every task); one value where all tasks have the same."""
    options = [row.results[0].cell.options for row in by_task.values()]
    names = sorted({name for own in options for name in own})
    found = [(name, [json.dumps(own[name]) if name in own else "–" for own in options]) for name in names]
    return [(name, values[:1] if len(set(values)) == 1 else values) for name, values in found]
