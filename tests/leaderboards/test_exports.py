"""What other programs read of a board, with hostile names in it: spreadsheets, feed readers, LaTeX, JSON."""

from __future__ import annotations

import csv
import io
import json
import re
from datetime import datetime
from xml.etree import ElementTree

import pandas as pd
import pytest

from dpicl.leaderboards.model.board import Board, build_board
from dpicl.leaderboards.render.addresses import row_id
from dpicl.leaderboards.render.columns import to_csv
from dpicl.leaderboards.render.hosting import crawler_files
from dpicl.leaderboards.render.html import pages
from dpicl.leaderboards.render.row_view import bibtex
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.site_factory import Page

ODD = "a\x0bb\x00c\x1b[31m\u202e\ufffe\ud800"
TEX = r"100% & $x_1^2$ #{\input{/etc/passwd}} ~ \end{document} \" ε ∞ 猫 \u202e".replace(
    "\\u202e", "\u202e"
)


def board_of(label: str, **more: object) -> Board:
    return build_board([*ends(), make_result("tang", 0.6, label=label, **more)])


FORMULAS = [
    *("=1", "+1", "-1", "@A1", " =1", "\t=1", "\r=1", "\u00a0=1", "\u3000=1", '"=1', ' " =1'),
    *("\uff1dcmd", "\uff0b1", "\uff0d1", "\uff20A1", " \uff1d1"),
    *("\ufe66cmd", "\ufe621", " \ufe631", "\ufe6bA1"),
    *("a;=1", "a; =1", 'a;"=1', "a;\uff1d1", "a|=1", "a;b;-1", ";=1", "a;\n=1"),
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_a_csv_is_a_formula_whatever_divides_cells(text):
    written = to_csv(pd.DataFrame({text: [text], "other": ["b"]}))
    for divider in ",;|\t":
        for cell in (
            cell for line in csv.reader(io.StringIO(written), delimiter=divider) for cell in line
        ):
            assert not re.match(
                r"[\s\"]*[=+@\-\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b]", cell
            ), (divider, cell)


@pytest.mark.parametrize(
    "text", ["tang", "a-b", "voting (Q = 100)", "a; b", "team/method, submitted", "a, -1"]
)
def test_a_usual_name_stands_in_a_csv_as_it_is(text):
    assert pd.read_csv(io.StringIO(to_csv(pd.DataFrame({"row": [text]}))))["row"][0] == text


@pytest.mark.parametrize(
    "created", ["2026-01-02T03:04:05+00:00", "20260102T030405Z", "2026-W01-5T03:04:05+00:00"]
)
def test_a_feed_is_xml_with_times_as_atom_has_them(created):
    board = build_board(
        [one.model_copy(update={"created": created}) for one in [*ends(), make_result(label=ODD)]]
    )
    feed = ElementTree.fromstring(
        crawler_files({"quick": board}, ["index.html"], "https://example.org")["feed.xml"]
    )
    texts = [element.text for element in feed.iter() if element.text]
    assert not any(
        re.search("[\x00-\x08\x0b-\x1f\ufffe\u202e\ud800-\udfff]", text) for text in texts
    )
    updated = [element.text for element in feed.iter("{http://www.w3.org/2005/Atom}updated")]
    assert set(updated) == {datetime.fromisoformat(created).isoformat()}


@pytest.mark.parametrize("label", [TEX, ODD, "}", "{", "\\", "a,b={c}", "plain"])
def test_a_row_s_entry_is_one_that_latex_accepts(label):
    (section,) = board_of(label).sections
    (row,) = [row for row in section.rows if row.mechanism == "tang"]
    entry = bibtex(section.group, row, row_id(section, row))
    (body,) = re.findall(r"^@misc\{[A-Za-z0-9_.-]+, (.*)\}$", entry)
    assert body.count("{") == body.count("}")
    depth = 0
    for character in body:
        depth += (character == "{") - (character == "}")
        assert depth >= 0
    plain = re.sub(r"\\(text[a-z]+\{\}|[$&#_%])|\$\\(varepsilon|infty)\$", "", body)
    assert not re.search(r"[\\$&#_%~^]|[^\x20-\x7e猫]", plain), plain


def test_every_row_has_a_key_of_its_own_that_stays():
    results = [
        *ends(),
        make_result("tang", 0.6),
        make_result("tang", 0.6, epsilon=8.0),
        make_result("tang", label="b"),
    ]
    texts = [
        Page(text).words
        for name, text in pages(build_board(results)).items()
        if name.startswith("rows/")
    ]
    keys = [key for text in texts for key in re.findall(r"@misc\{([^,]+),", text)]
    assert len(keys) == len(set(keys)) == len(results)
    more = [*results, make_result("prism", 0.5)]
    again = {text for name, text in pages(build_board(more)).items() if name.startswith("rows/")}
    assert all(any(key in page for page in again) for key in keys)


def test_a_name_that_no_text_can_hold_is_written_out_in_json(dpicl, tmp_path):
    folder = tmp_path / "not_utf\udcff8"
    answer = dpicl(f"submit {folder} --new team/method --json")
    assert answer.code == 0
    assert (
        not re.search(r"\\ud[89a-f]", answer.out.replace("\\\\", "")) and r"\\udcff" in answer.out
    )
    json.loads(answer.out)
