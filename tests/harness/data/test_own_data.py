"""Records of a user's own: CSV, Parquet, JSON, folders; what is wrong is one sentence without a word of them."""

import csv
import gzip
import json
import os
from pathlib import Path

import datasets
import pandas
import pytest

from dpicl.core.errors import DataError
from dpicl.core.vocabulary import Record
from dpicl.data.reading import read_records
from dpicl.data.task import Task
from dpicl.data.task_file import LocalKeys, SourceSpec
from tests.harness.helpers import assert_shown_nowhere, refuse

pytestmark = pytest.mark.usefixtures("no_plugins_before")

ROWS = [
    ('my card was charged twice,\n"again"', "0"),
    ("where is my refund", "1"),
    ("the app crashes", "0"),
]


def own_records(path: Path, text: str = "text", label: str = "label", labels: dict | None = None):
    """labels: as written there -> label word; None: any label."""
    local = LocalKeys(text=text, label=label, labels=labels or {})
    words = tuple(dict.fromkeys((labels or {}).values()))
    return read_records(path, SourceSpec(name="own", labels=words, local=local)).check()


WORDS = {"0": "billing", "1": "refund"}
RECORDS = [
    Record('my card was charged twice, "again"', "billing"),
    Record("where is my refund", "refund"),
    Record("the app crashes", "billing"),
]


def write_csv(
    path: Path,
    rows: list[tuple[str, str]],
    names: tuple[str, ...] = ("message", "queue"),
    mark: str = ",",
) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=mark).writerows([names, *rows])
    return path


def objects(kind: type = int) -> list[dict]:
    return [{"message": text, "queue": kind(label)} for text, label in ROWS]


KINDS = {
    "csv": lambda folder: write_csv(folder / "a.csv", ROWS),
    "csv with semicolons": lambda folder: write_csv(folder / "a.csv", ROWS, mark=";"),
    "tsv": lambda folder: write_csv(folder / "a.tsv", ROWS, mark="\t"),
    "json": lambda folder: write_file(folder / "a.json", json.dumps(objects(), indent=1)),
    "json lines": lambda folder: write_file(folder / "a.jsonl", "\r\n".join(map(json.dumps, objects(float)))),
    "json lines called json": lambda folder: write_file(folder / "a.json", "\n".join(map(json.dumps, objects(str)))),
    "parquet": lambda folder: pandas.DataFrame(objects()).to_parquet(folder / "a.parquet") or folder / "a.parquet",
}  # fmt: skip


