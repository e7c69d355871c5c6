"""`dpicl publish`, as a user types it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.leaderboards.publish.runs import plan
from dpicl.results.schema import Result
from dpicl.results.store import Store
from tests.conftest import Answer
from tests.leaderboards.factory import make_result

Dpicl = Callable[..., Answer]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, and a server that is down: a port on which nobody listens."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{closed.getsockname()[1]}")
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)


def count_files() -> int:
    return len(list(Path().rglob("*.wandb")))


def test_offline_is_the_default_and_says_what_to_run_later(
    dpicl: Dpicl, results_folder: Path
) -> None:
    answer = dpicl("publish", "wandb", results_folder)
    assert (
        answer.code == 0 and "4 runs written" in answer.out and "`wandb sync wandb/" in answer.out
    )
    assert count_files() == 4
    again = dpicl("publish", "wandb", results_folder, "--json").json
    assert (len(again["runs"]), again["mode"], len(again["advice"])) == (
        4,
        "offline",
        1,
    ) and count_files() == 4


def test_a_dry_run_shows_everything_and_writes_nothing(
    dpicl: Dpicl, results_folder: Path, results: list[Result]
) -> None:
    shown = dpicl("publish", "wandb", results_folder, "--dry-run", "--json").json["runs"]
    assert [one["stands_for"] for one in shown] == [run.stands_for for run in plan(results).runs]
    assert shown[1]["summary"]["seeds/eps=1"] == 2 and shown[-1]["table"][1]["epsilon"] == 1.0
    assert "4 runs" in dpicl("publish", "wandb", results_folder, "--dry-run").out
    assert not list(Path().iterdir())


def test_suites_and_models_can_be_chosen(dpicl: Dpicl, results_folder: Path) -> None:
    Store(results_folder, "other").write(
        make_result(suite="other", model="hf:other", source="local")
    )
    for words, number in (
        ([results_folder], 6),
        ([results_folder, "--suite", "other"], 2),
        ([results_folder, "--model", "embedded"], 4),
        ([results_folder, "--suite", "quick"], 4),
        ([results_folder, "--source", "local"], 2),
    ):
        assert len(dpicl("publish", "wandb", *words, "--dry-run", "--json").json["runs"]) == number


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "No suite has results in nowhere"),
        (["FOLDER", "--suite", "quik"], "Did you mean 'quick'?"),
        (["FOLDER", "--model", "embeded"], "Did you mean 'embedded'?"),
        (["FOLDER", "--mode", "sometimes"], "'sometimes'"),
        (["FOLDER", "--mode", "online"], "WANDB_API_KEY"),
        (["FOLDER", "--source", "hub"], "source"),
    ],
)
def test_a_bad_use_is_one_sentence_and_exit_code_2(
    dpicl: Dpicl, results_folder: Path, words: list[str], message: str
) -> None:
    answer = dpicl(
        "publish", "wandb", *[str(results_folder) if word == "FOLDER" else word for word in words]
    )
    assert (
        answer.code == 2
        and message in answer.err
        and answer.err.count("\n") == 1
        and count_files() == 0
    )


def test_simulated_results_need_a_project_of_their_own(dpicl: Dpicl, tmp_path: Path) -> None:
    Store(tmp_path / "sim", "quick").write(make_result(model="sim"))
    answer = dpicl("publish", "wandb", tmp_path / "sim")
    assert answer.code == 2 and "--project" in answer.err
    assert dpicl("publish", "wandb", tmp_path / "sim", "--project", "tests", "--dry-run").code == 0


def test_a_server_that_is_down_loses_nothing_and_says_what_to_run(
    dpicl: Dpicl, results_folder: Path, no_server: None
) -> None:
    before = {path: path.read_bytes() for path in results_folder.rglob("*.json")}
    answer = dpicl("publish", "wandb", results_folder, "--project", "p")
    assert answer.code == 2 and answer.err.startswith("W&B: sending to http://127.0.0.1")
    for words in (
        "W&B did not",
        "0 of 4 runs",
        f"`dpicl publish wandb {results_folder} --project p`",
    ):
        assert words in answer.err.splitlines()[-1]
    assert {path: path.read_bytes() for path in results_folder.rglob("*.json")} == before
