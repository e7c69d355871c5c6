"""Shows the progress of a run on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm.std import tqdm

from dpicl.core.messages import count, duration, message
from dpicl.core.printable import make_printable
from dpicl.engines.worker import CellProgress, Done, Report

#: Plain output says at most this often how far the running cells are, and after such a silence that they run.
_QUIET_SECONDS, _SILENT_SECONDS = 30.0, 60.0


@contextmanager
def show_progress(total: int) -> Iterator[Report]:
    """The function that an engine reports to: a line for each finished cell, and how far the running ones are, which is
    a bar on a terminal and now and then a line elsewhere."""
    tqdm.set_lock(threading.RLock())  # its own would leave a semaphore behind when the process is killed
    finished, start, last = 0, time.monotonic(), time.monotonic()
    with tqdm(total=total, unit=" cells", leave=False, disable=not sys.stderr.isatty(), file=sys.stderr) as bar:

        def say(text: str) -> None:
            nonlocal last
            last = time.monotonic()
            message(text) if bar.disable else bar.write(text, file=sys.stderr)

        def report(event: CellProgress | Done) -> None:
            nonlocal finished
            if isinstance(event, Done):
                finished += event.status != "busy"
                bar.update(event.status != "busy")
                left = (time.monotonic() - start) / max(1, finished) * (total - finished)
                say(f"[{finished}/{total}] {describe_outcome(event)}{f'; about {duration(left)} left' if left else ''}")
                return
            running = make_printable(f"{event.cell}: {event.done} of {event.total} {event.unit}")
            bar.set_postfix_str(running)
            if bar.disable and time.monotonic() - last > _QUIET_SECONDS:
                say(f"    {running}")

        def break_silence() -> None:
            while not over.wait(_SILENT_SECONDS):
                if time.monotonic() - last > _SILENT_SECONDS:
                    say(f"    running for {duration(time.monotonic() - start)}; a model loads, or an answer is long")

        say(f"{count(total, 'cell')} to do.")
        over = threading.Event()
        if bar.disable:
            threading.Thread(target=break_silence, daemon=True).start()
        try:
            yield report
        finally:
            over.set()


def describe_outcome(done: Done) -> str:
    match done.status:
        case "done":
            said = f"{done.score:.3f} in {duration(done.seconds)}"
        case "failed" | "skipped":
            said = f"{done.status}: {done.message}"
        case "busy":
            said = "another run is at it"
        case _:
            said = "already there"
    return make_printable(f"{done.cell}: {said}")


def count_progress() -> Callable[[int, int, str], None]:
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
