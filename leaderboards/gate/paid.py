"""Was everything that a result released paid for, and is it here? Seen from the file alone, without an accountant.

A result that releases charges; its texts are in the file unless its task forbids that; Q covers every test record that
was asked; and what is charged is an event that a primitive of the project makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpicl.harness.core.errors import DpiclError
from dpicl.harness.data.task import Task
from dpicl.harness.run.results import Result
from dpicl.leaderboards.model.text import epsilon_text

#: Kinds of events that the primitives of `dpicl.harness.privacy` charge. Others are somebody's word (PRIVACY: no
#: theorem of ours proves them), for instance `epsilon_delta`.
PRIMITIVES = frozenset(
    {"none", "non_private", "gaussian", "zcdp", "bounded_range", "poisson", "repeat", "compose", "parallel"}
)

#: What a calibrated knob spends at least of its target (PRIVACY: the proved epsilon is in [0.98, 1] of it).
SPENT = 0.98


def unpaid(result: Result) -> str:
    """Why something that was released was not paid for, or ""."""
    cell, privacy = result.cell, result.privacy
    stored = len(result.released) + len(result.answers)
    if cell.epsilon > 0 and not privacy.ledger and (stored or result.released_count):
        return (
            f"it released {max(stored, result.released_count)} texts and charged nothing; send what `dpicl run` wrote."
        )
    asked = bool(result.answers) or cell.queries is not None or privacy.queries is not None
    return queries_problem(result) if asked else ""


def queries_problem(result: Result) -> str:
    """For a result of an answer mechanism: why its Q does not cover the test records that were asked, or ""."""
    queries, wanted = result.privacy.queries, result.cell.queries
    for count in (result.released_count, result.manifest.data.test_records):
        if queries is None or queries < count:
            return f"its epsilon covers {queries or 'no'} queries, and it answered {count}; charge all."
    if wanted is not None and queries != wanted:
        return f"its epsilon covers {queries} queries, its cell says {wanted}; send what `dpicl run` wrote."
    if result.released_count < result.manifest.data.test_records:
        return "it answered fewer queries than it has test records; send what `dpicl run` wrote."
    return ""


def unspent(result: Result) -> str:
    """Why the proved epsilon is not what a knob calibrated to the target spends, or ""."""
    proved, target = result.privacy.epsilon_proved, result.cell.epsilon
    if not 0 < target < math.inf or proved >= SPENT * target:
        return ""
    said = f"its ledger costs epsilon {epsilon_text(proved)}, under {SPENT:g} of the target {target:g}"
    return f"{said}, which no calibrated knob leaves unspent; send what `dpicl run` wrote."


def missing_texts(result: Result) -> str:
    """Why released texts are missing, or "". They are withheld where a task forbids that real records are retold."""
    stored, count = len(result.released) + len(result.answers), result.released_count
    if not result.cell.epsilon > 0 or stored:
        return ""
    if not count:
        return "it has an epsilon and released nothing; send what `dpicl run` wrote."
    if is_restricted(result):
        return ""
    return f"it counts {count} released texts and holds none; send what `dpicl run` wrote."


def is_restricted(result: Result) -> bool:
    """Whether released texts of this task and source may not be published (dpicl.harness.run.pipeline withholds
    them)."""
    if result.cell.source == "synthetic":
        return False
    try:
        config: Mapping[str, Any] = Task.without_records(result.cell.task).config
    except DpiclError:
        return False
    return bool(config["metadata"].get("restricted", False))


def asserted(event: Any) -> set[str]:
    """The kinds of events, of those in the JSON of one event, that no primitive of the project charges."""
    return set(_kinds(event)) - PRIMITIVES


def _kinds(event: Any) -> Iterator[str]:
    if isinstance(event, Mapping):
        if isinstance(event.get("event"), str):
            yield event["event"]
            inside = event.get("of", ())
            parts = inside.values() if event["event"] == "parallel" and isinstance(inside, Mapping) else (inside,)
            for part in parts:
                yield from _kinds(part)
    elif isinstance(event, list):
        for part in event:
            yield from _kinds(part)
