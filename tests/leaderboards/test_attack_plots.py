"""Plots of attacks: every number in them is finite, they show what the tables show, and no marker hides another."""

import itertools
import math
import re
from xml.etree import ElementTree

import pytest

from dpicl.harness.attacks.results import Estimate
from dpicl.leaderboards.render.attack_plots import (
    Axis,
    Point,
    attack_points,
    auc_svg,
    audited_svg,
    axis_of,
    external_point,
)
from dpicl.leaderboards.render.plot import HEIGHT, WIDTH
from tests.leaderboards.attack_factory import AUC, make_attack, make_external

STYLES = {"tang": 0, "prism": 1, "evil": 2}
_COORDINATES = ("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "width", "height")


def point(proved, audited, label="tang", white_box=True):
    return Point(label, white_box, proved, audited, f"{label}: {audited}")


def parsed(markup) -> ElementTree.Element:
    return ElementTree.fromstring(markup)


def numbers(svg):
    values = [float(node.get(name)) for node in svg.iter() for name in _COORDINATES if node.get(name)]
    points = " ".join(node.get("points", "") for node in svg.iter())
    return values + [float(number) for number in re.split(r"[ ,]+", points) if number]


def circles(svg):
    return [(float(node.get("cx")), float(node.get("cy"))) for node in svg.iter("circle")]


SETS = {
    "one": [(1.0, 0.4)],
    "all zero": [(0.0, 0.0)],
    "zeros": [(1.0, 0.0), (8.0, 0.0)],
    "far apart": [(1e-6, 1e-9), (1e6, 3.0)],
    "one size": [(1.0, 0.9), (2.0, 1.0)],
    "infinity": [(math.inf, 3.0), (1.0, 0.2)],
    "infinity alone": [(math.inf, math.inf)],
    "refuted": [(1.0, 20.0)],
}


@pytest.mark.parametrize("name", SETS)
def test_all_coordinates_are_finite_and_inside(name):
    found = numbers(parsed(audited_svg([point(*pair) for pair in SETS[name]], STYLES)))
    assert len(found) > 10
    assert all(math.isfinite(value) for value in found)
    assert all(-0.1 <= value <= max(WIDTH, HEIGHT) for value in found)


def test_axis_is_linear_for_numbers_of_one_size_and_logarithmic_else():
    linear, logarithmic = axis_of([point(2.0, 1.0)]), axis_of([point(8.0, 0.01)])
    assert not linear.logarithmic
    assert linear.share(1.0) == pytest.approx(linear.share(2.0) / 2)
    assert logarithmic.logarithmic
    steps = [logarithmic.share(epsilon) for epsilon in (0.01, 0.1, 1.0)]
    assert steps[1] - steps[0] == pytest.approx(steps[2] - steps[1])
    assert logarithmic.share(0.0) < steps[0]


@pytest.mark.parametrize("axis", [Axis(0.01, 10.0, True), Axis(0.01, 10.0, False), Axis(1.0, 2.0, True)])
def test_axis_rises_and_its_ticks_have_a_place(axis):
    shares = [axis.share(epsilon) for epsilon in (0.0, 0.02, 0.5, 1.0, 2.0, math.inf)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    assert axis.ticks()[0] == 0.0
    assert (math.inf in axis.ticks()) == axis.unlimited
    assert all(0 <= axis.share(tick) <= 1 for tick in axis.ticks())


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_equal_numbers_are_on_the_diagonal_and_larger_bounds_above_it(scale):
    pairs = [(1.0, 0.5), (1.0, 1.0), (1.0, 2.0), (scale, 0.1)]
    svg = parsed(audited_svg([point(*pair) for pair in pairs], STYLES))
    (end,) = [node for node in svg.iter("line") if node.get("class") == "end"]
    x1, y1, x2, y2 = (float(end.get(name)) for name in ("x1", "y1", "x2", "y2"))
    below, on, above, _ = (y - (y1 + (x - x1) / (x2 - x1) * (y2 - y1)) for x, y in circles(svg))
    assert below > 1
    assert on == pytest.approx(0, abs=0.2)
    assert above < -1


def test_markers_at_one_place_stand_side_by_side_and_stay_on_their_side_of_the_diagonal():
    points = [point(1.0, audited) for audited in (0.0, 0.0, 0.0, 0.0, 0.97, 0.97, 0.97)] + [point(8.0, 2.0)]
    svg = parsed(audited_svg(points, STYLES))
    for (x, y), (u, v) in itertools.combinations(circles(svg), 2):
        assert abs(x - u) > 6 or abs(y - v) > 6
    (end,) = [node for node in svg.iter("line") if node.get("class") == "end"]
    x1, y1, x2, y2 = (float(end.get(name)) for name in ("x1", "y1", "x2", "y2"))
    assert all(y > y1 + (x - x1) / (x2 - x1) * (y2 - y1) - 0.2 for x, y in circles(svg))


def test_both_accesses_can_be_told_apart_and_hints_have_the_numbers():
    own = [make_attack(audited=0.4567), make_attack(audited=0.1, access="black-box")]
    points = [*attack_points("tang", own), external_point("tang", make_external(0.7), 0.99)]
    svg = parsed(audited_svg(points, STYLES))
    assert [node.get("class") for node in svg.iter("circle")] == ["marker", "marker hollow", "marker hollow"]
    hints = [node.text for node in svg.iter("title")]
    assert hints[0] == "tang on agnews, white-box audit, 95%: audited ε 0.456, proved ε 0.99"
    assert "(external)" in hints[2]
    assert attack_points("tang", [make_attack(audited=None)]) == []


def test_names_in_plots_are_escaped():
    external = make_external(0.7, attack="<script>x</script>", authors="\x1b[2J\u202e")
    text = audited_svg([external_point("evil", external, 1.0)], STYLES)
    assert "<script>" not in text
    assert "\u202e" not in text
    assert "\x1b" not in text


def aucs(*pairs, **more):
    return [(name, make_attack(name, epsilon, attack="inquiry", measures=AUC, **more)) for name, epsilon in pairs]


@pytest.mark.parametrize(
    "pairs",
    [[("tang", 1.0), ("tang", 8.0)], [("tang", math.inf)], [("tang", 0.001), ("prism", 1e6)], [], [("prism", 0.0)]],
    ids=["two", "infinity", "far apart", "ends alone", "zero"],
)
def test_auc_coordinates_are_finite_and_inside(pairs):
    svg = parsed(auc_svg(aucs(("zero_shot", 0.0), ("real_demonstrations", 1.0), *pairs), STYLES, "a title"))
    found = numbers(svg)
    assert all(math.isfinite(value) for value in found)
    assert all(-0.1 <= value <= max(WIDTH, HEIGHT) for value in found)
    assert len([node for node in svg.iter("line") if node.get("class") == "whisker"]) == len(pairs)


def test_auc_plot_names_both_ends_once_and_has_chance():
    ends = [*aucs(("zero_shot", 0.0), ("real_demonstrations", 1.0)), *aucs(("zero_shot", 0.0), seed=1)]
    text = " ".join(node.text or "" for node in parsed(auc_svg(ends, STYLES, "a title")).iter("text"))
    assert text.count("zero-shot, ε = 0: 0.61") == 1
    assert "real demonstrations, ε = ∞: 0.61" in text
    assert "chance" in text


def test_an_auc_without_interval_has_no_whisker():
    one = make_attack(attack="inquiry", measures={"auc": Estimate(value=0.7)})
    svg = parsed(auc_svg([("tang", one)], STYLES, "a title"))
    assert not [node for node in svg.iter("line") if node.get("class") == "whisker"]
    assert [node.text for node in svg.iter("title")] == ["tang at ε = 1, white-box inquiry: AUC 0.700"]
