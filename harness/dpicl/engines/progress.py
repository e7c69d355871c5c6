"""Shows the progress of a run on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.std import tqdm

from dpicl.core.cell import Cell
from dpicl.core.messages import count, duration, message
from dpicl.core.printable import make_printable
from dpicl.engines.worker import CellProgress, Done, Report

#: Seconds after which plain output says again how far things are.
SILENT_SECONDS = 10.0


@contextmanager
def show_progress(total: int) -> Iterator[Report]:
    """The function that an engine reports to: a line for each finished cell, and how far the running ones are, which is
    a bar on a terminal and now and then a line elsewhere."""
    # its own would leave a semaphore behind when the process is killed
    tqdm.set_lock(threading.RLock())
    finished, start = 0, time.monotonic()
    running: dict[str, tuple[Cell, Counter]] = {}
    with tqdm(
        total=total, unit=" cells", leave=False, disable=not sys.stderr.isatty(), file=sys.stderr
    ) as bar:

        def say(text: str) -> None:
            message(text) if bar.disable else bar.write(text, file=sys.stderr)

        def report(event: CellProgress | Done) -> None:
            nonlocal finished
            if isinstance(event, CellProgress):
                _, counter = running.setdefault(event.cell.id, (event.cell, Counter()))
                counter.report(event.done, event.total, event.unit)
                return
            running.pop(event.cell.id, None)
            finished += event.status != "busy"
            bar.update(event.status != "busy")
            left = (time.monotonic() - start) / max(1, finished) * (total - finished)
            say(
                f"[{finished}/{total}] {describe_outcome(event)}{f'; about {duration(left)} left' if left else ''}"
            )

        def say_how_far() -> None:
            lines = [
                make_printable(f"{cell}: {counter}") for cell, counter in list(running.values())
            ]
            if not bar.disable:
                bar.set_postfix_str("; ".join(lines))
            for line in lines if bar.disable else ():
                say(f"    {line}")
            if bar.disable and not lines:
                say(f"    running for {duration(time.monotonic() - start)}; a worker starts")

        say(f"{count(total, 'cell')} to do.")
        with repeat(say_how_far):
            yield report


class Counter:
    """How far something is. `report` takes (done, total, unit), or (0, 1, what begins). expected: about how many
    seconds it takes, where nothing is counted; None: unknown."""

    def __init__(self, expected: float | None = None) -> None:
        self._start = time.monotonic()
        self._expected = expected
        self._counted = (0, 1, "")

    def report(self, done: int, total: int, unit: str) -> None:
        if done == 0:
            self._start = time.monotonic()
        self._counted = (done, total, unit)

    @property
    def seconds(self) -> float:
        """Since what is counted began."""
        return time.monotonic() - self._start

    def __str__(self) -> str:
        """'3 of 10 answers in 45 s, about 2 min left'."""
        done, total, unit = self._counted
        seconds = self.seconds
        if done == 0:
            return f"{unit} for {duration(seconds)}{self._describe_rest(seconds)}".lstrip()
        left = f", about {duration(seconds / done * (total - done))} left" if done < total else ""
        return f"{done} of {total} {unit} in {duration(seconds)}{left}"

    def _describe_rest(self, seconds: float) -> str:
        """What is said after so many seconds of something that is not counted."""
        if self._expected is None:
            return ""
        if seconds >= self._expected:
            return f", longer than the {duration(self._expected)} that were expected"
        return f", about {duration(self._expected - seconds)} left"


class Stages:
    """Says each stage of a long command, and every ten seconds how far it is. tell: takes a line."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._stage, self._counter = tell, "reading the records", Counter()

    def begin(self, stage: str, text: str = "", expected: float | None = None) -> None:
        """text: what is said when it begins; its name where there is none. expected: see `Counter`."""
        self._stage, self._counter = stage, Counter(expected)
        self._tell(text or stage)

    @property
    def seconds(self) -> float:
        """Since the stage began."""
        return self._counter.seconds

    def report(self, done: int, total: int, unit: str) -> None:
        self._counter.report(done, total, unit)

    def say_how_far(self) -> None:
        self._tell(f"{self._stage}: {self._counter}")


@contextmanager
def repeat(say: Callable[[], None]) -> Iterator[None]:
    """Calls a function every ten seconds, from a thread: a model loads, or an answer is long."""
    over = threading.Event()

    def run() -> None:
        while not over.wait(SILENT_SECONDS):
            say()

    threading.Thread(target=run, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def describe_outcome(done: Done) -> str:
    match done.status:
        case "done":
            status = f"{done.score:.3f} in {duration(done.seconds)}"
        case "failed" | "skipped":
            status = f"{done.status}: {done.message}"
        case "busy":
            status = "another run is at it"
        case _:
            status = "already there"
    return make_printable(f"{done.cell}: {status}")


def count_progress() -> Callable[[int, int, str], None]:
    """A function of (done, total, unit) that rewrites a line on a terminal, and says one now and then elsewhere."""
    terminal, last = sys.stderr.isatty(), [time.monotonic()]

    def report(done: int, total: int, unit: str) -> None:
        now = time.monotonic()
        if terminal:
            sys.stderr.write(
                f"\r\033[K{done}/{total} {unit}{'' if done < total else chr(13) + chr(27) + '[K'}"
            )
        elif now - last[0] >= SILENT_SECONDS:
            last[0] = now
            sys.stderr.write(f"dpicl: {done}/{total} {unit}\n")
        sys.stderr.flush()

    return report
