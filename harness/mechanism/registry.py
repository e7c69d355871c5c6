"""What there is: mechanisms and attacks, built in, from entry points, and from files given with `--plugin`.

Tasks and models have their own lists (dpicl.harness.data.config, dpicl.harness.models); what a plugin holds of them is
handed on to there. This is the only place of `harness` that reaches into `mechanisms`, `tasks` and `leaderboards`, and
it does so late.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import logging
import pkgutil
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

from dpicl.harness import models
from dpicl.harness.core.errors import DpiclError, PluginError, told, unknown
from dpicl.harness.core.plugin_code import MODULE
from dpicl.harness.data import config as task_config
from dpicl.harness.mechanism.bases import Knob, Mechanism

if TYPE_CHECKING:
    from dpicl.harness.attacks.base import Attack

ENTRY_POINTS = "dpicl.mechanisms"
ATTACK_ENTRY_POINTS = "dpicl.attacks"

_log = logging.getLogger(__name__)
#: Names of mechanisms: they are words of suites and folders of results.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,99}")


@dataclass(frozen=True)
class Registered:
    """A mechanism and where it came from. plugin_hash: `code_hash` of its file or package; None for a built-in one."""

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
Class = TypeVar("Class")


def load_mechanisms(plugins: Iterable[Path] = ()) -> dict[str, Registered]:
    """Every mechanism by name: built-in ones, entry points, plugin files.

    From then on this process also knows the models of the plugin files, and the tasks of plugin folders.

    A built-in module or a plugin file that fails raises PluginError. An entry point that fails is a warning that names
    it: somebody else's broken package must not stop a run that does not use it.
    """
    found: dict[str, Registered] = {}
    for module in _modules_of("dpicl.mechanisms", "mechanism"):
        for cls in mechanisms_of(module):
            _add(found, Registered(cls, "built in"))
    for mechanism in _of_entry_points(ENTRY_POINTS, Mechanism, mechanisms_of, "mechanism"):
        _add(found, Registered(*mechanism))
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
    """The mechanisms that a Python file defines; none where it defines attacks or models alone, or for a task folder.

    Raises PluginError naming the file and the reason.
    """
    module, digest = _opened(path)
    if module is None:
        return []
    with _theirs(f"Plugin {path} cannot be used"):
        classes = mechanisms_of(module)
        if not classes and not attacks_of(module) and not models.loaders_of(module):
            raise PluginError(
                f"Plugin {path} defines no mechanism, attack or model{_nearly(module)}; see docs/adding.md."
            )
        return [Registered(cls, f"plugin {path}", digest) for cls in classes]


def load_attacks(plugins: Iterable[Path] = ()) -> dict[str, RegisteredAttack]:
    """Every attack by name, from where mechanisms come from too; what fails is treated as in `load_mechanisms`."""
    from dpicl.harness.attacks.base import Attack

    found: dict[str, RegisteredAttack] = {}
    for module in _modules_of("dpicl.harness.attacks", "attack"):
        for cls in attacks_of(module):
            _add(found, RegisteredAttack(cls, "built in"), "attacks")
    for attack in _of_entry_points(ATTACK_ENTRY_POINTS, Attack, attacks_of, "attack"):
        _add(found, RegisteredAttack(*attack), "attacks")
    for path in plugins:
        plugin, digest = _opened(path)
        with _theirs(f"Plugin {path} cannot be used"):
            classes = attacks_of(plugin) if plugin else []
        for cls in classes:
            _add(found, RegisteredAttack(cls, f"plugin {path}", digest), "attacks")
    return found


def find_attack(name: str, attacks: dict[str, RegisteredAttack]) -> RegisteredAttack:
    """The attack of a name. Raises UsageError with the closest known name."""
    if name not in attacks:
        raise unknown("attack", name, attacks)
    return attacks[name]


def attacks_of(module: ModuleType) -> list[type[Attack]]:
    """The complete attack classes that a module itself defines, with everything that a table shows of them."""
    from dpicl.harness.attacks.base import Attack

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


def code_hash(module: str) -> str:
    """sha256 of an imported module's file; where it belongs to a package, over all files of that package but caches."""
    top = sys.modules[module.partition(".")[0]]
    if not hasattr(top, "__path__"):
        return hashlib.sha256(Path(str(top.__file__)).read_bytes()).hexdigest()
    return folder_hash(*map(Path, top.__path__))


