"""Amplification and composition of privacy parameters, against theorems worked out by hand."""

import math

import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.accountants import epsilon
from dpicl.accounting.events import EpsilonDeltaDpEvent
from dpicl.accounting.parameters import amplify
from tests.harness.accounting.makers import prism, sampled_gaussians

Gaussian, Sampled, Repeated = dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent


def test_a_sample_of_anything_is_amplified_with_all_of_delta():
    rate, inside = 0.064, prism(0.3)
    bounds = epsilon(Sampled(rate, inside), 1e-5)
    within = epsilon(inside, 1e-5 / rate).upper
    assert bounds.upper == pytest.approx(math.log(1 + rate * (math.exp(within) - 1)))
    assert bounds.accountants["inside"]["delta"] == pytest.approx(1e-5 / rate)
    assert "amplification" in bounds.accountants["rule"]


def test_pure_dp_is_amplified_by_the_textbook_formula():
    inside = dp.ComposedDpEvent((dp.LaplaceDpEvent(2.0), EpsilonDeltaDpEvent(0.25, 0.0)))
    bounds = epsilon(Sampled(0.1, inside), 1e-9)
    assert bounds.upper == pytest.approx(
        math.log(1 + 0.1 * (math.exp(0.75) - 1)),
        rel=1e-4,
    )


def test_a_rate_below_delta_costs_nothing():
    assert epsilon(Sampled(1e-6, dp.ZCDpEvent(5.0)), 1e-5).upper == 0


@pytest.mark.parametrize("inside", [0.001, 0.5, 3.0, 2000.0])
def test_amplification_formula_does_not_overflow(inside):
    exact = math.log(1 + 0.01 * (math.exp(inside) - 1)) if inside < 700 else inside + math.log(0.01)
    assert amplify(inside, 0.01) == pytest.approx(exact)


def test_many_samples_compose_better_than_by_adding_up():
    event = Sampled(
        0.03,
        dp.ComposedDpEvent(
            (
                Repeated(dp.ZCDpEvent(0.01), 10),
                dp.LaplaceDpEvent(2.0),
            )
        ),
    )
    bounds = epsilon(Repeated(event, 50), 1e-5)
    assert bounds.upper < 0.8 * bounds.accountants["basic"]
    (part,) = bounds.accountants["parts"]
    assert part["count"] * part["delta"] <= 1e-5
    assert part["epsilon"] == pytest.approx(epsilon(event, part["delta"]).upper)


def test_different_samples_compose():
    one = Sampled(0.03, dp.ZCDpEvent(0.2))
    other = Sampled(0.1, dp.ZCDpEvent(0.05))
    both = epsilon(
        dp.ComposedDpEvent(
            (
                Repeated(one, 20),
                Repeated(other, 20),
            )
        ),
        1e-5,
    ).upper
    assert both > max(
        epsilon(Repeated(one, 20), 1e-5).upper, epsilon(Repeated(other, 20), 1e-5).upper
    )
    assert both < 20 * (epsilon(one, 1e-5 / 40).upper + epsilon(other, 1e-5 / 40).upper)


def slow_obvious_composition(inside: float, delta0: float, count: int, delta: float) -> float:
    """Optimal composition of (inside, delta0) mechanisms: sums over binomials (Kairouz et al. 2015, theorem 3.3)."""
    weights = [
        math.comb(count, k) * math.exp(k * inside) / (1 + math.exp(inside)) ** count
        for k in range(count + 1)
    ]
    losses = [(2 * k - count) * inside for k in range(count + 1)]

    def delta_at(value: float) -> float:
        inner = sum(
            w * max(0.0, 1 - math.exp(value - loss))
            for w, loss in zip(weights, losses, strict=True)
        )
        return 1 - (1 - delta0) ** count * (1 - inner)

    low, high = 0.0, count * inside
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (low, middle) if delta_at(middle) <= delta else (middle, high)
    return high


@pytest.mark.parametrize(
    ("inside", "delta0", "count"),
    [
        (0.1, 0.0, 30),
        (0.3, 1e-7, 20),
        (1.0, 1e-6, 3),
    ],
)
def test_privacy_parameters_compose_optimally(inside, delta0, count):
    exact = slow_obvious_composition(inside, delta0, count, 1e-5)
    upper = epsilon(Repeated(EpsilonDeltaDpEvent(inside, delta0), count), 1e-5).upper
    assert exact * (1 - 1e-6) <= upper <= exact * 1.01


def test_privacy_parameters_never_cost_more_than_their_sum():
    bounds = epsilon(Repeated(EpsilonDeltaDpEvent(2.0, 5e-6), 2), 1e-5)
    assert bounds.upper == pytest.approx(4.0)
    assert epsilon(EpsilonDeltaDpEvent(1.0, 1e-4), 1e-5).upper == math.inf


def test_mixtures_of_all_leaves_have_a_bound_above_each_part():
    parts = (
        Repeated(EpsilonDeltaDpEvent(0.1, 1e-8), 20),
        sampled_gaussians(1.0, 0.1, 10),
        Gaussian(2.0),
        dp.ZCDpEvent(0.01),
        dp.LaplaceDpEvent(3.0),
    )
    together = epsilon(dp.ComposedDpEvent(parts), 1e-5).upper
    assert together > max(epsilon(part, 1e-5).estimate for part in parts)
    assert together < sum(epsilon(part, 2e-6).upper for part in parts)


def test_tiny_deltas_leave_plain_addition():
    assert epsilon(
        Repeated(EpsilonDeltaDpEvent(0.1, 0.0), 10),
        1e-13,
    ).upper == pytest.approx(1.0)
