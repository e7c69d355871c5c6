"""Boards of very many rows: rows on the pages of their mechanisms, charts of the best, long tables."""

from collections import Counter
from posixpath import dirname, join, normpath
from urllib.parse import unquote

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render import board_charts, dot_charts
from dpicl.leaderboards.render.charts import MOST_LABELS, fixed_looks
from dpicl.leaderboards.render.html import pages
from dpicl.leaderboards.render.site import addresses
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.site_factory import HOSTILE, Page, full_board, shape, submission


@pytest.fixture
def together(monkeypatch):
    """Every board has more rows than have pages of their own."""
    monkeypatch.setattr(addresses, "MOST_PAGES", 1)


def many(number):
    """A board of so many mechanisms on one task."""
    rows = [make_result(f"row{i:03}", 0.3 + 0.4 * i / number, documents=20) for i in range(number)]
    return build_board([*ends(documents=20), *rows])


@pytest.fixture(params=["a page a name", "names share pages"])
def kind(request, together, monkeypatch):
    """The same, and of very many rows' names, too."""
    if request.param == "names share pages":
        monkeypatch.setattr(addresses, "MOST_LABELS", 1)
        monkeypatch.setattr(addresses, "SHARED", 2)
    return request.param


@pytest.mark.parametrize("text", [HOSTILE[0], pytest.param("x" * 5000, marks=pytest.mark.slow)])
def test_rows_without_pages_stand_on_those_of_their_mechanisms_and_every_link_leads_somewhere(kind, text):
    board = full_board(text)
    files, current = pages(board), [row for section in board.sections for row in section.rows]
    shared = [name for name in files if name.startswith("mechanisms/") or "-part-" in name]
    assert any("-part-" in name for name in shared) == (kind == "names share pages")
    sections = [a["id"] for name in shared for a in places(files[name], "section")]
    assert len(sections) == len(set(sections)) == len(current)
    for name in (name for name in files if name.endswith(".html")):
        for link in Page(files[name]).links:
            address, _, hash_ = link.partition("#")
            target = normpath(join(dirname(name), unquote(address)))
            if not address or address.startswith("http"):
                continue
            assert target in files, (name, link)
            if target in shared and hash_:
                assert hash_ in sections


def places(text, wanted):
    return [attributes for tag, attributes in Page(text).tags if tag == wanted and "id" in attributes]


@pytest.mark.parametrize("text", [HOSTILE[0], pytest.param(HOSTILE[2], marks=pytest.mark.slow)])
def test_hostile_texts_are_data_where_rows_stand_together(kind, text):
    found = [
        sum((shape(own) for name, own in pages(full_board(one)).items() if name.endswith(".html")), Counter())
        for one in ("plain", text)
    ]
    assert found[0] == found[1]


def test_names_of_one_mechanism_share_pages_and_a_submitted_method_has_its_own(monkeypatch):
    monkeypatch.setattr(addresses, "MOST_PAGES", 10)
    monkeypatch.setattr(addresses, "MOST_LABELS", 10)
    rows = [make_result("tang", 0.3 + i / 100, label=f"tang-{i:03}", options={"slots": i}) for i in range(60)]
    files = pages(build_board([*ends(), *rows], submissions=[submission()]))
    shared = {name: Page(text).words for name, text in files.items() if name.startswith("rows/tang-part-")}
    assert sorted("tang-000 , agnews" in words for words in shared.values()) == [False, True] and len(shared) == 2
    (own,) = [name for name in files if name.startswith("mechanisms/")]
    assert "a smaller prompt than in the paper" in Page(files[own]).words
    (first,) = [words for words in shared.values() if "tang-007 , agnews, ε = 1" in words]
    assert "slots = 7" in first and "adjusted p" in first and "DP few-shot" not in first  # no registry was given
    assert sum(len(text) for name, text in files.items() if name in shared) < 60 * 5000 + 2 * 15_000


def test_charts_of_very_many_rows_show_the_best_and_say_so():
    (table,) = many(MOST_LABELS + 5).sections[0].tables
    looks = fixed_looks(row.label for row in table.all_rows)
    for chart in (board_charts.privacy_utility(table, looks), dot_charts.of_task(table, [1.0], looks)):
        said = Page(chart).words
        assert f"best of {MOST_LABELS + 5}" in said or f"best of {MOST_LABELS + 7}" in said
        assert "row044" in chart
        assert sum(f"row{i:03}" in chart for i in range(MOST_LABELS + 5)) in (MOST_LABELS, MOST_LABELS // 2)
    few = fixed_looks(row.label for row in table.all_rows[:4])
    (small,) = many(3).sections[0].tables
    assert "best of" not in board_charts.privacy_utility(small, few | looks)
