"""A result counts where its cell and its records are those of a run now."""

import json
import shutil
import sqlite3
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl import models
from dpicl.core import plugin_reads
from dpicl.core.cell import Cell
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.engines.local import Inline
from dpicl.engines.worker import Job
from dpicl.mechanism.registry import load_mechanisms
from dpicl.mechanisms.prism import Prism
from dpicl.models import hub
from dpicl.plan.presence import select_current
from dpicl.plan.staleness import Comparison
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import SuiteReference
from dpicl.results.store import Store
from tests.conftest import read_releases
from tests.harness.local_suite import rows_of, suite, synthetic_suite, write_records

ROOT = Path(__file__).parents[3]
TRAIN = rows_of("train", 30)
OTHER = [{"text": "a record that was not there", "label": "World"}]


@pytest.fixture
def lab(dpicl, tmp_path, monkeypatch):
    """A results folder, records that can be changed, and commands on them."""

    class Lab:
        results = tmp_path / "results"
        data = tmp_path / "data"
        path = suite(tmp_path, "zero_shot", "prism", seeds="[0]")

        def records(self, train=TRAIN, test=None, folder=None):
            monkeypatch.setenv("DPICL_DATA", str(write_records(folder or self.data, train, test)))

        def __call__(self, command, *flags):
            return dpicl(command, self.path, "--results", self.results, *flags)

        def store(self):
            return Store(self.results, "own")

    laboratory = Lab()
    laboratory.records()
    return laboratory


def statuses(answer) -> list[str]:
    return [cell["status"] for cell in answer.json["cells"]]


def test_results_of_other_records_are_stale_everywhere(lab):
    def read_files(pattern):
        return {file.name: file.read_text() for file in lab.results.rglob(pattern)}

    lab("run").succeed()
    assert "2 already present" in lab("run").out
    assert "different data" not in lab("board").out
    before = read_files("*.json")

    lab.records([*TRAIN, *OTHER])
    plan = lab("plan", "--json")
    assert statuses(plan) == ["stale", "stale"]
    assert plan.json["present"] == 0
    assert plan.json["stale"] == 2
    assert plan.json["missing"] == 0
    assert "train" in plan.json["cells"][0]["reason"]
    shown, run = lab("plan").out, lab("run")
    assert run.code == 2 and "already present" not in run.out
    for text in (shown, run.err):
        assert "--rerun-stale" in text and "train" in text
    assert any("different data" in note for note in lab("board", "--json").json["notes"])
    assert "train" in lab("board").out
    assert read_files("*.json") == before

    again = lab("run", "--rerun-stale", "--json")
    assert again.code == 0 and statuses(again) == ["done", "done"]
    assert read_files("quarantine/*.json") == before
    assert "2 already present" in lab("run").out
    assert "different data" not in lab("board").out

    lab.records([*TRAIN, *OTHER], rows_of("check", 2))
    plan = lab("plan", "--json")
    assert statuses(plan) == ["stale", "stale"]
    assert "test" in plan.json["cells"][0]["reason"]


@pytest.mark.parametrize(
    ("command", "where"),
    [("run", "no folder"), ("plan", "unset")],
)
def test_a_source_that_is_missing_stops_all_but_boards(lab, tmp_path, monkeypatch, command, where):
    lab("run")
    if where == "unset":
        monkeypatch.delenv("DPICL_DATA")
    else:
        monkeypatch.setenv("DPICL_DATA", str(tmp_path / where))
    answer = lab(command, "--results", tmp_path / "new")
    assert answer.code == 2 and "DPICL_DATA" in answer.err and not (tmp_path / "new").exists()
    answer = lab(command)
    assert answer.code == 2 and "DPICL_DATA" in answer.err and "already present" not in answer.out
    board = lab("board", "--json")
    note = "All seeds share one set of private records, so intervals say nothing about other records of the kind."
    assert board.code == 0 and board.json["notes"] == [note]
    assert len(board.json["sections"][0]["tasks"][0]["rows"]) == 2


def test_two_sets_of_records_never_share_a_row(lab, tmp_path):
    lab.path = suite(tmp_path, "zero_shot", "prism", seeds="[0, 1]")
    lab("run", "--seed", 0)
    lab.records([*TRAIN, *OTHER])
    lab("run", "--seed", 1)
    board = lab("board", "--json").json
    for row in board["sections"][0]["tasks"][0]["rows"]:
        assert row["seeds"] == [1]  # those of the records at hand
    assert any("left out 2 results" in note for note in board["notes"])

    lab.data.rename(tmp_path / "gone")  # without the records: still never both
    board = lab("board", "--json").json
    assert all(len(row["seeds"]) == 1 for row in board["sections"][0]["tasks"][0]["rows"])
    assert any("other records" in note for note in board["sections"][0]["notes"])


