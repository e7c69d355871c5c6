"""Inputs that look right and are not: one file as two inputs, quotation marks that swallow rows, blank queries, tables
of other libraries."""

import csv
import io
import os
import shutil
from collections import namedtuple
from pathlib import Path

import numpy as np
import pandas
import pytest

import dpicl as package
from dpicl.core.errors import DataError, DpiclError, UsageError
from dpicl.core.vocabulary import Record
from dpicl.data.reading import read_records
from dpicl.data.tables import as_table, open_table
from dpicl.data.task_file import LocalKeys, SourceSpec
from dpicl.own.records import OwnRecords, load_own, make_config, queries_of, require_different
from tests.harness.helpers import assert_shown_nowhere, refuse
from tests.harness.own.desk import (
    ALWAYS,
    LABELS,
    assert_nothing_charged,
    read_rows,
    release,
    write_csv,
)

OWN = OwnRecords({label: label for label in LABELS})


# --- one input twice


@pytest.mark.parametrize(
    ("flag", "how"),
    [("--public", "path"), ("--public-test", "hard link"), ("--public", "link"), ("--public-test", "copy")],
)  # fmt: skip
def test_private_records_are_no_public_ones(dpicl, desk, flag, how):
    other = desk / "other.csv"
    if how == "path":
        other = Path("../" + desk.name) / "tickets.csv"
    elif how == "copy":
        shutil.copy(desk / "tickets.csv", other)
    else:
        (os.link if how == "hard link" else os.symlink)(desk / "tickets.csv", other)
    refuse(
        release(dpicl, flag, other), f"--data and {flag} are the same records", "private records"
    )
    assert not list(desk.glob("demos*"))
    assert_nothing_charged(dpicl)


def test_private_records_are_no_queries(dpicl, desk):
    shutil.copy("tickets.csv", "asked.csv")
    words = ("answer", "voting", "--data", "tickets.csv", *ALWAYS, "--out", "x.jsonl", "--queries")
    refuse(dpicl(*words, "asked.csv"), "--data and --queries are the same records")
    write_csv(desk / "public.csv", 12)
    shutil.copy("public.csv", "again.csv")
    refuse(
        release(dpicl, "--public", "public.csv", "--public-test", "again.csv"),
        "--public and --public-test",
    )


def write_as_json_lines(rows: pandas.DataFrame, folder: Path) -> Path:
    rows.to_json(folder / "other.jsonl", orient="records", lines=True)
    return folder / "other.jsonl"


def write_as_parquet(rows: pandas.DataFrame, folder: Path) -> Path:
    rows[["label", "text"]].to_parquet(folder / "other.parquet")
    return folder / "other.parquet"


def write_in_another_order(rows: pandas.DataFrame, folder: Path) -> Path:
    rows[::-1].to_csv(folder / "other.csv", index=False, lineterminator="\r\n")
    return folder / "other.csv"


@pytest.mark.parametrize("write", [write_as_json_lines, write_as_parquet, write_in_another_order])
def test_the_same_records_in_another_format_or_order_are_refused(write, tmp_path):
    rows = pandas.DataFrame(
        {
            "text": ["one, two", "a\nb", "0"],
            "label": [1, 2, 1],
        }
    )
    rows.to_csv(tmp_path / "data.csv", index=False)
    other = write(rows, tmp_path)
    for table in (other, as_table(rows)):
        with pytest.raises(UsageError, match="are the same records"):
            require_different({"--data": tmp_path / "data.csv", "--public": table})
    rows[1:].to_csv(other.with_name("fewer.csv"), index=False)
    require_different({"--data": tmp_path / "data.csv", "--public": tmp_path / "fewer.csv"})


def test_a_frame_names_its_columns_and_a_list_does_not():
    rows = [{"text": "one", "label": "billing"}]
    assert open_table(as_table(pandas.DataFrame(rows))).columns == ["text", "label"]
    assert open_table(as_table(rows)).columns == ()


