"""Fixtures of runs that something happens to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.deadly import run_forked
from tests.faults.places import Place, Undisturbed


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Place]:
    """place('name') -> a Place that the commands of this process and of its children use from now on."""

    def make(name: str) -> Place:
        made = Place(tmp_path / name)
        made.use(monkeypatch)
        return made

    return make


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    # Loaded before the forks, once for all children.
    import dpicl.cli.run
    import dpicl.evaluation.lm_eval_bridge
    import dpicl.leaderboards.cli.publish  # noqa: F401

    calm = Place(tmp_path_factory.mktemp("undisturbed") / "calm")
    with pytest.MonkeyPatch.context() as patch:
        calm.use(patch)
        code, points = run_forked(calm.words(), calm.folder)
    assert code == 0, (calm.folder / "said").read_text()
    assert calm.releases() == {"counted0": 1, "counted1": 1} and calm.left_over() == []
    return Undisturbed(calm.outcomes(), points)
