"""Without a network: the run files are read back record by record."""

from __future__ import annotations

import getpass
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish import wandb_sink
from dpicl.leaderboards.publish.base import SinkError
from dpicl.leaderboards.publish.publish import Tally, plan, publish
from dpicl.leaderboards.publish.run_file import RunFile, read
from dpicl.leaderboards.publish.wandb_settings import Destination, destination
from dpicl.leaderboards.publish.wandb_sink import WandbSink
from tests.leaderboards.factory import make_result

To = Callable[..., Destination]


def send(results: Sequence[Result], to: Destination) -> Tally:
    tally = Tally()
    publish(plan(results), WandbSink(to), tally)
    return tally


def run_files(folder: Path) -> dict[str, RunFile]:
    """Run id -> what its file says."""
    found = {path.stem.removeprefix("run-"): read(path) for path in folder.rglob("*.wandb")}
    assert all(id == one.run.run_id for id, one in found.items())
    return found


def test_what_is_in_the_files_equals_the_results(results: list[Result], to: To, runs_folder: Path) -> None:
    what = plan(results)
    send(results, to())
    found = run_files(runs_folder)
    assert set(found) == {thing.id for thing in (*what.rows, *what.boards)}
    for row in what.rows:
        file = found[row.id]
        assert file.finished
        assert [{key: line[key] for key in own} for line, own in zip(file.history, row.rows, strict=True)] == [
            dict(own) for own in row.rows
        ]
        assert {key: file.summary[key] for key in row.summary} == row.summary
        own_keys = {key for key in file.summary if not key.startswith("_")}
        assert own_keys == {*row.summary, "published_lines"}  # nothing of the last line leaks into it
        assert (file.run.run_group, file.run.job_type, tuple(file.run.tags)) == (row.group, row.job_type, row.tags)
        assert file.run.display_name == row.name and file.run.project == "leaderboard"
        assert {key: file.config[key] for key in row.config} == row.config
        assert [(one.name, one.glob_name, one.step_metric) for one in file.metrics] == [
            ("epsilon", "", ""),
            ("", "*", "epsilon"),
        ]


def test_the_board_has_its_table_and_both_artifacts(results: list[Result], to: To, runs_folder: Path) -> None:
    board = plan(results).boards[0]
    send(results, to())
    file = run_files(runs_folder)[board.id]
    own = {artifact.type: artifact for artifact in file.artifacts}
    for kind in ("results", "board"):
        assert set(own[kind].aliases) == {"latest", "suite-v1"} and own[kind].name == f"quick-embedded-{kind}"
    assert {entry.path for entry in own["results"].manifest.contents} == set(board.files)
    for entry in own["results"].manifest.contents:
        assert Path(entry.local_path).read_text() == board.files[entry.path]
    (path,) = runs_folder.rglob("*.table.json")
    table = json.loads(path.read_text())
    assert table["columns"] == list(board.columns) and table["data"] == [list(row) for row in board.rows]


