"""The privacy-utility plot: every number in it is finite, and it shows what the table shows."""

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.plot import HEIGHT, WIDTH, Scale, privacy_utility_svg, series_styles
from dpicl.leaderboards.render.svg import key
from tests.leaderboards.factory import ends, make_result

_COORDINATES = ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height")


def drawn(results) -> ElementTree.Element:
    (table,) = build_board(results).sections[0].tables
    return ElementTree.fromstring(privacy_utility_svg(table, series_styles([table])))


def numbers(svg: ElementTree.Element) -> list[float]:
    values = [float(node.get(name)) for node in svg.iter() for name in _COORDINATES if node.get(name)]
    points = " ".join(node.get("points", "") for node in svg.iter())
    return values + [float(number) for number in re.split(r"[ ,]+", points) if number]


@pytest.mark.parametrize(
    "epsilons",
    [[1.0, 8.0], [4.0], [0.001, 1e6], [1.0, math.inf], [math.inf], []],
    ids=["two", "one", "far apart", "with infinity", "infinity alone", "ends alone"],
)
def test_all_coordinates_are_finite_and_inside(epsilons):
    svg = drawn([*ends(), *(make_result("tang", 0.6, epsilon=epsilon) for epsilon in epsilons)])
    found = numbers(svg)
    assert len(found) > 10
    assert all(math.isfinite(value) for value in found)
    assert all(-0.1 <= value <= max(WIDTH, HEIGHT) for value in found)


@pytest.mark.parametrize(("zero_shot", "real_data"), [(0.0, 1.0), (1.0, 1.0), (0.0, 0.0), (0.5, 0.5)])
def test_scores_at_the_border_are_drawn(zero_shot, real_data):
    svg = drawn([*ends(zero_shot=zero_shot, real_data=real_data), make_result("tang", zero_shot)])
    assert all(math.isfinite(value) for value in numbers(svg))


def test_both_ends_are_lines_across_and_named():
    svg = drawn([*ends(), make_result("tang", 0.6)])
    lines = [node for node in svg.iter("line") if node.get("class") == "end"]
    assert len(lines) == 2
    assert all(line.get("y1") == line.get("y2") for line in lines)
    text = " ".join(node.text or "" for node in svg.iter("text"))
    assert "zero-shot, ε = 0: 0.400" in text
    assert "real demonstrations, ε = ∞: 0.800" in text


def test_missing_ends_are_not_drawn():
    svg = drawn([make_result("tang", 0.6)])
    assert not [node for node in svg.iter("line") if node.get("class") == "end"]


def test_every_row_has_a_marker_with_its_numbers():
    svg = drawn([*ends(), make_result("tang", 0.6), make_result("tang", 0.7, epsilon=8.0), make_result("pta", 0.5)])
    hints = [node.text for node in svg.iter("title")]
    assert len(hints) == 3
    assert any(hint.startswith("tang at ε = 8: 0.700 [") and hint.endswith("proved ε 7.92") for hint in hints)


def test_axis_is_logarithmic_and_infinity_is_at_its_right():
    scale = Scale((1.0, 2.0, 4.0), unlimited=True, low=0.0, high=1.0)
    assert scale.x(2.0) - scale.x(1.0) == pytest.approx(scale.x(4.0) - scale.x(2.0))
    assert scale.x(4.0) < scale.x(math.inf) < WIDTH
    assert scale.y(1.0) < scale.y(0.5) < scale.y(0.0) < HEIGHT


def test_names_are_escaped():
    (table,) = build_board([*ends(), make_result("tang", 0.6, label="<script>x</script>")]).sections[0].tables
    assert "<script>" not in privacy_utility_svg(table, series_styles([table]))


def test_names_cannot_turn_the_reading_direction_of_a_plot():
    label = "evil\x1b[2J\u202ename"
    results = [*ends(), make_result("tang", 0.6, label=label), make_result("public", 0.5, label=label, epsilon=0.0)]
    (table,) = build_board(results).sections[0].tables
    text = privacy_utility_svg(table, series_styles([table]))
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_label_has_the_same_style_on_every_plot():
    results = [*ends("agnews"), *ends("trec"), make_result("tang", 0.6), make_result("pta", 0.6, task="trec")]
    styles = series_styles(build_board(results).sections[0].tables)
    assert styles == {"pta": 0, "tang": 1}
    assert 's1"' in key(styles["tang"])


def test_a_control_at_epsilon_zero_is_a_line_without_a_place_on_the_logarithmic_axis():
    results = [*ends(), make_result("tang", 0.6), make_result("public_demonstrations", 0.55, epsilon=0.0)]
    svg = drawn(results)
    assert "public_demonstrations, ε = 0: 0.550" in "".join(svg.itertext())
    assert all(math.isfinite(value) for value in numbers(svg))
    ranks = {row.label: row.rank for row in build_board(results).sections[0].rankings[0].standings}
    assert ranks == {"zero_shot": None, "public_demonstrations": None, "tang": 1, "real_demonstrations": None}


@pytest.mark.parametrize(
    ("zero_shot", "real_data", "control"),
    [(0.4, 0.8, None), (0.8, 0.4, None), (0.5, 0.5, None), (0.51, 0.5, None), (0.0, 0.0, None), (1.0, 0.95, 0.0)]
    + [(a / 20, b / 20, c / 20) for a, b, c in ((8, 2, 5), (2, 8, 8), (7, 7, 7), (0, 1, 2), (20, 19, 18), (3, 17, 1))],
)
def test_names_of_lines_stand_in_the_order_of_the_lines(zero_shot, real_data, control):
    results = [*ends(zero_shot=zero_shot, real_data=real_data), make_result("tang", 0.6)]
    results += [] if control is None else [make_result("public", control, epsilon=0.0)]
    svg = drawn(results)
    lines = sorted(float(node.get("y1")) for node in svg.iter("line") if node.get("class") == "end")
    named = [node for node in svg.iter("text") if node.get("class") == "end"]
    named.sort(key=lambda node: float(node.get("y")))
    scores = [float(node.text.rsplit(": ", 1)[1]) for node in named]
    assert scores == sorted(scores, reverse=True)
    assert len(lines) == len(named)
    heights = [float(node.get("y")) for node in named]
    assert all(below - above >= 12.9 for above, below in pairwise(heights))
    # The text is 10 pixels high above its y. Its middle is nearest to its own line, or a stroke joins them.
    strokes = [node for node in svg.iter("line") if node.get("class") == "stroke"]
    for own, y in zip(lines, heights, strict=True):
        joined = any(float(node.get("y1")) == pytest.approx(y - 4, abs=0.11) for node in strokes)
        assert joined or abs(y - 4 - own) <= min(abs(y - 4 - line) for line in lines) + 0.01


def test_the_axis_does_not_say_what_a_row_over_its_epsilon_refutes():
    svg = drawn([*ends(), make_result("tang", 0.6, proved=1.5)])
    assert "proved ≤ ε" not in "".join(svg.itertext())
