"""The search for the knob."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.search import meet, round_up
from tests.examples import examples


@given(
    target=st.floats(0.01, 100.0),
    power=st.floats(0.2, 12.0),
    scale=st.floats(0.01, 100.0),
    start=st.floats(0.01, 100.0),
)
def test_the_search_meets_any_falling_power_law(target, power, scale, start):
    evaluations: list[float] = []

    def cost(x: float) -> float:
        evaluations.append(x)
        return scale * x**-power

    answer = meet(cost, target, 1e-3, 1e3, start, 0.01, -1.0)
    if scale * 1e3**-power > target:
        assert answer is None
    elif scale * 1e-3**-power <= target:
        assert answer is not None
        near = (
            0.99 * target <= scale * answer.x**-power <= target
        )  # then any such place is as good as the lower end
        assert near or answer.x == pytest.approx(1e-3)
    else:
        assert answer is not None
        assert 0.99 * target <= scale * answer.x**-power <= target * (1 + 1e-12)
    assert len(evaluations) <= 40
    assert all(1e-3 <= x <= 1e3 for x in evaluations)


@given(edge=st.floats(0.02, 50.0))
def test_the_search_ends_on_the_private_side_of_a_jump(edge):
    answer = meet(
        lambda x: math.inf if x < edge else 0.0,
        1.0,
        1e-2,
        1e2,
        1.0,
        0.01,
        -1.0,
    )
    assert answer is not None
    assert edge <= answer.x <= edge * 1.001


@settings(max_examples=examples(200))
@given(st.floats(1e-6, 1e6))
def test_noise_is_rounded_up(value):
    rounded = round_up(value)
    assert value <= rounded <= value * (1 + 1.1e-5)
    assert (
        rounded == value
        or len(f"{rounded:.15g}".replace(".", "").lstrip("0").partition("e")[0].rstrip("0")) <= 6
    )
