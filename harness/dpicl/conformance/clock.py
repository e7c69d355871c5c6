"""Sets another time of day for code that reads the clock."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any, Self
from unittest import mock

#: Seconds since 1970, one in each year from 2020 on: every hour, month, day of the week and of most months.
MOMENTS = tuple(
    datetime.datetime(
        year=2020 + number,
        month=5 * number % 12 + 1,
        day=3 * number % 28 + 1,
        hour=7 * number % 24,
        minute=13 * number % 60,
        tzinfo=datetime.UTC,
    ).timestamp()
    for number in range(28)
)


@contextmanager
def clock_at(moment: float, modules: Iterable[ModuleType]) -> Iterator[list[str]]:
    """Inside this block it is ``moment`` (seconds since 1970) for these modules, and for all that ask `time`. Gives a
    list to which every question for the time adds a name."""
    readings: list[str] = []

    def noting(name: str, tell: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*arguments: Any) -> Any:
            readings.append(name)
            return tell(*arguments)

        return ask

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            readings.append("now")
            return cls.fromtimestamp(moment, tz)

        @classmethod
        def utcnow(cls) -> Self:
            readings.append("utcnow")
            return cls.fromtimestamp(moment, datetime.UTC).replace(tzinfo=None)

        today = now

    class Date(datetime.date):
        @classmethod
        def today(cls) -> Self:
            readings.append("today")
            return cls.fromtimestamp(moment)

    here = time.localtime(moment)
    tells: dict[Callable[..., Any], Callable[..., Any]] = {
        time.time: lambda: moment,
        time.time_ns: lambda: int(moment * 1e9),
        time.strftime: lambda form, at=here, tell=time.strftime: tell(form, at),
        time.asctime: lambda at=here, tell=time.asctime: tell(at),
    }
    for tell in (time.localtime, time.gmtime, time.ctime):
        tells[tell] = lambda seconds=moment, tell=tell: tell(seconds)
    fakes: dict[int, object] = {id(datetime.datetime): Datetime, id(datetime.date): Date}
    for real, fake in tells.items():
        fakes[id(real)] = noting(real.__name__, fake)
    with ExitStack() as stack:
        for module in (time, datetime, *modules):
            for name, value in list(vars(module).items()):
                if id(value) in fakes:
                    stack.enter_context(mock.patch.object(module, name, fakes[id(value)]))
        yield readings
