"""Texts without labels, pairs and dialogues: read, released, and written in every format."""

import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.errors import DataError, UsageError
from dpicl.core.vocabulary import Demonstration, ReleasedPrompt
from dpicl.data.free_texts import (
    describe_form,
    read_dialogue,
    read_pair,
    write_dialogue,
    write_pair,
)
from dpicl.data.reading import read_records
from dpicl.data.task import Task
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import skip_reason
from dpicl.mechanism.registry import load_mechanisms
from dpicl.own.records import OwnRecords, make_text_config
from dpicl.own.released import format_release
from tests.harness.helpers import refuse
from tests.harness.own.desk import read_card, read_rows

TASK = Task.from_records(make_text_config("support ticket"), (), {"": 20}).public_view()
DIALOGUE = [
    {"role": "user", "content": "my card"},
    {"role": "assistant", "content": "is on its way"},
]
TEXTS = {
    "plain": "my card",
    "pairs": "my card / Output: billing",
    "dialogues": "User: my card / Assistant: is here",
}
ALWAYS = ("--size", 20, "--model", "sim", "--epsilon", 1)
SMALL = ("--option=tokens=6", "--option=slots=4", "--option=top_k=10", "--shots", 3)


def released(form: str, *more: str) -> ReleasedPrompt:
    return ReleasedPrompt(
        None,
        [Demonstration(text, "text") for text in (TEXTS[form], *more)],
    )


@pytest.fixture
def desk(tmp_path, fresh_cache, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = [
        {"input": f"ticket {n}", "output": f"answer {n}", "messages": DIALOGUE} for n in range(20)
    ]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


# --- one line and back


@given(st.text(), st.text())
def test_a_pair_is_read_back_as_it_was_written(text, output):
    text = " ".join(text.split())
    output = " ".join(output.split())
    if text and output and " / Output: " not in f"{text} / Output: ":
        assert read_pair(write_pair(text, output)) == (text, output)


def test_a_dialogue_is_read_back_as_it_was_written():
    messages = [
        {"role": "system", "content": "be\n brief"},
        *DIALOGUE,
        {"role": "user", "content": "a / b: c"},
    ]
    assert read_dialogue(write_dialogue(messages)) == [
        {"role": "system", "content": "be brief"},
        *messages[1:],
    ]
    assert read_dialogue("whatever a model wrote") == read_dialogue("") == []


@pytest.mark.parametrize(
    ("form", "row"),
    [("pairs", {"input": "a", "output": ""}), ("pairs", {"input": "a"}), ("pairs", {"input": 3, "output": "b"}),
     ("dialogues", {"messages": "a"}), ("dialogues", {"messages": [{"role": "bot", "content": "a"}]}),
     ("dialogues", {"messages": []}), ("plain", {"text": 3})],
)  # fmt: skip
def test_a_row_that_is_none_is_one_fault_and_can_be_left_out(tmp_path, form, row):
    path = tmp_path / "t.jsonl"
    good = {"text": "a", "input": "a", "output": "b", "messages": DIALOGUE}
    path.write_text(json.dumps(good) + "\n" + json.dumps(row) + "\n")
    fields = {"pairs": {"text_field": "input", "output_field": "output"}}.get(form, {})
    source = OwnRecords(form=form, **fields)
    with pytest.raises(DataError, match="line 2"):
        read_records(path, source.spec(path)).check()
    skipping = OwnRecords(form=form, skip_invalid=True, **fields)
    assert len(read_records(path, skipping.spec(path)).check()) == 1


def test_a_prompt_without_records_shows_the_form():
    for form in ("plain", "pairs", "dialogues"):
        task = Task.from_records(
            make_text_config("support ticket", form), (), {"": 20}
        ).public_view()
        prompt = task.generation_prompt("text", ())
        _, _, example = prompt.partition("Support ticket: ")
        assert describe_form([example.partition(" END")[0]], form) == []
        assert bool(example) is (form != "plain")
        assert prompt.endswith("Support ticket:")


# --- formats


def test_texts_without_labels_in_every_format():
    rows = {form: json.loads(format_release(released(form), TASK, "jsonl", form)) for form in TEXTS}
    assert rows["plain"] == {"text": "my card"}
    assert rows["pairs"] == {"input": "my card", "output": "billing"}
    assert [each["role"] for each in rows["dialogues"]["messages"]] == ["user", "assistant"]
    table = csv.DictReader(io.StringIO(format_release(released("pairs"), TASK, "csv", "pairs")))
    assert [*table] == [{"input": "my card", "output": "billing"}]


@pytest.mark.parametrize("form", ["pairs", "dialogues"])
def test_a_prompt_and_messages_hold_texts_with_an_answer_alone(form):
    prompt = released(form, "a text that is neither", "User: no answer")
    chat = json.loads(format_release(prompt, TASK, "messages-openai", form))["messages"]
    assert [each["role"] for each in chat] == ["user", "assistant", "user"]
    assert chat[-1]["content"] == "{text}"
    written = format_release(prompt, TASK, "prompt", form)
    assert written.count("my card") == 1 and "neither" not in written and "{text}" in written
    assert describe_form([each.text for each in prompt.demonstrations], form)[0].startswith(
        "2 of 3 texts"
    )


# --- releases


@pytest.mark.parametrize(
    ("flags", "keys"),
    [(("--no-labels", "--text-field", "input"), {"text"}), (("--dialogues",), {"messages"}),
     (("--text-field", "input", "--output-field", "output"), {"input", "output"})],
)  # fmt: skip
def test_from_a_file_without_labels_to_texts(dpicl, desk, flags, keys):
    words = ("release", "tang", "--data", "t.jsonl", *ALWAYS, *SMALL, "--out", "out.jsonl")
    dpicl(*words, *flags, "--per-record").succeed()
    rows = read_rows("out.jsonl")
    assert len(rows) == 3 and all(set(row) == keys for row in rows)
    assert read_card("out")["privacy"]["epsilon_proved"] <= 1


def test_methods_that_cannot_write_texts_without_labels_say_why(dpicl, desk):
    able = {
        name
        for name, each in load_mechanisms().items()
        if skip_reason(build(each.cls, {}), TASK) is None
    }
    assert {"private_evolution", "prism", "tang", "pta"} <= able
    assert not {"topic_words", "embedding_centroids", "repeated_label"} & able
    flags = (
        "--data",
        "t.jsonl",
        "--no-labels",
        "--text-field",
        "input",
        *ALWAYS,
        "--out",
        "x.jsonl",
    )
    refuse(dpicl("release", "topic_words", *flags), "cannot do this task")


def test_labels_and_none_are_not_given_together(dpicl, desk):
    words = (
        "release",
        "tang",
        "--data",
        "t.jsonl",
        *ALWAYS,
        "--out",
        "x.jsonl",
        "--text-field",
        "input",
    )
    refuse(dpicl(*words, "--no-labels", "--labels", "a,b"), "one or the other")
    refuse(dpicl(*words, "--output-field", "output", "--dialogues"), "one of the two")
    refuse(dpicl(*words, "--no-labels", "--public-test", "t.jsonl"), "is not measured")
    refuse(dpicl(*words, "--no-labels", "--shots-per-label", 2), "texts with labels")


def test_formats_that_texts_alone_do_not_have():
    for format in ("messages-openai", "hf"):
        with pytest.raises(UsageError, match="Texts without labels"):
            format_release(released("plain"), TASK, format, "plain")
