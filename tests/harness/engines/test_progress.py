"""What is said while a command runs: every ten seconds, what it does and how far it is."""

import time

import pytest

from dpicl.core.cell import Cell
from dpicl.engines import progress
from dpicl.engines.progress import Counter, Stages, repeat, show_progress
from dpicl.engines.worker import CellProgress, Done


@pytest.fixture
def impatient(monkeypatch):
    """A hundredth of a second stands for ten seconds."""
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.01)


def make_cell(seed: int) -> Cell:
    words = {
        "suite": "s",
        "task": "agnews",
        "source": "synthetic",
        "mechanism": "tang",
        "label": "tang",
        "model": "sim",
    }
    numbers = {
        "suite_version": 1,
        "task_version": 1,
        "epsilon": 1.0,
        "delta": 1e-5,
        "seed": seed,
        "shots": 4,
    }
    records = {"test_records": 10, "train_records": 60}
    return Cell(
        **words,
        **numbers,
        **records,
        options={},
        noise="seeded",
        mode="proved",
    )


def wait_for(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    assert condition()


def test_a_counter_estimates_what_is_left_from_what_was_done():
    counter = Counter()
    counter.report(0, 1, "loading")
    assert str(counter).startswith("loading for ")
    counter._start -= 60
    counter.report(20, 60, "answers")
    assert str(counter) == "20 of 60 answers in 60 s, about 2 min left"
    counter.report(60, 60, "answers")
    assert str(counter) == "60 of 60 answers in 60 s"


def test_a_stage_that_reports_nothing_is_heard_of(impatient):
    lines: list[str] = []
    stages = Stages(lines.append)
    with repeat(stages.say_how_far):
        stages.begin("loading the model sim")
        wait_for(lambda: any(line.startswith("loading the model sim: for ") for line in lines))
        stages.report(1, 4, "answers")
        wait_for(lambda: "1 of 4 answers" in lines[-1] and "left" in lines[-1])
    after = len(lines)
    time.sleep(0.05)
    assert len(lines) <= after + 1


def test_a_run_names_each_running_cell_with_what_it_does(impatient, capsys):
    cells = [make_cell(seed) for seed in (0, 1)]
    with show_progress(2) as report:
        for cell in cells:
            report(CellProgress(cell, 0, 1, "loading"))
        report(CellProgress(cells[1], 3, 10, "answers"))
        errors = ""

        def hear():
            nonlocal errors
            errors += capsys.readouterr().err
            return f"{cells[0]}: loading for" in errors and f"{cells[1]}: 3 of 10 answers" in errors

        wait_for(hear)
        report(Done(cells[0], "done", score=1.0))
        report(Done(cells[1], "done", score=1.0))
        capsys.readouterr()
        time.sleep(0.05)
        assert "3 of 10" not in capsys.readouterr().err.split("starts")[-1]


def test_what_is_not_counted_has_the_time_that_was_expected(monkeypatch):
    clock = iter([0.0, 20.0, 70.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    counter = Counter(expected=60.0)
    assert str(counter) == "for 20 s, about 40 s left"
    assert str(counter).endswith("longer than the 60 s that were expected")
