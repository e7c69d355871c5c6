"""`dpicl publish` and `dpicl run --wandb`, as a user types them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.run.results import Result
from dpicl.harness.run.store import Store
from dpicl.leaderboards.publish import wandb_settings, wandb_sink
from dpicl.leaderboards.publish.publish import plan
from dpicl.leaderboards.publish.run_file import read
from tests.conftest import Answer
from tests.leaderboards.factory import make_result
from tests.leaderboards.sinks.stub_server import StubServer

Dpicl = Callable[..., Answer]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty current folder, and short deadlines."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    real = wandb_settings.Destination

    def short(**settings: Any) -> wandb_settings.Destination:
        return real(**settings, begin_seconds=5.0, end_seconds=5.0, ask_seconds=6.0)

    monkeypatch.setattr(wandb_settings, "Destination", short)
    yield
    shutil.rmtree(wandb_sink._staging_folder(folder / "wandb"))


def written(folder: Path) -> int:
    return len(list(folder.rglob("*.wandb")))


def test_offline_is_the_default_and_says_what_to_run_later(dpicl: Dpicl, results_folder: Path) -> None:
    answer = dpicl("publish", "wandb", results_folder)
    assert answer.code == 0
    assert "4 runs written, 0 unchanged: 3 rows and 1 board, project dpicl-bench." in answer.out
    assert "`wandb sync wandb/offline-run-*`" in answer.out
    assert written(Path()) == 4
    again = dpicl("publish", "wandb", results_folder, "--json").json
    assert (again["sent"], again["unchanged"], again["mode"]) == (0, 4, "offline")


@pytest.mark.parametrize("what", ["quick", "folder"])
def test_a_suite_by_its_name_or_its_folder(dpicl: Dpicl, results_folder: Path, what: str) -> None:
    words = [results_folder / "quick"] if what == "folder" else ["quick", "--results", results_folder]
    assert len(dpicl("publish", "wandb", *words, "--dry-run", "--json").json["runs"]) == 4


def test_a_dry_run_shows_everything_and_writes_nothing(
    dpicl: Dpicl, results_folder: Path, results: list[Result]
) -> None:
    shown = dpicl("publish", "wandb", results_folder, "--dry-run", "--json").json["runs"]
    assert [one["id"] for one in shown] == [thing.id for thing in (*plan(results).rows, *plan(results).boards)]
    assert shown[1]["rows"][0]["epsilon"] == 1.0
    assert "4 runs would be sent; nothing was." in dpicl("publish", "trackio", results_folder, "--dry-run").out
    assert not list(Path().iterdir())


def test_suites_and_models_can_be_chosen(dpicl: Dpicl, results_folder: Path) -> None:
    store = Store(results_folder, "other")
    store.write(make_result(suite="other", model="hf:other"))
    for words, number in ((["--suite", "other"], 2), (["--model", "embedded"], 4), ([], 6)):
        shown = dpicl("publish", "wandb", results_folder, "--dry-run", "--json", *words).json["runs"]
        assert len(shown) == number


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere"], "Unknown results folder or suite 'nowhere'"),
        (["/nowhere/at/all"], "is no folder"),
        (["FOLDER", "--suite", "nothing"], "Unknown suite of"),
        (["FOLDER", "--mode", "sometimes"], "Unknown mode 'sometimes'"),
        (["FOLDER", "--mode", "online"], "run `wandb login` or set WANDB_API_KEY"),
        (["FOLDER", "--report"], "--report and --weave need --mode online"),
        (["FOLDER", "--weave"], "--report and --weave need --mode online"),
    ],
)
def test_a_bad_use_is_one_sentence_and_exit_code_2(
    dpicl: Dpicl, results_folder: Path, words: list[str], message: str
) -> None:
    answer = dpicl("publish", "wandb", *[str(results_folder) if word == "FOLDER" else word for word in words])
    assert answer.code == 2 and message in answer.err and answer.err.count("\n") == 1
    assert written(Path()) == 0


def test_damaged_files_are_named_and_left_out(dpicl: Dpicl, results_folder: Path) -> None:
    path = next(results_folder.rglob("*.json"))
    path.write_text("{")
    answer = dpicl("publish", "wandb", results_folder)
    assert answer.code == 0 and "damaged" in answer.err and path.read_text() == "{"


def test_simulated_results_need_a_project_of_their_own(dpicl: Dpicl, tmp_path: Path) -> None:
    Store(tmp_path / "sim", "quick").write(make_result(model="sim"))
    answer = dpicl("publish", "wandb", tmp_path / "sim")
    assert answer.code == 2 and "name a project for them with --project" in answer.err
    assert dpicl("publish", "wandb", tmp_path / "sim", "--project", "tests").code == 0


def test_a_server_that_is_down_loses_nothing_and_says_what_to_run(
    dpicl: Dpicl, results_folder: Path, server: StubServer
) -> None:
    server.behaviour = "broken"
    before = {path: path.read_bytes() for path in results_folder.rglob("*.json")}
    answer = dpicl("publish", "wandb", results_folder, "--project", "p")
    assert answer.code == 2
    assert "0 of 4 runs are published; no result is lost." in answer.err
    assert f"Run `dpicl publish wandb {results_folder} --project p` again later" in answer.err
    assert {path: path.read_bytes() for path in results_folder.rglob("*.json")} == before


def run_live(dpicl: Dpicl, suite: Path, *words: object) -> Answer:
    return dpicl("run", suite, "--results", "results", "--wandb", "--wandb-project", "tests", *words)


def test_a_run_publishes_live_and_once(dpicl: Dpicl, sim_suite: Path) -> None:
    answer = run_live(dpicl, sim_suite, "--mechanism", "zero_shot", "--mechanism", "real_demonstrations")
    assert answer.code == 0 and "W&B: 3 runs published." in answer.err
    files = [read(path) for path in Path().rglob("*.wandb")]
    assert sorted(len(file.history) for file in files) == [1, 2, 2] and all(file.finished for file in files)
    again = run_live(dpicl, sim_suite, "--mechanism", "zero_shot", "--mechanism", "real_demonstrations")
    assert again.code == 0 and "W&B: 0 runs published." in again.err and written(Path()) == 3
    # what a run published is what `publish` would: nothing is left to send
    assert dpicl("publish", "wandb", "results", "--project", "tests", "--json").json["unchanged"] == 3


@pytest.mark.slow
def test_a_run_whose_publication_was_lost_publishes_at_its_next_start(dpicl: Dpicl, sim_suite: Path) -> None:
    run_live(dpicl, sim_suite, "--mechanism", "zero_shot")
    shutil.rmtree("wandb")
    answer = run_live(dpicl, sim_suite, "--mechanism", "zero_shot")
    assert "0 cells done, 2 were there" in answer.out and "W&B: 2 runs published." in answer.err


def test_a_run_goes_on_without_w_and_b(dpicl: Dpicl, sim_suite: Path, server: StubServer) -> None:
    server.behaviour = "broken"
    answer = run_live(dpicl, sim_suite, "--mechanism", "zero_shot")
    assert answer.code == 0 and "2 cells done" in answer.out
    assert answer.err.count("no result is lost; later run `dpicl publish wandb results --project tests`") == 1
    assert len(list(Path("results").rglob("*.json"))) == 2


def test_a_run_online_without_a_key_warns_and_goes_on(dpicl: Dpicl, sim_suite: Path) -> None:
    answer = run_live(dpicl, sim_suite, "--mechanism", "zero_shot", "--wandb-mode", "online")
    assert answer.code == 0 and "wandb login" in answer.err and "2 cells done" in answer.out


def test_a_simulated_run_needs_a_project(dpicl: Dpicl, sim_suite: Path) -> None:
    answer = dpicl("run", sim_suite, "--wandb")
    assert answer.code == 2 and "--wandb-project" in answer.err


@pytest.mark.parametrize(("flag", "value", "known"), [("--suite", "quik", "quick"), ("--model", "embeded", "embedded")])
def test_a_filter_that_no_result_fits_is_named_with_the_closest_one(
    dpicl: Dpicl, results_folder: Path, flag: str, value: str, known: str
) -> None:
    answer = dpicl("publish", "wandb", results_folder, flag, value, "--dry-run")
    assert answer.code == 2 and f"'{value}'" in answer.err and f"Did you mean '{known}'?" in answer.err


def test_a_w_and_b_flag_of_a_run_needs_wandb(dpicl: Dpicl, sim_suite: Path) -> None:
    answer = dpicl("run", sim_suite, "--wandb-project", "p")
    assert answer.code == 2 and "--wandb-project publishes nothing by itself; add --wandb" in answer.err