def test_files_that_cannot_be_compared_are_left_to_their_reader(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\n")
    for other in ("nothing.csv", "a\0.csv", "."):
        require_different({"--data": tmp_path / "a.csv", "--public": tmp_path / other})


def test_one_table_in_memory_is_not_private_and_public():
    rows = [("one", "billing"), ("two", "refund")]
    settings = {"labels": LABELS, "size": 20, "model": "sim"}
    with pytest.raises(UsageError, match=r"^data and public_test are the same records"):
        package.release(
            "tang",
            data=rows,
            public_test=pandas.DataFrame(rows, columns=["text", "label"]),
            **settings,
        )


# --- quotation marks


def read(path: Path, quoting: bool = True):
    local = LocalKeys(text="text", label="label", quoting=quoting)
    return read_records(path, SourceSpec(name="own", labels=(), local=local))


def test_rows_that_a_quotation_mark_joins_are_faults(dpicl, tmp_path):
    path = tmp_path / "sms.tsv"
    path.write_text('label\ttext\nham\tfine\nspam\t"win now\nham\tsee you\nham\tbye"\nham\tend\n')
    with pytest.raises(DataError, match=r"line 3 takes whole lines after it.*--no-quoting"):
        read(path).check()
    assert dpicl("data", path).code == 1
    answer = dpicl("data", path, "--no-quoting", "--json")
    assert answer.code == 0 and answer.json["splits"][0]["records"] == 5
    assert read(path, quoting=False).check()[1] == Record('"win now', "spam")


def test_a_text_of_several_lines_with_tabs_in_it_is_a_text(tmp_path):
    path = tmp_path / "faq.tsv"
    path.write_text(
        'label\tid\ttext\tmore\nham\t1\t"<p>\n\tfine\n</p>"\tx\nham\t2\t"<p>\tbye\n</p>"\ty\n'
    )
    assert [record.text for record in read(path).check()] == ["<p> fine </p>", "<p> bye </p>"]


@pytest.mark.parametrize(
    "content",
    ['text,label\n"one,billing\ntwo,refund\nthree",refund\n', 'label,id,text\nbilling,1,"one\nrefund,2,two"\n',
     'id;text;label;more\n1;"one;billing;x\n2;two";refund;y\n'],
)  # fmt: skip
def test_a_label_inside_quotation_marks_tells_of_a_row(tmp_path, content):
    path = tmp_path / "a.csv"
    path.write_text(content)
    with pytest.raises(DataError, match="line 2 takes whole lines after it"):
        read_records(path, OWN.spec(path)).check()
    path.write_text('text,label\n"one,\nthat is, billing\nbilling",refund\n')
    (record,) = read_records(path, OWN.spec(path)).check()
    assert record.label == "refund"


def test_a_mark_that_is_never_closed_says_how_much_it_takes(dpicl, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('text,label\nx,a\n"y,b\n' + "z,b\n" * 7)
    shown = dpicl("data", path)
    assert shown.code == 1 and "line 3" in shown.out and "7 lines after it" in shown.out
    assert "--no-quoting" in shown.out
    assert [row.text for row in read(path, quoting=False).check()] == ["x", '"y', *"zzzzzzz"]


def test_joined_lines_are_counted_where_records_may_be_shown(dpicl, desk):
    with (desk / "tickets.csv").open("a") as file:
        file.write('"two\nlines",refund\nlast,refund\n')
    shown = dpicl("data", "tickets.csv", "--json")
    assert shown.json["ok"] and shown.json["splits"][0]["joined"] == [56]
    assert "line 56: a text with line ends in quotation marks" in dpicl("data", "tickets.csv").out
    notes: dict[bool, list[str]] = {True: [], False: []}
    for secure, messages in notes.items():
        load_own(OWN, Path("tickets.csv"), None, secure, tell=messages.append)
    assert notes[True] == []  # it would tell about the records
    assert "1 record with line ends in quotation marks (line 56)" in notes[False][0]


def test_no_quoting_is_for_every_file_of_a_release(dpicl, desk):
    rows = [f'ticket {n} on {label}, "open\t{label}' for n in range(18) for label in LABELS]
    Path("t.tsv").write_text("\n".join(["text\tlabel", *rows]) + "\n")
    Path("asked.tsv").write_text('text\n"where\nwhy\n')
    words = (
        "answer",
        "embedding_centroids",
        "--data",
        "t.tsv",
        *ALWAYS,
        "--option",
        "embedding=sim",
    )
    dpicl(*words, "--queries", "asked.tsv", "--no-quoting", "--out", "x.jsonl").succeed()
    assert [row["text"] for row in read_rows("x.jsonl")] == [
        '"where',
        "why",
    ]
    written = dpicl("new", "task", "own", "--from", "t.tsv", "--no-quoting")
    assert written.code == 0 and '"quoting": false' in Path("own/task.yaml").read_text()
    described = dpicl("data", "own", "--plugin", "own", "--json")
    assert described.json["splits"][0]["records"] == 54


# --- queries

QUERIES = {
    "a.txt": ("one\n\n two \n\n", ["one", "", "two", ""]),
    "a.csv": ("text\none\n\ntwo\n", ["one", "", "two"]),
    "b.csv": ("text,more\none,\n,\n,x\ntwo,\n", ["one", "", "", "two"]),
    "a.jsonl": ('{"text": "one"}\n\n{"text": ""}\n{"text": "two"}\n', ["one", "", "", "two"]),
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_blank_query_keeps_its_place(tmp_path, name):
    content, texts = QUERIES[name]
    (tmp_path / name).write_text(content, newline="")
    queries = queries_of(tmp_path / name, OWN)
    assert [query.text for query in queries] == texts
    assert [query.id for query in queries] == [str(at) for at in range(1, len(texts) + 1)]


def test_a_query_without_an_id_is_numbered(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text("id,text\na,one\n,two\nb,\n")
    assert [query.id for query in queries_of(path, OWN)] == ["a", "2", "b"]
    pandas.DataFrame(
        {
            "id": [1.0, None],
            "text": ["one", None],
        }
    ).to_parquet(tmp_path / "q.parquet")
    assert [(query.id, query.text) for query in queries_of(tmp_path / "q.parquet", OWN)] == [
        ("1", "one"),
        ("2", ""),
    ]
    path.write_text("text,text\none,two\n")
    with pytest.raises(DataError, match="two columns 'text'"):
        queries_of(path, OWN)


def test_blank_queries_are_answered_with_nothing(desk):
    settings = {
        "data": "tickets.csv",
        "labels": LABELS,
        "size": 20,
        "model": "sim",
        "options": {"embedding": "sim"},
    }
    answer = package.answer("embedding_centroids", queries=["", "a bill", " "], **settings)
    assert list(answer.answers) == ["1", "2", "3"]
    assert answer.answers["1"] == ""
    assert answer.answers["3"] == ""
    assert answer.answers["2"] in LABELS and len(answer.text().splitlines()) == 3
    package.release("embedding_centroids", out="desk.json", **settings)
    Path("q.txt").write_text("\na bill\n")
    later = package.answer("embedding_centroids", state="desk.json", queries="q.txt", model="sim",
                           options={"embedding": "sim"})  # fmt: skip
    assert later.answers["1"] == "" and later.answers["2"] in LABELS
    for queries in (
        ["", " "],
        FRAME,
        {"a": "text"},
        [None],
        b"text",
    ):
        with pytest.raises(UsageError, match="'queries' must be a file, or a list of texts"):
            package.answer("embedding_centroids", queries=queries, **settings)
    series = package.answer("embedding_centroids", queries=pandas.Series(["a bill"]), **settings)
    assert series.answers["1"] in LABELS


# --- tables of other libraries

SECRET = "zebrafish"
Ticket = namedtuple("Ticket", ["label", "text"])
FRAME = pandas.DataFrame({"text": ["one", "two"], "label": [0, 1]})
READ = {
    "integer columns": (FRAME.set_axis([0, 1], axis=1), ("0", "1")),
    "numpy integers": ([{"text": np.str_("one"), "label": np.int64(0)}, ("two", np.int8(1))], ("text", "label")),
    "truth values of numpy": ([("one", np.bool_(False)), ("two", np.bool_(True))], ("text", "label")),
    "nullable integers": (FRAME.astype({"label": "Int64", "text": "string"}), ("text", "label")),
    "categories": (FRAME.astype({"label": str}).astype({"label": "category"}), ("text", "label")),
    "named tuples": ([Ticket(0, "one"), Ticket(1, "two")], ("text", "label")),
    "a reader of csv": (csv.DictReader(io.StringIO("text,label\none,0\ntwo,1\n")), ("text", "label")),
}  # fmt: skip
WORDS = {"0": "billing", "1": "refund", "false": "billing", "true": "refund"}


def read_table(data, source: OwnRecords) -> list[Record]:
    table = as_table(data)
    return read_records(table, source.spec(table)).check()


@pytest.mark.parametrize("name", READ)
def test_tables_of_other_libraries_are_read_as_they_mean(name):
    data, fields = READ[name]
    assert read_table(data, OwnRecords(WORDS, None, *fields)) == [
        Record("one", "billing"),
        Record("two", "refund"),
    ]


REFUSED = {
    "two levels": (pandas.DataFrame([[SECRET, "0"]], columns=[["a", "a"], ["text", "label"]]), "several levels"),
    "one name twice": (pandas.DataFrame([[SECRET, "x", "0"]], columns=["text", "text", "label"]), "one name"),
    "one name twice, as text and number": ([{"text": SECRET, 1: "0", "1": "1", "label": "0"}], "two fields of one"),
    "a row longer than the names": (csv.DictReader(io.StringIO(f"text,label\n{SECRET},0,x\n")), "more fields"),
    "a row shorter than the names": (csv.DictReader(io.StringIO(f"text,label\n{SECRET}\n")), "nothing as its 'label'"),
    "three values": ([(SECRET, "0", "x")], "tuple of"),
    "NA as a text": (pandas.DataFrame({"text": [pandas.NA], "label": ["0"]}), "nothing as its 'text'"),
    "NaT as a label": ([(SECRET, pandas.NaT)], "nothing as its 'label'"),
    "a time as a label": ([(SECRET, pandas.Timestamp(0))], "neither a word"),
    "an array as a text": ([(np.zeros(3), "0")], "no text"),
    "integer columns without names": (pandas.DataFrame([[SECRET, "0", "x"]]), "it has 0, 1, 2"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_tables_that_mean_nothing_show_no_record(name):
    data, words = REFUSED[name]
    source = OwnRecords(WORDS)
    with pytest.raises(DpiclError, match=words) as caught:
        read_table(data, source)
    assert_shown_nowhere(SECRET, caught.value)


def test_errors_name_the_parameters_of_programs_and_the_flags(dpicl, tmp_path):
    settings = {
        "labels": {np.int64(0): "billing", 1: "refund"},
        "size": 20,
        "model": "sim",
    }
    data = pandas.DataFrame([[SECRET, "0"]])
    with pytest.raises(DataError, match="with text_field and label_field"):
        package.release("tang", data=data, **settings)
    path = tmp_path / "a.csv"
    data.to_csv(path, index=False)
    refuse(
        dpicl("release", "tang", "--data", path, *ALWAYS, "--out", "x.jsonl"),
        "--text-field and --label-field",
    )


def test_a_column_of_a_workbook_twice_is_refused(tmp_path):
    table = pandas.DataFrame(
        [["a", "b", "0"]],
        columns=["text", "text", "label"],
    )
    table.to_excel(tmp_path / "a.xlsx", index=False)
    with pytest.raises(DataError, match="two columns 'text'"):
        read(tmp_path / "a.xlsx")


def test_an_accent_of_its_own_makes_no_other_label(tmp_path):
    (tmp_path / "a.csv").write_text("text,label\none,cafe\u0301\n", encoding="utf-8")
    source = OwnRecords({"caf\u00e9": "caf\u00e9", "bar": "bar"})
    assert read_records(tmp_path / "a.csv", source.spec(tmp_path / "a.csv")).check() == [
        Record("one", "caf\u00e9")
    ]
    with pytest.raises(UsageError, match="each of them once"):
        make_config(["caf\u00e9", "cafe\u0301"], "text")


def test_other_sheets_of_a_workbook_are_said_to_be_unread(tmp_path, capsys):
    table = pandas.DataFrame({"text": ["x", "y"], "label": ["a", "b"]})
    with pandas.ExcelWriter(tmp_path / "two.xlsx") as book:
        table.to_excel(book, sheet_name="first", index=False)
        table.to_excel(book, sheet_name="second", index=False)
    assert len(read(tmp_path / "two.xlsx").check()) == 2
    read(tmp_path / "two.xlsx")
    assert capsys.readouterr().err.count("has 2 sheets, and the first alone is read") == 1
