"""Records side effects of a run: files, connections, processes, the environment, and what it prints.

Python reports most effects on the outside as audit events (PEP 578). One hook, installed once and idle between runs,
records those of a run. An import may do anything, and the harness may write to its own cache.
"""

from __future__ import annotations

import io
import logging
import os
import random
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from dpicl.core.audit_events import calling_modules, listen
from dpicl.core.errors import DataError
from dpicl.core.paths import cache_folder
from dpicl.core.plugins import is_harness
from dpicl.data.sources import RECORDS_READ, data_folder
from dpicl.privacy.top_k import ROWS_CUT

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Prefixes of audit events with effects on the outside -> the words of the report.
_ACTS = {
    name: act
    for act, names in {
        "uses a socket": "socket.",
        "uses the network": "http. urllib.Request ftplib. smtplib. imaplib. poplib. nntplib. telnetlib.",
        "starts a process": "subprocess. pty.spawn webbrowser.open os.system os.exec os.spawn os.posix_spawn os.fork",
        "sends a signal to a process": "os.kill",
        "changes an environment variable": "os.putenv os.unsetenv",
        "changes the working directory": "os.chdir os.fchdir",
        "writes to the system's log": "syslog.",
        "changes files": "shutil. os.mkdir os.remove os.rename os.rmdir os.link os.symlink os.truncate os.utime "
        "os.chmod os.chown os.setxattr os.removexattr",
        "writes a file": "tempfile.",
        "opens a database": "sqlite3.connect",
        "changes the interpreter": "sys.addaudithook sys.settrace sys.setprofile",
    }.items()
    for name in names.split()
}
_ACTING = tuple(_ACTS)
#: Events by which code can find records that no sample gave it.
_REACHING = {
    "gc.get_objects": "asks the interpreter for all of its objects",
    "gc.get_referrers": "asks the interpreter who holds an object",
    "gc.get_referents": "asks the interpreter what an object holds",
    "sys._getframe": "looks into the frames of other code",
    "sys._current_frames": "looks into the frames of other code",
}
#: Modules between the environment and its reader.
_OF_ENVIRONMENT = (__name__, "os", "_collections_abc", "collections.abc")
_FRAMES = ("gi_frame", "cr_frame", "ag_frame", "tb_frame")


@dataclass
class Footprint:
    """acts: effects on the outside, each a violation. reaching: reads of records past the sampler. printed: what was
    printed and logged, in order. drew: the global generators that gave random numbers. variables: of the environment
    that the mechanism's own code read. cut: primitives that cut what a row held."""

    acts: list[str] = field(default_factory=list)
    reaching: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    drew: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)


@dataclass
class _Observe:
    """plugin: names of the modules of the mechanism that runs. task: whose records are private. imports: whether the
    mechanism itself is imported."""

    footprint: Footprint
    plugin: Collection[str]
    task: str
    imports: bool


_current: _Observe | None = None


@contextmanager
def observe(
    plugin: Collection[str],
    task: str,
    imports: bool = False,
) -> Iterator[Footprint]:
    """Inside this block the process's side effects are recorded. What it prints and logs is shown nowhere.

    plugin: names of the modules that hold the mechanism. task: whose records are private. imports: whether the
    mechanism is imported here: then what its own code does counts, and nothing that an import of it does.
    """
    global _current
    _listen()
    footprint, before = Footprint(), _current
    with ExitStack() as stack:
        out = stack.enter_context(redirect_stdout(_Text()))
        err = stack.enter_context(redirect_stderr(_Text()))
        # gets what any logger is given, at any level, in place of its handlers
        log = _Log(footprint)
        stack.enter_context(
            mock.patch.object(logging.Logger, "callHandlers", lambda _, record: log.handle(record))
        )
        stack.enter_context(mock.patch.object(logging.Logger, "isEnabledFor", return_value=True))
        stack.enter_context(np.errstate(all="ignore"))  # numpy's warnings on NaN are expected
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(mock.patch.object(type(os.environ), "__getitem__", _note_variable))
        states, threads = _global_generators(), {*sys._current_frames()}
        _current = _Observe(footprint, plugin, task, imports)
        try:
            yield footprint
        finally:
            _current = before
            if {*sys._current_frames()} - threads:
                footprint.acts.append("leaves a thread running")
            for name, state in _global_generators().items():
                if states.get(name, state) != state:
                    footprint.drew.append(name)
            for name, stream in (("standard output", out), ("standard error", err)):
                text = stream.buffer.getvalue().decode("utf-8", "replace")
                if text:
                    footprint.printed.append(f"{name}: {text}")
            # Python shows a warning once for each place, so its count does not matter. One with a source is of an
            # object that was left open, by whomever, and that the garbage collector happened to find now.
            of_run = [warning for warning in caught if warning.source is None]
            lines = [
                f"warning {warning.category.__name__}: {warning.message}" for warning in of_run
            ]
            footprint.printed += dict.fromkeys(lines)


