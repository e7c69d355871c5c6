"""What a W&B server has of what was published, through wandb's public interface.

A run counts as published when it has finished and its summary has the number of lines, which is sent last. A run that
was cut off does not. Every question has a deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from dpicl.leaderboards.publish.base import SUPERSEDED, SinkError
from dpicl.leaderboards.publish.wandb_settings import Destination, load_wandb

#: Keys of a run's config: what it stands for, and the hash of what was sent. Of its summary: how many lines it has.
ROW_KEY, CONTENT_KEY, LINES_KEY = "published_row", "published_content", "published_lines"
_PAGE = 200
_PAUSE_SECONDS = 1.0
T = TypeVar("T")


@dataclass(frozen=True)
class Found:
    """A run on the server. handle: wandb's own object for it."""

    id: str
    row: str
    content: str
    complete: bool
    tags: tuple[str, ...]
    handle: Any


class Server:
    """Asks one project of one server. Raises SinkError when it does not answer, or not in time."""

    def __init__(self, to: Destination) -> None:
        self._to = to
        self._project = ""

    def runs(self) -> dict[str, Found]:
        """Every published run of the project by id; none where there is no such project."""
        return within(self._to.ask_seconds, "W&B did not say what it has", self._runs)

    def wait_for(self, ids: Iterable[str]) -> dict[str, Found]:
        """What the server has, once it has all of these; a server may take a moment to show what it took."""
        wanted, end = set(ids), time.monotonic() + self._to.ask_seconds
        while True:
            there = self.runs()
            lacking = {one for one in wanted if one not in there or not there[one].complete}
            if not lacking:
                return there
            if time.monotonic() > end:
                raise SinkError(f"W&B took the data but shows {len(lacking)} of {len(wanted)} runs incomplete.")
            time.sleep(_PAUSE_SECONDS)

    def mark_superseded(self, there: dict[str, Found], current: dict[str, str]) -> int:
        """Tags the runs that stand for the same rows with other content, and only those. Number of changed runs.

        current: row -> id of the run that holds its content now.
        """
        wrong = [
            found
            for found in there.values()
            if found.row in current and (SUPERSEDED in found.tags) != (current[found.row] != found.id)
        ]

        def correct() -> None:
            for found in wrong:
                kept = [tag for tag in found.tags if tag != SUPERSEDED]
                found.handle.tags = kept if current[found.row] == found.id else [*kept, SUPERSEDED]
                found.handle.update()

        within(self._to.ask_seconds, "W&B did not take a tag", correct)
        return len(wrong)

    def _runs(self) -> dict[str, Found]:
        api = load_wandb().Api(timeout=max(1, int(self._to.ask_seconds / 2)))
        if not self._project:
            self._project = f"{self._to.entity or api.default_entity}/{self._to.project}"
        found = {}
        try:
            for run in api.runs(self._project, per_page=_PAGE, lazy=False):
                if row := run.config.get(ROW_KEY):
                    lines = run.summary_metrics.get(LINES_KEY)
                    complete = run.state == "finished" and lines is not None
                    content = str(run.config.get(CONTENT_KEY))
                    found[run.id] = Found(run.id, str(row), content, complete, tuple(run.tags or ()), run)
        except ValueError as error:
            if "Could not find project" not in str(error):
                raise
        return found


def within(seconds: float, failure: str, call: Callable[[], T]) -> T:
    """The call's answer. Raises SinkError, with ``failure`` and the reason, when it fails or takes longer."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(call())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if answers:
        return answers[0]
    if errors:
        raise SinkError(f"{failure}: {reason(errors[0])}.") from errors[0]
    raise SinkError(f"{failure} in {seconds:g} seconds.")


def reason(error: BaseException) -> str:
    """An error of wandb in one short line."""
    text = " ".join(str(error).split()).rstrip(".")
    return (text[:200] if text else type(error).__name__).rstrip(".")
