"""The figure of privacy against utility: its points are where the numbers are, and no name can break it."""

from __future__ import annotations

import base64
import math
from xml.etree import ElementTree

import matplotlib
import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.charts import MOST_LINES, file_of, image_address, privacy_utility
from tests.leaderboards.factory import ends, make_result

HOSTILE = (
    "$x^2_$",
    "_hidden",
    "<script>x</script>",
    '"><b id=x>',
    "evil\x1b[2J\u202ename",
    "\\frac{",
    "漢字",
    "x" * 5000,
)


def tables_of(*results):
    return build_board(results).sections[0].tables


def figure_of(*results, about=""):
    return privacy_utility([(table.task, table) for table in tables_of(*results)], about)


def names(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def tang(*epsilons):
    return [make_result("tang", 0.6, epsilon=epsilon) for epsilon in epsilons]


CASES = {
    "two": [*ends(), *tang(1.0, 8.0)],
    "one": [*ends(), *tang(4.0)],
    "far apart": tang(1e-6, 1e6),
    "largest": tang(5e-324, 1.7e308),
    "infinity": tang(1.0, math.inf),
    "infinity alone": [*ends(), *tang(math.inf)],
    "baselines alone": ends(),
    "equal scores": [*ends(zero_shot=1.0, real_data=1.0), make_result("tang", 1.0)],
}


@pytest.mark.parametrize("case", CASES)
def test_a_page_has_the_figure_as_an_image_of_its_own_and_the_same_numbers_are_the_same_bytes(case):
    (table,), (same,) = tables_of(*CASES[case]), tables_of(*CASES[case])
    kind, _, content = image_address(table).partition(",")
    assert kind == "data:image/svg+xml;base64" and image_address(same) == f"{kind},{content}"
    svg = ElementTree.fromstring(base64.b64decode(content))
    assert svg.tag.endswith("svg") and not [
        node for node in svg.iter() if node.tag.endswith("script")
    ]
    assert "nan" not in base64.b64decode(content).decode()


def test_a_table_is_drawn_once(monkeypatch):
    (table,) = tables_of(*CASES["two"])
    image = image_address(table)
    monkeypatch.setattr("dpicl.leaderboards.render.charts.file_of", None)
    assert image_address(table) is image


def test_points_are_where_the_numbers_are_and_baselines_and_controls_are_lines_across():
    scores = {1.0: 0.4, 2.0: 0.5, 4.0: 0.7, math.inf: 0.8}
    results = [make_result("tang", score, epsilon=epsilon) for epsilon, score in scores.items()]
    figure = figure_of(*ends(), *results, make_result("public", 0.55, epsilon=0.0), about="model")
    (axes,) = figure.axes
    (line,) = (container.lines[0] for container in axes.containers)
    places = line.get_xdata().tolist()
    assert line.get_ydata().tolist() == [*scores.values()]
    assert (
        places[1] - places[0]
        == pytest.approx(places[2] - places[1])
        == pytest.approx(places[3] - places[2])
    )
    across = {
        one.get_ydata()[0] for one in axes.lines if one is not line and len({*one.get_ydata()}) == 1
    }
    assert across >= {0.4, 0.55, 0.8}
    assert names(figure) == ["tang", "public", "real_demonstrations", "zero_shot"]
    assert figure.legends[0].get_title().get_text() == "model"


@pytest.mark.parametrize("label", HOSTILE)
def test_a_name_is_shown_as_it_is_and_changes_nothing_else(label):
    figure = figure_of(*ends(), make_result("tang", 0.6, label=label), about=label)
    (shown,) = {*names(figure)} - {"zero_shot", "real_demonstrations"}
    assert shown.rstrip("…") in label or "⟨U+" in shown
    assert len(shown) <= 40 and "\x1b" not in shown and "\u202e" not in shown
    for kind in ("pdf", "png", "svg") if label in HOSTILE[:2] else ("svg",):
        assert len(file_of(figure, kind)) > 5000


def test_a_figure_has_a_panel_a_task_and_one_legend_whatever_the_user_has_set():
    results = [*ends("agnews"), *ends("trec"), make_result("prism", 0.5, task="trec"), *tang(1.0)]
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30}):
        figure = figure_of(*results)
        assert matplotlib.rcParams["font.size"] == 30
    assert [axes.get_title() for axes in figure.axes] == ["agnews", "trec"]
    assert names(figure) == ["prism", "tang", "real_demonstrations", "zero_shot"]


def test_a_figure_of_very_many_rows_shows_the_best_and_no_two_look_alike():
    rows = [make_result(f"row{i:03}", 0.3 + 0.4 * i / 45) for i in range(MOST_LINES + 5)]
    figure = figure_of(*ends(), *rows)
    lines = [one.lines[0] for one in figure.axes[0].containers]
    assert (
        len({(one.get_color(), one.get_marker(), one.get_linestyle()) for one in lines})
        == MOST_LINES
    )
    assert len({one.get_color() for one in lines[:12]}) == 12
    shown = names(figure)
    assert (
        len(shown) == MOST_LINES + 2
        and f"row{MOST_LINES + 4:03}" in shown
        and "row000" not in shown
    )


def test_the_command_writes_a_figure_or_says_in_one_sentence_why_not(dpicl, sim_suite, tmp_path):
    place = ("--results", tmp_path / "results")
    assert dpicl("plot", sim_suite, *place, "--out", tmp_path / "a.pdf").code == 2  # no result yet
    assert dpicl("run", sim_suite, *place).code == 0
    for name, start in (("a.pdf", b"%PDF"), ("a.png", b"\x89PNG"), ("new/a.svg", b"<?xml")):
        answer = dpicl("plot", sim_suite, *place, "--out", tmp_path / name, "--json")
        assert (answer.code, answer.json["figure"]) == (0, str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(start)
    chosen = dpicl("plot", sim_suite, *place, "--mechanism", "tang", "--out", tmp_path / "b.svg")
    assert chosen.code == 0 and "1 panel" in chosen.out
    assert (
        "prism_short" not in (tmp_path / "b.svg").read_text()
        and "tang" in (tmp_path / "b.svg").read_text()
    )
    for flags in (
        ("--out", tmp_path / "a.gif"),
        ("--out", tmp_path / "a"),
        ("--out", tmp_path / "a.png" / "a.png"),
        ("--out", tmp_path / "c.png", "--mechanism", "tong"),
        ("--out", tmp_path / "c.png", "--task", "nothing"),
    ):
        answer = dpicl("plot", sim_suite, *place, *flags)
        assert answer.code == 2 and answer.err.count("\n") == 1
    assert "'nothing'" in answer.err and "agnews" in answer.err and str(sim_suite) not in answer.err
    assert {path.name for path in tmp_path.iterdir()} == {
        "results",
        "new",
        "a.pdf",
        "a.png",
        "b.svg",
    }
