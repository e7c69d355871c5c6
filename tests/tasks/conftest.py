"""Fixtures of tasks that ask for texts."""

from collections.abc import Iterator

import pytest

from dpicl.data.task import Task
from dpicl.evaluation import text_metrics
from dpicl.models.embeddings import load_embeddings
from tests.samples import GENERATION


@pytest.fixture
def quick_embeddings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The simulated embeddings, and no WordNet, whatever this machine has."""
    monkeypatch.setattr(text_metrics, "_embed", load_embeddings("sim").encode)
    monkeypatch.setattr(
        text_metrics, "list_unavailable", lambda: {"meteor": "It is not there; install it."}
    )
    text_metrics._similarities.cache_clear()
    yield
    text_metrics._similarities.cache_clear()


@pytest.fixture(scope="module")
def tasks() -> dict[str, Task]:
    names = (*GENERATION, "wikimovies", "trec")
    return {name: Task.load(name, "synthetic", limit_train=30, limit_test=5) for name in names}
