"""Records with an output, cut at their first words, and the public part of a task: which records it holds, and on what
it does not depend."""

from pathlib import Path

import pytest

from dpicl.core.errors import DataError, UsageError
from dpicl.data.splits import Record, fingerprint
from dpicl.data.task import Task, load_config
from tests.harness.helpers import write

#: Sizes of the public part in these tests.
PUBLIC = 4


@pytest.fixture
def chats(local_data, monkeypatch) -> Path:
    """A local samsum with twelve train records, of which PUBLIC are public, and two test records."""
    for name in ("samsum", "xsum", "chatdoctor"):
        monkeypatch.setitem(load_config(name).data.public, "local", PUBLIC)
    write(local_data, "samsum", "train", chat_rows(12))
    write(
        local_data,
        "samsum",
        "test",
        [{"dialogue": f"exam {i}", "summary": "short"} for i in range(2)],
    )
    return local_data


def chat_rows(count: int) -> list[dict]:
    return [
        {"dialogue": f"Ann: chat {i}", "summary": f"summary {i}", "id": f"{i}"}
        for i in range(count)
    ]


def test_the_turns_of_a_dialogue_become_one_line(chats):
    row = {"dialogue": "Ann:  Hi \r\n\r\nBen: Hello\n  Ann: Bye ", "summary": " They\n talk.  "}
    write(chats, "samsum", "test", [row])
    assert Task.load("samsum", "local").test == (
        Record("Ann: Hi / Ben: Hello / Ann: Bye", "They talk."),
    )


@pytest.mark.parametrize(
    ("name", "fields", "text", "label"),
    [
        ("samsum", ("dialogue", "summary"), 160, None),
        ("chatdoctor", ("question", "answer"), 100, 60),
    ],
)
def test_every_record_is_cut_at_its_first_words(chats, name, fields, text, label):
    def long(i: int) -> dict:
        return {field: f"{i} " + " ".join(f"{field}{n}" for n in range(500)) for field in fields}

    write(chats, name, "train", [long(i) for i in range(9)])
    write(chats, name, "test", [long(9)])
    task = Task.load(name, "local")
    for record in (*task.train, *task.public, *task.test):
        assert record.text.split()[1:] == [f"{fields[0]}{n}" for n in range(text - 1)]
        assert record.label.split()[1:] == [f"{fields[1]}{n}" for n in range((label or 501) - 1)]


def test_the_public_part_shares_no_record_with_the_private_one(chats):
    task = Task.load("samsum", "local")
    assert len(task.public) == PUBLIC
    assert len(task.train) == 12 - PUBLIC
    assert {r.text for r in (*task.public, *task.train)} == {
        row["dialogue"] for row in chat_rows(12)
    }
    assert task.public_records() == task.public
    assert Task.load("samsum", "local", seed=1).public != task.public
    assert "chat" not in repr(task)


def test_a_private_record_more_or_less_changes_no_public_one(chats):
    before = Task.load("samsum", "local")
    added = 0
    for i in range(100, 120):
        for at in (0, 5, 12):
            rows = chat_rows(12)
            rows.insert(at, {"dialogue": f"Ann: chat {i}", "summary": "one more"})
            write(chats, "samsum", "train", rows)
            after = Task.load("samsum", "local")
            if any(r.text == f"Ann: chat {i}" for r in after.train):
                added += 1
                assert after.public == before.public
                assert set(after.train) - set(before.train) == {
                    Record(f"Ann: chat {i}", "one more")
                }
                assert set(before.train) < set(after.train)
    assert added > 15
    for gone in before.train:
        write(
            chats, "samsum", "train", [row for row in chat_rows(12) if row["dialogue"] != gone.text]
        )
        assert Task.load("samsum", "local").public == before.public


def test_the_fingerprint_covers_the_public_records(chats):
    task = Task.load("samsum", "local")
    assert task.fingerprint == fingerprint(task.train, task.test, task.public)
    assert task.fingerprint != fingerprint(task.train, task.test, task.public[:-1])


@pytest.mark.parametrize("name", ["samsum", "chatdoctor"])
def test_synthetic_public_records_follow_no_limit(name):
    task = Task.load(name, "synthetic")
    small = Task.load(name, "synthetic", limit_train=7)
    train = load_config(name).data.synthetic.train
    assert len(task.train) == train
    assert len(task.public) == load_config(name).data.public["synthetic"]
    assert small.public == task.public
    assert set(small.train) < set(task.train)
    assert not {r.text for r in task.public} & {r.text for r in (*task.train, *task.test)}
    assert len(Task.load(name, "synthetic", limit_train=train + 5).train) == len(task.train) + 5


def test_out_of_distribution_records_are_of_the_other_set(chats):
    long = " ".join(f"word{n}" for n in range(500))
    write(
        chats,
        "xsum",
        "train",
        [{"document": f"news {i}\n{long}", "summary": f"line {i}"} for i in range(9)],
    )
    write(chats, "xsum", "test", [{"document": "exam", "summary": "line"}])
    task = Task.load("samsum", "local")
    out = task.public_records("out")
    assert len(out) == PUBLIC
    assert all(
        r.text.startswith("news ") and " / word0 " in r.text and len(r.text.split()) == 160
        for r in out
    )
    assert out == Task.load("samsum", "local", limit_train=1).public_records("out")


def test_out_of_distribution_records_follow_no_private_ones(chats):
    write(
        chats,
        "xsum",
        "train",
        [{"document": f"news {i}", "summary": "line"} for i in range(9)],
    )
    write(chats, "xsum", "test", [{"document": "exam", "summary": "line"}])
    before = Task.load("samsum", "local")
    out = before.public_records("out")
    private = 0
    for copied in out:
        write(
            chats,
            "samsum",
            "train",
            [*chat_rows(12), {"dialogue": copied.text, "summary": "the same text"}],
        )
        after = Task.load("samsum", "local")
        if copied.text in {r.text for r in after.train}:
            private += 1
            assert after.public_records("out") == out
    assert private > 0


def test_a_set_is_not_out_of_its_own_distribution(chats):
    with pytest.raises(DataError, match="choose another source"):
        Task.load("chatdoctor", "synthetic").public_records("out")
    write(
        chats, "chatdoctor", "train", [{"question": f"ask {i}", "answer": "rest"} for i in range(9)]
    )
    write(chats, "chatdoctor", "test", [{"question": "ask", "answer": "rest"}])
    invented = Task.load("chatdoctor", "synthetic")
    out = Task.load("chatdoctor", "local").public_records("out")
    assert {r.text for r in out} <= {r.text for r in (*invented.train, *invented.public)}


def test_a_task_without_another_set_is_an_error(chats):
    assert Task.load("trec", "synthetic", limit_train=1).public_records() == ()
    with pytest.raises(DataError, match="names no out-of-distribution set"):
        Task.load("trec", "synthetic", limit_train=1).public_records("out")
    with pytest.raises(UsageError, match="Known: in, out"):
        Task.load("trec", "synthetic", limit_train=1).public_records("near")
