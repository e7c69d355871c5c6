"""The page and the command of scores across releases: complete, alone in its folder, safe whatever results say."""

from __future__ import annotations

import html
import re

import pytest

from dpicl.core.errors import ResultError
from dpicl.leaderboards.render.track_view import render_page, write_page
from tests.harness.comparison.sides import ones, scored, with_manifest, written
from tests.leaderboards.site_factory import history

HOSTILE = [
    "</script><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}",
    "\u202egni\x1b[2J",
    "x" * 100_000,
]


def shape(page: str) -> list[str]:
    return re.findall(r"</?[a-z0-9]+", page)


@pytest.mark.parametrize("value", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_change_no_element(value):
    text = render_page(history(value))
    assert shape(text) == shape(render_page(history()))
    assert "\u202e" not in text
    assert "\x1b" not in text
    assert len(text) < 150_000


def test_the_page_shows_releases_scores_breaks_and_steps():
    text = html.unescape(render_page(history()))
    for part in ("≠ 0.733", "other records", "▼", "2 steps better or worse", "default-src 'none'"):
        assert part in text
    assert text.count("<figure>") == 2 and "https://" not in text
    assert "dpicl run quick" in render_page(())


def test_the_page_is_written_beside_what_is_there(tmp_path):
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.html").write_text('<meta name="generator" content="dpicl board">')
    path = write_page(history(), tmp_path)
    assert path == tmp_path / "track.html"
    assert sorted(entry.name for entry in tmp_path.rglob("*")) == ["a.html", "rows", "track.html"]
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ResultError, match=r"Cannot write .*choose another folder"):
        write_page(history(), tmp_path / "file" / "site")


def test_the_command_answers_as_a_table_as_json_and_as_a_page(monkeypatch, dpicl, tmp_path):
    monkeypatch.setenv("COLUMNS", "110")
    old, new = (
        [scored(ones(right, 150), created=f"2026-0{month}-01T00:00:00+00:00")] for right, month in ((110, 1), (70, 2))
    )
    folders = written(tmp_path / "old", old), written(tmp_path / "new", [with_manifest(new[0], dtype="float32")])
    answer = dpicl("track", *folders, folders[0], "--html", tmp_path / "site")
    assert answer.code == 0
    assert answer.out.startswith("1 step better or worse, in 1 line\n")
    assert re.search(r"tang +1 +0\.733 0\.6\d+–0\.[78]\d+ +0\.467 \S+ ▼", answer.out)
    assert (tmp_path / "site" / "track.html").is_file()
    document = dpicl("track", *folders, "--json").json
    assert [release["dtype"] for release in document["releases"]] == ["bfloat16", "float32"]
    (track,) = document["tracks"]
    assert [point["score"] for point in track["points"]] == [pytest.approx(110 / 150), pytest.approx(70 / 150)]
    assert track["points"][1]["step"]["verdict"] == "worse"


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--task", "agnewz"), "Did you mean 'agnews'"),
        (("--mechanism", "tong"), "Did you mean 'tang'"),
        (("--model", "x"), "Unknown model of"),
        (("--epsilon", "3"), "Unknown epsilon of"),
        (("--by", "day"), "commit"),
    ],
)
def test_what_is_not_there_is_one_sentence_and_exit_code_2(dpicl, tmp_path, flags, words):
    folder = written(tmp_path / "a", [scored(ones(20, 40))])
    answer = dpicl("track", folder, *flags)
    assert answer.code == 2
    assert words in answer.err
    assert answer.err.count("\n") == 1


def test_a_missing_folder_and_a_damaged_file_are_exit_code_2(dpicl, tmp_path):
    assert dpicl("track", tmp_path / "nothing").code == 2
    folder = written(tmp_path / "a", [scored(ones(20, 40))])
    (folder / "bad.json").write_text('{"schema_version": 1}')
    answer = dpicl("track", folder)
    assert answer.code == 2
    assert "bad.json" in answer.err
