"""Reads and resets the state that a mechanism keeps between runs: variables of its modules and classes, its attributes,
what functions, caches, contexts and threads hold, and replaced code.

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
from array import array
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, MutableMapping
from contextvars import ContextVar, copy_context
from types import CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from dpicl.core.plugins import is_harness

_CACHED = type(functools.lru_cache(lambda: None))
#: Types whose content `Checkpoint.restore` sets back.
_CHANGING = (
    np.ndarray,
    MutableMapping,
    list,
    deque,
    set,
    bytearray,
    array,
    weakref.WeakSet,
    CellType,
)
_PLAIN = (
    str,
    bytes,
    int,
    float,
    complex,
    type(None),
    type(Ellipsis),
    range,
    slice,
)
#: Names that Python itself writes into a class.
_PYTHONS = (
    "__dict__",
    "__weakref__",
    "__doc__",
    "_abc_impl",
    "__abstractmethods__",
    "__annotations__",
)
#: Packages, and single modules, whose functions and classes a mechanism must leave as they are, besides the harness.
_OTHER_PACKAGES = {*sys.stdlib_module_names, "numpy", "dp_accounting"}
_OTHER_MODULES = ("torch", "scipy.special")
#: Modules with hooks that libraries set and unset; there only what is the mechanism's own counts.
_HOOKED = ("sys", "threading", "warnings")


class Checkpoint:
    """The state of a mechanism, now.

    modules: those of the mechanism, by name. model: of the bench, whose own attributes are no state of the mechanism's.
    """

    def __init__(
        self,
        modules: Mapping[str, ModuleType],
        mechanism: object,
        model: object,
    ) -> None:
        self._modules, self._mechanism = modules, mechanism
        self._model, self._models_own = model, frozenset(vars(model))
        self._code, self._imported = _other_code(), {*sys.modules}
        reader = _Reader(modules)
        for _, value in self._places():
            reader.digest(value)
        namespaces = [*map(vars, modules.values()), getattr(mechanism, "__dict__", {})]
        self._containers = [(value, _copy(value)) for value in (*namespaces, *reader.containers)]

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

    def find_replaced(self) -> str | None:
        """Which name of other code is new, or does not mean what it meant, or something of the mechanism's own; None
        without one. (What was imported since may be new.)"""
        for place, value in _other_code().items():
            home, name = getattr(value, "__module__", None) or "", place.rpartition(".")[0]
            if place not in self._code:
                # Python imports some of its own names late
                late = callable(value) and _is_python(home)
                changed = (
                    name in self._imported
                    and _is_python(name)
                    and not (late or isinstance(value, ModuleType))
                )
            else:
                before = self._code[place]
                changed = callable(before) and before is not value and name not in _HOOKED
            if changed or home in self._modules:
                return place
        return None

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
        name, parts, ordered = self._open(value)
        try:
            digests = [self.digest(part) for part in parts]
        except RecursionError:
            digests = []
        digest = _hash(name, *(digests if ordered else sorted(digests)))
        self._seen[id(value)] = digest
        return digest

    def _open(self, value: Any) -> tuple[str, list[object], bool]:
        """(what it is, what it holds, whether in this order)."""
        name = f"{type(value).__module__}.{type(value).__qualname__}"
        of_mechanism = type(value).__module__ in self._modules
        slotted = of_mechanism and bool(_list_slots(value))
        if isinstance(value, _CHANGING) or type(value) is _CACHED or _is_tensor(value) or slotted:
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
            case bytearray() | memoryview() | array():
                return name, [bytes(value)], True
            case CellType() | GeneratorType():
                return name, gc.get_referents(value), True
            case MethodType():
                return name, [value.__self__, value.__func__], True
            case FunctionType():
                defined = value.__module__ in self._modules
                held: list[object] = [
                    value.__defaults__,
                    value.__kwdefaults__,
                    value.__closure__,
                    value.__dict__,
                ]
                return f"{name} {value.__qualname__}", held if defined else [], True
            case _ if type(value) is _CACHED:
                return name, _list_cached(value), False
            case type():
                parts: list[object] = []
                if value.__module__ in self._modules:
                    for key, part in vars(value).items():
                        if key not in _PYTHONS:
                            parts += [key, part]
                if parts:
                    self.containers.append(value)
                return f"{name} {value.__qualname__}", parts, True
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
        if _is_tensor(value):
            numbers = value.detach().cpu().contiguous().view(-1)
            return f"{name} {value.dtype} {tuple(value.shape)}", [repr(numbers.tolist())], True
        if of_mechanism:  # its class may say what is saved of it, and leave some out
            slots = [getattr(value, slot) for slot in _list_slots(value)]
            return name, [getattr(value, "__dict__", {}), *slots], True
        return name, _list_saved(value), True


def _list_cached(function: Any) -> list[object]:
    """What a cached function holds. Its own dictionary is given as a copy: one that is refilled after the cache was
    cleared has entries which Python has let go, and the next call crashes."""
    parts = [part for part in gc.get_referents(function) if not isinstance(part, type)]
    attributes = function.__dict__
    return [dict(part) if type(part) is dict and part is not attributes else part for part in parts]


def _list_saved(value: Any) -> list[object]:
    """What pickle would save of any other object; else its attributes."""
    if type(value).__module__.startswith("dpicl.models"):
        return []
    try:
        saved = value.__reduce_ex__(4)
    except Exception:  # many objects say that they cannot be saved, each in its own way
        return [dict(vars(value))] if hasattr(value, "__dict__") else []
    if isinstance(saved, str):
        return [saved]
    constructor, *rest = saved
    parts = [list(part) if isinstance(part, Iterator) else part for part in rest]
    return [getattr(constructor, "__qualname__", ""), *parts]


def _hash(name: str, *parts: bytes) -> bytes:
    return hashlib.sha256(b"\0".join((name.encode("utf-8", "backslashreplace"), *parts))).digest()


def _copy(container: Any) -> Any:
    """What `_refill` needs."""
    match container:
        case CellType():
            return gc.get_referents(container)
        case type():
            return {key: part for key, part in vars(container).items() if key not in _PYTHONS}
        case (
            weakref.WeakValueDictionary()
            | weakref.WeakKeyDictionary()
            | weakref.WeakSet()
            | np.ndarray()
        ):
            return container.copy()
        case Mapping():
            return dict(container.items())
        case list() | deque() | set() | bytearray() | array():
            return list(container)
        case _ if type(container) is _CACHED:
            return None
        case _ if _is_tensor(container):
            return container.detach().clone()
    return {name: getattr(container, name) for name in _list_slots(container)}


def _refill(container: Any, content: Any) -> None:
    """By the methods of the built-in type: a subclass may count, refuse or add up in its own."""
    match container:
        case CellType():
            if content:
                container.cell_contents = content[0]
        case np.ndarray():
            if container.shape != content.shape and container.flags.owndata:
                container.resize(content.shape, refcheck=False)
            if container.flags.writeable:
                container[...] = content
        case type():
            for key in [
                key for key in vars(container) if key not in _PYTHONS and key not in content
            ]:
                type.__delattr__(container, key)
            for key, part in content.items():
                if vars(container).get(key) is not part:
                    type.__setattr__(container, key, part)
        case _ if type(container) is _CACHED:
            container.cache_clear()
        case weakref.WeakSet():
            container.clear()
            container.update(content)
        case MutableMapping():
            _refill_mapping(container, content)
        case set():
            set.clear(container)
            set.update(container, content)
        case list():
            list.clear(container)
            list.extend(container, content)
        case deque():
            deque.clear(container)
            deque.extend(container, content)
        case bytearray():
            container[:] = bytes(content)
        case array():
            container[:] = array(container.typecode, content)
        case _ if _is_tensor(container):
            container.data = content.clone()
        case _:
            for name in _list_slots(container):
                object.__delattr__(container, name)
            for name, part in content.items():
                object.__setattr__(container, name, part)


def _refill_mapping(container: MutableMapping[Any, Any], content: Mapping[Any, Any]) -> None:
    """The same keys in the same order. A module's names are in one too, so it is never empty."""
    kind: Any = type(container)
    if isinstance(container, dict):
        kind = OrderedDict if isinstance(container, OrderedDict) else dict
    for key in [key for key in list(container) if key not in content]:
        kind.__delitem__(container, key)
    in_order = list(container) == list(content)
    for key, part in content.items():
        if not in_order and key in container:
            kind.__delitem__(container, key)
        kind.__setitem__(container, key, part)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _list_slots(value: object) -> list[str]:
    """The names of an object's `__slots__` that hold something."""
    names: list[str] = []
    for base in type(value).__mro__:
        slots = vars(base).get("__slots__", ())
        names += [slots] if isinstance(slots, str) else slots
    return [name for name in names if not name.startswith("__") and hasattr(value, name)]


def _is_python(module: str) -> bool:
    """Whether it is one of Python's own, of numpy or torch, in which nobody else puts a name. (`sys` has the last
    error.)"""
    if module in ("numpy", "torch"):
        return True
    return module != "sys" and module.partition(".")[0] in sys.stdlib_module_names


def _other_code() -> dict[str, object]:
    """'numpy.argmax' -> it, for every public name of others' modules, and in the classes of the harness."""
    code: dict[str, object] = {}
    for name, module in list(sys.modules.items()):
        ours = is_harness(name) and ".conformance" not in name
        if isinstance(module, ModuleType) and (
            ours or name in _OTHER_MODULES or name.partition(".")[0] in _OTHER_PACKAGES
        ):
            for key, value in list(vars(module).items()):
                if not key.startswith("__"):
                    code[f"{name}.{key}"] = value
                if isinstance(value, type) and value.__module__ == name and ours:
                    for part, member in vars(value).items():
                        if callable(member) or type(member) is property:
                            code[f"{name}.{key}.{part}"] = member
    return code