def write_file(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_records_come_from_every_kind_of_file(tmp_path, kind):
    path = KINDS[kind](tmp_path)
    assert own_records(path, "message", "queue", WORDS) == RECORDS


def test_names_of_classes_that_a_file_has_itself(tmp_path):
    words = {"billing": "billing", "refund": "refund"}
    table = datasets.Dataset.from_list(objects())
    table.cast_column("queue", datasets.ClassLabel(names=["billing", "refund"])).to_parquet(
        str(tmp_path / "a.parquet")
    )
    assert own_records(tmp_path / "a.parquet", "message", "queue", words) == RECORDS


@pytest.mark.parametrize(
    ("label", "labels"),
    [(True, {"true": "yes"}), ("TRUE", {"true": "yes"}), (1.0, {"1": "yes"}), ("1.0", {"1": "yes"}),
     ("No", {"No": "yes"})],
)  # fmt: skip
def test_numbers_and_truth_values_are_labels(tmp_path, label, labels):
    path = write_file(tmp_path / "a.jsonl", json.dumps({"text": "a text", "label": label}))
    assert own_records(path, labels=labels) == [Record("a text", "yes")]


SECRET = "zebrafish"
GOOD = f'{{"text": "{SECRET} one", "label": "a"}}\n'
FILES = {
    "UTF-16": ("a.jsonl", GOOD.encode("utf-16"), "UTF-8", "--encoding utf-16"),
    "Latin-1": ("a.csv", f"text,label\n{SECRET},a\né,b\n".encode("latin-1"), "line 3", "Latin-1", "WINDOWS-1252"),
    "CSV named .jsonl": ("a.jsonl", f"text,label\n{SECRET},a\n", "CSV", "a.csv"),
    "JSON named .csv": ("a.csv", GOOD, "JSON", "a.jsonl"),
    "an object over several lines": ("a.jsonl", f'{{\n"text": "{SECRET}"}}', "line 1", "JSON object"),
    "one object": ("a.json", GOOD, "is not a list"),
    "damaged JSON": ("a.json", f'[{{"text": "{SECRET}"', "not JSON"),
    "too deep": ("a.json", "[" * 100_000, "deep"),
    "a number of too many digits": ("a.jsonl", f'{{"text": "{SECRET}", "label": {"9" * 5000}}}', "line 1", "digits"),
    "a key twice": ("a.jsonl", f'{{"text": "{SECRET}", "text": "b", "label": "a"}}', "line 1", "twice"),
    "damaged Parquet": ("a.parquet", f"PAR1{SECRET}PAR1", "Parquet"),
    "unknown ending": ("a.doc", SECRET, ".jsonl"),
    "no line of names": ("a.csv", f"{SECRET} one,a\n{SECRET} two,b\n", "no column 'text'", "2 fields"),
    "a near name": ("a.csv", f"Text,label\n{SECRET},a\n", "it has Text, label"),
    "keys that are no names": ("a.jsonl", f'{{"{SECRET} is ill": "x", "label": "a"}}\n', "no column 'text'"),
    "a column twice": ("a.csv", f"text,text,label\n{SECRET},b,a\n", "two columns 'text'"),
    "ragged": ("a.csv", f"text,label\nx,b\n{SECRET},a,c\n{SECRET}\n", "line 3", "3 fields", "3–4"),
    "a mark that is never closed": ("a.csv", f'text,label\nx,b\n"{SECRET}\n\ny,b\n', "line 3", "quotation"),
    "ragged, with line breaks of old Macs": ("a.csv", f"text,label\rx,b\r{SECRET},a,c\r", "line 3", "3 fields"),
    "a long line": ("a.csv", f"text,label\n{SECRET * 1_200_000},a\n", "line 2", "limit"),
    "an object as text": ("a.jsonl", f'{{"text": {{"a": "{SECRET}"}}, "label": "a"}}', "line 1", "no text"),
    "NaN": ("a.jsonl", f'{{"text": "{SECRET}", "label": NaN}}', "line 1", "whole number"),
    "an empty text": ("a.jsonl", f'{{"text": " ", "label": "{SECRET}"}}', "line 1", "empty text"),
    "many wrong lines": ("a.jsonl", (GOOD + "7\n") * 9, "line 2", "9 lines", "and 1 more"),
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_what_is_no_table_is_a_sentence_that_shows_no_record(tmp_path, name):
    file, content, *words = FILES[name]
    with pytest.raises(DataError) as caught:
        own_records(write_file(tmp_path / file, content))
    message = str(caught.value)
    assert str(tmp_path / file) in message and all(word in message for word in words), message
    assert_shown_nowhere(SECRET, caught.value)
    assert len(message) < 500 and "\n" not in message


def test_places_that_are_no_files(tmp_path):
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    for name, word in (
        ("loop", "link"),
        ("pipe", "not a regular file"),
        ("folder", "not a regular file"),
        ("none", "not there"),
    ):
        with pytest.raises(DataError, match=word):
            own_records(tmp_path / f"{name}.jsonl")


# --- where a task's records are


def put(folder: Path, split: str, texts: int = 3, name: str = "agnews") -> Path:
    (folder / name).mkdir(parents=True, exist_ok=True)
    rows = [
        (f"{split} {i} of {label}", label)
        for i in range(texts)
        for label in ("World", "Sports", "Business", "Sci/Tech")
    ]
    return write_csv(folder / name / f"{split}.csv", rows, ("text", "label"))


def test_a_task_reads_whatever_kind_of_file_its_folder_has(local_data):
    put(local_data, "train"), put(local_data, "test")
    task = Task.load("agnews")
    assert task.source == "local"
    assert len(task.train) == 12
    assert len(task.test) == 12
    rows = [{"text": r.text, "label": r.label} for r in task.train]
    pandas.DataFrame(rows).to_parquet(local_data / "agnews" / "train.parquet")
    with pytest.raises(DataError, match=r"train\.csv and train\.parquet"):
        Task.load("agnews")
    (local_data / "agnews" / "train.csv").unlink()
    assert Task.load("agnews").fingerprint == task.fingerprint


@pytest.mark.parametrize(
    ("where", "named"),
    [("agnews", "agnews"), ("outer/agnews", "")],
)
def test_a_folder_one_level_off_is_named_with_the_way_out(tmp_path, monkeypatch, where, named):
    put((tmp_path / where).parent, "train")
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / named))
    for source in ("auto", "local"):
        with pytest.raises(DataError, match=rf"train records lie in {tmp_path / where};"):
            Task.load("agnews", source)


def test_other_files_of_the_folder_and_the_full_path_are_named(local_data):
    (local_data / "agnews").mkdir()
    write_file(local_data / "agnews" / "train.csv.gz", gzip.compress(b"text,label"))
    with pytest.raises(DataError, match=rf"{local_data}/agnews/train\.jsonl.*train\.csv\.gz"):
        Task.load("agnews", "local")


