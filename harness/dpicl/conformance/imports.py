"""Imports the files of a mechanism once more, in a process that it lets come to its end, and watches.

The code of a module runs before any check, and what it leaves for the exit of the program (`atexit`, finalizers) after
all of them.
"""

from __future__ import annotations

import atexit
import gc
import importlib.util
import multiprocessing.util
import sys
import threading
import warnings
import weakref
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from types import ModuleType

from dpicl.conformance.adversaries import PLANTED
from dpicl.conformance.dictionary import modules_of
from dpicl.conformance.footprint import Footprint, observe
from dpicl.conformance.guard import RUN_SECONDS, attempt
from dpicl.core.orphans import adopt_orphans, end_children
from dpicl.mechanism.bases import Mechanism

#: Seconds by the clock, many times what it takes.
_SILENCE = 300.0


def find_import_problem(
    cls: type[Mechanism],
    run: Callable[[], object],
) -> str | None:
    """What is wrong with what happens at import, or at the exit of a program that made a run; None: nothing.

    run: makes a run on records with planted words.
    """
    ours, theirs = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(target=_child, args=(cls, run, theirs), daemon=True)
    # of a fork beside the threads of numpy, which it does not use
    with warnings.catch_warnings(action="ignore"):
        child.start()
    theirs.close()
    try:
        problem = ours.recv() if ours.poll(_SILENCE) else "it does not come to an end"
    except EOFError:
        problem = "it ends the program"
    finally:
        child.kill()
        child.join()
        ours.close()
    return (
        None if problem is None else f"When its file is imported and the program ends, {problem}."
    )


def _child(
    cls: type[Mechanism],
    run: Callable[[], object],
    pipe: Connection,
) -> None:
    adopt_orphans()
    gc.freeze()  # what the parent holds is no garbage of the mechanism's; to walk through all of it takes a second
    # What the parent left for its exit is not the mechanism's.
    atexit._clear()
    weakref.finalize._registry.clear()  # type: ignore[attr-defined]
    weakref.finalize._registered_with_atexit = False  # type: ignore[attr-defined]
    multiprocessing.util._finalizer_registry.clear()  # type: ignore[attr-defined]
    threading._threading_atexits.clear()  # type: ignore[attr-defined]
    modules = modules_of(cls)
    with observe([*modules], "", imports=True) as importing:
        _, error = attempt(lambda: _import_again(modules), RUN_SECONDS)
    attempt(run, RUN_SECONDS)
    with observe([*modules], "", imports=True) as leaving:
        attempt(lambda: _exit(modules), RUN_SECONDS)
    problem = _describe(importing) or _describe(leaving)
    if error is not None:
        problem = problem or f"a second import raises {type(error).__name__}"
    end_children(())
    pipe.send(problem)


def _describe(footprint: Footprint) -> str | None:
    if footprint.acts:
        return f"it {footprint.acts[0]}"
    if footprint.variables:
        return f"it reads the environment variable {footprint.variables[0]}"
    if footprint.drew:
        return f"it draws from the global generator of {footprint.drew[0]}"
    if any(PLANTED in text for text in footprint.printed):
        return "it prints or logs a word of a private record"
    return None


def _import_again(modules: dict[str, ModuleType]) -> None:
    specs = {name: getattr(module, "__spec__", None) for name, module in modules.items()}
    files = {name: spec for name, spec in specs.items() if spec}
    for name in files:
        del sys.modules[name]
    for name, spec in files.items():
        if name not in sys.modules and spec is not None and spec.loader is not None:
            sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(sys.modules[name])


def _exit(modules: dict[str, ModuleType]) -> None:
    """What happens at the exit of a program, in its order."""
    for call in reversed(threading._threading_atexits):  # type: ignore[attr-defined]
        call()
    multiprocessing.util._run_finalizers()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for name in modules:
        for module in (modules[name], sys.modules.get(name)):
            vars(module).clear()
    gc.collect()
