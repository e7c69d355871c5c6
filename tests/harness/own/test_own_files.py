"""Files as companies have them: packed, in other encodings, without a line of names, with rows that are wrong."""

import gzip
import json
import zipfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.core.decoding import FileFormat
from dpicl.core.errors import DataError, UsageError
from dpicl.core.vocabulary import Record
from dpicl.data.labels import read_labels
from dpicl.data.reading import FileRecords, read_records
from dpicl.own.records import OwnRecords, load_own, require_different
from tests.harness.helpers import refuse
from tests.harness.own.desk import LABELS, read_card, release

CSV = "text,label\nmy card — charged,billing\nwhere is my money,refund\n"
RECORDS = [Record("my card — charged", "billing"), Record("where is my money", "refund")]
WORDS = {"billing": "billing", "refund": "refund"}


def read(path: Path, **more: object) -> FileRecords:
    return read_records(path, OwnRecords(WORDS, **more).spec(path))


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_zip(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


# --- packed files


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip", "t.jsonl.gz"])
def test_a_packed_file_is_read_as_the_file_in_it(tmp_path, name):
    lines = "".join(json.dumps({"text": each.text, "label": each.label}) + "\n" for each in RECORDS)
    content = lines if "jsonl" in name else CSV
    if name.endswith(".zip"):
        path = write_zip(
            tmp_path / name,
            {"__MACOSX/._t.csv": b"x", "folder/": b"", "folder/t.csv": content.encode()},
        )
    else:
        path = write(tmp_path / name, gzip.compress(content.encode()))
    assert read(path).check() == RECORDS


def test_what_is_packed_in_another_way_is_one_sentence(tmp_path):
    two = write_zip(
        tmp_path / "two.zip",
        {
            "a.csv": CSV.encode(),
            "b.csv": CSV.encode(),
        },
    )
    cut = write(tmp_path / "cut.csv.gz", gzip.compress(CSV.encode())[:-9])
    book = write(tmp_path / "book.xlsx.gz", gzip.compress(b"PK"))
    none = write(tmp_path / "none.zip", b"no archive")
    renamed = write(tmp_path / "renamed.csv", gzip.compress(CSV.encode()))
    for path, words in {
        two: "holds 2 files",
        cut: "is damaged",
        book: "a packed file is read where it holds",
        none: "is damaged, or no zip",
        renamed: "give it the ending .gz",
    }.items():
        with pytest.raises(DataError, match=words):
            read(path)


@pytest.mark.parametrize("ending", [".csv.gz", ".zip"])
def test_a_packed_file_is_a_hundred_times_larger_at_most(tmp_path, ending):
    bomb = CSV.encode() + b"x" * 101_000_000
    path = tmp_path / f"bomb{ending}"
    if ending == ".zip":
        write_zip(path, {"bomb.csv": bomb})
    else:
        write(path, gzip.compress(bomb))
    with pytest.raises(DataError, match="more than 100,000,000"):
        read(path)


def test_a_packed_copy_is_the_same_records(tmp_path):
    path = write(tmp_path / "t.csv", CSV)
    copy = write(tmp_path / "u.csv.gz", gzip.compress(CSV.encode()))
    with pytest.raises(UsageError, match="are the same records"):
        require_different({"--data": path, "--public": copy})


# --- encodings


@pytest.mark.parametrize("encoding", ["windows-1252", "utf-16", "gb18030", "utf-8-sig"])
def test_a_file_in_another_encoding_is_read_as_it_says(tmp_path, encoding):
    path = write(tmp_path / "t.csv", CSV.encode(encoding))
    assert read(path, format=FileFormat(encoding=encoding)).check() == RECORDS


@pytest.mark.parametrize(
    ("encoding", "hint"),
    [("windows-1252", "WINDOWS-1252"), ("utf-16", "--encoding utf-16"), ("utf-16-be", "--encoding utf-16-be"),
     ("windows-1251", "windows-1251, gb18030")],
)  # fmt: skip
def test_the_hint_tells_encodings_apart(tmp_path, encoding, hint):
    text = CSV if encoding != "windows-1251" else CSV.replace("card", "карта")
    with pytest.raises(DataError) as caught:
        read(write(tmp_path / "t.csv", text.encode(encoding))).check()
    assert hint in str(caught.value)


def test_some_bytes_that_could_be_utf_8_hide_no_other_encoding(tmp_path):
    content = CSV.replace("card", "é é é").encode("cp1252") + "card,ä\n".encode()
    with pytest.raises(DataError, match="WINDOWS-1252"):
        read(write(tmp_path / "mostly.csv", content)).check()
    with pytest.raises(DataError, match="while other lines are"):
        read(
            write(tmp_path / "one.csv", CSV.replace("card", "ä" * 9).encode() + b"\xe9,x\n")
        ).check()


def test_what_is_no_text_is_not_taken_for_another_encoding(tmp_path):
    for content in (CSV.encode() + b"\0\0,billing\n", bytes(range(256)) * 9):
        with pytest.raises(DataError, match="no text: it holds NUL bytes"):
            read(write(tmp_path / "t.csv", content))


def test_encodings_with_a_state_and_unknown_ones_are_refused(dpicl, desk):
    for name, words in {
        "utf-7": "would depend on other lines",
        "klingon": "must be an encoding",
    }.items():
        refuse(dpicl("data", "tickets.csv", "--encoding", name), words)


# --- a line of names


def test_without_a_line_of_names_columns_have_numbers(tmp_path):
    path = write(tmp_path / "t.csv", "billing,my card — charged\nrefund,where is my money\n")
    numbers = {"text_field": "2", "label_field": "1"}
    assert read(path, format=FileFormat(header=False), **numbers).check() == RECORDS
    for fields, error in (
        ({}, UsageError),
        ({**numbers, "text_field": "3"}, DataError),
    ):
        with pytest.raises(error, match="columns are called 1"):
            read(path, format=FileFormat(header=False), **fields)


def test_how_many_columns_private_records_have_is_not_said(dpicl, desk):
    flags = ("--no-header", "--text-field", 1, "--label-field", 3, "--per-record")
    answer = release(dpicl, *flags)
    refuse(answer, "The private records cannot be read")
    assert "2 column" not in answer.err and not list(desk.glob("demos*"))


def test_a_record_decides_no_mark_between_columns(tmp_path):
    content = "billing;my card — charged\nrefund;where is my money\n"
    numbers = {"text_field": "2", "label_field": "1"}
    path = write(tmp_path / "t.csv", content)
    with pytest.raises(DataError, match="has 1 column"):
        read(path, format=FileFormat(header=False), **numbers)
    assert (
        read(
            path,
            format=FileFormat(header=False, delimiter=";"),
            **numbers,
        ).check()
        == RECORDS
    )
    assert read(
        write(tmp_path / "t.tsv", content.replace(";", "\t")),
        format=FileFormat(header=False),
        **numbers,
    )


# --- rows that are left out

#: One row each, whatever stands around it: sound, or wrong in one of many ways.
ROWS = (
    *(
        b"a text,billing",
        b"other text,refund",
        b'"two, words",billing',
        b"a text,unknown",
        b",billing",
        b"one field",
    ),
    *(
        b"three,fields,billing",
        b'"broken" quotes,billing',
        b"bytes \xe9 \xff,refund",
        b"\xf0\x9f\x8e,refund",
        b"",
    ),
    *(b"x\xc3,billing", b'say "hi",refund'),
)
LINES = (
    *(
        b'{"text": "a text", "label": "billing"}',
        b'{"text": "b", "label": "refund"}',
        b'{"text": "c"}',
        b"{",
        b"7",
    ),
    *(
        b'{"text": 3, "label": "refund"}',
        b'{"text": "\xe9", "label": "refund"}',
        b'{"text": "d", "label": "x"}',
        b"",
    ),
    *(b'{"text": "\\ud800", "label": "refund"}', b'{"text": "e", "text": "f", "label": "refund"}'),
)


def assert_each_row_decides_alone(path: Path, head: bytes, rows: list[bytes], at: int) -> None:
    """Without one row exactly its record is missing, if it had one; and no row stops the rest."""

    def records(chosen: list[bytes]) -> Counter[Record]:
        return Counter(
            read(
                write(path, b"\n".join([head, *chosen])),
                skip_invalid=True,
            ).check()
        )

    whole = records(rows)
    without = records(rows[:at] + rows[at + 1 :])
    alone = records(rows[at : at + 1]) - records([])
    assert whole - without == alone and not without - whole


@given(
    st.lists(
        st.sampled_from(ROWS),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 7),
)
def test_each_row_of_csv_decides_alone_whether_it_is_left_out(tmp_path_factory, rows, at):
    path = tmp_path_factory.getbasetemp() / "alone.csv"
    assert_each_row_decides_alone(path, b"text,label", rows, at % len(rows))


@given(
    st.lists(
        st.sampled_from(LINES),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 7),
)
def test_each_line_of_json_decides_alone_whether_it_is_left_out(tmp_path_factory, rows, at):
    path = tmp_path_factory.getbasetemp() / "alone.jsonl"
    assert_each_row_decides_alone(
        path, b'{"text": "first", "label": "refund"}', rows, at % len(rows)
    )


@pytest.mark.parametrize(
    "rows",
    [
        'x,refund\n"open,billing\ny,refund',
        'x,refund\n"open,billing',
        '"a\nb",c,billing\n',
        '"a\nb"c,billing\n',
    ],
)
def test_a_row_that_takes_in_others_is_not_left_out(tmp_path, rows):
    reading = read(write(tmp_path / "t.csv", f"text,label\n{rows}"), skip_invalid=True)
    assert not reading.skipped and any("cannot be left out" in fault for fault in reading.faults)


def test_rows_of_other_widths_are_not_left_out_without_a_header(tmp_path):
    path = write(tmp_path / "t.csv", "my card,billing\nmy money,refund\nmy, card,billing\n")
    settings = {"format": FileFormat(header=False), "text_field": "1", "label_field": "2"}
    assert read(path, skip_invalid=True, **settings).faults


def test_a_subset_of_labels_leaves_out_other_labels_alone(tmp_path):
    path = write(tmp_path / "t.csv", CSV + "a,technical\n,billing\n")
    reading = read(path, skip_other_labels=True)
    assert reading.records == RECORDS
    assert [*reading.skipped.values()] == [[4]]
    assert [*reading.faults.values()] == [[5]]


def test_a_release_says_not_how_many_rows_were_left_out(dpicl, desk):
    with (desk / "tickets.csv").open("a") as file:
        file.write("the swordfish row,unknown\n" * 3)
    refuse(release(dpicl), "The private records cannot be read")
    answer = release(dpicl, "--skip-invalid").succeed()
    card = read_card()
    (sentence,) = card["reading"]
    shown = [
        *(answer.out + answer.err + Path("demos.card.md").read_text()).splitlines(),
        sentence,
    ]
    about_rows = [line for line in shown if "left out" in line]
    assert len(about_rows) >= 3
    assert not any(map(str.isdigit, "".join(about_rows)))
    counted = dpicl(
        "data", "tickets.csv", "--labels", ",".join(LABELS), "--skip-invalid", "--json"
    ).succeed()
    assert [*counted.json["splits"][0]["skipped"].values()] == [[56, 57, 58]]


def test_public_files_say_which_rows_were_left_out(tmp_path):
    messages: list[str] = []
    path = write(tmp_path / "t.csv", CSV + "a,technical\n")
    load_own(
        OwnRecords(WORDS, skip_invalid=True),
        path,
        None,
        secure=False,
        tell=messages.append,
    )
    assert messages == [f"{path}: 1 row left out (line 4)."]


# --- persons


def test_data_names_the_rows_without_a_person(dpicl, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    head = "text,label,user\nmy card,billing,a\nmy money,refund,\n,billing,b\nmy 'user',refund,-\n"
    write(tmp_path / "t.csv", head)
    answer = dpicl(
        "data", "t.csv", "--labels", "billing,refund", "--person-field", "user", "--json"
    )
    assert answer.json["persons"][0]["nobody"] == [3, 5]
    assert answer.code == 1 and any(
        "2 lines that name nobody" in each for each in answer.json["problems"]
    )
    shown = dpicl("data", "t.csv", "--labels", "billing,refund", "--person-field", "user").out
    assert "2 rows name nobody (line 3, 5)" in shown


# --- labels


@pytest.mark.parametrize(
    ("name", "content"),
    [("l.txt", "a, b = c\ncount\tNumber of things\n"),
     ("l.json", '{"a, b = c": "a, b = c", "count": "Number of things"}')],
)  # fmt: skip
def test_a_file_of_labels_may_have_commas_and_equals_signs(tmp_path, name, content):
    assert read_labels(write(tmp_path / name, content)) == {
        "a, b = c": "a, b = c",
        "count": "Number of things",
    }


@pytest.mark.parametrize("content", ["", "a\na\n", "a\t\n", "\xe9".encode("latin-1")])
def test_a_file_that_is_none_of_labels_is_one_sentence(tmp_path, content):
    with pytest.raises(DataError, match=r"holds no label|the label|a label without|not UTF-8"):
        read_labels(write(tmp_path / "l.txt", content))


def test_labels_are_given_once(dpicl, desk):
    write(desk / "l.txt", "\n".join(LABELS))
    refuse(
        dpicl("data", "tickets.csv", "--labels", "billing", "--labels-file", "l.txt"),
        "one of the two",
    )
    dpicl("data", "tickets.csv", "--labels-file", "l.txt").succeed()