def test_a_worker_never_overwrites_a_result_of_other_records(lab, own_cache):
    lab("run")
    (prism,) = [result for result in lab.store().load_all()[0] if result.cell.mechanism == "prism"]
    path = lab.store().path(prism.cell)
    text = path.read_text()
    job = Job(prism.suite, lab.results)
    events = list[Any]()
    Inline().run([prism.cell], job, events.append)
    lab.records([*TRAIN, *OTHER])
    Inline().run([prism.cell], job, events.append)
    present, done = events
    assert (
        present.status == "present" and done.status == "failed" and "different data" in done.message
    )
    assert path.read_text() == text


def test_a_board_fetches_nothing_from_the_hub(lab, monkeypatch):
    import datasets

    lab("run")
    results = [
        result.model_copy(update={"cell": result.cell.model_copy(update={"source": "hub"})})
        for result in lab.store().load_all()[0]
    ]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: pytest.fail("the hub was asked"))
    assert select_current(results, Fingerprints(download=False)) == (results, [])


def test_files_that_change_while_read_keep_no_wrong_name(lab, monkeypatch):
    cell = cell_of(lab)
    lab.records(rows_of("train", 31))
    read = Task.load

    def slow(*words, **flags):
        task = read(*words, **flags)
        lab.records(rows_of("train", 32))
        return task

    with monkeypatch.context() as patch:
        patch.setattr(Task, "load", slow)
        Fingerprints().find_at_hand(cell)
    for each in (32, 31):
        lab.records(rows_of("train", each))
        assert (
            Fingerprints().find_at_hand(cell).fingerprint
            == Task.load("agnews", "local", limit_test=4).fingerprint
        )


def test_results_of_a_task_without_records_here_are_kept(lab, monkeypatch):
    lab("run")
    results, _ = lab.store().load_all()
    assert select_current(results, Fingerprints()) == (results, [])
    monkeypatch.delenv("DPICL_DATA")
    assert select_current(results, Fingerprints()) == (results, [])


def cell_of(lab) -> Cell:
    lab("run", "--mechanism", "zero_shot")
    (result,), _ = lab.store().load_all()
    assert isinstance(result.suite, SuiteReference) and Path(lab.path).is_file()
    return result.cell


def test_an_audit_of_other_records_is_stale(dpicl, tmp_path, monkeypatch):
    train = rows_of("train", 30)
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", train)))
    words = "audit voting --task agnews --epsilon 8 --runs 8 --model sim"
    flags = f"--source local --results {tmp_path}/results"
    assert dpicl(f"{words} {flags}").code in (0, 1)
    write_records(tmp_path / "data", train[1:])
    answer = dpicl(f"{words} {flags}")
    assert answer.code == 2 and "different data" in answer.err


def test_the_board_of_a_part_says_how_much_is_there(lab, tmp_path):
    lab.path = suite(tmp_path, "zero_shot", "prism", "esa")
    plan = lab("plan", "--json").json
    assert [cell["status"] for cell in plan["cells"] if cell["mechanism"] == "esa"] == ["skipped"]
    assert plan["missing"] == 2
    assert plan["skipped"] == 1
    assert all(
        "aggregates texts" in cell["reason"]
        for cell in plan["cells"]
        if cell["status"] == "skipped"
    )
    lab("run", "--mechanism", "zero_shot").succeed()
    assert "1 of 2 cells" in lab("board", "--json").json["notes"][0]
    lab("run").succeed()
    assert not any("Incomplete" in note for note in lab("board", "--json").json["notes"])


