"""The kinds of events: those of `dp_accounting.dp_event`, and ours (dpicl.accounting.event_kinds).

They are imported when the first is used: `dp_accounting` imports its accountants and much of scipy, which takes a
second that lists and boards have no use for.
"""

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    if name.endswith("DpEvent"):  # Python itself asks every module for `__path__`
        kinds = vars(importlib.import_module("dpicl.accounting.event_kinds"))
        globals().update({kind: kinds[kind] for kind in kinds if kind.endswith("DpEvent")})
        if name in kinds:
            return kinds[name]
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
