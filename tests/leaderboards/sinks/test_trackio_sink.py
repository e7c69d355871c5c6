"""trackio: its SQLite file is read back, without trackio."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish.publish import Tally, plan, publish
from tests.leaderboards.factory import make_result

pytest.importorskip("trackio")
from trackio import sqlite_storage, utils

from dpicl.leaderboards.publish.trackio_sink import TrackioSink


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """trackio's folder for one test: it reads the variable once a process."""
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    monkeypatch.setattr(utils, "TRACKIO_DIR", tmp_path)
    monkeypatch.setattr(sqlite_storage, "TRACKIO_DIR", tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trackio opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def send(results: Sequence[Result], folder: Path, project: str = "leaderboard") -> Tally:
    tally = Tally()
    publish(plan(results), TrackioSink(project, folder), tally)
    return tally


def table(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "leaderboard.db") as connection:
        return connection.execute(sql).fetchall()


def test_what_is_in_the_file_equals_the_results(results: list[Result], folder: Path) -> None:
    what = plan(results)
    assert send(results, folder).outcomes == {"sent": 4}
    for row in what.rows:
        lines = table(folder, f"SELECT metrics FROM metrics WHERE run_id = '{row.id}' ORDER BY step")
        assert [json.loads(line) for (line,) in lines] == [dict(own) for own in row.rows]
        ((config,),) = table(folder, f"SELECT config FROM configs WHERE run_id = '{row.id}'")
        known = json.loads(config)
        assert known["summary"] == row.summary and known["_Group"] == row.group and known["_Username"] is None
        assert {key: known[key] for key in row.config} == row.config
    (board,) = what.boards
    ((line,),) = table(folder, f"SELECT metrics FROM metrics WHERE run_id = '{board.id}'")
    shown = json.loads(line)["board"]
    assert shown["_type"] == "trackio.table"
    assert [list(one.values()) for one in shown["_value"]] == [list(own) for own in board.rows]


def test_publishing_twice_adds_no_line(results: list[Result], folder: Path) -> None:
    send(results, folder)
    before = table(folder, "SELECT * FROM metrics"), table(folder, "SELECT * FROM configs")
    assert send(results[::-1], folder).outcomes == {"unchanged": 4}
    assert (table(folder, "SELECT * FROM metrics"), table(folder, "SELECT * FROM configs")) == before


def test_changed_results_take_the_place_of_the_older_ones(results: list[Result], folder: Path) -> None:
    send(results, folder)
    changed = [make_result(score=0.9, epsilon=8.0, seed=1, proved=7.9), *results[:-1]]
    assert send(changed, folder).outcomes == {"sent": 2, "unchanged": 2}
    what = plan(changed)
    there = {id for (id,) in table(folder, "SELECT DISTINCT run_id FROM metrics")}
    assert there == {thing.id for thing in (*what.rows, *what.boards)}


def test_trackio_itself_finds_the_runs(results: list[Result], folder: Path) -> None:
    import trackio

    send(results, folder)
    names = {run.name for run in trackio.Api().runs("leaderboard")}
    assert names == {
        "zero_shot agnews [quick v1, embedded]",
        "tang agnews [quick v1, embedded]",
        "real_demonstrations agnews [quick v1, embedded]",
        "board of quick v1, embedded",
    }


def test_a_project_name_that_trackio_refuses_is_named(folder: Path) -> None:
    with pytest.raises(UsageError, match="project name"):
        TrackioSink("registry-of-mine", folder)


def test_another_folder_in_the_same_process_is_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="in a new process"):
        TrackioSink("leaderboard", folder / "other")


def test_the_command_writes_into_the_folder_that_is_asked_for(results_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dpicl", "publish", "trackio", str(results_folder), "--dir", str(tmp_path / "t")]
    done = subprocess.run([*command, "--project", "leaderboard"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"TRACKIO_DIR={tmp_path / 't'} trackio show --project leaderboard" in done.stdout
    assert len(table(tmp_path / "t", "SELECT DISTINCT run_id FROM metrics")) == 4
