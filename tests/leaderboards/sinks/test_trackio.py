"""trackio: its SQLite file is read back, without trackio."""

from __future__ import annotations

import json
import socket
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish.publish import plan, publish
from dpicl.leaderboards.publish.tracker import TrackioSink
from dpicl.leaderboards.publish.wandb_settings import SinkError

trackio = pytest.importorskip("trackio")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """trackio's folder for one test, which it reads once a process; no network, and a user who is logged in."""
    for module in (trackio, trackio.utils, trackio.sqlite_storage):
        monkeypatch.setattr(module, "TRACKIO_DIR", tmp_path / "t")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setenv("HF_TOKEN", "hf_of_somebody")
    monkeypatch.setenv("TRACKIO_SPACE_ID", "somebody/space")

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("trackio opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return tmp_path / "t"


def send(results: Sequence[Result], folder: Path) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    with TrackioSink("leaderboard", folder).opened() as sink:
        publish(plan(results), sink, outcomes)
    return outcomes


def table(folder: Path, sql: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "leaderboard.db") as connection:
        return connection.execute(sql).fetchall()


def test_what_is_in_the_file_equals_the_results_and_is_there_once(
    results: list[Result], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    what = plan(results)
    assert send(results, folder) == {"sent": 4} and capsys.readouterr().out == ""
    assert send(results[::-1], folder) == {"unchanged": 4}
    for row in what.rows:
        name = f"{row.name} {row.id}"
        lines = table(folder, f"SELECT metrics FROM metrics WHERE run_name = '{name}' ORDER BY step")
        assert [json.loads(line) for (line,) in lines] == [dict(own) for own in row.rows]
        ((config,),) = table(folder, f"SELECT config FROM configs WHERE run_name = '{name}'")
        known = json.loads(config)
        assert known["summary"] == row.summary and known["_Group"] == row.group and known["_Username"] is None
        assert {key: known[key] for key in row.config} == row.config
    (board,) = what.boards
    ((line,),) = table(folder, f"SELECT metrics FROM metrics WHERE run_name LIKE '%{board.id}'")
    assert [list(one.values()) for one in json.loads(line)["board"]["_value"]] == [list(own) for own in board.rows]


def test_what_was_replaced_is_deleted_and_what_was_cut_off_is_written_again(
    results: list[Result], changed: list[Result], folder: Path
) -> None:
    send(results, folder)
    assert send(changed, folder) == {"sent": 2, "unchanged": 2}
    ids = {thing.id for thing in (*plan(changed).rows, *plan(changed).boards)}
    assert {name.rpartition(" ")[2] for (name,) in table(folder, "SELECT DISTINCT run_name FROM metrics")} == ids
    before = table(folder, "SELECT run_name, step, metrics FROM metrics ORDER BY run_name, step")
    (folder / "dpicl-published.json").unlink()  # as if every run had been cut off
    assert send(changed, folder) == {"sent": 4}
    assert table(folder, "SELECT run_name, step, metrics FROM metrics ORDER BY run_name, step") == before


def test_what_trackio_only_warns_of_is_an_error(
    results: list[Result], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(trackio.sqlite_storage.SQLiteStorage, "bulk_log", full)
    with pytest.raises(SinkError, match="disk is full"):
        send(results, folder)


def test_the_command_writes_into_the_folder_that_is_asked_for(results_folder: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dpicl", "publish", "trackio", str(results_folder), "--dir", str(tmp_path / "t")]
    done = subprocess.run([*command, "--project", "leaderboard", "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["sent"], answer["folder"]) == (4, str(tmp_path / "t")) and "TRACKIO_DIR=" in answer["advice"][0]
    assert len(table(tmp_path / "t", "SELECT DISTINCT run_name FROM metrics")) == 4
