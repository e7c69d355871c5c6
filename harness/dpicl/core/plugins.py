"""Loads plugins of any kind, and reports how one failed.

Mechanisms are known to dpicl.mechanism.registry, attacks to dpicl.attacks.registry, models and tasks to
their own modules.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pkgutil
import re
import secrets
import sys
import traceback
from abc import ABC
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType, ModuleType
from typing import ClassVar, Generic, TypeVar

from dpicl.core import plugin_reads
from dpicl.core.errors import DpiclError, PluginError, UsageError, one_line
from dpicl.core.files import content_of

#: What the module of a plugin file is called, before the start of its hash.
MODULE = "dpicl_plugin_"
#: What is said of a plug-in that ends a process in which it is checked.
ENDED_PROGRAM = "The plugin ended the program before the checks were done; let it return or raise."

#: How code gets at environment variables.
_ENVIRONMENT = re.compile(rb"\b(environb?|getenvb?)\b")

#: What begins so is content, shipped or not, that the harness treats alike.
_CONTENT = ("dpicl.mechanisms.", "dpicl.tasks.")


class Pluggable(ABC):
    """What a plugin file may define classes of. Mechanisms and attacks derive from it."""

    name: ClassVar[str]
    #: Where it comes from, for tables and pages.
    source: ClassVar[str]

    def require_at_least(self, **least: int) -> None:
        """Raises UsageError for an option below its least value (None means 'not used')."""
        for name, smallest in least.items():
            value = getattr(self, name)
            if value is not None and value < smallest:
                raise UsageError(f"Option {name} must be at least {smallest}, not {value}.")

    def require_at_most(self, **most: int) -> None:
        """Raises UsageError for an option above what a run can hold (None means 'not used')."""
        for name, largest in most.items():
            value = getattr(self, name)
            if value is not None and value > largest:
                raise UsageError(
                    f"Option {name} must be at most {largest:,}, which a run can hold, not {value:,}."
                )


P = TypeVar("P", bound=Pluggable)


@dataclass(frozen=True)
class Registered(Generic[P]):
    """A class and where it came from. plugin_hash: sha256 of its file; None for a built-in one."""

    cls: type[P]
    origin: str
    plugin_hash: str | None = None


def registered(
    kind: str,
    package: str,
    of_module: Callable[[ModuleType], list[type[P]]],
    others: Iterable[Registered[P]],
) -> dict[str, Registered[P]]:
    """Every class of a kind by name: of the modules of a package, and others. Raises PluginError."""
    built_in = (
        Registered(cls, "built in")
        for module in _modules_of(package, kind)
        for cls in of_module(module)
    )
    classes: dict[str, Registered[P]] = {}
    for new in (*built_in, *others):
        if (old := classes.setdefault(new.cls.name, new)).cls is not new.cls:
            raise PluginError(
                f"Two {kind}s are called '{new.cls.name}': {old.origin} and {new.origin}; rename one of them."
            )
        classes[new.cls.name] = new
    return classes


def is_harness(module: str) -> bool:
    """Whether a module is of the harness, and no mechanism or task."""
    return module.startswith("dpicl.") and not module.startswith(_CONTENT)


def source_hash(cls: type) -> str:
    """sha256 of the source of a class that was defined outside plugin files; another one each time where Python does
    not know it, as of a class that was typed into a prompt: two of one name may be different code."""
    try:
        return hashlib.sha256(inspect.getsource(cls).encode()).hexdigest()
    except (OSError, TypeError):
        return secrets.token_hex(32)


def classes_of(module: ModuleType, base: type[P], abstract: bool = False) -> list[type[P]]:
    """The classes of a base that a module itself defines: the complete ones, or the ``abstract`` ones."""
    return [
        cls
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and issubclass(cls, base)
        and cls.__module__ == module.__name__
        and inspect.isabstract(cls) == abstract
    ]


def _modules_of(package: str, kind: str) -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        if info.name.startswith("_"):
            continue
        name = f"{package}.{info.name}"
        try:
            yield importlib.import_module(name)
        except Exception as error:
            raise PluginError(
                f"The {kind} module {name} fails to import: {_reason(error)}."
            ) from error


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution; None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def folder_hash(
    folder: Path, keep: Callable[[Path], bool] = lambda path: "__pycache__" not in path.parts
) -> str:
    """sha256 over the names and contents of the files in a folder that are to be kept (all but caches)."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if keep(path) and path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


def module_of(path: Path) -> tuple[ModuleType, str]:
    """(a plugin file as a module, sha256 of its content). Raises PluginError naming the file and the reason."""
    with as_plugin_error(f"Plugin {path} cannot be read"):
        digest = hashlib.sha256(content_of(path)).hexdigest()
    name = _module_name(digest)
    return sys.modules.get(name) or _import_file(name, path), digest


class _SourceAlone(SourceFileLoader):
    """Runs the source itself: a `__pycache__` beside it, which could hold other code, is neither read nor written."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def files_read(digest: str) -> dict[str, str]:
    """What the plug-in file of this sha256 has read below its folder: path -> sha256."""
    return plugin_reads.files_read(_module_name(digest))


def list_changed(digest: str, files: Mapping[str, str]) -> list[str]:
    """Those of the files that it read which are other ones now; none for a plug-in that was not given now."""
    return plugin_reads.list_changed(_module_name(digest), files)


def list_unknown(digest: str, files: Mapping[str, str]) -> list[str]:
    """Those of the files that it read of which nobody knows where they are."""
    return plugin_reads.list_unknown(_module_name(digest), files)


def reads_environment(digest: str) -> bool:
    """Whether a plug-in that was given now looks at environment variables, as far as its code shows."""
    module = sys.modules.get(_module_name(digest))
    if module is None or module.__file__ is None:
        return False
    try:
        return _ENVIRONMENT.search(content_of(Path(module.__file__))) is not None
    except OSError:
        return False


def _module_name(digest: str) -> str:
    return f"{MODULE}{digest[:16]}"


def _import_file(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceAlone(name, str(path)))
    if spec is None or spec.loader is None or path.suffix != ".py":
        raise PluginError(f"Plugin {path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    before = {*sys.modules, name}
    sys.modules[name] = module  # dataclasses look their own module up by name
    plugin_reads.watch(name, path.parent)
    try:
        with as_plugin_error(f"Plugin {path} fails to import"):
            spec.loader.exec_module(module)
            _check_alone(path, [sys.modules[each] for each in sys.modules.keys() - before])
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


@contextmanager
def as_plugin_error(failure: str) -> Iterator[None]:
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
        # not __file__: torch's made-up modules say "_ops.py", in no folder
        spec = getattr(module, "__spec__", None)
        if spec and spec.has_location and Path(spec.origin).resolve().parent == folder:
            name = Path(spec.origin).name
            raise PluginError(f"it imports {name} beside it; put all of it into one file")


def _reason(error: BaseException) -> str:
    if type(error).__module__ == DpiclError.__module__:
        return one_line(error).rstrip(".")
    return f"{type(error).__name__}: {one_line(error, 500)}".rstrip(".")


def plugin_failure(error: BaseException) -> str:
    """One sentence about an error that came through a plugin file, with the innermost place there, or ""."""
    places = [
        f"{Path(frame.f_code.co_filename).name}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__", "")).startswith(MODULE)
    ]
    return (
        f"The plugin fails ({places[-1]}): {type(error).__name__}: {one_line(error, 500)}"
        if places
        else ""
    )
