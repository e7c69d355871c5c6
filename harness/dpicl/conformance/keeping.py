"""What a mechanism still holds after a run: its module's variables, its classes, its attributes, all they refer to."""

from __future__ import annotations

import functools
import gc
from collections import deque
from collections.abc import Mapping
from types import CellType, FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType

from dpicl.conformance.observed import ObservedRecord
from dpicl.core.plugins import is_harness

_CONTAINERS = (dict, list, tuple, set, frozenset, deque, MappingProxyType, CellType, MethodType, GeneratorType)
_CACHED = type(functools.lru_cache(lambda: None))
#: More objects than any mechanism needs.
_MOST = 200_000


def kept(modules: Mapping[str, ModuleType], mechanism: object, model: object, marker: str) -> str | None:
    """Where a private record, or a text with this marker, is still held ('the module's CACHE'), or None.

    modules: those of the mechanism, by name. model: not searched; it belongs to the bench.
    """
    roots = [
        (f"the module's {key}", value)
        for module in modules.values()
        for key, value in list(vars(module).items())
        if not key.startswith("__")
    ]
    attributes = list(getattr(mechanism, "__dict__", {}).items())
    roots += [(f"the mechanism's own attribute {key}", value) for key, value in attributes]
    seen = {id(model), id(mechanism)}
    for place, root in roots:
        waiting = [root]
        while waiting and len(seen) < _MOST:
            value = waiting.pop()
            if isinstance(value, ObservedRecord) or (isinstance(value, str) and marker in value):
                return place
            if isinstance(value, bytes | bytearray) and marker.encode() in value:
                return place
            if id(value) not in seen and _own(value, modules):
                seen.add(id(value))
                waiting.extend(gc.get_referents(value))
    return None


def _own(value: object, modules: Mapping[str, ModuleType]) -> bool:
    """Whether to search it: containers, what the mechanism's modules define, and what the harness gave to a run."""
    if isinstance(value, _CONTAINERS) or type(value) is _CACHED:
        return True
    if isinstance(value, type | FunctionType):
        return value.__module__ in modules
    origin = type(value).__module__
    known = origin in modules or is_harness(origin) or origin == "functools"
    return known and not isinstance(value, ModuleType)
