"""The bound of one run against the theorem written out, against randomised response, and on scores that say nothing."""

import math

import numpy as np
import pytest
from scipy import stats

from dpicl.attacks.one_run import epsilon_lower, guess_by_rules, p_value


def slow_p_value(candidates, guesses, correct, epsilon, delta):
    """The theorem, one term at a time."""
    q = math.exp(epsilon) / (1 + math.exp(epsilon))
    pmf = stats.binom.pmf(np.arange(guesses + 1), guesses, q)
    at_least = sum(pmf[correct:])
    terms = [
        sum(pmf[k] for k in range(guesses + 1) if correct > k >= correct - i) / i
        for i in range(1, candidates + 1)
    ]
    return min(1.0, at_least + 2 * candidates * delta * max(terms))


@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-2])
def test_p_value_is_the_theorem(delta):
    for candidates, guesses, correct in (
        (20, 20, 15),
        (50, 10, 10),
        (30, 12, 0),
        (40, 40, 1),
    ):
        for epsilon in (0.0, 0.3, 1.0, 4.0):
            expected = slow_p_value(candidates, guesses, correct, epsilon, delta)
            (p,) = p_value(candidates, guesses, correct, np.array([epsilon]), delta)
            assert p == pytest.approx(expected, abs=1e-12)


def test_delta_and_fewer_right_guesses_weaken_the_bound():
    right = (100, 90, 70, 50)
    bounds = [epsilon_lower(100, 100, correct, 0.0, 0.05) for correct in right]
    assert bounds == sorted(bounds, reverse=True)
    likelihood = 0.05 ** (1 / 100)
    expected = math.log(likelihood / (1 - likelihood))
    assert bounds[0] == pytest.approx(expected, abs=0.01)
    assert bounds[-1] == 0.0
    assert epsilon_lower(100, 100, 90, 1e-3, 0.05) < bounds[1]


def bound_by_rules(scores, inside, delta):
    return max(guess_by_rules(scores, inside, delta), key=lambda run: run.epsilon)


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_it_never_exceeds_the_true_epsilon_beyond_its_level(epsilon):
    """Randomised response on every coin: the case in which the theorem is tight. 200 runs; 95% confidence; so many
    exceed with probability below 1e-3 if each does with 5%."""
    generator = np.random.default_rng(11)
    truth = math.exp(epsilon) / (1 + math.exp(epsilon))
    exceeding = 0
    for _ in range(200):
        inside = generator.random(80) < 0.5
        guesses = np.where(generator.random(80) < truth, inside, ~inside)
        exceeding += bound_by_rules(guesses.astype(float), inside, 0.0).epsilon > epsilon
    assert exceeding <= stats.binom.isf(1e-3, 200, 0.05)


def test_a_perfect_attack_is_found_and_a_blind_one_is_not():
    generator = np.random.default_rng(5)
    inside = generator.random(200) < 0.5
    perfect = bound_by_rules(inside + generator.random(200) / 2, inside, 1e-5)
    assert perfect.epsilon > 3
    assert perfect.correct >= 0.9 * perfect.guesses
    assert bound_by_rules(np.zeros(200), inside, 1e-5).epsilon < 1
    assert bound_by_rules(-inside.astype(float), inside, 1e-5).epsilon == 0