def test_nothing_tells_of_the_machine_its_user_or_the_program(
    results: list[Result], to: To, runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "private-folder-name"
    there.mkdir()
    monkeypatch.chdir(there)
    monkeypatch.setattr(sys, "argv", ["private-program-name", "private-argument"])
    monkeypatch.setenv("PRIVATE_VARIABLE", "private-value")
    send(results, to())
    files = list(runs_folder.rglob("*.wandb"))
    assert len(files) == 4
    for path in files:
        content = path.read_bytes()
        assert b"private-" not in content
        for name in {socket.gethostname(), getpass.getuser(), sys.executable, os.uname().release}:
            assert not re.search(rb"(?<!\w)" + re.escape(name.encode()) + rb"(?!\w)", content), name
        kinds = set(read(path).kinds)
        assert not kinds & {"output", "output_raw", "stats", "environment", "files"} - {"files"}
    assert not list(runs_folder.rglob("wandb-metadata.json")) + list(runs_folder.rglob("requirements.txt"))


def test_publishing_twice_writes_nothing_more(results: list[Result], to: To, runs_folder: Path) -> None:
    assert send(results, to()).outcomes == {"sent": 4}
    before = {path: path.stat().st_mtime_ns for path in runs_folder.rglob("*") if path.is_file()}
    assert send(results, to()).outcomes == {"unchanged": 4}
    assert {path: path.stat().st_mtime_ns for path in runs_folder.rglob("*") if path.is_file()} == before


def test_another_project_is_another_place(results: list[Result], to: To, runs_folder: Path) -> None:
    send(results[:4], to())
    other = destination("elsewhere", None, "offline", runs_folder)
    assert send(results[:4], other).outcomes["unchanged"] == 0


def test_changed_results_are_another_run(results: list[Result], to: To, runs_folder: Path) -> None:
    send(results, to())
    changed = [make_result(score=0.9, epsilon=8.0, seed=1, proved=7.9), *results[:-1]]
    assert send(changed, to()).outcomes == {"sent": 2, "unchanged": 2}  # the row and the board
    rows = [file.config["published_row"] for file in run_files(runs_folder).values()]
    assert len(rows) == 6 and len(set(rows)) == 4


def test_a_publication_that_was_cut_off_is_written_again(results: list[Result], to: To, runs_folder: Path) -> None:
    what = plan(results)
    cut = runs_folder / "wandb" / f"offline-run-20260101_000000-{what.rows[0].id}"
    cut.mkdir(parents=True)
    (cut / f"run-{what.rows[0].id}.wandb").write_bytes(b":W&B\xe1\xbe\x00")
    assert send(results, to()).outcomes == {"sent": 4}
    assert not cut.exists() and run_files(runs_folder)[what.rows[0].id].finished


def test_a_run_file_that_is_not_whole_is_an_error_and_is_written_again(
    results: list[Result], to: To, runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(wandb_sink, "_READ_ATTEMPTS", 2)
        patch.setattr(wandb_sink, "read", lambda path: RunFile(history=[{}]))
        with pytest.raises(SinkError, match="disk full"):
            send(results, to())
    assert send(results, to()).outcomes == {"sent": 4}
    assert all(file.finished for file in run_files(runs_folder).values())


def test_a_damaged_record_is_named(results: list[Result], to: To, runs_folder: Path) -> None:
    (runs_folder / "wandb").mkdir()
    (runs_folder / "wandb" / "dpicl-published.json").write_text("[1")
    with pytest.raises(SinkError, match=r"dpicl-published.json is damaged; remove it"):
        send(results, to())


def test_a_folder_that_cannot_be_written_is_named(results: list[Result], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="choose another folder with --dir"):
        send(results, destination("p", None, "offline", tmp_path / "file"))


def test_offline_is_the_default_without_a_key(runs_folder: Path) -> None:
    assert destination(None, None, None, runs_folder).mode == "offline"


def test_online_is_the_default_with_a_key(runs_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    assert destination(None, None, None, runs_folder).mode == "online"
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert destination(None, None, None, runs_folder).mode == "offline"
    assert destination(None, None, "online", runs_folder).mode == "online"


def test_a_key_in_netrc_counts_for_its_host_alone(
    runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine wandb.example login user password {'b' * 40}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("WANDB_BASE_URL", "http://wandb.example")
    assert destination(None, None, None, runs_folder).mode == "online"
    monkeypatch.setenv("WANDB_BASE_URL", "http://other.example")
    assert destination(None, None, None, runs_folder).mode == "offline"


def test_online_without_a_key_says_what_to_do(runs_folder: Path) -> None:
    with pytest.raises(SinkError, match="wandb login"):
        destination(None, None, "online", runs_folder)


def test_wandb_that_is_switched_off_stays_off(runs_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    with pytest.raises(UsageError, match="WANDB_MODE"):
        destination(None, None, None, runs_folder)


def test_a_service_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """wandb waits for its process without a limit when the program ends."""
    stuck = tmp_path / "wandb-core"
    shutil.copy(str(shutil.which("sleep")), stuck)
    code = (  # in a program of its own, whose children are not those of other tests
        "import subprocess, sys\nfrom dpicl.leaderboards.publish.wandb_settings import end_service_after\n"
        "stuck = subprocess.Popen([sys.argv[1], '60'])\nend_service_after(0.0)\nsys.exit(-stuck.wait(timeout=30))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(stuck)], cwd=Path(__file__).parents[3], timeout=60)
    assert done.returncode == signal.SIGKILL
