"""Sets another time of day for code that reads the clock."""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Self
from unittest import mock

#: Seconds since 1970: every fourth hour of the day, each on another day of the week and in another month.
MOMENTS = tuple(
    datetime.datetime(2031, 2 * at + 1, 10 + at, 4 * at + 1, tzinfo=datetime.UTC).timestamp() for at in range(6)
)


@contextmanager
def clock_at(moment: float, modules: Iterable[ModuleType]) -> Iterator[None]:
    """Inside this block it is ``moment`` (seconds since 1970) for these modules, and for all that ask `time`."""

    class Datetime(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Self:
            return cls.fromtimestamp(moment, tz)

        @classmethod
        def utcnow(cls) -> Self:
            return cls.fromtimestamp(moment, datetime.UTC).replace(tzinfo=None)

    class Date(datetime.date):
        @classmethod
        def today(cls) -> Self:
            return cls.fromtimestamp(moment)

    fakes: dict[object, object] = {datetime.datetime: Datetime, datetime.date: Date}
    fakes |= {time.time: lambda: moment, time.time_ns: lambda: int(moment * 1e9)}
    fakes |= {
        told: lambda seconds=moment, told=told: told(seconds) for told in (time.localtime, time.gmtime, time.ctime)
    }
    here = time.localtime(moment)
    fakes |= {time.strftime: lambda form, at=here, told=time.strftime: told(form, at)}
    fakes |= {time.asctime: lambda at=here, told=time.asctime: told(at)}
    known = {id(real): fake for real, fake in fakes.items()}
    with ExitStack() as stack:
        for module in (time, datetime, *modules):
            for name in [name for name, value in vars(module).items() if id(value) in known]:
                stack.enter_context(mock.patch.object(module, name, known[id(getattr(module, name))]))
        yield
