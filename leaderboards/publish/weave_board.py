"""A Weave leaderboard of some boards.

In Weave a leaderboard has columns and models. A column names an evaluation, a scorer and a number of its summary; here
an evaluation is a task at one target ε, a model is a row, and the scorers are the score, the recovery and the proved ε.
`weave_boards` is pure and needs no package; `exporter` sends what it made, by the package weave.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import ModuleType
from typing import Any

from dpicl.harness.core.errors import UsageError
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import epsilon_text, visible
from dpicl.leaderboards.publish.base import SinkError, content_hash, identity
from dpicl.leaderboards.publish.published import group_name
from dpicl.leaderboards.publish.wandb_server import reason
from dpicl.leaderboards.publish.wandb_settings import Destination

#: The number of a scorer's summary that a column shows.
PATH = "mean"
#: Scorers beside the metrics.
RECOVERY, PROVED = "recovery", "proved_epsilon"


@dataclass(frozen=True)
class WeaveColumn:
    """A column: the evaluation by its name, the scorer, and whether lower is better."""

    evaluation: str
    scorer: str
    path: str
    should_minimize: bool


@dataclass(frozen=True)
class WeaveEvaluation:
    """A row on one task at one target ε. evaluation: what rows share. summary: scorer -> {'mean': number}."""

    evaluation: str
    model: str
    attributes: dict[str, Any]
    summary: dict[str, dict[str, float]]


@dataclass(frozen=True)
class WeaveBoard:
    """One section as a leaderboard. key: a name of letters and digits that stays the same."""

    key: str
    name: str
    description: str
    columns: tuple[WeaveColumn, ...]
    evaluations: tuple[WeaveEvaluation, ...]

    @property
    def content(self) -> str:
        """sha256 over everything that is sent."""
        return content_hash(asdict(self))


def weave_boards(boards: Sequence[Board]) -> list[WeaveBoard]:
    """One leaderboard for each section. Zero-shot and real demonstrations stand in every evaluation of their task."""
    return [_board(section) for board in boards for section in board.sections]


def _board(section: Section) -> WeaveBoard:
    group = section.group
    columns: list[WeaveColumn] = []
    evaluations: list[WeaveEvaluation] = []
    for table in section.tables:
        for epsilon in sorted({row.epsilon for row in table.rows}):
            found = _evaluations(section, table, epsilon)
            evaluations += found
            scorers = dict.fromkeys(scorer for one in found for scorer in one.summary)
            lower = {name: name == PROVED or table.lower_is_better(name) for name in scorers}
            columns += [WeaveColumn(found[0].evaluation, name, PATH, lower[name]) for name in scorers]
    shared = identity({"group": [group.suite, group.version, group.suite_hash, group.model, group.weights]})
    return WeaveBoard(
        key=f"dpicl-{shared}",
        name=group_name(group),
        description="\n".join([f"Records: {group.source}. delta = {group.delta:g}.", *section.notes]),
        columns=tuple(columns),
        evaluations=tuple(evaluations),
    )


def _evaluations(section: Section, table: TaskTable, epsilon: float) -> list[WeaveEvaluation]:
    rows = [row for row in (table.zero_shot, *table.rows, table.real_data) if row is not None]
    name = f"{group_name(section.group)}: {table.task} at epsilon {epsilon_text(epsilon)}"
    settings = {"suite_hash": section.group.suite_hash, "source": section.group.source, "delta": section.group.delta}
    return [
        WeaveEvaluation(
            evaluation=visible(name, 200),
            model=visible(row.label, 100),
            attributes={
                **settings,
                "task": table.task,
                "documents": table.documents,
                "marks": [mark.name for mark in row.marks],
            },
            summary=_summary(row, table.metric),
        )
        for row in rows
        if row.is_end or row.epsilon == epsilon
    ]


def _summary(row: Row, main_metric: str) -> dict[str, dict[str, float]]:
    numbers: dict[str, float | None] = {main_metric: row.score, RECOVERY: row.recovery}
    numbers[PROVED] = None if row.is_end else row.proved
    numbers |= {name: value for name, value in row.numbers.items() if row.lower_is_better(name)}
    return {name: {PATH: value} for name, value in numbers.items() if value is not None and math.isfinite(value)}


def exporter(boards: Sequence[Board], to: Destination) -> Callable[[], str]:
    """A function that publishes the leaderboards and says so. Raises UsageError at once without the package."""
    weave = _weave()

    def export() -> str:
        try:
            client = weave.init(f"{to.entity}/{to.project}" if to.entity else to.project, settings=SETTINGS)
            new = [publish_board(weave, board) for board in weave_boards(boards)]
            client.finish()
        except Exception as error:  # weave raises errors of many kinds; the runs are there whatever it says
            raise SinkError(f"The runs were sent, the Weave leaderboard was not: {reason(error)}.") from error
        return f"Weave: {sum(new)} of {len(new)} leaderboards sent, the rest unchanged; project {to.project}."

    return export


#: No code, no machine, no links on the terminal.
SETTINGS = {
    "print_call_link": False,
    "capture_code": False,
    "capture_client_info": False,
    "capture_system_info": False,
    "implicitly_patch_integrations": False,
}


def publish_board(weave: ModuleType, board: WeaveBoard) -> bool:
    """Logs the evaluations and publishes the leaderboard over them; whether it was not there. Needs `weave.init`."""
    from weave.flow.leaderboard import Leaderboard, LeaderboardColumn

    mark = f"Content {board.content}."
    if mark in _description_there(weave, board.key):
        return False
    references: dict[str, str] = {}
    for one in board.evaluations:
        reference = _log(weave, one, [column.scorer for column in board.columns if column.evaluation == one.evaluation])
        if references.setdefault(one.evaluation, reference) != reference:
            raise SinkError(f"weave made two evaluations of '{one.evaluation}', which cannot share a column.")
    columns = [
        LeaderboardColumn(
            evaluation_object_ref=references[column.evaluation],
            scorer_name=column.scorer,
            summary_metric_path=column.path,
            should_minimize=column.should_minimize,
        )
        for column in board.columns
    ]
    description = f"{board.description}\n{mark}"
    weave.publish(Leaderboard(name=board.name, description=description, columns=columns), name=board.key)
    return True


def _log(weave: ModuleType, one: WeaveEvaluation, scorers: Sequence[str]) -> str:
    """Logs one row; the reference of its evaluation, which rows share only if they name the same scorers."""
    from weave.trace.weave_client import get_ref

    logger = weave.EvaluationLogger(
        name=one.evaluation,
        model={"name": re.sub(r"\W", "_", one.model), "row": one.model},
        dataset=[{"evaluation": one.evaluation}],
        eval_attributes={**one.attributes, "evaluation": one.evaluation},
        scorers=list(scorers),
    )
    logger.log_summary(one.summary, auto_summarize=False)
    reference = get_ref(logger._pseudo_evaluation)  # weave has no public name for it
    if reference is None:
        raise SinkError(f"weave gave the evaluation '{one.evaluation}' no reference.")
    return str(reference.uri)


def _description_there(weave: ModuleType, key: str) -> str:
    """The description of the leaderboard that is published under this name; "" where there is none."""
    try:
        return str(weave.ref(f"{key}:latest").get().description)
    except ValueError:  # what weave makes of an answer `not found`
        return ""


def _weave() -> ModuleType:
    os.environ.setdefault("WEAVE_PRINT_CALL_LINK", "false")
    try:
        import weave
    except ModuleNotFoundError:
        raise UsageError("Weave is not installed; run `pip install 'dpicl-bench[weave]'`.") from None
    found: ModuleType = weave
    return found
