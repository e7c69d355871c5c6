"""Profiles of bounded-range choices against scans, slow recursions and random choices."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given
from hypothesis import strategies as st

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.bounded_range import (
    BLOCK,
    choice_delta,
    choice_pld,
    choices_delta,
    choices_pld,
    sampled_choices_delta,
    sampled_choices_pld,
)
from dpicl.accounting.events import bounded_range_choice, compose
from dpicl.accounting.sampled_composites import sample_losses
from dpicl.accounting.slack import LARGEST, slack
from tests.harness.accounting.makers import divergence, mix, softmax, worst_choice

SIZES = (0.05, 0.4, 1.0, 3.0, 9.0)


def slow_delta(size: float, count: int, x: float, choices: int = 200) -> float:
    """The recursion over a scan of t, exact in between: from below, as the scan misses the best t by a little."""
    if count == 1:
        return float(choice_delta(size, np.array([x]))[0])
    best = 0.0
    for t in np.linspace(0, size, choices):
        high, low = worst_choice(size, float(t))[0]
        after = high * slow_delta(size, count - 1, x - t, choices) + low * slow_delta(
            size, count - 1, x - t + size, choices
        )
        best = max(best, after)
    return best


@pytest.mark.parametrize("size", SIZES)
def test_the_profile_is_the_largest_over_all_ranges(size):
    for x in np.linspace(-1.2 * size, 1.2 * size, 25):
        scan = [
            high * max(0.0, -math.expm1(x - t))
            + low
            * max(
                0.0,
                -math.expm1(x - t + size),
            )
            for t in np.linspace(0, size, 801)
            for high, low in [worst_choice(size, float(t))[0]]
        ]
        assert choice_delta(size, np.array([x]))[0] == pytest.approx(
            max(scan),
            rel=1e-5,
            abs=1e-12,
        )


@given(
    scores=st.lists(
        st.floats(-5, 5),
        min_size=2,
        max_size=6,
    ),
    moves=st.lists(st.floats(0, 1), min_size=6, max_size=6),
    size=st.floats(0.01, 8.0),
    where=st.floats(-1.1, 1.1),
)
def test_no_choice_of_that_range_exceeds_the_profile(scores, moves, size, where):
    before = np.array(scores)
    after = before + size * np.array(moves[: len(scores)])
    p, q = softmax(after), softmax(before)
    bound = choice_delta(size, np.array([where * size]))[0] + 1e-12
    assert divergence(p, q, where * size) <= bound
    assert divergence(q, p, where * size) <= bound


@pytest.mark.parametrize("size", SIZES)
def test_one_step_of_the_recursion_is_the_profile(size):
    x = size * np.arange(-25, 26) / 25
    assert choices_delta(size, 1, 25) == pytest.approx(choice_delta(size, x), abs=1e-14)


@pytest.mark.parametrize(
    ("size", "count", "choices"),
    [
        (0.2, 2, 200),
        (1.0, 2, 200),
        (4.0, 2, 200),
        (1.0, 3, 60),
    ],
)
def test_several_choices_cost_what_the_slow_recursion_says(size, count, choices):
    deltas = choices_delta(size, count, 40)
    for cell in (-60, -20, -3, 0, 10, 33, 70) if count == 2 else (-30, 0, 45, 80):
        exact = slow_delta(size, count, size * cell / 40, choices)
        assert exact * (1 - 1e-12) <= deltas[len(deltas) // 2 + cell] <= exact * 1.02 + 1e-12


def test_blocks_of_choices_lose_little():
    whole = choices_delta(0.05, 2 * BLOCK, 16)
    upper = choices_pld(0.05, 2 * BLOCK, 16).get_epsilon_for_delta(1e-5)
    exact = 0.05 / 16 * (int(np.argmax(whole <= 1e-5)) - len(whole) // 2)
    assert exact - 0.05 / 16 < upper < exact * 1.01


def test_many_choices_cost_little_more_than_their_gaussian():
    count, size = 2000, 0.02
    bounds = epsilon(compose([bounded_range_choice(size)] * count), 1e-5)
    gaussian = epsilon(
        dp.GaussianDpEvent(2 / (size * math.sqrt(count))),
        1e-5,
    ).upper
    assert gaussian * 0.999 < bounds.upper < gaussian * 1.01
    assert bounds.upper < bounds.accountants["other_proof"]["accountants"]["rdp"]


# --- one choice on each of several Poisson samples


def slow_sampled(
    size: float, rate: float, count: int, x: float, removed: bool, choices: int
) -> float:
    """What the worst adaptive sequence of these choices costs, by trying all; from below."""
    if count == 0:
        return max(0.0, -math.expm1(x))
    best = 0.0
    for t in np.linspace(0, size, choices)[1:-1]:
        p, q = mix(worst_choice(size, float(t)), rate)
        first, second = (p, q) if removed else (q, p)
        rest = [
            slow_sampled(
                size,
                rate,
                count - 1,
                x - math.log(a / b),
                removed,
                choices,
            )
            for a, b in zip(first, second, strict=True)
        ]
        best = max(best, float(first @ np.array(rest)))
    return best


@pytest.mark.parametrize("removed", [True, False])
@pytest.mark.parametrize(
    ("size", "rate", "count"),
    [
        (1.0, 0.2, 1),
        (4.0, 0.05, 1),
        (1.5, 0.3, 2),
        (3.0, 0.1, 2),
    ],
)
def test_choices_on_samples_cost_what_the_slow_recursion_says(size, rate, count, removed):
    grid = 0.002
    deltas = sampled_choices_delta(size, rate, count, grid, removed=removed, cells=64)
    for x in (-0.2, -0.05, 0.0, 0.03, 0.1, 0.25):
        exact = slow_sampled(size, rate, count, x, removed, choices=61)
        at = len(deltas) // 2 + round(x / grid)
        if 0 <= at < len(deltas):
            assert exact - 1e-12 <= deltas[at] <= exact * 1.02 + 2e-4


def test_samples_of_a_choice_cost_less_than_each_at_its_worst():
    size, rate, count = 1.5, 0.05, 40
    event = dp.SelfComposedDpEvent(
        dp.PoissonSampledDpEvent(rate, bounded_range_choice(size)), count
    )
    apart = (
        sample_losses(choice_pld(size, size / 200), rate, count)
        .build_distribution(2e-3)
        .self_compose(count)
    )
    upper = epsilon(event, 1e-5).upper
    assert upper < 0.93 * apart.get_epsilon_for_delta(1e-5)
    assert slack(event, 1e-5, upper) < LARGEST
    finer = sampled_choices_pld(size, rate, count, 2e-3, 96).get_epsilon_for_delta(1e-5)
    assert finer <= upper < 1.01 * finer
