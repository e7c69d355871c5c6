"""Fixtures of what is published: results of one small suite, folders, and no settings of the user's own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpicl.leaderboards.publish import sink
from dpicl.results.schema import Result
from dpicl.results.store import Store
from tests.leaderboards.factory import ends, make_result


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable, key or settings file of the user's, an empty home, and short deadlines."""
    from wandb.sdk.lib import wbauth  # it takes two seconds, and no other folder's tests need it

    for name in list(os.environ):
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    for name in ("HOME", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(name, str(home))
    wbauth.unauthenticate_session()  # a key of an earlier test
    monkeypatch.setattr(sink, "ASK_SECONDS", 2.0)
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(sink, "STAGED", Path(folder))
        yield


@pytest.fixture
def results() -> list[Result]:
    """The reference baselines and one mechanism at two epsilons, two seeds each: 8 results, 3 rows."""
    found = []
    for seed in (0, 1):
        found += ends(seed=seed)
        found += [make_result(score=0.5 + 0.1 * seed, epsilon=1.0, seed=seed, claimed=0.5)]
        found += [make_result(score=0.7, epsilon=8.0, seed=seed, proved=7.9)]
    return found


@pytest.fixture
def changed(results: list[Result]) -> list[Result]:
    """The same results, but for one score."""
    return [make_result(score=0.9, epsilon=8.0, seed=1, proved=7.9), *results[:-1]]


@pytest.fixture
def results_folder(tmp_path: Path, results: list[Result]) -> Path:
    """A results folder that holds them."""
    store = Store(tmp_path / "results", "quick")
    store.prepare()
    for result in results:
        store.write(result)
    return tmp_path / "results"


@pytest.fixture
def runs_folder() -> Iterator[Path]:
    """A folder for wandb's files whose path may be found nowhere in what is written or sent."""
    with tempfile.TemporaryDirectory(prefix="private-") as folder:
        yield Path(folder)