def test_a_train_file_that_is_the_test_file_is_named(local_data):
    put(local_data, "train")
    (local_data / "agnews" / "test.csv").write_bytes(
        (local_data / "agnews" / "train.csv").read_bytes()
    )
    with pytest.raises(DataError, match="12 are both"):
        Task.load("agnews")


# --- dpicl new task --from, dpicl data


@pytest.fixture
def desk(tmp_path, monkeypatch) -> Path:
    """A support desk's files, in the working folder."""
    monkeypatch.chdir(tmp_path)
    rows = [(f"case {i} about {label}", label) for i in range(8) for label in ("yes", "no", "a: b")]
    write_csv(tmp_path / "train.csv", rows)
    write_csv(
        tmp_path / "test.csv",
        [(f"question {i} {label}", label) for i in range(3) for label in ("yes", "no", "a: b")],
    )
    return tmp_path


def test_a_task_is_written_from_a_file_and_runs(dpicl, desk):
    written = dpicl("new", "task", "desk", "--from", "train.csv", "--json").succeed()
    assert set(written.json["labels"]) == {"yes", "no", "a: b"}
    described = dpicl("data", "desk", "--plugin", "desk", "--json")
    assert (described.code, described.json["ok"]) == (0, True), described.err
    assert [split["records"] for split in described.json["splits"]] == [24, 9]
    assert described.json["splits"][0]["labels"] == {"yes": 8, "no": 8, "a: b": 8}
    dpicl("run", "desk/suite.yaml", "--plugin", "desk", "--model", "sim", "--seed", 0, "--mechanism", "zero_shot",
                "--json").succeed()  # fmt: skip
    assert not list((desk / "desk").glob("*.jsonl"))  # no copy of a record
    assert "case" not in (desk / "desk" / "task.yaml").read_text()


def test_labels_and_fields_by_flags(dpicl, desk):
    write_csv(
        desk / "numbers.csv", [(f"case {i}", str(i % 2)) for i in range(8)], ("words", "code")
    )
    flags = ("--text-field", "words", "--label-field", "code", "--labels", "0=billing,1=refund")
    written = dpicl("new", "task", "desk", "--from", "numbers.csv", *flags, "--json")
    assert written.code == 0 and written.json["labels"] == ["billing", "refund"]
    assert written.json["next"] == ["dpicl data desk --plugin desk"]  # a run needs a test file
    described = dpicl("data", "numbers.csv", *flags, "--json").json
    assert described["splits"][0]["labels"] == {"billing": 4, "refund": 4}
    refuse(
        dpicl("new", "task", "other", "--from", "numbers.csv", *flags[:-1], "0=billing,2=refund"),
        "unknown label",
    )
    refuse(dpicl("data", "numbers.csv", "--labels", "0=a,0=b"), "--labels", "twice")


def test_texts_are_never_taken_for_labels(dpicl, desk):
    refuse(dpicl("new", "task", "desk", "--from", "train.csv", "--text-field", "queue", "--label-field", "message"),
           "look like texts")  # fmt: skip
    assert not (desk / "desk").exists()


def test_data_counts_repeats_leaks_and_all_wrong_lines(dpicl, tmp_path):
    lines = [f'{{"text": "{SECRET} {i % 5}", "label": "{"ab"[i % 2]}"}}' for i in range(8)] + [
        "7",
        "x",
        '{"text": "t"}',
    ]
    train = write_file(tmp_path / "train.jsonl", "\n".join(lines))
    test = write_file(tmp_path / "test.jsonl", lines[1] + '\n{"text": "new", "label": "a"}\n')
    described = dpicl("data", train, "--test", test, "--json")
    assert described.code == 1
    assert described.json["ok"] is False
    first = described.json["splits"][0]
    assert first["records"] == 8 and first["repeated"] == [6, 7, 8]
    assert sorted(line for lines in first["faults"].values() for line in lines) == [9, 10, 11]
    assert described.json["leaks"] == [2, 7]
    shown = dpicl("data", train, "--test", test)
    assert SECRET not in shown.out + shown.err and SECRET not in described.out
    assert (
        "train.jsonl, line 9" in shown.out and "train," not in shown.out and "private" in shown.err
    )


def test_a_first_record_without_a_label_is_the_wrong_one(dpicl, tmp_path):
    (tmp_path / "some.jsonl").write_text('{"text": "a"}\n{"text": "b", "label": "refund"}\n')
    answer = dpicl("data", tmp_path / "some.jsonl", "--labels", "billing,refund")
    assert answer.code == 1 and "line 1" in answer.out and "label" in answer.out
