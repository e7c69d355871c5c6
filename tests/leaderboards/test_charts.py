"""Charts: points are where the numbers are, a method looks the same everywhere, and no name can break a figure."""

from __future__ import annotations

import base64
import itertools
import json
import math
from xml.etree import ElementTree

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.charts import (
    MOST_LINES,
    figure,
    page_figure,
    recovery_panel,
    render,
    score_panel,
)
from dpicl.leaderboards.render.methods import CONTROL, style_of
from tests.leaderboards.factory import ends, make_result, repeat

HOSTILE = (
    "$x^2_$",
    "_hidden",
    "<script>x</script>",
    '"><b id=x>',
    "evil\x1b[2J\u202ename",
    "datum.value + 1",
    "漢字",
    "x" * 5000,
)
SHIPPED = (
    *("tang", "pta", "prism", "adadpsyn", "hot_pate", "private_prediction", "private_evolution"),
    *("invisible_ink", "voting", "voting_nearest", "product_of_experts", "dp_opt", "esa", "ksa"),
    *("sga", "sga_histogram"),
)


def tables_of(*results):
    return build_board(results).sections[0].tables


def points_of(panel):
    return panel["data"]["values"]


def svg_texts(panel):
    """The texts of a rendered panel, from left to right and from top to bottom."""
    svg = ElementTree.fromstring(render(figure([("", panel)]), "svg"))
    lines = (node.itertext() for node in svg.iter() if node.tag.endswith("}text"))
    return [text for line in lines for text in line if text.strip()]


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
def test_the_same_numbers_are_the_same_image_without_a_script(case):
    (table,), (same,) = tables_of(*CASES[case]), tables_of(*CASES[case])
    for draw in (score_panel, lambda table: recovery_panel(table, 1.0)):
        image = page_figure("", draw(table), "agnews")
        kind, _, content = image.address.partition(",")
        assert kind == "data:image/svg+xml;base64"
        assert page_figure("", draw(same), "agnews") == image
        svg = base64.b64decode(content).decode()
        assert "nan" not in svg.lower() and "infinity" not in svg.lower()
        tags = {node.tag.rpartition("}")[2] for node in ElementTree.fromstring(svg).iter()}
        assert "svg" in tags and not tags & {"script", "style", "image", "foreignObject", "a"}


def test_scores_stand_at_their_levels_and_both_ends_are_lines_across():
    scores = {1.0: 0.4, 2.0: 0.5, 4.0: 0.7, math.inf: 0.8}
    results = [make_result("tang", score, epsilon=epsilon) for epsilon, score in scores.items()]
    (table,) = tables_of(*ends(), *results, make_result("public", 0.55, epsilon=0.0))
    panel = score_panel(table)
    points = points_of(panel)
    assert [point["y"] for point in points] == [*scores.values()]
    assert [point["x"] for point in points] == [0, 1, 2, 3]
    across = panel["layer"][1]["data"]["values"]
    assert {row["name"]: row["y"] for row in across} == {"public": 0.55, "real_demonstrations": 0.8}
    texts = svg_texts(panel)
    assert texts.index("1") < texts.index("∞")
    assert {"tang", "public", "real_demonstrations"} <= {*texts}


def test_recoveries_stand_between_both_ends_methods_first():
    rows = {"tang": 0.6, "pta": 0.7, "topic_words": 0.75, "prism": 0.1, "low": 0.4}
    results = [make_result(name, score) for name, score in rows.items()]
    (table,) = tables_of(*repeat([*ends(zero_shot=0.4, real_data=0.8), *results]))
    points = points_of(recovery_panel(table, 1.0))
    shown = {point["name"].split()[0]: point for point in points}
    assert [*shown] == ["pta", "tang", "low", "prism", "topic_words"]
    assert shown["pta"]["x"] == pytest.approx(0.75) and shown["low"]["x"] == 0
    assert shown["topic_words"]["colour"] == CONTROL.colour
    assert shown["tang"]["low"] < shown["tang"]["x"] < shown["tang"]["high"]
    assert shown["tang"]["text"].startswith("50% (")
    assert shown["topic_words"]["y"] - shown["prism"]["y"] > 1  # apart
    texts = svg_texts(recovery_panel(table, 1.0))
    assert {"best control", "0.400", "real records", "0.800"} <= {*texts}