def _global_generators() -> dict[str, object]:
    """Name -> state, of each generator that a process has one of."""
    numpy = np.random.get_state(legacy=False)
    inner = numpy["state"]
    # it draws normals in pairs
    numbers = (
        inner["key"].tobytes(),
        inner["pos"],
        numpy["has_gauss"],
    )
    states: dict[str, object] = {"random": random.getstate(), "numpy.random": numbers}
    torch = sys.modules.get("torch")
    if torch:  # many runs never import it
        states["torch"] = torch.get_rng_state().numpy().tobytes()
    return states


class _Text(io.TextIOWrapper):
    buffer: io.BytesIO

    def __init__(self) -> None:
        super().__init__(
            io.BytesIO(), encoding="utf-8", errors="backslashreplace", write_through=True
        )


class _Log(logging.Handler):
    def __init__(self, footprint: Footprint) -> None:
        super().__init__(0)
        self._footprint = footprint

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._footprint.printed.append(f"log line: {self.format(record)}")
        except Exception:  # arguments that do not fit the message
            self.handleError(record)


_find_variable = type(os.environ).__getitem__


def _note_variable(environment: os._Environ[Any], name: Any) -> Any:
    """The value of an environment variable; who asks for it is noted."""
    asking = next((each for each in calling_modules() if each not in _OF_ENVIRONMENT), "")
    if _current is not None and asking in _current.plugin:
        _current.footprint.variables.append(str(name))
    return _find_variable(environment, name)


@cache
def _listen() -> None:
    listen(_note)


def _note(event: str, *arguments: object) -> None:
    watch = _current
    if watch is None:
        return
    footprint = watch.footprint
    if event == "open":
        _note_open(watch, *arguments)
    elif event == ROWS_CUT:
        footprint.cut.add(str(arguments[0]))
    elif event == RECORDS_READ:
        if arguments[0] == watch.task:  # another task's may be public: `public_records("out")`
            footprint.reaching.append(f"reads the records of {watch.task} from their source")
    elif event in _REACHING or (event == "object.__getattr__" and arguments[1] in _FRAMES):
        if _is_by_plugin(watch, event):
            footprint.reaching.append(_REACHING.get(event, _REACHING["sys._getframe"]))
    elif (
        event.startswith(_ACTING)
        and event != "sqlite3.connect/handle"
        and not _is_allowed(watch, arguments[0] if arguments else None)
    ):
        act = next(act for name, act in _ACTS.items() if event.startswith(name))
        footprint.acts.append(f"{act} ({event})")


def _note_open(
    watch: _Observe,
    path: object,
    mode: object = None,
    flags: object = 0,
) -> None:
    if isinstance(flags, int) and flags & _WRITING:
        if path != os.devnull and not _is_allowed(watch, path):
            watch.footprint.acts.append(f"opens a file for writing ({_name(path)})")
    elif _is_data(path) and not is_harness(_caller()):
        watch.footprint.reaching.append(f"reads the data set's own file {_name(path)}")


def _name(path: object) -> str:
    return Path(os.fsdecode(path)).name if isinstance(path, str | bytes) else repr(path)


def _is_data(path: object) -> bool:
    try:
        folder = data_folder()
    except DataError:
        return False
    return folder is not None and _is_inside(path, folder)


def _is_inside(path: object, folder: Path) -> bool:
    if not isinstance(path, str | bytes):
        return False
    real = os.path.realpath(os.fsdecode(path))
    return real.startswith(os.path.realpath(folder) + os.sep)


def _is_allowed(watch: _Observe, path: object) -> bool:
    """Whether an import writes, or the harness to its own cache, or it stays in memory."""
    if path == ":memory:":
        return True
    if watch.imports:
        innermost = (
            each
            for each in calling_modules()
            if each in watch.plugin or each.startswith("importlib._bootstrap")
        )
        return next(innermost, "").startswith("importlib")
    caller = _caller()
    return caller == "import" or (is_harness(caller) and _is_inside(path, cache_folder()))


def _caller() -> str:
    """The module that caused an event, the standard library left out; 'import' inside an import."""
    for name in calling_modules():
        if name.startswith("importlib._bootstrap"):
            return "import"
        if name != __name__ and name.partition(".")[0] not in sys.stdlib_module_names:
            return name
    return ""


def _is_by_plugin(watch: _Observe, event: str) -> bool:
    """Whether the mechanism's own code caused an event, itself or through `inspect`. The rest of the standard library
    may look into frames."""
    if event.startswith("gc."):
        return True
    callers = (name for name in calling_modules() if name not in (__name__, "inspect"))
    return next(callers, "") in watch.plugin
