"""What a mechanism keeps between runs: the variables of its modules and classes, its own attributes, what functions,
caches, contexts and threads hold for it. And what it has put in the place of other code.

A state is compared place by place, by content. `Checkpoint` sets everything back to what it was before the first run,
so that a cache which is filled once shows what it was filled with.
"""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping
from contextvars import ContextVar, copy_context
from types import CellType, FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpicl.conformance.observed import ObservedRecord
from dpicl.core.plugins import is_harness

_CACHED = type(functools.lru_cache(lambda: None))
_CONTAINERS = (dict, list, tuple, set, frozenset, deque, MappingProxyType, CellType, MethodType, GeneratorType)
#: What is set back.
_CHANGING = (np.ndarray, MutableMapping, list, deque, set, CellType)
#: Objects that are searched: more than any mechanism needs.
_MOST = 200_000
_PLAIN = (str, bytes, int, float, complex, type(None), type(Ellipsis), range, slice)
#: What Python itself writes into a class.
_PYTHONS = ("__dict__", "__weakref__", "__doc__", "_abc_impl", "__abstractmethods__", "__annotations__")
#: Modules whose functions and classes a mechanism must leave as they are.
_OTHERS = ("builtins", "math", "random", "numpy", "torch")
_OTHER_PACKAGES = ("numpy.", "dp_accounting.", "scipy.special")


class Checkpoint:
    """The state of a mechanism, now.

    modules: those of the mechanism, by name. model: of the bench, whose own attributes are no state of the mechanism's.
    """

    def __init__(self, modules: Mapping[str, ModuleType], mechanism: object, model: object) -> None:
        self._modules, self._mechanism = modules, mechanism
        self._model, self._models_own = model, frozenset(vars(model))
        self._code = _other_code()
        reader = _Reader(modules)
        for _, value in self._places():
            reader.digest(value)
        namespaces = [*map(vars, modules.values()), getattr(mechanism, "__dict__", {})]
        self._containers = [(value, _copied(value)) for value in (*namespaces, *reader.containers)]

    def restore(self) -> None:
        """Containers hold again what they held, caches nothing, names their values."""
        for container, content in self._containers:
            _refill(container, content)
        for extra in vars(self._model).keys() - self._models_own:
            delattr(self._model, extra)

    def read(self) -> dict[str, bytes]:
        """Place ('the module's CACHE') -> a hash of what it holds now."""
        reader = _Reader(self._modules)
        return {place: reader.digest(value) for place, value in self._places()}

    def replaced(self) -> str | None:
        """Which name of other code is new, or does not mean what it meant, or something of the mechanism's own; None
        without one. (What was imported since may be new.)"""
        for place, value in _other_code().items():
            new = place not in self._code and place.rpartition(".")[0] in _OTHERS and not isinstance(value, ModuleType)
            changed = self._code.get(place, value) is not value
            if new or changed or getattr(value, "__module__", None) in self._modules:
                return place
        return None

    def holder_of(self, marker: str) -> str | None:
        """The place that holds a private record now, or a text with this marker; None without one."""
        seen = {id(self._model), id(self._mechanism)}
        for place, root in self._places():
            waiting = [root]
            while waiting and len(seen) < _MOST:
                value = waiting.pop()
                text = value.decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value
                if isinstance(value, ObservedRecord) or (isinstance(text, str) and marker in text):
                    return place
                if id(value) not in seen and self._is_searched(value):
                    seen.add(id(value))
                    waiting.extend(gc.get_referents(value))
        return None

    def _is_searched(self, value: object) -> bool:
        """Containers, what the mechanism's modules define, and what the harness gave to a run."""
        if isinstance(value, _CONTAINERS) or type(value) is _CACHED:
            return True
        if isinstance(value, type | FunctionType):
            return value.__module__ in self._modules
        origin = type(value).__module__
        known = origin in self._modules or is_harness(origin) or origin == "functools"
        return known and not isinstance(value, ModuleType)

    def _places(self) -> Iterator[tuple[str, object]]:
        for module in self._modules.values():
            for name, value in list(vars(module).items()):
                if not name.startswith("__"):
                    yield f"the module's {name}", value
        for name, value in list(getattr(self._mechanism, "__dict__", {}).items()):
            yield f"the mechanism's own attribute {name}", value
        for name in vars(self._model).keys() - self._models_own:
            yield f"the model's attribute {name}", vars(self._model)[name]
        for variable, value in copy_context().items():
            yield f"the context variable {variable.name}", value


