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
_DATES = [(2020 + at, 5 * at % 12 + 1, 3 * at % 28 + 1, 7 * at % 24, 13 * at % 60) for at in range(28)]
MOMENTS = tuple(datetime.datetime(*date, tzinfo=datetime.UTC).timestamp() for date in _DATES)


@contextmanager
def clock_at(moment: float, modules: Iterable[ModuleType]) -> Iterator[list[str]]:
    """Inside this block it is ``moment`` (seconds since 1970) for these modules, and for all that ask `time`. Gives a
    list to which every question for the time adds a name."""
    asked: list[str] = []

    def noting(name: str, tell: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*given: Any) -> Any:
            asked.append(name)
            return tell(*given)

        return ask

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            asked.append("now")
            return cls.fromtimestamp(moment, tz)

        @classmethod
        def utcnow(cls) -> Self:
            asked.append("utcnow")
            return cls.fromtimestamp(moment, datetime.UTC).replace(tzinfo=None)

        today = now

    class Date(datetime.date):
        @classmethod
        def today(cls) -> Self:
            asked.append("today")
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
    fakes: dict[int, object] = {id(real): noting(real.__name__, tell) for real, tell in tells.items()}
    fakes |= {id(datetime.datetime): Datetime, id(datetime.date): Date}
    with ExitStack() as stack:
        for module in (time, datetime, *modules):
            for name in [name for name, value in vars(module).items() if id(value) in fakes]:
                stack.enter_context(mock.patch.object(module, name, fakes[id(getattr(module, name))]))
        yield asked
