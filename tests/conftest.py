"""Fixtures that any test may use."""

from __future__ import annotations

import copy
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpicl.core import plugins, strict_yaml
from dpicl.core.vocabulary import Record
from dpicl.data import sources, task_file
from dpicl.data.task_file import SourceSpec
from dpicl.program import main
from dpicl.results.schema import Result
from dpicl.results.store import Damaged, Store
from tests.examples import examples as examples

#: What a cache folder holds that follows from its key alone: searched calibrations, converted weights.
SHARED = ("calibration", "models")
#: Synthetic corpora that a process keeps at a time.
CORPORA = 32
#: Parsed files of YAML, too.
DOCUMENTS = 64
COMMITTED = (Path(__file__).parents[1] / "results").resolve()
SIM_SUITE = Path(__file__).parent / "data" / "sim_suite.yaml"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what slow.txt lists as slow, besides what says so itself."""
    listed = set((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid in listed:
            item.add_marker(pytest.mark.slow)


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


_write_corpus = sources.read_synthetic


@pytest.fixture(scope="session", autouse=True)
def corpora_once() -> Iterator[None]:
    """A synthetic corpus is written once for all tests of this process that load it: 8,200 records take half a second.
    Tests of the corpora take `new_corpora`."""
    kept: dict[tuple[object, ...], tuple[tuple[Record, ...], tuple[Record, ...]]] = {}

    def read(spec: SourceSpec, *more: int | None) -> tuple[list[Record], list[Record]]:
        key = (repr(spec), *more)
        if key not in kept:
            train, test = _write_corpus(spec, *more)
            kept[key] = tuple(train), tuple(test)
            if len(kept) > CORPORA:
                del kept[next(iter(kept))]
        first, second = kept[key]
        return list(first), list(second)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "read_synthetic", read)
        yield


@pytest.fixture(scope="session", autouse=True)
def documents_once() -> Iterator[None]:
    """A text of YAML is parsed once for all tests of this process: the suites that ship take a second, and whatever
    looks at submissions reads them all."""
    kept: dict[tuple[str, bool], strict_yaml.Document] = {}
    parse = strict_yaml.parse

    def parsed(text: str, path: Path, functions: bool = False) -> strict_yaml.Document:
        if (text, functions) not in kept:
            kept[text, functions] = parse(text, path, functions)
            if len(kept) > DOCUMENTS:
                del kept[next(iter(kept))]
        found = kept[text, functions]
        return strict_yaml.Document(path, copy.deepcopy(found.data), dict(found.lines))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strict_yaml, "parse", parsed)
        patch.setattr(task_file, "parse", parsed)
        yield


@pytest.fixture(scope="session", autouse=True)
def entry_points_once() -> Iterator[None]:
    """The distributions on one path are searched for plug-ins once; tests install theirs in folders of their own."""
    kept: dict[tuple[str, ...], Any] = {}
    found = plugins.entry_points

    def listed(group: str) -> Any:
        key = (group, *sys.path)
        if key not in kept:
            kept[key] = found(group=group)
        return kept[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "entry_points", listed)
        yield


@pytest.fixture(scope="session", autouse=True)
def committed_results_once() -> Iterator[None]:
    """The results of record of one suite are read once in a row: nothing of this session changes them."""
    kept: dict[str, tuple[list[Result], list[Damaged]]] = {}
    load_all = Store.load_all

    def loaded(store: Store) -> tuple[list[Result], list[Damaged]]:
        folder = os.path.realpath(store.folder)
        if os.path.dirname(folder) != str(COMMITTED):
            return load_all(store)
        if folder not in kept:
            kept.clear()  # some are large
            kept[folder] = load_all(store)
        results, damaged = kept[folder]
        return list(results), list(damaged)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Store, "load_all", loaded)
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
    """Runs a `dpicl` command in this process: dpicl("plan", suite, "--json")."""

    def run(*words: object) -> Answer:
        capfd.readouterr()
        code = main([str(word) for word in words])
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
