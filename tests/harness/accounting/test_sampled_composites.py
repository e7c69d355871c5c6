"""Poisson samples of composites: exact enumerations, the theorem's formulas, other accountants."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from dp_accounting.pld import pld_pmf
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import comb

from dpicl.accounting import gaussians, sampled_composites
from dpicl.accounting.accountants import epsilon, rough_epsilon
from dpicl.accounting.events import (
    BoundedRangeDpEvent,
    EpsilonDeltaDpEvent,
    bounded_range_choice,
    compose,
)
from dpicl.accounting.sampled_composites import (
    STEPS,
    compose_losses,
    composed_epsilon,
    has_distribution,
    sample_losses,
)
from dpicl.accounting.slack import lower_bound
from tests.harness.accounting.makers import Pair, divergence, mix, product, times, worst_choice

Gaussian, Sampled, Repeated = dp.GaussianDpEvent, dp.PoissonSampledDpEvent, dp.SelfComposedDpEvent
Choice = BoundedRangeDpEvent


def measure_both_ways(pair: Pair, x: float) -> float:
    return max(
        divergence(pair[0], pair[1], x),
        divergence(pair[1], pair[0], x),
    )


def bound_at(event: dp.DpEvent, count: int, x: float) -> float:
    total = compose_losses({event: count}, STEPS)
    assert total is not None
    return float(total.get_delta_for_epsilon(x))


@pytest.mark.parametrize(
    ("size", "choices", "rate"),
    [
        (1.2, 1, 0.05),
        (1.2, 2, 0.3),
        (3.0, 1, 0.1),
        (0.3, 2, 0.1),
    ],
)
def test_the_bound_is_met_by_the_worst_choices(size, choices, rate):
    event = Sampled(rate, Repeated(Choice(size), choices))
    ranges = np.linspace(0, size, 81)
    for queries, slack in ((1, 1.01), (2, 1.2)):  # two profiles composed are above any two choices
        pairs = [
            times(
                mix(
                    times(worst_choice(size, t), choices),
                    rate,
                ),
                queries,
            )
            for t in ranges
        ]
        x = 0.4 * math.log1p(rate * math.expm1(choices * size))
        exact = max(measure_both_ways(pair, x) for pair in pairs)
        assert exact <= bound_at(event, queries, x) + 1e-12
        if choices == 1:  # with two the worst second choice depends on the first one
            assert bound_at(event, queries, x) <= exact * slack


def test_removal_and_addition_are_bounded_each():
    size, rate, queries = 2.0, 0.2, 3
    total = compose_losses({Sampled(rate, Choice(size)): queries}, STEPS)
    assert total is not None
    for t in np.linspace(0, size, 21):
        p, q = times(mix(worst_choice(size, t), rate), queries)
        for x in (-0.3, 0.0, 0.3, 0.9):
            assert divergence(p, q, x) <= total._pmf_remove.get_delta_for_epsilon(x) + 1e-12
            assert divergence(q, p, x) <= total._pmf_add.get_delta_for_epsilon(x) + 1e-12
    assert total._pmf_add.get_delta_for_epsilon(0.9) == pytest.approx(
        0, abs=1e-12
    )  # 3 ln(1/(1 - rate)) = .67
    assert total._pmf_remove.get_delta_for_epsilon(0.9) > 0.01


def test_moved_losses_have_the_divergences_of_the_mixture():
    """A pair whose losses lie on the inner grid: nothing is lost before the outer grid."""
    rate, grid = 0.15, 0.25
    losses = np.array([-4, -1, 2, 6]) * grid
    q = np.array([0.4, 0.3, 0.2, 0.1])
    p = q * np.exp(losses)
    p, q = p / p.sum(), q / p.sum()  # Q keeps some mass where P has none
    p = np.append(p, 0.0)
    q = np.append(q, 1 - q.sum())
    forward = pld_pmf.create_pmf(
        dict(
            zip(
                [-4, -1, 2, 6],
                p[:4],
                strict=True,
            )
        ),
        grid,
        0.0,
        True,
    )
    backward = pld_pmf.create_pmf(
        dict(
            zip(
                [4, 1, -2, -6],
                q[:4],
                strict=True,
            )
        ),
        grid,
        float(q[4]),
        True,
    )
    moved = sample_losses(pld.PrivacyLossDistribution(forward, backward), rate)
    mixture = (1 - rate) * q + rate * p
    for x in (-0.5, -0.1, 0.0, 0.1, 0.2):
        for side, exact in (
            (moved.remove, divergence(mixture, q, x)),
            (moved.add, divergence(q, mixture, x)),
        ):
            measured = side.infinite + float(
                side.mass
                @ np.maximum(
                    0.0,
                    -np.expm1(x - side.loss),
                )
            )
            assert measured == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(
    ("noise", "rate", "steps"),
    [
        (0.6, 20 / 30000, 100),
        (0.51, 80 / 835, 15),
        (0.94, 0.005, 1000),
        (3.0, 0.1, 40),
    ],
)
def test_samples_of_one_gaussian_cost_what_the_pld_says(noise, rate, steps):
    upper = composed_epsilon({Sampled(rate, Gaussian(noise)): steps}, 1e-5)
    assert upper == pytest.approx(
        gaussians.pld_epsilon(((rate, noise, steps),), 1e-5, 5e-4), rel=0.002
    )


def test_samples_of_one_pure_mechanism_cost_what_binomials_say():
    """Poisson samples of randomised response: two outcomes each, so the composition is a sum over binomials.
    The proof is above it, and what an adversary shows is below."""
    inside, rate, count, delta = 1.0, 0.1, 30, 1e-5
    part = Sampled(rate, EpsilonDeltaDpEvent(inside, 0.0))
    upper = composed_epsilon({part: count}, delta)
    lower = lower_bound(Repeated(part, count), delta, upper)
    p = np.array([math.exp(inside), 1.0]) / (1 + math.exp(inside))
    high, low = mix((p, p[::-1]), rate)

    k = np.arange(count + 1)
    sides = [comb(count, k) * side[0] ** k * side[1] ** (count - k) for side in (high, low)]
    assert measure_both_ways(sides, upper) <= delta < measure_both_ways(sides, 0.99 * upper)
    assert measure_both_ways(sides, 1.005 * lower) <= delta < measure_both_ways(sides, lower)


def test_a_sample_inside_a_sample_keeps_both_directions():
    size, inner, outer = 1.5, 0.3, 0.2
    event = Sampled(
        outer,
        compose(
            [
                Sampled(inner, Choice(size)),
                Choice(0.4),
            ]
        ),
    )
    for t, s in itertools.product(
        np.linspace(0, size, 7),
        np.linspace(0, 0.4, 3),
    ):
        inside = product(
            [
                mix(worst_choice(size, t), inner),
                worst_choice(0.4, s),
            ]
        )
        exact = times(mix(inside, outer), 2)
        for x in (0.0, 0.05, 0.2):
            assert measure_both_ways(exact, x) <= bound_at(event, 2, x) + 1e-12


def test_choices_of_two_sizes_next_to_other_noise():
    """Enumerated choices and randomised response on one sample, twice."""
    rate = 0.25
    event = Sampled(
        rate,
        compose(
            [
                Choice(1.0),
                Choice(1.0),
                Choice(0.3),
                EpsilonDeltaDpEvent(0.5, 0.0),
            ]
        ),
    )
    answer = np.array([math.exp(0.5), 1.0]) / (1 + math.exp(0.5))
    pairs = []
    for t, s in itertools.product(
        np.linspace(0, 1, 11),
        (0.0, 0.15, 0.3),
    ):
        parts = [worst_choice(1.0, t)] * 2 + [
            worst_choice(0.3, s),
            (answer, answer[::-1]),
        ]
        pairs.append(times(mix(product(parts), rate), 2))
    for x in (0.0, 0.1, 0.5):
        assert max(measure_both_ways(pair, x) for pair in pairs) <= bound_at(event, 2, x) + 1e-12
    assert bound_at(event, 2, 0.1) <= 1.2 * max(measure_both_ways(pair, 0.1) for pair in pairs)


def test_what_has_a_distribution():
    assert has_distribution(
        Sampled(
            0.1,
            compose(
                [
                    Gaussian(1.0),
                    dp.LaplaceDpEvent(1.0),
                    Choice(1.0),
                ]
            ),
        )
    )
    assert not has_distribution(
        Sampled(
            0.1,
            compose([Gaussian(1.0), dp.ZCDpEvent(0.1)]),
        )
    )


def test_the_smaller_one_of_two_proofs_counts_and_both_are_said():
    event = Repeated(Sampled(0.01, Repeated(Choice(0.5), 10)), 100)
    bounds = epsilon(event, 1e-5)
    other = bounds.accountants["other_proof"]
    assert bounds.upper == bounds.accountants["pld"] < other["epsilon"] / 10
    assert other["accountants"]["rule"] == "composition of privacy parameters"
    assert "Poisson" in bounds.accountants["rule"]


def test_next_to_zcdp_choices_count_as_zcdp():
    choices = Repeated(Choice(0.1), 100)
    zcdp = dp.ZCDpEvent(0.01)
    assert epsilon(dp.ComposedDpEvent((choices, zcdp)), 1e-5).upper == pytest.approx(
        epsilon(dp.ZCDpEvent(0.01 + 100 * 0.1**2 / 8), 1e-5).upper
    )
    both = epsilon(
        Repeated(
            Sampled(
                0.02,
                dp.ComposedDpEvent((choices, zcdp)),
            ),
            3,
        ),
        1e-5,
    )
    assert both.accountants["rule"] == "composition of privacy parameters"


def test_losses_too_large_for_a_grid_leave_the_other_proof():
    bounds = epsilon(Sampled(0.5, Choice(1e6)), 1e-5)
    assert bounds.upper == pytest.approx(1e6 - math.log(2), rel=1e-9)
    assert bounds.accountants["inside"]["accountants"]["rule"].startswith(
        "the sum of the largest losses"
    )
    assert sampled_composites.composed_epsilon({Choice(1e6): 2}, 1e-5) == math.inf


def test_rough_answers_are_close():
    for event in (
        Repeated(Sampled(0.01, Repeated(Choice(0.7), 10)), 100),
        Sampled(0.05, Repeated(Choice(0.2), 100)),
        Repeated(Choice(0.05), 300),
        Repeated(Sampled(0.001, Gaussian(0.6)), 100),
    ):
        assert rough_epsilon(event, 1e-5) == pytest.approx(
            epsilon(event, 1e-5).upper,
            rel=0.005,
        )
        assert rough_epsilon(event, 1e-5, 150) == pytest.approx(
            epsilon(event, 1e-5).upper, rel=0.05
        )
    for event in (
        Repeated(dp.ZCDpEvent(0.001), 100),
        Repeated(Sampled(0.05, dp.ZCDpEvent(0.1)), 10),
    ):
        assert rough_epsilon(event, 1e-5) == pytest.approx(
            epsilon(event, 1e-5).upper,
            rel=0.02,
        )


def test_free_and_exposed_choices():
    assert bounded_range_choice(0.0) == dp.NoOpDpEvent()
    assert bounded_range_choice(math.inf) == dp.NonPrivateDpEvent()
    assert epsilon(Sampled(0.1, Choice(0.0)), 1e-5).upper == 0
    assert epsilon(Sampled(0.1, Choice(math.inf)), 1e-5).upper == math.inf
