"""Fixtures that any test may use."""

from __future__ import annotations

import copy
import gc
import json
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl import models
from dpicl.core import strict_yaml
from dpicl.data import config as task_config
from dpicl.data import sources, task_file
from dpicl.program import main
from dpicl.results import schema
from dpicl.results.store import Store
from tests.examples import examples as examples

# What a forked child inherits is no garbage of its own: to look through all of it, and so to copy it, takes a second.
os.register_at_fork(after_in_child=gc.freeze)
#: What a cache folder holds that follows from its key alone: searched calibrations, converted weights.
SHARED = ("calibration", "models")
COMMITTED = (Path(__file__).parents[1] / "results").resolve()
SIM_SUITE = Path(__file__).parent / "data" / "sim_suite.yaml"


def read_releases(paths: Iterable[Path]) -> Iterator[schema.Result]:
    """The results that files hold, each read when it is its turn; scores, which name the release of a file beside them,
    are passed over."""
    contents = (schema.either_from_text(path.read_text("utf-8")) for path in paths)
    return (content for content in contents if isinstance(content, schema.Result))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what slow.txt lists as slow, besides what says so itself."""
    listed = set((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """What collection leaves stays until the end: 800,000 objects that no garbage collection need look through."""
    gc.collect()
    gc.freeze()


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def succeed(self) -> Answer:
        """The answer itself, of a command that must have ended well."""
        assert self.code == 0, self.err or self.out
        return self


_write_corpus = sources.read_synthetic


def remember(
    patch: pytest.MonkeyPatch,
    places: Sequence[Any],
    name: str,
    most: int,
    key: Callable[..., Any],
    copy: Callable[..., Any],
) -> None:
    """Asks the function of that name once for each key, of which the last so many are kept, and gives everybody a copy.
    A key that is None is not remembered."""
    values: dict[Any, Any] = {}
    original = getattr(places[0], name)

    def recall(*words: Any, **named: Any) -> Any:
        if (kept_under := key(*words, **named)) is None:
            return original(*words, **named)
        if kept_under not in values:
            if len(values) == most:
                del values[next(iter(values))]
            values[kept_under] = original(*words, **named)
        return copy(values[kept_under], *words, **named)

    for place in places:
        patch.setattr(place, name, recall)


@pytest.fixture(scope="session", autouse=True)
def read_once() -> Iterator[None]:
    """What many tests of this process read is read once: synthetic corpora (8,200 records take half a second; tests of
    the corpora take `new_corpora`), YAML (the suites that ship take a second), committed results, and the text of a
    result, which nobody changes."""

    def find_commit(store: Store) -> str | None:
        folder = os.path.realpath(store.folder)
        return folder if os.path.dirname(folder) == str(COMMITTED) else None

    def document(
        parsed: strict_yaml.Document, text: str, path: Path, functions: bool = False
    ) -> strict_yaml.Document:
        return strict_yaml.Document(path, copy.deepcopy(parsed.data), dict(parsed.lines))

    def to_lists(lists: tuple[list[Any], list[Any]], *_: object) -> tuple[list[Any], list[Any]]:
        return list(lists[0]), list(lists[1])

    def first(part: Any, *_: object) -> Any:
        return part

    with pytest.MonkeyPatch.context() as patch:
        remember(
            patch,
            [sources],
            "read_synthetic",
            32,
            lambda spec, *more: (repr(spec), *more),
            to_lists,
        )
        parsed = [strict_yaml, task_file]
        remember(
            patch,
            parsed,
            "parse",
            64,
            lambda text, path, functions=False: (text, functions),
            document,
        )
        remember(patch, [Store], "load_all", 4, find_commit, to_lists)
        remember(
            patch,
            [schema],
            "read_part",
            5000,
            lambda kind, text, *_: (kind, len(text), hash(text)),
            first,
        )
        yield


@pytest.fixture
def new_corpora(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load writes its synthetic corpus."""
    monkeypatch.setattr(sources, "read_synthetic", _write_corpus)


@pytest.fixture(autouse=True)
def _empty_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's home folder, such as budgets of private sets, is seen."""
    home = tmp_path_factory.getbasetemp() / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that all tests of this process share. What follows from its key alone is searched for or converted
    once for all processes of `pytest -n`."""
    folder, base = tmp_path_factory.mktemp("cache"), tmp_path_factory.getbasetemp()
    together = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    for part in SHARED:
        (together / part).mkdir(parents=True, exist_ok=True)
        (folder / part).symlink_to(together / part)
    return folder


@pytest.fixture
def own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Points DPICL_CACHE to the session's cache folder: nothing of the user's own cache is read or written."""
    monkeypatch.setenv("DPICL_CACHE", str(session_cache))
    return session_cache


@pytest.fixture
def fresh_cache(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of this test alone, without outputs or budgets; what follows from its key alone is the
    session's."""
    folder = tmp_path / "cache"
    folder.mkdir()
    for part in SHARED:
        (folder / part).symlink_to(own_cache / part)
    monkeypatch.setenv("DPICL_CACHE", str(folder))
    return folder


@pytest.fixture
def local_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test, which DPICL_DATA names."""
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def plugins_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test makes known with `--plugin` is unknown to the next one."""
    for module in (task_config, models):
        monkeypatch.setattr(module, "_given", dict(module._given))


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables stand in lines that no width breaks; tests of the width set their own."""
    monkeypatch.setenv("COLUMNS", "220")


@pytest.fixture(autouse=True)
def warnings_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's warnings reach caplog, or the stderr of this test's first command: `main` sets its log up once."""
    log = logging.getLogger("dpicl")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)


@pytest.fixture
def dpicl(own_cache: Path, capfd: pytest.CaptureFixture[str]) -> Callable[..., Answer]:
    """Runs a `dpicl` command in this process: dpicl(f"plan {suite} --json"). Further words stay whole."""

    def run(command: str = "", *words: object) -> Answer:
        capfd.readouterr()
        code = main([*shlex.split(command), *map(str, words)])
        out, err = capfd.readouterr()
        return Answer(code, out, err)

    return run


@pytest.fixture
def dpicl_process(own_cache: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts a `dpicl` command as a process of its own, with one thread; the caller waits for it or kills it.

    Words for Popen may be given by name.
    """

    def start(*words: object, **how: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "dpicl", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parent.parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            **how,
        )

    return start


@pytest.fixture
def sim_suite() -> Path:
    """The path of a suite on the simulated model: 8 cells, seconds."""
    return SIM_SUITE