class _Reader:
    """Hashes values by what they hold. containers: those that it came through which can change."""

    def __init__(self, modules: Mapping[str, ModuleType]) -> None:
        self._modules, self._seen = modules, dict[int, bytes]()
        self.containers: list[Any] = []
        self._alive: list[object] = []  # so that no number stands for two objects

    def digest(self, value: object) -> bytes:
        if isinstance(value, _PLAIN):
            return _hash(type(value).__name__, repr(value).encode("utf-8", "backslashreplace"))
        if id(value) in self._seen:
            return self._seen[id(value)]
        self._seen[id(value)] = _hash("again")
        self._alive.append(value)
        name, parts, ordered = self._opened(value)
        try:
            digests = [self.digest(part) for part in parts]
        except RecursionError:
            digests = []
        self._seen[id(value)] = digest = _hash(name, *(digests if ordered else sorted(digests)))
        return digest

    def _opened(self, value: Any) -> tuple[str, list[object], bool]:
        """(what it is, what it holds, whether in this order)."""
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        if isinstance(value, _CHANGING) or type(value) is _CACHED:
            self.containers.append(value)
        match value:
            case np.ndarray() if value.dtype != object:
                return f"{name} {value.dtype} {value.shape}", [value.tobytes()], True
            case Mapping():
                return name, [part for item in list(value.items()) for part in item], True
            case list() | tuple() | deque():
                return name, list(value), True
            case set() | frozenset():
                return name, list(value), False
            case bytearray() | memoryview():
                return name, [bytes(value)], True
            case CellType():
                return name, gc.get_referents(value), True
            case MethodType():
                return name, [value.__self__, value.__func__], True
            case FunctionType():
                own = value.__module__ in self._modules
                held: list[object] = [value.__defaults__, value.__kwdefaults__, value.__closure__, value.__dict__]
                return f"{name} {value.__qualname__}", held if own else [], True
            case _ if type(value) is _CACHED:
                return name, [part for part in gc.get_referents(value) if not isinstance(part, type)], False
            case type():
                names = [key for key in vars(value) if key not in _PYTHONS] if value.__module__ in self._modules else []
                self.containers += [value] if names else []
                return f"{name} {value.__qualname__}", [part for key in names for part in (key, vars(value)[key])], True
            case ContextVar():
                return name, [value.get(None)], True
            case threading.local():
                return name, [dict(vars(value))], True
            case weakref.ref():
                return name, [value()], True
            case property():
                return name, [value.fget], True
            case classmethod() | staticmethod():
                return name, [value.__func__], True
            case ModuleType():
                return f"{name} {value.__name__}", [], True
        return name, _saved(value), True


def _saved(value: Any) -> list[object]:
    """What pickle would save of any other object; else its attributes."""
    if type(value).__module__.startswith("dpicl.models"):
        return []
    try:
        saved = value.__reduce_ex__(4)
    except Exception:  # many objects say that they cannot be saved, each in its own way
        return [dict(vars(value))] if hasattr(value, "__dict__") else []
    if isinstance(saved, str):
        return [saved]
    made, *rest = saved
    return [getattr(made, "__qualname__", ""), *(list(part) if isinstance(part, Iterator) else part for part in rest)]


def _hash(name: str, *parts: bytes) -> bytes:
    return hashlib.sha256(b"\0".join((name.encode("utf-8", "backslashreplace"), *parts))).digest()


def _copied(container: Any) -> Any:
    """What `_refill` needs."""
    match container:
        case CellType():
            return gc.get_referents(container)
        case type():
            return {key: part for key, part in vars(container).items() if key not in _PYTHONS}
        case _ if type(container) is _CACHED:
            return None
    return container.copy()


def _refill(container: Any, content: Any) -> None:
    match container:
        case CellType():
            if content:
                container.cell_contents = content[0]
        case np.ndarray():
            if container.flags.writeable:
                container[...] = content
        case type():
            for key in [key for key in vars(container) if key not in _PYTHONS and key not in content]:
                type.__delattr__(container, key)
            for key, part in content.items():
                if vars(container).get(key) is not part:
                    type.__setattr__(container, key, part)
        case _ if type(container) is _CACHED:
            container.cache_clear()
        case MutableMapping():  # a module's names too, so it is never empty
            for key in [key for key in list(container) if key not in content]:
                del container[key]
            container.update(content)
        case set():
            container.clear()
            container.update(content)
        case list() | deque():
            container.clear()
            container.extend(content)


def _other_code() -> dict[str, object]:
    """'numpy.argmax' -> it, for what can be called in modules of others and in the classes of the harness, and for
    every name of the best-known modules."""
    found: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or ".conformance" in name:
            continue
        if name in _OTHERS or name.startswith(_OTHER_PACKAGES) or is_harness(name):
            for key, value in list(vars(module).items()):
                if callable(value) or name in _OTHERS:
                    found[f"{name}.{key}"] = value
                if isinstance(value, type) and value.__module__ == name and is_harness(name):
                    own = [part for part, held in vars(value).items() if callable(held) or type(held) is property]
                    found |= {f"{name}.{key}.{part}": vars(value)[part] for part in own}
    return found
