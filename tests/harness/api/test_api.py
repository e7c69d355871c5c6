"""The Python API: what a notebook calls, on small simulated cells."""

import ast
import importlib
import inspect
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest
from dp_accounting import dp_event as dp

import dpicl

#: Small: 12 test records of the synthetic corpus, and the simulated model.
SMALL = {
    "task": "agnews",
    "model": "sim:5",
    "source": "synthetic",
    "test_records": 12,
    "progress": False,
}


@dataclass(frozen=True)
class Fixed(dpicl.DemonstrationMechanism):
    """Says the same whatever the records are."""

    name = "fixed_words"
    knob = None
    word: str = "about"

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        return context.for_each_shot(
            lambda label: dpicl.Demonstration(f"{self.word} {label}", label)
        )


def test_every_public_name_is_there_and_mypy_sees_the_same():
    *_, block = (
        node for node in ast.parse(inspect.getsource(dpicl)).body if isinstance(node, ast.If)
    )
    imported = {alias.name: each.module for each in block.body for alias in each.names}
    assert sorted(imported) == dpicl.__all__
    for name, module in imported.items():
        assert getattr(dpicl, name) is getattr(importlib.import_module(module), name)
    assert set(dpicl.__all__) <= set(dir(dpicl))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = dpicl.no_such_name


def test_cells_of_several_mechanisms_become_a_frame():
    results = dpicl.evaluate(
        ["zero_shot", "tang"], epsilon=[1, 8], seeds=2, options={"slots": 4}, **SMALL
    )
    frame = results.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert sorted(zip(frame.mechanism, frame.epsilon, frame.seed, strict=True)) == [
        *[("tang", epsilon, seed) for epsilon in (1, 8) for seed in (0, 1)],
        *[("zero_shot", 0, seed) for seed in (0, 1)],
    ]
    tang = frame[frame.mechanism == "tang"]
    assert (tang.epsilon_proved <= tang.epsilon).all()
    assert (tang.epsilon_proved >= 0.98 * tang.epsilon).all()
    assert len(results) == 6 and results[0].cell.mechanism == "zero_shot"
    assert "epsilon_proved" in repr(results) and "<table" in results._repr_html_()


def test_a_class_of_the_program_and_an_instance_with_options():
    (one,) = dpicl.evaluate(Fixed, **SMALL)
    (other,) = dpicl.evaluate(Fixed(word="news of"), **SMALL)
    assert one.privacy.epsilon_proved == 0
    assert other.released[0].text.startswith("news of")
    assert one.cell.plugin and one.cell.options == {"word": "about"}


def test_a_folder_keeps_results_and_goes_on(tmp_path):
    first = dpicl.evaluate("zero_shot", results=tmp_path, **SMALL)
    second = dpicl.evaluate("zero_shot", seeds=[0, 3], results=tmp_path, **SMALL)
    assert second[0] == first[0]
    assert [result.cell.seed for result in second] == [0, 3]
    with pytest.raises(dpicl.UsageError, match="no file"):
        dpicl.evaluate(Fixed, results=tmp_path, **SMALL)


def test_a_plugin_file_is_a_mechanism():
    example = (
        Path(__file__).parents[3] / "leaderboards" / "submissions" / "example" / "vote" / "vote.py"
    )
    (result,) = dpicl.evaluate(
        example,
        epsilon=8,
        options={"tokens": 2, "slots": 2},
        **SMALL,
    )
    assert result.cell.mechanism == "vote" and result.cell.plugin


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"task": "agnew"}, "agnews"),
        ({"epsilon": True}, "must be a number"),
        ({"epsilon": []}, "one or more"),
        ({"seeds": 1.5}, "whole number"),
        ({"plugins": 3}, "path"),
        ({"taks": "agnews"}, "Did you mean 'task'"),
        ({"engine": "cloud"}, "inline"),
    ],
)
def test_what_does_not_fit_is_one_sentence(wrong, word):
    with pytest.raises(dpicl.UsageError, match=word):
        dpicl.evaluate("tang", **{**SMALL, **wrong})


@pytest.mark.parametrize("value", [3, None, "tangg", "no_such_file.py"])
def test_what_is_no_mechanism(value):
    with pytest.raises(dpicl.DpiclError):
        dpicl.evaluate(value, **SMALL)


def test_skipped_cells_are_notes():
    results = dpicl.evaluate("tang", **{**SMALL, "task": "samsum"})
    assert len(results) == 0 and "score" in results.to_frame().columns
    assert "skipped" in results.notes[0] and "skipped" in repr(results)


@pytest.mark.parametrize(
    "wrong",
    [
        {"nois": 1},
        {"noise": 1.2, "sensitivity": 0},
        {"noise": "much"},
        {"noise": 1, "steps": 1.5},
    ],
)
def test_account_names_the_argument_that_does_not_fit(wrong):
    with pytest.raises(dpicl.UsageError) as refused:
        dpicl.account(delta=1e-5, **wrong)
    assert "--" not in str(refused.value) and f"'{[*wrong][-1]}'" in str(refused.value)


def test_two_settings_of_one_mechanism_are_two_rows():
    results = dpicl.evaluate([Fixed(), Fixed(word="news of")], **SMALL)
    assert [result.cell.label for result in results] == [
        "fixed_words+word=about",
        "fixed_words+word=news_of",
    ]
    with pytest.raises(dpicl.UsageError, match="given twice"):
        dpicl.evaluate(["zero_shot", "zero_shot"], **SMALL)


@pytest.mark.parametrize(
    "mechanism",
    [
        "zero_shot",
        pytest.param(Fixed, marks=pytest.mark.slow),
    ],
)
def test_check_finds_what_the_kit_finds(mechanism):
    report = dpicl.check(mechanism, task="agnews", progress=False)
    assert report.ok and {"check", "status"} <= set(report.to_frame().columns)


def test_audits_become_a_frame(tmp_path):
    small = {"task": "agnews", "model": "sim", "source": "synthetic", "runs": 8, "progress": False}
    audits = dpicl.audit("voting", epsilon=[1, 8], results=tmp_path, **small)
    frame = audits.to_frame()
    assert list(frame.epsilon) == [1, 8]
    assert (frame.epsilon_audited <= frame.epsilon_proved).all()
    assert audits.ok
    assert dpicl.audit("voting", epsilon=8, results=tmp_path, **small)[0] == audits[1]
    with pytest.raises(dpicl.UsageError, match="lookup"):
        dpicl.audit("voting", epsilon=1, question="grey", **small)


def test_the_board_of_committed_results_is_a_frame():
    root = Path(__file__).parents[3]
    board = dpicl.board("open", results=root / "results", source="synthetic")
    frame = board.to_frame()
    assert {"tang", "example/vote"} <= set(frame.label)
    assert (frame.proved <= frame.epsilon).all()
    assert "recovery" in repr(board) and "<table" in board._repr_html_()
