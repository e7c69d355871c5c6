"""What a run does to the world outside is seen, and ordinary work is not taken for it."""

import gc
import importlib
import logging
import os
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from dpicl.conformance.footprint import observe
from dpicl.core.paths import cache_folder
from dpicl.data.sources import read_local
from dpicl.data.task import Task
from dpicl.data.task_file import LocalKeys, SourceSpec
from tests.harness.helpers import write

ACTS = {
    "opens a file for writing": [
        lambda folder: (folder / "a").write_text("x"),
        lambda folder: os.close(os.open(folder / "a", os.O_CREAT | os.O_WRONLY)),
        lambda folder: (folder / "there").open("a").close(),
        lambda folder: np.save(folder / "a.npy", np.zeros(2)),
        lambda folder: os.fdopen(tempfile.mkstemp(dir=folder)[0]).close(),
    ],
    "changes files": [
        lambda folder: (folder / "sub").mkdir(),
        lambda folder: (folder / "there").unlink(),
    ],
    "opens a database": [lambda folder: sqlite3.connect(folder / "a.sqlite").close()],
    "uses a socket": [lambda folder: socket.socket().close()],
    "starts a process": [
        lambda folder: subprocess.run(
            [sys.executable, "-c", ""],
            check=True,
        )
    ],
    "changes an environment variable": [
        lambda folder: os.environ.update({"DPICL_TEST_FOOTPRINT": "1"})
    ],
    "changes the working directory": [lambda folder: os.chdir(".")],
}


def watch():
    """Observes a mechanism of this module."""
    return observe([__name__], "agnews")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "there").write_text("text", encoding="utf-8")
    yield tmp_path
    os.environ.pop("DPICL_TEST_FOOTPRINT", None)


@pytest.mark.parametrize(
    ("note", "act"), [(note, act) for note, acts in ACTS.items() for act in acts]
)
def test_an_act_on_the_world_outside_is_noted(note, act, folder):
    with watch() as footprint:
        act(folder)
    assert any(note in each for each in footprint.acts)


def test_what_a_thread_of_the_run_does_is_an_act_of_the_run(folder):
    def work():
        (folder / "a").write_text("x", encoding="utf-8")
        logging.getLogger("anything").info("said")

    with watch() as footprint:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert footprint.acts == ["opens a file for writing (a)"] and footprint.printed == [
        "log line: said"
    ]


def test_a_normal_number_that_numpy_had_drawn_before_is_a_draw():
    np.random.normal()
    if not np.random.get_state(legacy=False)["has_gauss"]:
        np.random.normal()
    with watch() as footprint:
        np.random.normal()
    assert footprint.drew == ["numpy.random"]


@pytest.mark.parametrize(
    ("name", "draw"),
    [
        ("random", random.random),
        ("numpy.random", np.random.random),
        ("torch", lambda: torch.rand(1)),
        (None, lambda: np.random.default_rng(0).random()),
    ],
)
def test_a_draw_from_a_global_generator_is_noted(name, draw):
    with watch() as footprint:
        draw()
    assert footprint.drew == ([name] if name else [])


def test_reading_memory_imports_and_the_null_device_are_no_acts(folder, monkeypatch):
    (folder / "lonely_module.py").write_text("import math\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    with watch() as footprint:
        (folder / "there").read_text(encoding="utf-8")
        Path(os.devnull).write_text("x", encoding="utf-8")
        sqlite3.connect(":memory:").close()
        importlib.import_module("lonely_module")
        logging.getLogger("a.b").debug("a %s line", "log")
    assert footprint.acts == footprint.reaching == []
    assert footprint.printed == ["log line: a log line"]


def test_a_mechanism_may_not_write_to_the_cache_of_the_harness(folder, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(folder))
    with watch() as footprint:
        (cache_folder() / "mine").write_text("x", encoding="utf-8")
    assert footprint.acts


def test_nothing_is_noted_outside_of_a_run(folder):
    with watch() as footprint:
        pass
    (folder / "a").write_text("x", encoding="utf-8")
    assert footprint.acts == []


def test_a_run_may_load_records_of_other_tasks_only():
    with watch() as footprint:
        Task.load("mit_g", "synthetic", 4, 4)
        assert footprint.reaching == []
        Task.load("agnews", "synthetic", 4, 4)
    assert footprint.reaching == ["reads the records of agnews from their source"]


def test_the_data_files_are_read_by_the_harness_alone(folder, monkeypatch):
    monkeypatch.setenv("DPICL_DATA", str(folder))
    for split in ("train", "test"):
        write(folder, "toy", split, [{"text": "a", "label": "x"}])
    spec = SourceSpec(
        name="toy",
        labels=("x",),
        local=LocalKeys(text="text", label="label"),
    )
    with watch() as footprint:
        read_local(spec)
        assert footprint.reaching == []
        (folder / "toy" / "train.jsonl").read_text(encoding="utf-8")
    assert footprint.reaching == ["reads the data set's own file train.jsonl"]


def test_what_somebody_else_left_open_is_no_warning_of_the_run():
    """The garbage collector finds it at any moment, and warns then."""
    with watch() as footprint:
        socket.socket()
        gc.collect()
        warnings.warn("the mechanism's own", ResourceWarning, stacklevel=1)
    assert footprint.printed == ["warning ResourceWarning: the mechanism's own"]


def test_output_and_warnings_are_noted_in_place_of_shown(capsys):
    with watch() as footprint:
        sys.stdout.write("out")
        sys.stdout.buffer.write(b"bytes")
        for _ in range(3):
            warnings.warn("careful", stacklevel=1)
        np.log(np.zeros(1))
    assert footprint.printed == ["standard output: outbytes", "warning UserWarning: careful"]
    assert capsys.readouterr() == ("", "")


def test_a_thread_that_goes_on_after_the_run_is_an_act():
    end = threading.Event()
    with watch() as footprint:
        thread = threading.Thread(target=int)
        thread.start()
        thread.join()
    assert footprint.acts == []
    with watch() as footprint:
        lasting = threading.Thread(target=end.wait)
        lasting.start()
    end.set()
    lasting.join()
    assert footprint.acts == ["leaves a thread running"]


@pytest.mark.parametrize(
    "ask",
    [
        lambda: os.environ.get("PATH"),
        lambda: os.getenv("PATH"),
        lambda: os.environ["PATH"],
    ],
)
def test_a_variable_is_noted_where_the_mechanism_itself_asks(ask):
    with watch() as footprint:
        tempfile.gettempdir()
        assert ask()
    assert footprint.variables == ["PATH"]
    with observe(["another_module"], "agnews") as footprint:
        ask()
    assert footprint.variables == []


def test_what_a_library_does_at_import_is_not_the_mechanisms(folder, monkeypatch):
    text = f"open({str(folder / 'of_a_library')!r}, 'w').close()\n"
    (folder / "writing_module.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(folder)
    with observe([__name__], "", imports=True) as footprint:
        importlib.import_module("writing_module")
    assert footprint.acts == []
    with observe([__name__], "", imports=True) as footprint:
        (folder / "own").write_text("x", encoding="utf-8")
    assert footprint.acts == ["opens a file for writing (own)"]
