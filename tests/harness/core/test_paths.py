"""What is kept in the home folder: caches where the XDG variables say, budgets where no change of them loses one."""

from pathlib import Path

import pytest

from dpicl.accounting.events import gaussian
from dpicl.core import paths
from dpicl.core.errors import UsageError
from dpicl.own import budget
from dpicl.own.budget import ChargeTo, NewRelease
from tests.harness.helpers import refuse
from tests.harness.own.desk import ALWAYS, SMALL, write_csv

RELEASE = NewRelease(gaussian(4.0), 1.0, 1e-5, {"mechanism": "test"})
NEW, OLD = ".local/share/dpicl/private", ".cache/dpicl/private"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder of its own, and no variable that says where things are."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in ("DPICL_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "home"


def charge() -> None:
    budget.charge([], RELEASE, ChargeTo("tickets"))


def releases() -> list[int]:
    return [stands["releases"] for stands in budget.read_sets()]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "home/.cache/dpicl"),
        ({"XDG_CACHE_HOME": "/"}, "/dpicl"),
        ({"XDG_CACHE_HOME": ""}, "home/.cache/dpicl"),
        ({"XDG_CACHE_HOME": "relative"}, "home/.cache/dpicl"),
        ({"XDG_CACHE_HOME": "/other", "DPICL_CACHE": "~/mine"}, "home/mine"),
    ],
)
def test_the_cache_is_where_the_environment_says(home, monkeypatch, variables, expected):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert paths.cache_folder() == home.parent / expected


def test_no_xdg_variable_makes_a_budget_begin_anew(home, monkeypatch):
    charge()
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home / "elsewhere"))
        charge()
    assert releases() == [3] and paths.private_folder() == home / NEW


@pytest.mark.parametrize("lost", [None, "key", "budget-tickets.jsonl"])
def test_a_budget_of_an_earlier_version_goes_on_where_it_is(home, monkeypatch, lost):
    monkeypatch.setenv("DPICL_CACHE", str(home / ".cache/dpicl"))
    charge()
    monkeypatch.delenv("DPICL_CACHE")
    if lost:
        (home / OLD / lost).unlink()
    assert paths.private_folder() == home / OLD
    if not lost:
        charge()
        assert releases() == [2] and not (home / NEW).exists()


def test_two_folders_of_budgets_are_refused(home, dpicl, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(home / ".cache/dpicl"))
    charge()
    monkeypatch.delenv("DPICL_CACHE")
    (home / OLD).rename(home / "aside")
    charge()
    (home / "aside").rename(home / OLD)
    with pytest.raises(UsageError):
        charge()
    refuse(dpicl("budget"), str(home / OLD), str(home / NEW))


def test_budgets_that_a_variable_hides_are_named_first(home, dpicl, fresh_cache, monkeypatch):
    monkeypatch.chdir(home.parent)
    write_csv(Path("tickets.csv"), 18)
    monkeypatch.delenv("DPICL_CACHE")
    charge()
    assert paths.uncounted_budgets() == []
    monkeypatch.setenv("DPICL_CACHE", str(fresh_cache))
    answer = dpicl(
        "release tang --data tickets.csv", *ALWAYS, *SMALL, "--out", "demos.jsonl"
    ).succeed()
    assert str(home / NEW) in answer.err
    assert str(fresh_cache / "private") in answer.out
    assert releases() == [1]