def test_a_recovery_far_outside_is_an_arrow_at_the_edge_with_its_number():
    (table,) = tables_of(*ends(zero_shot=0.4, real_data=0.5), make_result("tang", 0.0))
    (point,) = points_of(recovery_panel(table, 1.0))
    assert (point["x"], point["shape"], point["text"]) == (-1.0, "triangle-left", "−400%")


def test_a_method_has_one_colour_and_shape_whatever_its_label_and_others_have_another():
    styles = [style_of(name) for name in SHIPPED]
    assert len(set(styles)) == len(SHIPPED) and CONTROL not in styles
    assert style_of("a stranger's") == style_of("a stranger's") not in styles
    results = [make_result("tang", 0.6), make_result("tang", 0.5, label="tang_small")]
    (table,) = tables_of(*ends(), *results)
    for panel in (score_panel(table), recovery_panel(table, 1.0)):
        looks = {(point["colour"], point["shape"]) for point in points_of(panel)}
        assert looks == {(style_of("tang").colour, style_of("tang").shape)}


@pytest.mark.parametrize("colour", sorted({style_of(name).colour for name in SHIPPED}))
def test_every_colour_stands_out_on_a_white_page(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    assert 1.05 / (luminance + 0.05) >= 4.5


@pytest.mark.parametrize("label", HOSTILE)
def test_a_name_is_shown_as_it_is_and_changes_nothing_else(label):
    (table,) = tables_of(*ends(), make_result("tang", 0.6, label=label))
    (harmless,) = tables_of(*ends(), make_result("tang", 0.6))
    for draw in (score_panel, lambda table: recovery_panel(table, 1.0)):
        texts, others = svg_texts(draw(table)), svg_texts(draw(harmless))
        shown = [text for text, other in zip(texts, others, strict=True) if text != other]
        (name,) = shown
        assert name.rstrip("…") in label or "⟨U+" in name
        assert len(name) <= 40 and "\x1b" not in name and "\u202e" not in name
    for kind in ("pdf", "png", "svg", "json"):
        assert len(render(figure([(label, score_panel(table))], label), kind)) > 2000


def test_names_of_lines_never_overlap_and_of_very_many_rows_the_best_are_shown():
    rows = [make_result(f"row{i:03}", 0.3 + 0.4 * i / 45) for i in range(MOST_LINES + 5)]
    (table,) = tables_of(*ends(), *rows)
    panel = score_panel(table)
    names = panel["layer"][-1]["data"]["values"]
    places = sorted(name["place"] for name in names)
    assert min(b - a for a, b in itertools.pairwise(places)) >= 12.9
    assert places[0] >= 0 and places[-1] <= panel["height"]
    shown = {name["name"] for name in names}
    assert len(shown) == MOST_LINES + 2
    assert f"row{MOST_LINES + 4:03}" in shown and "row000" not in shown


def test_the_command_writes_a_figure_or_says_in_one_sentence_why_not(dpicl, sim_suite, tmp_path):
    place = ("--results", tmp_path / "results")
    assert dpicl("plot", sim_suite, *place, "--out", tmp_path / "a.pdf").code == 2  # no result yet
    assert dpicl("run", sim_suite, *place).code == 0
    for name, start in (("a.pdf", b"%PDF"), ("a.png", b"\x89PNG"), ("new/a.svg", b"<svg")):
        answer = dpicl("plot", sim_suite, *place, "--out", tmp_path / name, "--json")
        assert (answer.code, answer.json["figure"]) == (0, str(tmp_path / name))
        assert (tmp_path / name).read_bytes().startswith(start)
    chosen = dpicl("plot", sim_suite, *place, "--mechanism", "tang", "--out", tmp_path / "b.svg")
    assert chosen.code == 0 and "1 panel" in chosen.out
    assert (
        "prism_short" not in (tmp_path / "b.svg").read_text()
        and "tang" in (tmp_path / "b.svg").read_text()
    )
    recovery = dpicl("plot", sim_suite, *place, "--kind", "recovery", "--out", tmp_path / "c.json")
    assert recovery.code == 2 and "--kind scores" in recovery.err
    assert dpicl("plot", sim_suite, *place, "--out", tmp_path / "d.json").code == 0
    assert "vega-lite" in json.loads((tmp_path / "d.json").read_text())["$schema"]
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
        "d.json",
    }
