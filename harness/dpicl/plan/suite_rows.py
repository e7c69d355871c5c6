"""The rows of a suite, and what tuning chose for them."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    field_validator,
    model_validator,
)

from dpicl.core.cell import Options
from dpicl.core.field_types import Finite, Quantity, Seed, TargetEpsilon

#: Mechanisms that also run with `baseline_seeds`: the two whose difference is the headroom, then others that read no
#: private record. The order counts: dpicl.plan.headroom unpacks it.
HEADROOM_MECHANISMS = (
    "public_demonstrations",
    "real_demonstrations",
    "zero_shot",
    "public_records",
    "repeated_label",
)
#: Settings of every row that is tuned, no more and no fewer: rows that were tuned longer would not compare.
SETTINGS = 6


def _grid(value: Any) -> Any:
    lists = isinstance(value, dict) and all(
        isinstance(each, list) and each for each in value.values()
    )
    if not lists and not isinstance(value, str):
        raise ValueError(
            "must list values of options, as in {alpha: [1, 2], top_k: [5, 10, 20]}, or name another row"
        )
    return value


def _tasks(value: Any) -> Any:
    lists = list(value.values()) if isinstance(value, dict) else [value]
    if not all(
        isinstance(tasks, list) and all(isinstance(task, str) for task in tasks) for tasks in lists
    ):
        raise ValueError("must be a list of tasks, or one for each model, as in {embedded: [trec]}")
    if value == {} or (isinstance(value, dict) and not all(lists)):
        raise ValueError("names no task of a model; leave it out for all tasks")
    return value


Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+=-]*$", max_length=200)]
TasksOfRow = Annotated[list[str] | dict[str, list[str]], PlainValidator(_tasks)]
Grid = Annotated[dict[str, list[Any]] | str, PlainValidator(_grid)]


class MechanismEntry(BaseModel):
    """One mechanism of a suite: a row of the board.

    tasks (of each model, where a mapping says so), epsilons: which of the suite's it has; [] means all. seeds: how many
    of the suite's; None means all. tune: option -> the values of its paper's grid; or the row of the same mechanism
    whose choice it shares.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Word
    label: Word = ""
    options: Options = {}
    per_task: dict[str, Options] = {}
    tasks: TasksOfRow = []
    epsilons: list[TargetEpsilon] = []
    seeds: Quantity | None = None
    tune: Grid = {}

    @property
    def row(self) -> str:
        return self.label or self.name

    def has_task(self, task: str, model: str) -> bool:
        """Whether the row has a task on a model of the suite; that of a task with a model of its own is ''."""
        if isinstance(self.tasks, list):
            return not self.tasks or task in self.tasks
        return any(task in tasks for name, tasks in self.tasks.items() if model in ("", name))

    @property
    def shared_row(self) -> str:
        """The row whose choice this one shares; '' where it has a grid of its own, or none."""
        return self.tune if isinstance(self.tune, str) else ""

    @property
    def settings(self) -> list[Options]:
        """Every combination of the values of ``tune``, in their order; none where nothing is tuned."""
        if not self.tune or isinstance(self.tune, str):
            return []
        return [
            dict(zip(self.tune, values, strict=True))
            for values in itertools.product(*self.tune.values())
        ]

    @model_validator(mode="after")
    def _fair_grid(self) -> MechanismEntry:
        if isinstance(self.tune, str):
            return self
        listed = math.prod(map(len, self.tune.values()))
        if self.tune and listed != SETTINGS:
            raise ValueError(f"lists {listed:,} settings, and every tuned row has {SETTINGS}")
        if any(one in self.settings[:number] for number, one in enumerate(self.settings)):
            raise ValueError("lists one setting twice")
        for name in self.tune:
            if name in self.options or any(name in options for options in self.per_task.values()):
                raise ValueError(
                    f"tunes {name}, which its options or per_task set already; leave it out there"
                )
        return self


class Contrast(BaseModel):
    """A claim that a suite plans to test: on each of these tasks the row ``better`` is better than the row ``than``.

    epsilon: of rows that have one; None: the suite's first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, Field(min_length=1, max_length=200)]
    better: Word
    than: Word
    tasks: Annotated[list[Word], Field(min_length=1)]
    epsilon: TargetEpsilon | None = None


class ScoredSetting(BaseModel):
    """What tuning saw of one setting. score: the mean over seeds of the task's main metric."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    options: Options
    score: Finite


class TunedRow(BaseModel):
    """The settings of a row with the best one first, the command that ran them and the commit of its code."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    command: str
    commit: str | None
    settings: Annotated[list[ScoredSetting], Field(min_length=SETTINGS, max_length=SETTINGS)]

    @field_validator("settings")
    @classmethod
    def _best_first(cls, settings: list[ScoredSetting]) -> list[ScoredSetting]:
        scores = [setting.score for setting in settings]
        if scores != sorted(scores, reverse=True):
            raise ValueError("must list the settings with the best score first")
        return settings


class TunedTask(BaseModel):
    """The rows that were tuned on one task, all alike.

    records: fingerprint of the generated corpus.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    epsilon: TargetEpsilon
    seeds: Annotated[list[Seed], Field(min_length=1)]
    shots: int
    test_records: int | None
    records: str
    rows: dict[str, TunedRow]

    def join(self, other: TunedTask) -> TunedTask:
        """These rows with those of ``other`` in place of their own. Raises ValueError where they were not tuned
        alike."""
        for name in (field for field in TunedTask.model_fields if field != "rows"):
            if (mine := getattr(self, name)) != (theirs := getattr(other, name)):
                raise ValueError(
                    f"the rows that are there were tuned with {name} {mine}, these with {theirs}"
                )
        return self.model_copy(update={"rows": {**self.rows, **other.rows}})


class Tuned(BaseModel):
    """Which settings `dpicl tune` chose, by the task on which it tried them: SUITE.tuned.yaml beside a suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: dict[str, TunedTask]

    def join(self, other: Tuned) -> Tuned:
        """This choice with the rows of another one in place of its own. Raises ValueError as `TunedTask.join`."""
        mine = self.tasks
        return Tuned(
            tasks={
                **mine,
                **{
                    t: mine[t].join(tuned) if t in mine else tuned
                    for t, tuned in other.tasks.items()
                },
            }
        )

    def rows_of(self, task: str) -> dict[str, TunedRow]:
        """Row -> what was chosen for it on a task: there, else on another task."""
        rows: dict[str, TunedRow] = {}
        for _, tuned in sorted(self.tasks.items(), key=lambda item: item[0] == task):
            rows |= tuned.rows
        return rows
