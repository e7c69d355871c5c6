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
        monkeypatch.setenv("DPICL_CACHE", str(made.folder / "files" / "cache"))
        monkeypatch.setenv("RELEASES", str(made.folder / "releases"))
        return made

    return make


@pytest.fixture
def undisturbed(place: Callable[..., Place]) -> Undisturbed:
    calm = place("calm")
    import dpicl.harness.evaluation.lm_eval_bridge  # noqa: F401  loaded before the fork, once for all children

    code, points = run_forked(calm.words(), calm.folder)
    assert code == 0, (calm.folder / "said").read_text()
    assert calm.releases() == {"counted0": 1, "counted1": 1} and calm.left_over() == []
    return Undisturbed(calm.outcomes(), points)