@pytest.fixture
def changing(dpicl, tmp_path):
    """Commands on a suite of ``rows``, each of which makes the whole command line anew."""

    class Changing:
        def __init__(self, *rows, model="sim", plugin=None):
            self.path = synthetic_suite(tmp_path, *rows, models=f"['{model}']", test_records="2")
            self.flags = [
                "--results",
                tmp_path / "results",
                *(["--plugin", plugin] if plugin else []),
            ]

        def __call__(self, command, *flags):
            return dpicl(command, self.path, *self.flags, *flags)

        def assert_stale(self, reason):
            """Its one result is, for this reason."""
            (cell,) = self("plan", "--json").json["cells"]
            assert cell["status"] == "stale"
            assert reason in cell["reason"]

        def require_stale(self, reason):
            """Everything is, for this reason, until it is made again."""
            texts = {file: file.read_text() for file in (tmp_path / "results").rglob("*.json")}
            plan = self("plan", "--json").json
            assert {cell["status"] for cell in plan["cells"]} == {"stale"}
            assert reason in plan["cells"][0]["reason"]
            run = self("run")
            assert run.code == 2 and reason in run.err and "--rerun-stale" in run.err
            assert {
                file: file.read_text() for file in (tmp_path / "results").rglob("*.json")
            } == texts
            assert self("run", "--rerun-stale").code == 0
            assert {cell["status"] for cell in self("plan", "--json").json["cells"]} == {"present"}

    return Changing


def test_results_of_another_model_of_the_same_path_are_stale(changing, tmp_path, tiny_folder):
    folder = shutil.copytree(tiny_folder, tmp_path / "model")
    lab = changing("zero_shot", model=f"hf:{folder}")
    assert lab("run").code == 0 and "already present" in lab("run").out
    config = folder / "config.json"
    config.write_text(config.read_text().replace('"rms_norm_eps": 1e-06', '"rms_norm_eps": 0.5'))
    lab.require_stale("the model")
    (file,) = [
        path for path in (tmp_path / "results").rglob("*.json") if path.parent.name != "quarantine"
    ]
    old = json.loads(file.read_text())
    old["manifest"]["model"]["sha256"] = hub.identify_weights(folder)  # as older versions said it
    file.write_text(json.dumps(old))
    plan = lab("plan", "--json").json
    assert plan["present"] == 1 and "but its weights" in plan["unknown"]


def test_results_of_an_earlier_version_of_a_mechanism_are_stale(changing, monkeypatch, tmp_path):
    lab = changing("prism")
    lab("run")
    monkeypatch.setattr(Prism, "version", 2)
    lab.require_stale("prism has version 2 and had 1")
    for file in (tmp_path / "results").rglob("*.json"):
        old = json.loads(file.read_text())
        del old["manifest"]["mechanism_version"]
        file.write_text(json.dumps(old))
    plan = lab("plan", "--json").json
    assert (
        plan["present"] == 1 and plan["unknown"].count("the mechanism's version of 1 result") == 1
    )
    assert plan["unknown"] in lab("plan").out


METHOD = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from contextlib import suppress
from dpicl.mechanisms.zero_shot import ZeroShot

FOLDER = Path(__file__).parent
AT_IMPORT = (FOLDER / "once.txt").read_text()


def read(path):
    return path.read_text()


class Reads(ZeroShot):
    name = "reads"

    def release(self, private, context):
        sys.path.insert(0, str(FOLDER))
        import beside_the_plugin
        with suppress(OSError):
            (FOLDER / "missing.txt").read_text()
        (FOLDER / "data" / "words.txt").read_text()
        with ThreadPoolExecutor(1) as pool:
            list(pool.map(read, [FOLDER / "thread.txt"]))
        os.close(os.open(FOLDER, os.O_RDONLY))
        (FOLDER / ".venv" / "package.txt").read_text()
        return super().release(private, context)
"""


def forget_plugins():
    """As a new process knows none."""
    for module in [
        key for key in sys.modules if key.startswith(("dpicl_plugin_", "beside_the_plugin"))
    ]:
        del sys.modules[module]
    plugin_reads._reads.clear()
    plugin_reads._outside.clear()
    models._given.clear()


def test_results_of_a_plugin_whose_files_changed_are_stale(changing, tmp_path, monkeypatch):
    folder = tmp_path / "method"
    (folder / "data").mkdir(parents=True)
    (folder / ".venv").mkdir()
    read = ("once.txt", "data/words.txt", "beside_the_plugin.py", "thread.txt")
    unread = ("unread.txt", ".venv/package.txt")
    for path in (*read, *unread):
        (folder / path).write_text("a = 1")
    plugin = folder / "reads.py"
    plugin.write_text(METHOD)
    monkeypatch.setattr(sys, "path", [*sys.path])
    lab = changing("{name: reads}", plugin=plugin)

    forget_plugins()
    lab("run").succeed()
    forget_plugins()
    for path in unread:
        (folder / path).write_text("a = 2")
    assert lab("plan", "--json").json["present"] == 1
    for path in read:
        (folder / path).write_text("a = 22")
        forget_plugins()
        lab.assert_stale(path)
        (folder / path).write_text("a = 1")
    (folder / "missing.txt").write_text("it is there now")
    forget_plugins()
    lab.require_stale("missing.txt")
    forget_plugins()


ELSEWHERE = """
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from dpicl.mechanisms.zero_shot import ZeroShot

