"""Finds mechanisms: built in, or from files given with `--plugin`.

Tasks, models and attacks have their own lists (dpicl.data.config, dpicl.models,
dpicl.attacks.registry). The package `mechanisms` is named here alone, and late.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import ismemberdescriptor
from pathlib import Path
from types import ModuleType
from typing import Any

from dpicl import models
from dpicl.core.errors import PluginError, unknown_name
from dpicl.core.plugins import (
    P,
    Pluggable,
    Registered,
    as_plugin_error,
    classes_of,
    module_of,
    registered,
    source_hash,
)
from dpicl.core.vocabulary import Knob
from dpicl.data import config as task_config
from dpicl.mechanism.bases import Mechanism

#: The origin of what the program that runs registered.
HERE = "this program"
#: What the program that runs registered, by class.
_here: dict[type[Mechanism], Registered[Mechanism]] = {}
#: Names of mechanisms: they are words of suites and folders of results.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+=-]{0,99}")


def load_mechanisms(plugins: Iterable[Path] = ()) -> dict[str, Registered[Mechanism]]:
    """Every mechanism by name: built-in ones, and those of plugin files. Raises PluginError.

    From then on this process also knows the models of the plugin files, and the tasks of plugin folders.
    """
    plugged = (item for path in plugins for item in load_plugin(path))
    return registered("mechanism", "dpicl.mechanisms", mechanisms_of, (*_here.values(), *plugged))


def register(cls: type[Mechanism]) -> Registered[Mechanism]:
    """Makes a class of the program that runs known to this process, until `forget`.

    Raises PluginError for a class that is no complete mechanism, or has the name of another one.
    """
    missing = ", ".join(sorted(cls.__abstractmethods__))
    if problem := f"lacks {missing}" if missing else _class_problem(cls):
        raise PluginError(f"Mechanism class {cls.__name__} {problem}.")
    _here[cls] = Registered(cls, HERE, source_hash(cls))
    return load_mechanisms()[cls.name]


def module_here(digest: str) -> str:
    """The module of the program that runs which registered a class of this hash; '' where none did."""
    return next((cls.__module__ for cls, known in _here.items() if known.plugin_hash == digest), "")


def forget() -> None:
    """Forgets what `register` made known."""
    _here.clear()


def find_mechanism(
    name: str,
    mechanisms: Mapping[str, Registered[Mechanism]],
) -> type[Mechanism]:
    """The class of a name. Raises UsageError with the closest known name."""
    if name not in mechanisms:
        raise unknown_name("mechanism", name, mechanisms)
    return mechanisms[name].cls


def load_plugin(path: Path) -> list[Registered[Mechanism]]:
    """The mechanisms that a Python file defines; none where it defines attacks or models alone, or for a task folder.

    Raises PluginError naming the file and the reason.
    """
    return classes_in(path, mechanisms_of)


def classes_in(
    path: Path,
    of_module: Callable[[ModuleType], list[type[P]]],
) -> list[Registered[P]]:
    """What ``of_module`` finds in a Python file, whose models are made known; none in a folder with tasks, which are
    made known as well. Raises PluginError."""
    if path.is_dir():
        task_config.add_task_folder(path)
        return []
    if not path.is_file():
        raise PluginError(
            f"Plugin {path} is not there; give the path of a Python file with a mechanism, an attack or a model, or of"
            " a folder with a task.yaml."
        )
    module, digest = module_of(path)
    with as_plugin_error(f"Plugin {path} cannot be used"):
        models.add(module, f"plugin {path}", digest)
        classes = of_module(module)
        if not classes_of(module, Pluggable) and not models.loaders_of(module):
            raise PluginError(
                f"Plugin {path} defines no mechanism, attack or model{_explain_no_mechanism(module)};"
                " see docs/add-a-mechanism.md."
            )
    return [Registered(cls, f"plugin {path}", digest) for cls in classes]


def mechanisms_of(module: ModuleType) -> list[type[Mechanism]]:
    """The complete mechanism classes that a module itself defines, with what every table and run asks a class for."""
    classes = classes_of(module, Mechanism)  # type: ignore[type-abstract]
    for cls in classes:
        if problem := _class_problem(cls):
            raise PluginError(f"Mechanism class {cls.__name__} in {module.__name__} {problem}.")
    return classes


def _class_problem(cls: type[Mechanism]) -> str:
    """What is wrong with the attributes of a mechanism's class, or ""."""
    if not hasattr(cls, "name") or not hasattr(cls, "knob"):
        return "needs `name` and `knob`"
    name = cls.name
    if type(name) is not str or not _NAME.fullmatch(name):
        return "needs a `name` of at most 100 letters, digits and . _ + = -, as suites and folders have it"
    if not isinstance(cls.knob, Knob | None):
        return "needs `knob`: a dpicl.Knob, or None"
    if type(cls.source) is not str or type(cls.summary) is not str:
        return "needs texts as its `source` and `summary`"
    published = cls.published
    if not isinstance(published, Mapping) or not all(
        isinstance(options, Mapping) for options in published.values()
    ):
        return "needs `published` to be a mapping: task -> option -> value"
    options: Sequence[dataclasses.Field[Any]] = (
        dataclasses.fields(cls) if dataclasses.is_dataclass(cls) else ()
    )
    for option in options:
        # of a class with __slots__ it describes a place
        default = getattr(cls, option.name, option.default)
        if (
            option.default is not dataclasses.MISSING
            and default is not option.default
            and not ismemberdescriptor(default)
        ):
            return (
                f"sets {option.name}, but its option {option.name} stays {option.default!r}; put"
                f" @dataclass(frozen=True) above the class, and a type after the name, as in `{option.name}: int = 3`"
            )
    return ""


def _explain_no_mechanism(module: ModuleType) -> str:
    """Why a class that looks like a mechanism is none, for the error message."""
    for cls in classes_of(module, Mechanism, abstract=True):  # type: ignore[type-abstract]
        missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
        return f": class {cls.__name__} lacks {missing}"
    return ": it needs a subclass of dpicl.DemonstrationMechanism, dpicl.AnswerMechanism or dpicl.PreparedMechanism"
