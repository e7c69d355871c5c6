"""Declared sizes of a suite: rates, events and results follow them, whatever the files hold."""

from __future__ import annotations

import json

import pytest

from dpicl.core.errors import DataError
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.results.schema import from_text
from tests.harness.helpers import write
from tests.harness.local_suite import LABELS, rows_of, suite, write_records


def test_rates_sizes_and_events_come_from_the_declared_sizes(dpicl, own_cache, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", rows_of("train", 12))))
    answer = dpicl("run", suite(tmp_path, "prism"), "--results", tmp_path / "results")
    assert answer.code == 0, answer.err
    (result,) = [from_text(file.read_text()) for file in (tmp_path / "results").rglob("*.json")]
    assert result.manifest.data.sizes == result.cell.sizes == dict.fromkeys(LABELS, 40)
    assert '"rate": 0.2' in json.dumps(result.privacy.event)  # 8 of 40, and not of 12


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("sizes: {agnews: {World: 40}}", ["do not fit the classes", "Technology"]),
        ("sizes: {agnews: {World: 40, Sports: 40, Business: 40, Sience: 40}}", ["do not fit the classes"]),
        ("sizes: {agnews: 0}", ["'sizes, agnews'", "whole number"]),
        ("sizes: {agnews: many}", ["'sizes, agnews'", "whole number"]),
        ("sizes: {agnews: {World: 1e400, Sports: 1, Business: 1, Technology: 1}}", ["line 11", "too large"]),
        (f"sizes: {{agnews: {10**400}}}", ["line 11", "too large"]),
        ("sizes: {agnevs: 40}", ["agnevs", "agnews"]),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_sizes_that_do_not_fit_are_refused_with_what_to_write(dpicl, tmp_path, sizes, words, command):
    path = suite(tmp_path, "prism", sizes=sizes)
    answer = dpicl(command, path, "--results", tmp_path / "results")
    assert answer.code == 2
    assert all(word in answer.err for word in words), answer.err
    assert "Traceback" not in answer.err and not (tmp_path / "results").exists()


def test_the_first_private_record_beside_a_public_part_does_not_show(monkeypatch, tmp_path):
    """With declared sizes a file that is no longer than its public part leaves a private set without records."""
    public = load_config("samsum").data.public["local"]
    rows = [
        {"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."} for i in range(public + 1)
    ]
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    write(tmp_path, "samsum", "test", [{"dialogue": "T: ask", "summary": "A."}])
    for private in (0, 1):
        write(tmp_path, "samsum", "train", rows[: public + private])
        task = Task.load("samsum", "local", sizes={"": 900})
        assert (len(task.train), len(task.public), task.size) == (private, public, 900)
        if not private:
            with pytest.raises(DataError, match="public part"):
                Task.load("samsum", "local")
