"""Records: tasks, sources and files. The package is the verb `dpicl data` too: a program calls `dpicl.data(frame)`."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """See `dpicl.cli.data.data`."""
        return importlib.import_module("dpicl.cli.data").data(*args, **kwargs)


sys.modules[__name__].__class__ = _Verb
