"""W&B: offline by wandb itself; online by a module with wandb's interface on a server that lives in memory."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any

import pytest

from dpicl.leaderboards.publish import sink as sink_module
from dpicl.leaderboards.publish.runs import Plan, plan
from dpicl.leaderboards.publish.sink import CONTENT_KEY, Destination, Sink, SinkError, destination
from dpicl.results.schema import Result

ONLINE = "https://wandb.example"


def send(
    what: Plan, folder: Path, address: str | None = None, project: str = "leaderboard"
) -> Sink:
    sink = Sink(Destination(project, None, folder, address))
    sink.publish(what.runs)
    sink.close()
    return sink


def files(folder: Path) -> dict[str, bytes]:
    """Run id -> the content of its run file, which wandb's own process may finish a moment after the run has ended."""
    end = monotonic() + 20
    while True:
        found = {
            path.stem.removeprefix("run-"): path.read_bytes() for path in folder.rglob("*.wandb")
        }
        if all(CONTENT_KEY.encode() in content for content in found.values()) or monotonic() > end:
            return found
        sleep(0.05)


def test_offline_everything_is_written_and_nothing_tells_of_the_machine(
    results: list[Result], runs_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "private-folder-name"
    there.mkdir()
    monkeypatch.chdir(there)
    monkeypatch.setattr(sys, "argv", ["private-program-name", "private-argument"])
    what = plan(results)
    sink = send(what, runs_folder)
    found = files(runs_folder)
    assert set(found) == {sink.run_id(run) for run in what.runs}
    for run in what.runs:
        for text in (run.name, run.group, run.job_type, run.notes, *run.tags, *run.summary):
            assert text.encode() in found[sink.run_id(run)], text
    for content in found.values():
        assert b"private-" not in content
        for name in {socket.gethostname(), getpass.getuser(), sys.executable, os.uname().release}:
            assert not re.search(rb"(?<!\w)" + re.escape(name.encode()) + rb"(?!\w)", content), name
    assert not [*runs_folder.rglob("wandb-metadata.json"), *runs_folder.rglob("requirements.txt")]


def test_offline_a_row_has_one_folder_of_its_newest_results(
    results: list[Result], changed: list[Result], runs_folder: Path
) -> None:
    cut = send(plan(results), runs_folder)
    older = (
        runs_folder / "wandb" / f"offline-run-20260101_000000-{cut.run_id(plan(results).runs[1])}"
    )
    older.mkdir()
    assert (
        send(plan(changed), runs_folder).sent.keys() == cut.sent.keys() == files(runs_folder).keys()
    )
    assert not older.exists() and len(list((runs_folder / "wandb").glob("offline-run-*"))) == len(
        cut.sent
    )
    elsewhere = send(plan(results), runs_folder, project="elsewhere")
    assert not elsewhere.sent.keys() & cut.sent.keys() and len(files(runs_folder)) == 8


def test_a_folder_that_cannot_be_used_is_named(results: list[Result], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="--dir"):
        send(plan(results), tmp_path / "file")


@pytest.mark.parametrize(
    ("flag", "variable", "key", "mode"),
    [
        (None, None, False, "offline"),
        (None, None, True, "online"),
        (None, "offline", True, "offline"),
        ("online", "offline", True, "online"),
        ("online", None, False, None),
        (None, "online", False, None),
        (None, "disabled", True, "offline"),
    ],
)
def test_the_mode_follows_the_flag_the_variable_and_the_key(
    flag: str | None,
    variable: str | None,
    key: bool,
    mode: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if variable:
        monkeypatch.setenv("WANDB_MODE", variable)
    if key:
        monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    with nullcontext() if mode else pytest.raises(SinkError, match="wandb login"):
        assert destination(None, None, flag, None).mode == mode


class Run:
    """A run on the server: a second publication adds to its history and updates its summary, as wandb does."""

    def __init__(self, server: Server, id: str) -> None:
        self.server, self.id, self.state = server, id, "running"
        self.config: dict[str, Any] = {}
        self.summary: dict[str, Any] = {}
        self.lines: list[Any] = []
        self.tags: list[str] = []
        self.notes = ""
        self.define_metric = lambda name, **more: None

    @property
    def summary_metrics(self) -> dict[str, Any]:
        return self.summary

    def log(self, line: Any) -> None:
        self.lines.append(line)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.state = "failed" if kind else "running" if self.id == self.server.loses else "finished"


class Server:
    """The interface of wandb as far as the sink uses it."""

    def __init__(self) -> None:
        import wandb

        self.runs: dict[str, Run] = {}
        self.loses = ""
        self.Table, self.Settings = wandb.Table, wandb.Settings
        self.setup = lambda settings: None
        self.Api = lambda timeout: SimpleNamespace(default_entity="somebody", runs=self.list_runs)

    def init(self, *, id: str, resume: str, mode: str, config: dict[str, Any], **more: Any) -> Run:
        assert (resume, mode) == ("allow", "online")
        run = self.runs.setdefault(id, Run(self, id))
        run.config, run.tags, run.notes = config, more["tags"], more["notes"]
        return run

    def list_runs(self, path: str, per_page: int, lazy: bool) -> list[Run]:
        assert path == "somebody/leaderboard"
        return list(self.runs.values())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(sink_module, "load_wandb", lambda: found)
    return found


def test_online_what_arrives_equals_the_results_and_is_updated_in_its_place(
    results: list[Result], changed: list[Result], server: Server, runs_folder: Path
) -> None:
    for turn, now in enumerate((plan(results), plan(changed))):
        sink = send(now, runs_folder, ONLINE)
        assert len(server.runs) == 4
        for published in now.runs:
            run = server.runs[sink.run_id(published)]
            assert run.summary == {**published.summary, "published_content": published.content}
            assert run.config == published.config
            assert len(run.lines) == (turn + 1) * (1 if published.table else len(published.curve))
        assert run.tags == list(published.tags) and run.notes == published.notes
        table = run.lines[turn]["board"]
        lines = [dict(zip(table.columns, line, strict=True)) for line in table.data]
        assert lines == [
            {name: line.get(name) for name in table.columns} for line in published.table
        ]


def test_online_data_that_does_not_arrive_is_an_error(
    results: list[Result], server: Server, runs_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_module, "ASK_SECONDS", 0.0)
    what = plan(results)
    server.loses = Sink(Destination("leaderboard", None, runs_folder, ONLINE)).run_id(what.runs[2])
    with pytest.raises(SinkError, match="1 of 4 runs incomplete"):
        send(what, runs_folder, ONLINE)


def test_a_settings_file_of_the_working_folder_says_nothing(tmp_path: Path) -> None:
    """It may have come with results: it named the server that got the key, over plain http."""
    (tmp_path / "wandb").mkdir()
    (tmp_path / "wandb" / "settings").write_text(
        "[default]\nbase_url = http://collector.example\ninsecure_disable_ssl = true\nhttps_proxy = http://example.org\n"
    )
    asked = (
        "import wandb; from dpicl.leaderboards.publish.sink import destination\n"
        "to, own = destination(None, None, None, None), wandb.setup().settings\n"
        "print(to.address, to.mode, own.base_url, own.insecure_disable_ssl, own.https_proxy)"
    )
    done = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path,
        env={**os.environ, "WANDB_API_KEY": "a" * 40},
        capture_output=True,
        text=True,
        check=True,
    )
    said = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"(https://\S+) online \1 False None", said) and "collector" not in said


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("http://wandb.example", False),
        ("https://somebody:word@wandb.example", False),
        ("http://127.0.0.1:8080", True),
        ("https://wandb.example", True),
    ],
)
def test_the_key_goes_over_https_or_stays_on_this_machine(
    address: str, good: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", address)
    if good:
        assert destination(None, None, "online", None).address == address
        return
    with pytest.raises(SinkError, match="use https") as found:
        destination(None, None, "online", None)
    assert "word" not in str(found.value)
    assert destination(None, None, "offline", None).address is None
