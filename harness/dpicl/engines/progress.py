"""Showing how far a run has come: a bar on a terminal, plain lines elsewhere, both on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from dpicl.core.messages import count, duration, message
from dpicl.core.printable import printable
from dpicl.engines.worker import CellProgress, Done, Report

#: Plain output says at most this often how far the running cells are.
_QUIET_SECONDS = 30.0


class TimeLeft:
    """How long the rest will take, from the estimates of a plan, corrected by what the finished cells really took.

    estimates: cell id -> seconds in one process (None: nothing is known).
    """

    def __init__(self, estimates: Mapping[str, float | None], workers: int) -> None:
        self._waiting = dict(estimates)
        self._workers = workers
        self._expected = self._spent = 0.0
        self._seconds: list[float] = []

    def finish(self, done: Done) -> None:
        expected = self._waiting.pop(done.cell.id, None)
        if done.status != "done":
            return
        self._seconds.append(done.seconds)
        if expected is not None:
            self._expected += expected
            self._spent += done.seconds

    def seconds(self) -> float | None:
        """Wall-clock seconds; None while nothing is known."""
        pace = self._spent / self._expected if self._expected else 1.0
        mean = sum(self._seconds) / len(self._seconds) if self._seconds else None
        total = 0.0
        for estimate in self._waiting.values():
            known = mean if estimate is None else estimate * pace
            if known is None:
                return None
            total += known
        return total / min(self._workers, max(1, len(self._waiting)))

    def text(self) -> str:
        left = self.seconds()
        return "time left: known after the first cell" if left is None else f"about {duration(left)} left"


@contextmanager
def shown(total: int, left: TimeLeft) -> Iterator[Report]:
    """The function that an engine reports to, while a bar or lines are shown."""
    console = Console() if Console().is_jupyter else Console(file=sys.stderr)
    if console.is_jupyter or sys.stderr.isatty():
        with _bar(total, left, console) as report:
            yield report
    else:
        yield _Lines(total, left)


def outcome(done: Done) -> str:
    match done.status:
        case "done":
            said = f"{done.score:.3f} in {duration(done.seconds)}"
        case "failed" | "skipped":
            said = f"{done.status}: {done.message}"
        case "busy":
            said = "another run is at it"
        case _:
            said = "already there"
    return printable(f"{done.cell}: {said}")


class _Lines:
    """One line a finished cell, and now and then one about the running cell."""

    def __init__(self, total: int, left: TimeLeft) -> None:
        self._total, self._left = total, left
        self._finished = 0
        self._last = time.monotonic()
        message(f"{count(total, 'cell')} to do, {left.text()}.")

    def __call__(self, event: CellProgress | Done) -> None:
        if isinstance(event, Done):
            self._left.finish(event)
            self._finished += event.status != "busy"
            tail = f"; {self._left.text()}" if self._finished < self._total else ""
            message(f"[{self._finished}/{self._total}] {outcome(event)}{tail}")
        elif time.monotonic() - self._last > _QUIET_SECONDS:
            message(f"    {event.cell}: {event.done} of {event.total} {event.unit}")
        else:
            return
        self._last = time.monotonic()


@contextmanager
def _bar(total: int, left: TimeLeft, console: Console) -> Iterator[Report]:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        whole = progress.add_task("cells", total=total, note=left.text())
        rows: dict[str, TaskID] = {}

        def report(event: CellProgress | Done) -> None:
            if isinstance(event, CellProgress):
                row = rows.get(event.cell.id)
                if row is None:
                    row = rows[event.cell.id] = progress.add_task(
                        printable(f"  {event.cell}"), total=event.total, note=""
                    )
                progress.update(row, completed=event.done, total=event.total, note=event.unit)
                return
            if event.cell.id in rows:
                progress.remove_task(rows.pop(event.cell.id))
            left.finish(event)
            progress.update(whole, advance=event.status != "busy", note=left.text())
            console.print(outcome(event), markup=False, highlight=False)

        yield report


def counting() -> Callable[[int, int, str], None]:
    """A function of (done, total, unit) that rewrites a line on a terminal, and says one now and then elsewhere."""
    terminal, last = sys.stderr.isatty(), [time.monotonic()]

    def report(done: int, total: int, unit: str) -> None:
        now = time.monotonic()
        if terminal:
            sys.stderr.write(f"\r\033[K{done}/{total} {unit}{'' if done < total else chr(13) + chr(27) + '[K'}")
        elif now - last[0] >= _QUIET_SECONDS:
            last[0] = now
            sys.stderr.write(f"dpicl: {done}/{total} {unit}\n")
        sys.stderr.flush()

    return report
