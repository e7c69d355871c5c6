"""Was everything that a result released paid for, and is it here? Only the file is needed, no accountant.

A result that releases texts charges its ledger and holds the texts, unless its task forbids that; Q covers every test
record; and each charge is an event that a primitive of the project makes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dpicl.harness.core.errors import DpiclError
from dpicl.harness.data.task import Task
from dpicl.harness.run.results import Result
from dpicl.leaderboards.model.text import epsilon_text

#: Kinds of events that the primitives of `dpicl.harness.privacy` charge. Others, such as `epsilon_delta`, are
#: assertions without a theorem of ours.
PRIMITIVES = frozenset(
    {"none", "non_private", "gaussian", "zcdp", "bounded_range", "poisson", "repeat", "compose", "parallel"}
)

#: The least share of its target that a calibrated knob spends.
SPENT = 0.98


def unpaid(result: Result) -> str:
    """Why a release was not paid for, or ""."""
    cell, privacy = result.cell, result.privacy
    stored = len(result.released) + len(result.answers)
    if cell.epsilon > 0 and not privacy.ledger and (stored or result.released_count):
        count = max(stored, result.released_count)
        return f"it released {count} texts and charged nothing; send what `dpicl run` wrote."
    answers = bool(result.answers) or cell.queries is not None or privacy.queries is not None
    return queries_problem(result) if answers else ""


def queries_problem(result: Result) -> str:
    """For a result of an answer mechanism: why its Q does not cover its test records, or ""."""
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
    """Why the proved epsilon is less than a knob calibrated to the target spends, or ""."""
    proved, target = result.privacy.epsilon_proved, result.cell.epsilon
    if not 0 < target < math.inf or proved >= SPENT * target:
        return ""
    said = f"its ledger costs epsilon {epsilon_text(proved)}, under {SPENT:g} of the target {target:g}"
    return f"{said}, which no calibrated knob leaves unspent; send what `dpicl run` wrote."


def missing_texts(result: Result) -> str:
    """Why released texts are missing, or "". A task may forbid texts that retell real records."""
    stored, count = len(result.released) + len(result.answers), result.released_count
    if not result.cell.epsilon > 0 or stored:
        return ""
    if not count:
        return "it has an epsilon and released nothing; send what `dpicl run` wrote."
    return (
        ""
        if _is_restricted(result)
        else f"it counts {count} released texts and holds none; send what `dpicl run` wrote."
    )


def _is_restricted(result: Result) -> bool:
    """Whether `dpicl run` withholds the texts of this task and source (dpicl.harness.run.pipeline)."""
    if result.cell.source == "synthetic":
        return False
    try:
        metadata = Task.without_records(result.cell.task).config["metadata"]
    except DpiclError:
        return False
    return bool(metadata.get("restricted", False))


def asserted(event: Any) -> set[str]:
    """The kinds of events, of those in the JSON of one event, that no primitive of the project charges."""
    return set(_kinds(event)) - PRIMITIVES


def _kinds(event: Any) -> Iterator[str]:
    if isinstance(event, Mapping) and isinstance(event.get("event"), str):
        yield event["event"]
        inside = event.get("of", ())
        yield from _kinds(
            list(inside.values()) if event["event"] == "parallel" and isinstance(inside, Mapping) else inside
        )
    elif isinstance(event, list):
        for part in event:
            yield from _kinds(part)
