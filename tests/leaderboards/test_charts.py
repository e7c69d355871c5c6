"""Charts: their points are where the numbers are, they say the numbers in words, and no name can break them."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render import charts
from dpicl.leaderboards.render.board_charts import of_task, printed, privacy_utility, series_styles, track_plot
from dpicl.leaderboards.render.charts import BASELINE, MOST_LABELS, fixed_looks, in_print, look
from tests.leaderboards.factory import ends, make_result
from tests.leaderboards.site_factory import history

STYLES = {"tang": 0, "prism": 1, "pta": 2}
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


def table_of(*results):
    return build_board(results).sections[0].tables[0]


def utility(*results):
    table = table_of(*results)
    return privacy_utility(table, series_styles([table]))


def of_tracks(releases):
    tracks = [track for track in history(releases=releases) if track.epsilon == 1]
    return track_plot(tracks, fixed_looks(track.label for track in tracks), "a title")


def dots(*results):
    table = table_of(*results)
    return of_task(table, 1.0, fixed_looks(row.label for row in table.all_rows))


def tree(markup):
    return ElementTree.fromstring(markup)


def marks(markup):
    """What every mark says -> its place in pixels; a line across has none."""
    found = {}
    for group in (one for one in tree(markup).iter("g") if one.find("title") is not None):
        moved = re.match(r"translate\((.+) (.+)\)", group.find("path").get("transform", ""))
        found[group.find("title").text] = (float(moved[1]), float(moved[2])) if moved else None
    return found


def texts(markup):
    return [node.text for node in tree(markup).iter("text")]


def epsilons(*values):
    return lambda: utility(*ends(), *(make_result("tang", 0.6, epsilon=epsilon) for epsilon in values))


CHARTS = {
    "utility": epsilons(1.0, 8.0),
    "one epsilon": epsilons(4.0),
    "far apart": epsilons(1e-6, 1e6),
    "largest": epsilons(5e-324, 1.7e308),
    "infinity": epsilons(1.0, math.inf),
    "infinity alone": epsilons(math.inf),
    "baselines alone": epsilons(),
    "no baselines": lambda: utility(make_result("tang", 0.6)),
    "equal scores": lambda: utility(*ends(zero_shot=1.0, real_data=1.0), make_result("tang", 1.0)),
    "releases": lambda: of_tracks(25),
    "dots": lambda: dots(*ends(), make_result("tang", 0.6), make_result("public", 0.5, epsilon=0.0)),
}  # fmt: skip


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_of_a_page_is_whole_readable_and_harmless(name):
    markup = CHARTS[name]()
    svg = tree(markup)
    width, height = map(float, svg.get("viewBox").split()[2:])
    assert svg.get("role") == "img"
    assert svg.find("title").text
    for words in marks(markup):
        assert words in svg.find("desc").text
    for x, y in filter(None, marks(markup).values()):
        assert 0 <= x <= width and 0 <= y <= height
    assert "nan" not in markup and "inf" not in " ".join(node.get("d", "") for node in svg.iter("path"))
    for node in svg.iter():
        assert node.tag in ("svg", "title", "desc", "g", "path", "text")
        assert not {"id", "style", "href"} & node.attrib.keys()
    assert markup == CHARTS[name]()


def test_every_colour_of_a_page_is_one_for_light_and_one_for_dark_ground():
    drawn = "".join(make() for make in CHARTS.values())
    used = set(re.findall(r'(?:fill|stroke)="(?!none)(.*?)"', drawn))
    assert len(used) > 5
    text = (Path(charts.__file__).parent / "templates" / "page.css").read_text()
    defined = re.findall(r"(--\w+): light-dark\(", text)
    assert used <= {f"var({name})" for name in defined}


def test_points_are_where_the_numbers_are():
    scores = {1.0: 0.4, 2.0: 0.5, 4.0: 0.7, math.inf: 0.8}
    found = marks(utility(*(make_result("tang", score, epsilon=epsilon) for epsilon, score in scores.items())))
    (x1, y1), (x2, y2), (x4, y4), (x_inf, y_inf) = found.values()
    assert list(found)[1].startswith("tang at ε = 2: 0.500 [") and list(found)[1].endswith("proved ε 1.98")
    assert x2 - x1 == pytest.approx(x4 - x2, abs=0.2)
    assert x4 < x_inf
    assert (y2 - y4) == pytest.approx(2 * (y1 - y2), abs=0.2)
    assert y4 - y_inf == pytest.approx(y1 - y2, abs=0.2)


def test_baselines_and_controls_at_epsilon_zero_are_lines_across_with_their_numbers():
    markup = utility(*ends(), make_result("tang", 0.6), make_result("public", 0.55, epsilon=0.0))
    across = [words for words, place in marks(markup).items() if place is None]
    assert [words.split(" [")[0] for words in across] == [
        "zero-shot, ε = 0: 0.400",
        "real demonstrations, ε = ∞: 0.800",
        "public, ε = 0: 0.550",
    ]
    assert {words.split(" [")[0] for words in across} <= set(texts(markup))
    assert not [place for place in marks(utility(make_result("tang", 0.6))).values() if place is None]


def test_a_break_between_releases_is_a_gap_and_a_step_has_a_sign():
    broken, whole = history()
    plots = [track_plot([track], {track.label: 0}, "t") for track in (broken, whole)]
    assert [len(re.findall(r'fill="none" stroke="var\(--c0\)" stroke-width', plot)) for plot in plots] == [1, 2]
    assert "▼" in texts(plots[1])


@pytest.mark.parametrize("label", HOSTILE)
def test_a_name_is_shown_as_it_is_and_changes_nothing_else(label):
    own = make_result("tang", 0.6, label=label)
    results = [*ends(), own, make_result("public", 0.5, label=f"{label}0", epsilon=0.0)]
    for markup in (utility(*results), dots(*results)):
        tree(markup)
        assert not re.search("<script|<b|\x1b|\u202e", markup)
    shown = charts.cut(f"{label}0, ε = 0: 0.500", 60)
    assert shown in texts(utility(*results))
    chart = printed([(label, table_of(*results))], "model")
    assert charts.cut(label, 60) in [text.get_text() for text in chart.legends[0].get_texts()]
    for kind in ("pdf", "png", "svg") if label in HOSTILE[:2] else ("svg",):
        assert len(in_print(chart.file)(kind)) > 5000


def test_a_printed_figure_has_a_panel_a_task_the_points_and_one_legend_whatever_the_user_has_set():
    results = [*ends("agnews"), *ends("trec"), make_result("prism", 0.5, task="trec"), make_result("tang", 0.6)]
    results.append(make_result("tang", 0.7, epsilon=100.0))
    tables = [(table.task, table) for table in build_board(results).sections[0].tables]
    with matplotlib.rc_context({"text.usetex": True, "font.size": 30}):
        chart = printed(tables, "model")
        assert matplotlib.rcParams["font.size"] == 30
    agnews, trec = chart.axes
    assert [agnews.get_title(), trec.get_title()] == ["agnews", "trec"]
    assert agnews.lines[0].get_xydata().tolist() == [[0, 0.6], [2, 0.7]]
    names = [text.get_text() for text in chart.legends[0].get_texts()]
    assert names == ["prism", "tang", "zero-shot, ε = 0", "real demonstrations, ε = ∞"]
    for kind, start in (("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<?xml")):
        first, again = (in_print(printed(tables, "model").file)(kind) for _ in range(2))
        assert first == again and first.startswith(start)


def test_a_row_has_one_look_on_all_pages_of_all_suites_and_56_of_them_differ():
    shipped = fixed_looks(["pta", "tang", "prism"])
    assert fixed_looks(["tang", "mine"])["tang"] == shipped["tang"] and len({*shipped.values()}) == 3
    others = [f"mine_{i}" for i in range(20)]
    looks = fixed_looks([*others, "tang"])
    assert len({*looks.values()}) == 21 and BASELINE not in looks.values()
    assert fixed_looks(others[:1])[others[0]] == looks[others[0]] or len({*looks.values()}) == 21
    assert fixed_looks(iter(["tang"])) == {"tang": shipped["tang"]}
    assert len({(look(style)["color"], look(style)["marker"]) for style in range(56)}) == 56
    results = [*ends("agnews"), *ends("trec"), make_result("tang", 0.6), make_result("pta", 0.6, task="trec")]
    assert series_styles(build_board(results).sections[0].tables) == {"pta": shipped["pta"], "tang": shipped["tang"]}


def test_dots_stand_where_the_numbers_are_best_first_and_filters_find_them():
    markup = dots(*ends(), make_result("tang", 0.6), make_result("prism", 0.7), make_result("public", 0.5, epsilon=0.0))
    places = {words.split(":")[0]: place for words, place in marks(markup).items()}
    in_order = sorted(places, key=lambda words: places[words][1])
    names = ["real_demonstrations", "prism", "tang", "public", "zero_shot"]
    assert [words.split(" ")[0] for words in in_order] == names
    assert [text for text in texts(markup) if text in names] == sorted(names, key=texts(markup).index)
    across = [places[words][0] for words in in_order]
    assert across == sorted(across, reverse=True)
    assert across[1] - across[2] == pytest.approx(across[2] - across[3], abs=0.2)
    groups = [one.attrib for one in tree(markup).iter("g")]
    assert {one["data-row"].split()[0] for one in groups} == {*names}
    assert {one["data-epsilon"] for one in groups if "prism" in one["data-row"] and "data-epsilon" in one} == {"1"}
    assert {one["data-row"] for one in groups if "data-kind" in one} == {
        "zero_shot zero_shot", "real_demonstrations real_demonstrations",
    }  # fmt: skip
    assert dots(*ends()) is None


def test_charts_of_very_many_rows_show_the_best_and_say_so():
    rows = [make_result(f"row{i:03}", 0.3 + 0.4 * i / 45, documents=20) for i in range(MOST_LABELS + 5)]
    table = table_of(*ends(documents=20), *rows)
    looks = fixed_looks(row.label for row in table.all_rows)
    for chart in (privacy_utility(table, looks), of_task(table, 1.0, looks)):
        assert any(f"best of {MOST_LABELS + extra}" in text for text in texts(chart) for extra in (5, 7))
        assert "row044" in chart and "row000" not in chart
    assert not any("best of" in text for text in texts(utility(*ends(), make_result("tang", 0.6))))


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
    assert "prism_short" not in (tmp_path / "b.svg").read_text() and "tang" in (tmp_path / "b.svg").read_text()
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
    assert {path.name for path in tmp_path.iterdir()} == {"results", "new", "a.pdf", "a.png", "b.svg"}