FOLDER = Path(__file__).parent
np.load(FOLDER / "rows.npy", mmap_mode="r")


class Elsewhere(ZeroShot):
    name = "elsewhere"

    def release(self, private, context):
        with ThreadPoolExecutor(1) as pool:
            pool.submit((FOLDER / "library.txt").read_text).result()
        sqlite3.connect(FOLDER / "words.db").close()
        if file := os.environ.get("WORDS_FILE"):
            Path(file).read_text()
            own = Path(file).with_name("its-own-log")
            with own.open("a") as log:
                log.write("a line")
            own.read_text()
        return super().release(private, context)
"""


def test_files_of_libraries_and_other_folders_are_not_missed(changing, tmp_path, monkeypatch):
    folder, outside = tmp_path / "method", tmp_path / "other" / "list.txt"
    folder.mkdir()
    outside.parent.mkdir()
    outside.write_text("a")
    (folder / "library.txt").write_text("a")
    np.save(folder / "rows.npy", np.zeros(3))
    sqlite3.connect(folder / "words.db").close()
    (folder / "elsewhere.py").write_text(ELSEWHERE)
    monkeypatch.setenv("WORDS_FILE", str(outside))
    lab = changing("{name: elsewhere}", plugin=folder / "elsewhere.py")
    forget_plugins()
    lab("run").succeed()
    (result,) = Store(tmp_path / "results", "own").load_all()[0]
    (files,) = (result.manifest.plugin_files or {}).values()
    assert sorted(files) == ["(outside)/list.txt", "library.txt", "rows.npy", "words.db"]
    assert str(tmp_path) not in result.model_dump_json()
    outside.write_text("b")
    lab.assert_stale("list.txt")  # the process that has read it
    forget_plugins()
    unknown = lab("plan", "--json").json["unknown"]
    assert "files outside of the plug-in's folder" in unknown and "environment" in unknown
    for name in ("library.txt", "rows.npy", "words.db"):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content + b"\0")
        forget_plugins()
        lab.assert_stale(name)
        (folder / name).write_bytes(content)
    forget_plugins()


MODEL = """
from dataclasses import replace
from pathlib import Path
from dpicl.models.simulated import SimulatedLM

def load(rest, device, dtype):
    model = SimulatedLM(seed=int((Path(__file__).parent / "seed.txt").read_text()))
    model.identity = replace(model.identity, revision="1")
    return model

MODELS = {"mine": load}
"""


def test_results_of_a_plugins_model_that_changed_are_stale(changing, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "seed.txt").write_text("1")
    (folder / "mine.py").write_text(MODEL)
    lab = changing("zero_shot", model="mine", plugin=folder / "mine.py")
    forget_plugins()
    lab("run").succeed()
    plan = lab("plan", "--json").json
    assert plan["present"] == 1 and "only loading it tells" in plan["unknown"]
    (folder / "seed.txt").write_text("2")
    forget_plugins()
    lab.require_stale("seed.txt")
    (folder / "mine.py").write_text(f"{MODEL}# edited")
    forget_plugins()
    lab.assert_stale("the plug-in file of the model")
    forget_plugins()


@pytest.mark.parametrize("suite", ["record", "ginc", "open", "generation"])
def test_committed_results_are_current(suite):
    folders = sorted({path.parent for path in (ROOT / "results" / suite).glob("*/*/*/*.json")})
    firsts = [
        next(
            read_releases(sorted(folder.glob("*.json"))),
            None,
        )
        for folder in folders
    ]
    results = [result for result in firsts if result is not None]

    class SameRecords(Fingerprints):
        def difference(self, result):
            return ""

    earlier = [
        one
        for one in results
        if one.cell.task_version != load_config(one.cell.task).metadata.version
    ]
    assert {(one.cell.task, one.cell.task_version) for one in earlier} <= {("dbpedia_codes", 1)}
    results = [one for one in results if one not in earlier]
    comparison = Comparison(SameRecords(), load_mechanisms(), results, {})
    assert len(results) > 5 and {comparison.find_difference(result) for result in results} == {""}
    unsaid = sum(result.manifest.mechanism_version is None for result in results)
    assert (
        comparison.unknown.get(("the mechanism's version", "their files do not say it"), 0)
        == unsaid
    )