def folder_hash(*folders: Path) -> str:
    """sha256 over the names and contents of all files in folders, but caches."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if "__pycache__" in path.parts or not path.is_file():
                continue
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def _opened(path: Path) -> tuple[ModuleType | None, str]:
    """(the file as a module, sha256 of its content), its models made known; (None, '') for a folder with tasks, made
    known as well. Raises PluginError."""
    if path.is_dir():
        task_config.add_task_folder(path)
        return None, ""
    if not path.is_file():
        raise PluginError(
            f"Plugin {path} is not there; give the path of a Python file with a mechanism, an attack or a model, or of"
            " a folder with a task.yaml."
        )
    with _theirs(f"Plugin {path} cannot be read"):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    name = f"{MODULE}{digest[:16]}"
    module = sys.modules.get(name) or _import_file(name, path)
    with _theirs(f"Plugin {path} cannot be used"):
        models.add(module, f"plugin {path}", digest)
    return module, digest


def mechanisms_of(module: ModuleType) -> list[type[Mechanism]]:
    """The complete mechanism classes that a module itself defines, with what every table and run asks a class for."""
    own = [cls for cls in _own_classes(module) if not inspect.isabstract(cls)]
    for cls in own:
        if lacking := _lacking(cls):
            raise PluginError(f"Mechanism class {cls.__name__} in {module.__name__} {lacking}.")
    return own


def _lacking(cls: type[Mechanism]) -> str:
    """What is wrong with the attributes of a mechanism's class, or ""."""
    if not hasattr(cls, "name") or not hasattr(cls, "knob"):
        return "needs `name` and `knob`"
    name = cls.name
    if type(name) is not str or not _NAME.fullmatch(name):
        return "needs a `name` of at most 100 letters, digits and . _ + = -, as suites and folders have it"
    if not isinstance(cls.knob, Knob | None):
        return "needs `knob`: a dpicl.harness.mechanism.bases.Knob, or None"
    if type(cls.source) is not str:
        return "needs a text as its `source`"
    published = cls.published
    if not isinstance(published, Mapping) or not all(isinstance(options, Mapping) for options in published.values()):
        return "needs `published` to be a mapping: task -> option -> value"
    return ""


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
    return ": it needs a subclass of dpicl.harness.mechanism.bases.DemonstrationMechanism"


def _modules_of(package: str, kind: str) -> Iterable[ModuleType]:
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if info.name.startswith("_"):
            continue
        name = f"{package}.{info.name}"
        try:
            yield importlib.import_module(name)
        except Exception as error:
            raise PluginError(f"The {kind} module {name} fails to import: {_reason(error)}.") from error


def entries(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name."""
    return sorted(entry_points(group=group), key=lambda entry: entry.name)


def _of_entry_points(
    group: str, base: type, of_module: Callable[[ModuleType], list[type[Class]]], kind: str
) -> Iterator[tuple[type[Class], str, str]]:
    """(class, origin, hash) of every entry point of a group: a class, or a module with classes."""
    for entry in entries(group):
        try:
            loaded = entry.load()
            if isinstance(loaded, ModuleType):
                classes = of_module(loaded)
            elif inspect.isclass(loaded) and issubclass(loaded, base) and not inspect.isabstract(loaded):
                classes = [cast("type[Class]", loaded)]
            else:
                raise PluginError(f"{entry.value} is no {kind} class and no module with one")
            found = [(cls, origin_of(entry), code_hash(cls.__module__)) for cls in classes]
        except Exception as error:
            left_out(entry, error)
            continue
        yield from found


def origin_of(entry: EntryPoint) -> str:
    """How a table calls it."""
    return f"entry point {entry.name} = {entry.value}"


def left_out(entry: EntryPoint, error: Exception) -> None:
    """The warning about an entry point that fails."""
    _log.warning("The plugin '%s' (%s) is left out: %s.", entry.name, entry.value, _reason(error))


def _import_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PluginError(f"Plugin {path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = {*sys.modules, name}
    sys.modules[name] = module  # dataclasses look their own module up by name
    try:
        with _theirs(f"Plugin {path} fails to import"):
            spec.loader.exec_module(module)
            _check_alone(path, [sys.modules[each] for each in sys.modules.keys() - before])
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def _theirs(failure: str) -> Iterator[None]:
    """Raises PluginError for whatever somebody's code raises while it is loaded or looked at; Ctrl-C alone passes."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if type(error) is PluginError and not failure.endswith("import"):
            raise  # it is a whole sentence of our own
        raise PluginError(f"{failure}: {_reason(error)}.") from error


def _check_alone(path: Path, imported: Iterable[ModuleType]) -> None:
    """Raises PluginError where a plugin imported a file beside it: its hash would not change with that one."""
    folder = path.resolve().parent
    for module in imported:
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).resolve().parent == folder:
            raise PluginError(f"it imports {Path(file).name} beside it; put all of it into one file, or into a package")


def _reason(error: BaseException) -> str:
    if type(error).__module__ == DpiclError.__module__:
        return told(error).rstrip(".")
    return f"{type(error).__name__}: {told(error, 500)}".rstrip(".")


def _add(found: dict[str, Item], new: Item, kind: str = "mechanisms") -> None:
    name = new.cls.name
    if name in found and found[name].cls is not new.cls:
        raise PluginError(f"Two {kind} are called '{name}': {found[name].origin} and {new.origin}; rename one of them.")
    found[name] = new


def leaderboards(part: str = "board") -> ModuleType:
    """A module of the package that makes boards ('board', 'html', 'sinks.wandb_sink'); loaded by what needs it."""
    return importlib.import_module(f"dpicl.leaderboards.{part}")
