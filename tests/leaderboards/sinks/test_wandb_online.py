"""With a server on the loopback interface: what arrives, what happens the second time, and what when it fails."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest

from dpicl.harness.run.results import Result
from dpicl.leaderboards.publish.base import SinkError
from dpicl.leaderboards.publish.offline_record import OfflineRecord
from dpicl.leaderboards.publish.publish import Live, Plan, Tally, plan, publish
from dpicl.leaderboards.publish.published import Evidence
from dpicl.leaderboards.publish.wandb_settings import Destination
from dpicl.leaderboards.publish.wandb_sink import WandbSink
from tests.leaderboards.factory import make_result
from tests.leaderboards.sinks.conftest import end_service
from tests.leaderboards.sinks.stub_server import StubServer

To = Callable[..., Destination]


def send(what: Plan, to: Destination) -> Tally:
    tally = Tally()
    publish(what, WandbSink(to), tally)
    return tally


def check_what_arrived(server: StubServer, what: Plan, ids: Mapping[str, str] = MappingProxyType({})) -> None:
    """Every row with its lines, summary, group, type and tags; every board with its table and artifacts.

    ids: id of a row -> the id under which it is on the server, where that is another.
    """
    for row in what.rows:
        run = server.runs[ids.get(row.id, row.id)]
        assert run.state == "finished"
        assert len(run.lines) == len(row.rows)
        assert [{key: line[key] for key in own} for line, own in zip(run.lines, row.rows, strict=True)] == [
            dict(own) for own in row.rows
        ]
        assert {key: run.summary[key] for key in row.summary} == row.summary
        config = {key: value for key, value in row.config.items() if value != {}}  # the server never sees those
        assert {key: run.config[key]["value"] for key in config} == config
        assert (run.fields["groupName"], run.fields["jobType"]) == (row.group, row.job_type)
        assert run.fields["tags"] == list(row.tags) and run.fields["displayName"] == row.name
        steps = [metric.get("5") for metric in run.config["_wandb"]["value"]["m"] if metric.get("2") == "*"]
        assert len(steps) == 1 and steps[0] is not None  # every metric has a step metric: epsilon
    board = what.boards[0]
    assert len(server.runs[board.id].lines) == 1
    files = {name: content.decode() for name, content in server.artifact("results").files.items()}
    assert files == board.files
    assert json.loads(server.artifact("board").files["board.json"]) == board.document
    assert sorted(server.artifact("results").aliases) == ["latest", "suite-v1"]
    table = json.loads(server.artifact("run_table").files["board.table.json"])
    assert table["data"] == [list(row) for row in board.rows]


def test_what_arrives_equals_the_results_and_arrives_once(
    results: list[Result], server: StubServer, to: To, runs_folder: Path
) -> None:
    what = plan(results)
    assert send(what, to("online")).outcomes == {"sent": 4}
    check_what_arrived(server, what)
    sent = "".join(body.decode(errors="replace") for body in server.bodies)
    for name in (socket.gethostname(), sys.executable, os.uname().release, os.getcwd()):
        assert not re.search(r"(?<!\w)" + re.escape(name) + r"(?!\w)", sent), name
    assert str(runs_folder) not in sent  # where wandb staged the files of artifacts

    streams = sum(b"file_stream" in body for body in server.bodies)
    server.operations.clear()
    assert send(plan(results[::-1]), to("online")).outcomes == {"unchanged": 4}
    assert "UpsertBucket" not in server.operations  # it asks and writes nothing
    assert sum(b"file_stream" in body for body in server.bodies) == streams
    check_what_arrived(server, what)


@pytest.mark.slow
def test_a_changed_row_is_a_new_run_and_the_older_one_is_marked(
    results: list[Result], server: StubServer, to: To
) -> None:
    first = plan(results)
    send(first, to("online"))
    changed = plan([make_result(score=0.9, epsilon=8.0, seed=1, proved=7.9), *results[:-1]])
    tally = send(changed, to("online"))
    assert tally.outcomes == {"sent": 2, "unchanged": 2} and "superseded" in tally.advice[0]
    old = {thing.id for thing in (*first.rows, *first.boards)} - {
        thing.id for thing in (*changed.rows, *changed.boards)
    }
    marked = {run.name for run in server.runs.values() if "superseded" in run.fields["tags"]}
    assert marked == old and len(old) == 2
    send(first, to("online"))  # the older results are back
    marked = {run.name for run in server.runs.values() if "superseded" in run.fields["tags"]}
    assert marked == {run.name for run in server.runs.values()} - {thing.id for thing in (*first.rows, *first.boards)}


def test_a_run_that_was_cut_off_is_sent_again_under_another_id(
    results: list[Result], server: StubServer, to: To
) -> None:
    what = plan(results)
    send(what, to("online"))
    cut = server.runs[what.rows[1].id]
    del cut.summary["published_lines"], cut.history[2], cut.history[3]
    cut.state = "crashed"
    assert send(what, to("online")).outcomes == {"sent": 1, "unchanged": 3}
    assert len(cut.lines) == 2 and "superseded" in cut.fields["tags"]
    check_what_arrived(server, what, ids={cut.name: f"{cut.name}-2"})
    assert send(what, to("online")).outcomes == {"unchanged": 4}


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["broken", "rejecting"])
def test_a_server_that_fails_is_an_error_with_the_reason(
    results: list[Result], server: StubServer, to: To, behaviour: str
) -> None:
    server.behaviour = behaviour
    with pytest.raises(SinkError, match="W&B did not"):
        send(plan(results), to("online"))
    server.behaviour = "good"
    assert send(plan(results), to("online")).outcomes == {"sent": 4}


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["broken", "silent"])
def test_a_server_that_fails_in_the_middle_is_an_error_and_the_rest_follows(
    results: list[Result], server: StubServer, to: To, behaviour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    what, real = plan(results), server.stream

    def stream(run: str, body: dict[str, object]) -> None:
        if run == what.rows[1].id:
            server.behaviour = behaviour
            raise ConnectionError
        real(run, body)

    monkeypatch.setattr(server, "stream", stream)
    tally = Tally()
    with pytest.raises(SinkError, match="did not take"):
        publish(what, WandbSink(to("online")), tally)
    assert tally.outcomes == {"sent": 1}
    monkeypatch.undo()
    monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", server.url)
    server.behaviour = "good"
    server.released.set()
    end_service()
    assert send(what, to("online")).outcomes["sent"] >= 3
    again = {row.id: f"{row.id}-2" for row in what.rows if f"{row.id}-2" in server.runs}
    assert set(again) <= {what.rows[1].id}
    check_what_arrived(server, what, again)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", ["silent", "gone"])
def test_a_server_that_never_answers_is_given_up(
    results: list[Result], server: StubServer, to: To, behaviour: str
) -> None:
    server.behaviour = behaviour
    if behaviour == "gone":
        server.shutdown()
        server.server_close()
    with pytest.raises(SinkError, match="W&B did not"):
        send(plan(results), to("online"))


def sync(folder: Path) -> None:
    folders = sorted(map(str, folder.glob("wandb/offline-run-*")))
    command = [sys.executable, "-m", "wandb", "sync", *folders]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "WANDB_SILENT": "false"})
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_wandb_sync_brings_what_was_written_offline_once(
    results: list[Result], server: StubServer, to: To, runs_folder: Path
) -> None:
    what = plan(results)
    send(what, to("offline"))
    assert not server.runs
    sync(runs_folder)
    check_what_arrived(server, what)
    sync(runs_folder)
    assert send(what, to("offline")).outcomes == {"unchanged": 4}
    assert send(what, to("online")).outcomes == {"unchanged": 4}
    check_what_arrived(server, what)


@pytest.mark.slow
def test_what_was_written_offline_and_then_sent_is_not_appended_by_wandb_sync(
    results: list[Result], server: StubServer, to: To, runs_folder: Path
) -> None:
    what = plan(results)
    send(what, to("offline"))
    assert send(what, to("online")).outcomes == {"sent": 4}
    sync(runs_folder)
    check_what_arrived(server, what)


class Failing:
    """A sink that takes nothing."""

    def __init__(self) -> None:
        self.asked = 0

    def send(self, published: object) -> None:
        self.asked += 1
        raise SinkError("no.")

    send_board = send

    def close(self) -> list[str]:
        return []

    def abandon(self) -> None: ...


def test_a_live_publication_sends_a_row_when_its_cells_and_both_ends_are_over(
    results: list[Result], to: To, runs_folder: Path
) -> None:
    there: list[Result] = []
    live = Live([one.cell for one in results], lambda: there, Evidence(), lambda: WandbSink(to("offline")))
    counts = []
    tang_first = sorted(results, key=lambda one: one.cell.label != "tang")
    for result in tang_first:
        there.append(result)
        live.finished(result.cell)
        counts.append(len(list(runs_folder.rglob("*.wandb"))))
    assert counts == [0, 0, 0, 0, 0, 0, 0, 3]  # rows need both ends for their recovery
    live.finish()
    assert live.failure == "" and len(list(runs_folder.rglob("*.wandb"))) == 4
    again = Live([], lambda: there, Evidence(), lambda: WandbSink(to("offline")))
    again.finish()
    assert again.tally.outcomes == {"unchanged": 4}


def test_a_live_publication_tries_no_more_after_a_failure(results: Sequence[Result]) -> None:
    sink = Failing()
    live = Live([one.cell for one in results], lambda: results, Evidence(), lambda: sink)  # type: ignore[arg-type, return-value]
    for result in results:
        live.finished(result.cell)
    live.finish()
    assert live.failure == "no." and sink.asked == 1


def test_a_live_publication_survives_errors_that_are_not_ours(results: Sequence[Result]) -> None:
    class Broken(Failing):
        def send(self, published: object) -> str:
            raise OverflowError("int too large")

        send_board = send

    live = Live([one.cell for one in results], lambda: results, Evidence(), Broken)  # type: ignore[arg-type]
    for result in results:
        live.finished(result.cell)
    live.finish()
    assert live.failure == "Publishing failed (OverflowError: int too large)."


def test_a_live_publication_holds_the_folder_only_while_it_sends(results: list[Result], to: To) -> None:
    live = Live([one.cell for one in results], lambda: results, Evidence(), lambda: WandbSink(to("offline")))
    OfflineRecord(to("offline").runs, wait_seconds=0).close()
    live.finished(results[0].cell)
    record = OfflineRecord(to("offline").runs, wait_seconds=0)
    with pytest.raises(SinkError, match="Another process publishes into"):
        OfflineRecord(to("offline").runs, wait_seconds=0)
    record.close()
