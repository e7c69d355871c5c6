"""Publishes boards as a Weave leaderboard.

In Weave a leaderboard has columns and models. A column names an evaluation, a scorer and a number of its summary; here
an evaluation is a task at one target ε, a model is a row, and the scorers are the score, the recovery and the proved ε.
`weave_boards` needs no package; `exporter` sends what it made by the package weave.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from dpicl.core.extras import require_extras
from dpicl.core.messages import epsilon_text
from dpicl.core.printable import make_visible
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.publish.runs import content_hash, group_name
from dpicl.leaderboards.publish.sink import Destination, SinkError, reason

_PROVED = "proved_epsilon"
#: No code, no machine, no links on the terminal.
_COLLECTED = ("print_call_link", "capture_code", "capture_client_info", "capture_system_info")
SETTINGS = dict.fromkeys((*_COLLECTED, "implicitly_patch_integrations"), False)


@dataclass(frozen=True)
class WeaveBoard:
    """One section as a leaderboard. key: a name of letters and digits that stays the same.

    columns: (evaluation, scorer, whether lower is better). evaluations: one for each row, task and target ε, with
    `evaluation` and `attributes` (what rows share), `model` and `summary` (scorer -> {'mean': number}).
    """

    key: str
    name: str
    description: str
    columns: tuple[tuple[str, str, bool], ...]
    evaluations: tuple[dict[str, Any], ...]


def weave_boards(boards: Sequence[Board]) -> list[WeaveBoard]:
    """One leaderboard for each section. The reference baselines stand in every evaluation of their task."""
    return [_board(section) for board in boards for section in board.sections]


def _board(section: Section) -> WeaveBoard:
    group = section.group
    settings = {"suite_hash": group.suite_hash, "source": group.source, "delta": group.delta}
    evaluations: list[dict[str, Any]] = []
    columns: dict[tuple[str, str], bool] = {}  # (evaluation, scorer) -> whether lower is better
    for table in section.tables:
        for epsilon in sorted({row.epsilon for row in table.rows}):
            name = make_visible(
                f"{group_name(group)}: {table.task} at epsilon {epsilon_text(epsilon)}", 200
            )
            shared = {
                **settings,
                "task": table.task,
                "documents": table.documents,
                "evaluation": name,
            }
            for row in table.in_order:
                if not row.is_baseline and row.epsilon != epsilon:
                    continue
                summary = _summary(row, table.metric)
                evaluations.append(
                    {
                        "evaluation": name,
                        "attributes": shared,
                        "model": _model(row),
                        "summary": summary,
                    }
                )
                for scorer in summary:
                    columns[name, scorer] = scorer == _PROVED or table.lower_is_better(scorer)
    readers = [f"{table.task}: {table.describe_metrics()}." for table in section.tables]
    key = content_hash(
        {"group": [group.suite, group.version, group.suite_hash, group.model, group.weights]}
    )
    return WeaveBoard(
        key=f"dpicl-{key[:16]}",
        name=group_name(group),
        description="\n".join(
            [f"Records: {group.source}. delta = {group.delta:g}.", *readers, *section.notes]
        ),
        columns=tuple((name, scorer, lower) for (name, scorer), lower in columns.items()),
        evaluations=tuple(evaluations),
    )


def _model(row: Row) -> dict[str, Any]:
    label = make_visible(row.label, 100)
    return {
        "name": re.sub(r"\W", "_", label),
        "row": label,
        "marks": [mark.name for mark in row.marks],
    }


def _summary(row: Row, main_metric: str) -> dict[str, dict[str, float]]:
    """Scorer -> its number, without those that are infinite or that the row lacks."""
    numbers = {main_metric: row.score, "recovery": row.recovery}
    if not row.is_baseline:
        numbers[_PROVED] = row.proved
    numbers |= {name: value for name, value in row.numbers.items() if row.lower_is_better(name)}
    finite = {
        name: value for name, value in numbers.items() if value is not None and math.isfinite(value)
    }
    return {name: {"mean": value} for name, value in finite.items()}


def exporter(boards: Sequence[Board], to: Destination) -> Callable[[], str]:
    """A function that publishes the leaderboards and says so. Raises UsageError at once without the package."""
    os.environ.setdefault("WEAVE_PRINT_CALL_LINK", "false")
    with require_extras():
        import weave

    def export() -> str:
        try:
            client = weave.init(
                f"{to.entity}/{to.project}" if to.entity else to.project, settings=SETTINGS
            )
            new = [_publish(weave, board) for board in weave_boards(boards)]
            client.finish()
        except (
            Exception
        ) as error:  # weave raises errors of many kinds; the runs are there whatever it says
            raise SinkError(
                f"The runs were sent, the Weave leaderboard was not: {reason(error)}."
            ) from error
        return f"Weave: {sum(new)} of {len(new)} leaderboards sent, the rest unchanged; project {to.project}."

    return export


def _publish(weave: ModuleType, board: WeaveBoard) -> bool:
    """Logs the evaluations and publishes the leaderboard over them; whether it was not there. Needs `weave.init`."""
    from weave.flow.leaderboard import Leaderboard, LeaderboardColumn
    from weave.trace.weave_client import get_ref

    mark = f"Content {content_hash(asdict(board))}."
    with suppress(ValueError):  # what weave makes of an answer `not found`
        if mark in str(weave.ref(f"{board.key}:latest").get().description):
            return False
    references: dict[str, str] = {}
    for evaluation in board.evaluations:
        name = evaluation["evaluation"]
        logger = weave.EvaluationLogger(
            name=name,
            model=evaluation["model"],
            dataset=[{"evaluation": name}],
            eval_attributes=evaluation["attributes"],
            scorers=[scorer for of_evaluation, scorer, _ in board.columns if of_evaluation == name],
        )
        logger.log_summary(evaluation["summary"], auto_summarize=False)
        reference = str(
            getattr(get_ref(logger._pseudo_evaluation), "uri", "")
        )  # weave has no public name for it
        if not reference or references.setdefault(name, reference) != reference:
            raise SinkError(f"weave gave '{name}' no reference that its rows share.")
    columns = [
        LeaderboardColumn(
            evaluation_object_ref=references[name],
            scorer_name=scorer,
            summary_metric_path="mean",
            should_minimize=lower,
        )
        for name, scorer, lower in board.columns
    ]
    weave.publish(
        Leaderboard(name=board.name, description=f"{board.description}\n{mark}", columns=columns),
        name=board.key,
    )
    return True
