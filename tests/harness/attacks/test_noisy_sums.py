"""The published estimate and the reference vector, on sums whose distance is known."""

import math

import numpy as np
import pytest

from dpicl.attacks.exact_pairs import epsilon_of_mu
from dpicl.attacks.lower_bounds import lower_bound
from dpicl.attacks.noisy_sums import (
    NO_BOUND,
    NoisySums,
    estimate_by_gdp,
    largest_mu,
    learn_reference_vector,
    reference_vector,
)


def sums(clean, scale=1.0):
    return NoisySums(
        np.asarray(clean, dtype=float),
        np.zeros(
            (
                len(clean),
                1,
                len(clean[0]),
            )
        ),
        scale,
    )


@pytest.mark.parametrize("mu", [0.0, 1.0, 3.0])
def test_the_largest_mu_is_that_of_two_gaussians(mu):
    generator = np.random.default_rng(0)
    largest = largest_mu(generator.normal(size=100_000) + mu, generator.normal(size=100_000))
    assert max(0.0, mu - 0.05) <= largest <= mu + 0.05


def test_the_estimate_of_a_moved_vote_is_near_the_proof():
    inside = sums(
        [[1, 3], [1, 3]],
        math.sqrt(2) / 1.67,
    )
    outside = sums(
        [[0, 4], [0, 4]],
        math.sqrt(2) / 1.67,
    )
    direction = reference_vector(inside.clean, outside.clean)
    assert direction == pytest.approx([math.sqrt(0.5), -math.sqrt(0.5)])
    proved = epsilon_of_mu(1.67, 1e-5)
    for trials in (
        (inside.trials_along(direction), outside.trials_along(direction)),
        (inside.trials_won_by(0), outside.trials_won_by(0)),
    ):
        estimate = estimate_by_gdp(*trials, 1e-5, 0)
        assert 0.9 * proved < estimate.value < 1.05 * proved and estimate.low is None
        assert estimate.note == NO_BOUND and "no bound" in NO_BOUND


def test_the_reference_vector_finds_a_direction_among_many():
    generator = np.random.default_rng(1)
    inside, outside = (generator.normal(size=(60, 20, 32)) for _ in range(2))
    inside += 3.0 * reference_vector(
        generator.normal(size=(1, 32)),
        np.zeros((1, 32)),
    )
    bound = lower_bound(inside, outside, 1e-5, learn=learn_reference_vector)
    assert 1.0 < bound.epsilon <= epsilon_of_mu(3.0, 1e-5)


def test_sums_that_do_not_differ_have_the_vector_zero():
    same = np.ones((4, 3, 5))
    assert not learn_reference_vector(same, same)(same).any()
