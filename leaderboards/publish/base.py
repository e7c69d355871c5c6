"""What is published, and what a place that takes it must do.

A `Published` is one row of a board on one task, as a tracker's run: numbers and settings, one line for each epsilon and
seed. A `PublishedBoard` is one section of a board, with its table and the result files behind it. Both have an id that
holds a hash of their content, so something that was published is never changed: other content is another run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal, Protocol, cast

from dpicl.harness.core.errors import DpiclError

#: What became of one thing that was to be published.
Outcome = Literal["sent", "unchanged"]
#: Tag of a run whose row has been published again with other content.
SUPERSEDED = "superseded"
#: Raised when the same results would be written in another form.
FORMAT = 1


class SinkError(DpiclError):
    """A tracker that did not take what was sent. The results are where they were."""


class Hashed:
    """A frozen dataclass with an id of its content, which is taken once: a board holds all of its result files.

    row: what it stands for, whatever its numbers.
    """

    row: str

    @cached_property
    def content(self) -> str:
        """sha256 over everything that is sent, 64 hexadecimal digits."""
        return content_hash({field.name: getattr(self, field.name) for field in fields(cast("Any", self))})

    @property
    def id(self) -> str:
        """The id of the run: what it stands for, and the first 8 digits of the content."""
        return f"{self.row}-{self.content[:8]}"


@dataclass(frozen=True)
class Published(Hashed):
    """One row on one task, as a run.

    row: what it stands for, whatever its numbers: 16 hexadecimal digits. config: settings, texts and numbers. rows: one
    for each epsilon and seed, numbers and short texts; a number that is infinite is left out. summary: numbers only.
    """

    row: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    rows: Sequence[Mapping[str, float | str]]
    summary: Mapping[str, float]


@dataclass(frozen=True)
class PublishedBoard(Hashed):
    """One section of a board, as a run of its own with a table and two artifacts.

    columns, rows: the table, None where there is no number. document: the board as JSON. files: path below the results
    folder -> content of the result file. alias: the suite's version, as the artifacts bear it.
    """

    row: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    alias: str
    config: Mapping[str, Any]
    columns: tuple[str, ...]
    rows: Sequence[Sequence[float | str | None]]
    document: Mapping[str, Any]
    files: Mapping[str, str]


class Sink(Protocol):
    """A place that takes what is published. Sending the same thing twice leaves it as it was."""

    def send(self, published: Published) -> Outcome:
        """Sends one row. Raises SinkError when it was not taken."""

    def send_board(self, board: PublishedBoard) -> Outcome:
        """Sends one board. Raises SinkError when it was not taken."""

    def close(self) -> list[str]:
        """Makes sure that everything arrived, and says in sentences what a reader can do next. Raises SinkError."""

    def abandon(self) -> None:
        """Lets go of what it holds, without making sure of anything; after an error, in the place of `close`."""


def content_hash(value: Mapping[str, Any]) -> str:
    """sha256 of a plain value, whatever the order of its keys: 64 hexadecimal digits."""
    text = json.dumps([FORMAT, value], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def identity(parts: Mapping[str, Any]) -> str:
    """What something stands for, as 16 hexadecimal digits."""
    return content_hash(parts)[:16]
