"""What there is: mechanisms and attacks, built in, from entry points, and from files given with `--plugin`.

This is the only place of `harness` that reaches into `mechanisms`, `tasks` and `leaderboards`, and it does so late.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import logging
import pkgutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from harness.errors import DpiclError, PluginError, unknown
from harness.mechanism import Mechanism

if TYPE_CHECKING:
    from harness.attacks.base import Attack

ENTRY_POINTS = "dpicl.mechanisms"
ATTACK_ENTRY_POINTS = "dpicl.attacks"

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Registered:
    """A mechanism and where it came from. plugin_hash: sha256 of its file when it came with `--plugin`, else None."""

    cls: type[Mechanism]
    origin: str
    plugin_hash: str | None = None


@dataclass(frozen=True)
class RegisteredAttack:
    """An attack and where it came from; see Registered."""

    cls: type[Attack]
    origin: str
    plugin_hash: str | None = None


Item = TypeVar("Item", Registered, RegisteredAttack)


def load_mechanisms(plugins: Iterable[Path] = ()) -> dict[str, Registered]:
    """Every mechanism by name: built-in ones, entry points, plugin files.

    A built-in module or a plugin file that fails raises PluginError. An entry point that fails is a warning that names
    it: somebody else's broken package must not stop a run that does not use it.
    """
    found: dict[str, Registered] = {}
    for module in _modules_of("mechanisms", "mechanism"):
        for cls in mechanisms_of(module):
            _add(found, Registered(cls, "built in"))
    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        for cls in _from_entry_point(entry):
            _add(found, Registered(cls, f"entry point {entry.name} = {entry.value}"))
    for path in plugins:
        for item in load_plugin(path):
            _add(found, item)
    return found


def find_mechanism(name: str, mechanisms: dict[str, Registered]) -> type[Mechanism]:
    """The class of a name. Raises UsageError with the closest known name."""
    if name not in mechanisms:
        raise unknown("mechanism", name, mechanisms)
    return mechanisms[name].cls


def load_plugin(path: Path) -> list[Registered]:
    """The mechanisms that a Python file defines; none where it defines attacks alone.

    Raises PluginError naming the file and the reason.
    """
    module, digest = _plugin_module(path)
    classes = mechanisms_of(module)
    if not classes and not attacks_of(module):
        raise PluginError(f"Plugin {path} defines no mechanism{_nearly(module)}; see docs/command-line.md.")
    return [Registered(cls, f"plugin {path}", digest) for cls in classes]


def load_attacks(plugins: Iterable[Path] = ()) -> dict[str, RegisteredAttack]:
    """Every attack by name, from where mechanisms come from too; what fails is treated as in `load_mechanisms`."""
    found: dict[str, RegisteredAttack] = {}
    for module in _modules_of("harness.attacks", "attack"):
        for cls in attacks_of(module):
            _add(found, RegisteredAttack(cls, "built in"), "attacks")
    for entry in sorted(entry_points(group=ATTACK_ENTRY_POINTS), key=lambda entry: entry.name):
        for cls in _attacks_from_entry_point(entry):
            _add(found, RegisteredAttack(cls, f"entry point {entry.name} = {entry.value}"), "attacks")
    for path in plugins:
        module, digest = _plugin_module(path)
        for cls in attacks_of(module):
            _add(found, RegisteredAttack(cls, f"plugin {path}", digest), "attacks")
    return found


def find_attack(name: str, attacks: dict[str, RegisteredAttack]) -> RegisteredAttack:
    """The attack of a name. Raises UsageError with the closest known name."""
    if name not in attacks:
        raise unknown("attack", name, attacks)
    return attacks[name]


def attacks_of(module: ModuleType) -> list[type[Attack]]:
    """The complete attack classes that a module itself defines, with everything that a table shows of them."""
    from harness.attacks.base import Attack

    own: list[type[Attack]] = [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, Attack)
        and cls.__module__ == module.__name__
        and not inspect.isabstract(cls)
    ]
    for cls in own:
        missing = [
            each for each in ("name", "access", "source", "summary") if not isinstance(getattr(cls, each, 0), str)
        ]
        if missing or not is_dataclass(cls):
            raise PluginError(
                f"Attack class {cls.__name__} in {module.__name__} must be a dataclass with `name`, `access`, `source`"
                " and `summary`."
            )
    return own


def _plugin_module(path: Path) -> tuple[ModuleType, str]:
    """(the file as a module, sha256 of its content). Raises PluginError."""
    if not path.is_file():
        raise PluginError(f"Plugin {path} is not a file; give the path of a Python file with a mechanism class.")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"dpicl_plugin_{digest[:16]}"
    return sys.modules.get(name) or _import_file(name, path), digest


def mechanisms_of(module: ModuleType) -> list[type[Mechanism]]:
    """The complete mechanism classes that a module itself defines, with a name and a knob (or knob = None)."""
    own = [cls for cls in _own_classes(module) if not inspect.isabstract(cls)]
    for cls in own:
        if not isinstance(getattr(cls, "name", None), str) or not hasattr(cls, "knob"):
            raise PluginError(f"Mechanism class {cls.__name__} in {module.__name__} needs `name` and `knob`.")
    return own


def _own_classes(module: ModuleType) -> list[type[Mechanism]]:
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls) and issubclass(cls, Mechanism) and cls.__module__ == module.__name__
    ]


def _nearly(module: ModuleType) -> str:
    """Why a class that looks like a mechanism is none, for the error message."""
    for cls in _own_classes(module):
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        return f": class {cls.__name__} lacks {missing}"
    return ": it needs a subclass of harness.mechanism.DemonstrationMechanism"


def _modules_of(package: str, kind: str) -> Iterable[ModuleType]:
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if info.name.startswith("_"):
            continue
        name = f"{package}.{info.name}"
        try:
            yield importlib.import_module(name)
        except Exception as error:
            raise PluginError(f"The {kind} module {name} fails to import: {_reason(error)}.") from error


def _from_entry_point(entry: EntryPoint) -> list[type[Mechanism]]:
    try:
        loaded = entry.load()
        if isinstance(loaded, ModuleType):
            return mechanisms_of(loaded)
        if inspect.isclass(loaded) and issubclass(loaded, Mechanism) and not inspect.isabstract(loaded):
            return [loaded]
        raise PluginError(f"{entry.value} is no mechanism class and no module with one")
    except Exception as error:
        _log.warning("The plugin '%s' (%s) is left out: %s.", entry.name, entry.value, _reason(error))
        return []


def _attacks_from_entry_point(entry: EntryPoint) -> list[type[Attack]]:
    from harness.attacks.base import Attack

    try:
        loaded = entry.load()
        if isinstance(loaded, ModuleType):
            return attacks_of(loaded)
        if inspect.isclass(loaded) and issubclass(loaded, Attack) and not inspect.isabstract(loaded):
            return [loaded]
        raise PluginError(f"{entry.value} is no attack class and no module with one")
    except Exception as error:
        _log.warning("The plugin '%s' (%s) is left out: %s.", entry.name, entry.value, _reason(error))
        return []


def _import_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"Plugin {path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise PluginError(f"Plugin {path} fails to import: {_reason(error)}.") from error
    return module


def _reason(error: BaseException) -> str:
    if isinstance(error, DpiclError):
        return str(error).rstrip(".")
    return f"{type(error).__name__}: {error}".rstrip(".")


def _add(found: dict[str, Item], new: Item, kind: str = "mechanisms") -> None:
    name = new.cls.name
    if name in found and found[name].cls is not new.cls:
        raise PluginError(f"Two {kind} are called '{name}': {found[name].origin} and {new.origin}; rename one of them.")
    found[name] = new


def leaderboards(part: str = "board") -> ModuleType:
    """A module of the package that makes boards ('board', 'html', 'sinks.wandb_sink'); loaded by what needs it."""
    return importlib.import_module(f"leaderboards.{part}")
