"""Fixtures of what is published: results of one small suite, a server, and no settings of the user's own."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpicl.harness.run.results import Result
from dpicl.harness.run.store import Store
from dpicl.leaderboards.publish import wandb_settings, wandb_sink
from dpicl.leaderboards.publish.wandb_settings import Destination, destination
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.sinks.stub_server import StubServer, stub_server

API_KEY = "a" * 40


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable, key or settings file of the user's, and an empty home."""
    for name in list(os.environ):
        if name.startswith(("WANDB_", "TRACKIO_", "WEAVE_")):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(home))
    monkeypatch.setenv("WANDB_CACHE_DIR", str(home))


@pytest.fixture
def results() -> list[Result]:
    """Both ends and one mechanism at two epsilons, two seeds each: 8 results, 3 rows."""
    found = []
    for seed in (0, 1):
        found += ends(seed=seed)
        found += [make_result(score=0.5 + 0.1 * seed, epsilon=1.0, seed=seed, claimed=0.5)]
        found += [make_result(score=0.7, epsilon=8.0, seed=seed, proved=7.9)]
    return found


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
        shutil.rmtree(wandb_sink._staging_folder(Path(folder) / "wandb"))


def end_service() -> None:
    """Ends wandb's service process, which now and then does not end by itself when its server was not kind."""
    import wandb

    timer = wandb_settings.end_service_after(10.0)
    with suppress(ConnectionError):  # it was killed
        wandb.teardown()
    timer.cancel()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubServer]:
    """A W&B server that wandb will use, with a key. wandb reads its settings once a process, so it starts anew."""
    end_service()
    with stub_server() as found:
        monkeypatch.setenv("WANDB_API_KEY", API_KEY)
        monkeypatch.setenv("WANDB_BASE_URL", found.url)
        yield found
        end_service()
        assert found.unknown == []


@pytest.fixture
def to(runs_folder: Path) -> Callable[..., Destination]:
    """A destination with short deadlines: to(), to("offline")."""

    def make(mode: str | None = None) -> Destination:
        found = destination("leaderboard", None, mode, runs_folder)
        return dataclasses.replace(found, begin_seconds=5.0, end_seconds=5.0, ask_seconds=8.0)

    return make
