"""What a suite says: what is compared, on which tasks, models, epsilons and seeds (docs/suites.md has every key)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictBool,
    field_validator,
)

from dpicl.core.cell import Options
from dpicl.core.errors import UsageError
from dpicl.core.field_types import Number, Quantity, Seed, Shots, TargetDelta, TargetEpsilon
from dpicl.core.json_text import sha256_of
from dpicl.core.messages import capitalize
from dpicl.core.strict_yaml import Document, Place
from dpicl.plan.suite_rows import Contrast, MechanismEntry, Tuned, Word

Source = Literal["auto", "hub", "local", "synthetic"]


def _refuse_secure(value: Any) -> Any:
    if value == "secure":
        raise ValueError(
            "cannot be secure in a suite, whose results are published: release from records of your own with"
            " `dpicl release` (docs/own-records.md), and write `noise: seeded` here"
        )
    return value


#: A part of the records: above 0, below 1.
Portion = Annotated[Number, Field(gt=0, lt=1)]

#: Words that stand for a suite in `dpicl board`. The first is also a folder beside those of suites
#: (dpicl.attacks.store).
_RESERVED = ("attacks", "all")
_SHARED = ("name", "version", "delta", "shots", "noise", "test_records", "train_records")
#: In the hash only where they are set, so that suites older than these keys keep their hash.
_SHARED_IF_SET = ("private_share", "fresh_test_records")


def _expand_name(value: Any) -> Any:
    """`tang` is short for `{name: tang}`."""
    return {"name": value} if isinstance(value, str) else value


class Suite(BaseModel):
    """A parsed suite, which the command line may have changed. docs/suites.md says what its keys mean."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Word
    version: int | str
    description: str = ""
    source: Source = "auto"
    models: Annotated[list[str], Field(min_length=1)]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    baseline_seeds: list[Seed] = []
    epsilons: Annotated[list[TargetEpsilon], Field(min_length=1)]
    delta: TargetDelta = 1e-5
    shots: Shots = 4
    noise: Annotated[Literal["seeded"], BeforeValidator(_refuse_secure)] = "seeded"
    test_records: Quantity | None = None
    train_records: Quantity | None = None
    private_share: Portion | None = None
    fresh_test_records: StrictBool | None = None
    queries: Quantity | None = None
    task_shots: dict[str, Shots] = {}
    task_test_records: dict[str, Quantity] = {}
    task_seeds: dict[str, Quantity] = {}
    task_metrics: dict[str, str] = {}
    epsilon_seeds: dict[TargetEpsilon, Quantity] = {}
    margin: Portion = 0.03
    tasks: Annotated[list[Word], Field(min_length=1)]
    mechanisms: Annotated[
        list[Annotated[MechanismEntry, BeforeValidator(_expand_name)]], Field(min_length=1)
    ]
    contrasts: list[Contrast] = []

    #: What SUITE.tuned.yaml says.
    _tuned: Tuned | None = PrivateAttr(default=None)
    _document: Document | None = PrivateAttr(default=None)
    #: Keys that the command line has set; the file is not to be blamed for them.
    _from_flags: frozenset[str] = PrivateAttr(default=frozenset())
    #: The seeds and epsilons of the file, of which flags may have chosen some, or others.
    _listed_seeds: list[int] = PrivateAttr(default=[])
    _listed_epsilons: list[float] = PrivateAttr(default=[])
    #: Row -> the settings of its grid, of all rows of the file.
    _grids: Mapping[str, list[Options]] = PrivateAttr(default={})
    _development: bool = PrivateAttr(default=False)

    @field_validator("name")
    @classmethod
    def _name(cls, value: str) -> str:
        if value in _RESERVED:
            raise ValueError(
                f"'{value}' is a results folder of its own or a word of the command line; choose another"
            )
        return value

    @property
    def hash(self) -> str:
        """sha256 over what all cells share. The lists (tasks, mechanisms, seeds ...) are not in it: a suite that grows
        keeps its results comparable; a change of what is shared starts a new board."""
        content = {key: getattr(self, key) for key in _SHARED} | {"mode": "proved"}
        content |= {key: value for key in _SHARED_IF_SET if (value := getattr(self, key))}
        return sha256_of(content)

    @property
    def planned(self) -> list[Contrast]:
        """The contrasts, each with its epsilon."""
        first = self._listed_epsilons[0]
        return [one.model_copy(update={"epsilon": one.epsilon or first}) for one in self.contrasts]

    def records_of(self, task: str) -> int | None:
        """How many test records of a task count; None: all."""
        return self.task_test_records.get(task, self.test_records)

    def seeds_of(
        self,
        task: str,
        epsilon: float,
        entry: MechanismEntry | None = None,
    ) -> list[int]:
        """The seeds of a task at an epsilon, and of one row where an entry is given.

        `task_seeds`, `epsilon_seeds` and the entry may each say how many: then only the first so many of the file's
        list count. A seed that is not in that list was asked for on the command line, and always counts.
        """
        listed = self._listed_seeds or self.seeds
        counts = (
            self.task_seeds.get(task),
            self.epsilon_seeds.get(epsilon),
            entry.seeds if entry else None,
        )
        most = min([len(listed), *filter(None, counts)])
        left_out = set(listed[most:])
        return [seed for seed in self.seeds if seed not in left_out]

    def tuned_options(self, row: str, task: str) -> Options:
        """What tuning chose for a row on a task; {} where it is not tuned, or not yet with all settings of its grid."""
        entries = {entry.row: entry for entry in self.mechanisms}
        if row not in entries or self.tuned is None:
            return {}
        entry, tuned_rows = entries[row], self.tuned.rows_of(task)
        tuned = tuned_rows.get(row) or tuned_rows.get(entry.shared_row)
        scored = [one.options for one in tuned.settings] if tuned else []
        is_current = all(
            one in scored for one in self.settings_of(entry)
        )  # the grid may have changed since
        return scored[0] if scored and is_current else {}

    @property
    def tuned(self) -> Tuned | None:
        """What `dpicl tune` chose; None where it never ran."""
        return self._tuned

    def settings_of(self, entry: MechanismEntry) -> list[Options]:
        """The settings among which tuning chooses for an entry: of its own grid, or of the one that it shares."""
        return entry.settings or self._grids.get(entry.shared_row, [])

    @property
    def untuned(self) -> list[str]:
        """Rows with a grid from which nothing is chosen yet for one of their tasks."""
        return [
            entry.row
            for entry in self.mechanisms
            if entry.tune
            and not all(
                self.tuned_options(entry.row, task)
                for task in self.tasks
                if self.has_task(entry, task)
            )
        ]

    def has_task(self, entry: MechanismEntry, task: str) -> bool:
        """Whether a row has a task on any model."""
        return any(entry.has_task(task, model) for model in ("", *self.models))

    @property
    def is_development(self) -> bool:
        """Whether no cell of it is a row's: all have development records."""
        return self._development

    def use_development_records(self) -> Suite:
        """The suite with development records for all rows, and not only for the reference baselines."""
        new = self.model_copy()
        new._development = True
        return new

    def error(self, place: Place, message: str) -> UsageError:
        """A UsageError; it names file and line, unless a flag or a program set what is wrong."""
        if self._document is None or (place and place[0] in self._from_flags):
            return UsageError(capitalize(message))
        return self._document.error(place, message)
