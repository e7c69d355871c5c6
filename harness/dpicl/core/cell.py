"""Cells (task × mechanism × model × epsilon × seed), the unit of work, and the settings of a release.

A cell's id is a hash over everything that determines its result. So a suite that is run again finds what it has done,
and anything that changes (an option, a prompt version, the number of test records) is another cell.
"""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from dpicl.core.errors import UsageError
from dpicl.core.field_types import Count, Delta, Epsilon, Positive
from dpicl.core.json_text import sha256_of
from dpicl.core.seeds import accounted_delta

Noise = Literal["seeded", "secure"]
Options = dict[str, Any]

#: Fields of a cell that name it, or say what its release is scored on.
_OF_SCORES = {"suite", "suite_version", "label", "test_records", "fresh_test_records", "metric"}


class ReleaseConfig(BaseModel):
    """What a release is made for.

    shots: demonstrations. label_shots: how many of each label, in all as many as shots; () where public randomness
    spreads them. queries: Q of an answer mechanism, None for all.
    allow_large_delta: whether secure noise may come with a delta that `large_delta` warns of.
    Raises UsageError for secure noise at too small a delta.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, from_attributes=True)

    epsilon: Epsilon
    delta: Delta
    seed: Count = 0
    shots: Count = 4
    label_shots: tuple[tuple[str, Count], ...] = ()
    noise: Noise = "seeded"
    queries: Positive | None = None
    allow_large_delta: bool = False

    @model_validator(mode="after")
    def _large_enough_delta(self) -> ReleaseConfig:
        self.accounted_delta  # noqa: B018  refuses a delta that is too small
        return self

    @property
    def secure(self) -> bool:
        """Whether the records are treated as private: noise from the operating system, and no seed."""
        return self.noise == "secure"

    @property
    def accounted_delta(self) -> float:
        """The delta at which noise is calibrated and epsilon proved."""
        return accounted_delta(self.delta, self.noise)

    def require_small_delta(self, records: int) -> None:
        """Raises UsageError for a delta that promises nothing to one of so many records, unless that is allowed."""
        if not self.allow_large_delta and (warning := large_delta(self.delta, records)):
            raise UsageError(
                f"{warning}; lower delta (`dpicl release` and `answer` have --allow-large-delta)."
            )


class Cell(BaseModel):
    """One cell, complete: nothing else is needed to run it again.

    label: the row on the board. It names the cell but does not determine its result, so it is not part of the id.
    source: where the records really come from ('auto' is resolved). test_records, train_records (a class; extraction:
    in all): None means all. plugin: sha256 of the file of a mechanism that came with `--plugin`. queries: Q, how many
    queries the epsilon of an answer mechanism covers; None means as many as there are test records. private_share: the
    part of the private records that the seed draws (dpicl.data.splits.draw_records); None: all. development: whether
    it is a reference baseline that measures headroom, on the last test records and not on the first.
    fresh_test_records: whether the seed draws its test records too (dpicl.data.splits.draw_test_records). metric: the
    main one, where it is not that of the task's file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")

    suite: str
    suite_version: int | str
    task: str
    task_version: int | str
    source: str
    mechanism: str
    label: str
    options: Options
    model: str
    epsilon: Epsilon
    delta: Delta
    seed: Count
    shots: Count
    test_records: Positive | None
    train_records: Positive | None
    noise: Literal["seeded"]
    mode: Literal["proved"]
    plugin: str | None = None
    queries: Positive | None = None
    private_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    development: bool = False
    fresh_test_records: bool = False
    metric: str | None = None

    #: See `address`. It travels with the cell to a worker, and is never read from a file or written into one.
    _address: str | None = PrivateAttr(None)

    @property
    def address(self) -> str:
        """The name by which the model is loaded: with the settings that only decide how fast it answers."""
        return self._address or self.model

    def at_address(self, name: str) -> Self:
        """The cell, whose model is loaded by this name."""
        if name == self.address:
            return self
        copied = self.model_copy()
        copied._address = None if name == self.model else name
        return copied

    @property
    def release(self) -> ReleaseConfig:
        """What its release is made for."""
        return ReleaseConfig.model_validate(self)

    @cached_property
    def id(self) -> str:
        """16 hexadecimal digits of the sha256 over every field but the label (and `queries` and younger fields that are
        not set)."""
        content = self.model_dump(
            mode="json", exclude={"label"} if self.queries else {"label", "queries"}
        )
        return sha256_of(content)[:16]

    @cached_property
    def release_id(self) -> str:
        """16 hexadecimal digits of the sha256 over every field that decides what a mechanism releases that answers no
        query: not the suite, the label or the test records. Two cells with one of them can share a release."""
        content = self.model_dump(mode="json", exclude=_OF_SCORES)
        return sha256_of(content)[:16]

    def __copy__(self) -> Self:
        """Without the id: `model_copy` gives a copy other fields."""
        copied = super().__copy__()
        for name in ("id", "release_id"):
            copied.__dict__.pop(name, None)
        return copied

    @model_serializer(mode="wrap")
    def _drop_unset(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Later fields are written where they are set, so that what was written before there were any stays as it
        is."""
        data: dict[str, Any] = write(self)
        for name in ("private_share", "development", "fresh_test_records", "metric"):
            if data.get(name) in (None, False):
                data.pop(name, None)
        return data

    def __str__(self) -> str:
        return (
            f"{self.label} on {self.task}, epsilon={self.epsilon:g}, seed {self.seed}, {self.model}"
        )


def large_delta(delta: float, records: int) -> str:
    """Why delta is too large for so many records, as a sentence without its end; '' where it is not."""
    if delta * records <= 1 + 1e-9:
        return ""
    return (
        f"delta = {delta:g} is above 1/{records:,}, one over the number of records: publishing one of them at random"
        " would be as private"
    )
