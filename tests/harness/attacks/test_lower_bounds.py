"""The promises of an audit's bound: above the truth no more often than stated, close to it, and equal for equal runs.

Tolerance: of 200 repetitions at 95% confidence, a valid bound exceeds the truth more than MOST_MISSES times with
probability 0.1% (binomial, 5% each).
"""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.special import ndtr
from scipy.stats import binom

from dpicl.attacks.lower_bounds import halves, lower_bound, mean_lower, mean_upper
from dpicl.attacks.one_run import guess_by_rules, p_value
from dpicl.attacks.rates import membership
from dpicl.core.errors import UsageError

REPETITIONS = 200
MOST_MISSES = int(binom.ppf(0.999, REPETITIONS, 0.05))
DELTA, ALPHA = 1e-5, 0.05


def generators() -> list[np.random.Generator]:
    return [np.random.default_rng([11, repetition]) for repetition in range(REPETITIONS)]


#: Continuous and many ties; at 50% an uncorrected choice of the threshold shows at once.
@pytest.mark.parametrize(
    ("digits", "confidence"),
    [
        (8, 0.5),
        (0, 0.5),
        (0, 0.95),
    ],
)
def test_null_scores_give_zero(digits, confidence):
    positive = 0
    for repetition, g in enumerate(generators()):
        first, second = g.normal(size=(2, 60)).round(digits)
        positive += lower_bound(first, second, DELTA, confidence, repetition).epsilon > 0
    assert positive <= binom.ppf(0.999, REPETITIONS, 1 - confidence)


def test_a_score_that_is_learned_from_nothing_gives_zero():
    """It fits the runs that choose, and those alone."""

    def learn_nearest(members, others):
        return lambda runs: (
            -np.abs(runs[:, None] - members).min(axis=1)
            + np.abs(runs[:, None] - others).min(axis=1)
        )

    pairs = (g.normal(size=(2, 60)) for g in generators())
    bounds = [
        lower_bound(first, second, DELTA, 0.5, learn=learn_nearest).epsilon
        for first, second in pairs
    ]
    assert sum(bound > 0 for bound in bounds) <= binom.ppf(0.999, REPETITIONS, 0.5)


def test_a_sampled_gaussian_stays_below_the_truth_and_has_power():
    rate, noise = 0.1, 0.5
    distribution = pld.from_gaussian_mechanism(
        noise, value_discretization_interval=1e-4, sampling_prob=rate
    )
    truth, bounds = distribution.get_epsilon_for_delta(DELTA), []
    for repetition, g in enumerate(generators()[::2]):
        sampled = (
            (g.random(1000) < rate) + noise * g.normal(size=1000),
            noise
            * g.normal(
                size=1000,
            ),
        )
        bounds.append(lower_bound(*sampled, DELTA, seed=repetition).epsilon)
    assert sum(bound > truth for bound in bounds) <= MOST_MISSES and np.mean(bounds) > 0.5


def test_the_level_is_spent_where_the_truth_is_tight():
    """At a low confidence some of 200 bounds must fail: the test could."""
    failures = 0
    for repetition, g in enumerate(generators()):
        members = (g.random(200) < 0.75).astype(float)
        others = (g.random(200) < 0.25).astype(float)
        failures += lower_bound(members, others, 1e-12, 0.5, repetition).epsilon > math.log(3)
    assert 0 < failures <= 125  # 100 expected at most; 125 is 3.5 standard deviations above


def test_many_draws_of_the_noise_make_the_bound_larger():
    g = np.random.default_rng(3)
    members = g.normal(1, 1, (60, 50))
    others = g.normal(0, 1, (60, 50))
    one = lower_bound(members[:, 0], others[:, 0], DELTA)
    many = lower_bound(members, others, DELTA)
    tpr = ndtr(1 - many.decision.threshold)
    fpr = ndtr(-many.decision.threshold)
    assert many.decision.tpr == pytest.approx(tpr, abs=0.05)
    assert (
        one.epsilon
        < many.epsilon
        <= max(
            math.log(tpr / fpr),
            math.log((1 - fpr) / (1 - tpr)),
        )
    )


def test_equal_scores_fall_on_the_same_side():
    same = lower_bound([1.0] * 50, [1.0] * 50, DELTA)
    assert same.epsilon == 0.0
    assert same.decision.tpr == same.decision.fpr == (0.0 if same.decision.side == "above" else 1.0)
    half = np.array([0.0, 1.0] * 100)
    bound = lower_bound(half + 1, half, DELTA)  # 1 or 2 against 0 or 1: no rule parts the ones
    assert bound.epsilon > 0
    assert 1.0 in (bound.decision.tpr, 1 - bound.decision.fpr)
    assert min(
        bound.decision.tpr,
        1 - bound.decision.fpr,
    ) == pytest.approx(0.5, abs=0.15)


def test_the_runs_that_did_not_choose_give_the_rates():
    g = np.random.default_rng(8)
    members = g.normal(-1, 1, 301).round(1)
    others = g.normal(0, 1, 301).round(1)
    bound = lower_bound(members, others, DELTA, seed=3).decision
    assert bound.side == "below"
    judging_in, judging_out = (halves(side, 3)[1] for side in (members, others))
    assert bound.tpr == pytest.approx(float((judging_in <= bound.threshold).mean()))
    assert bound.fpr == pytest.approx(float((judging_out <= bound.threshold).mean()))
    assert bound.tpr_lower < bound.tpr and bound.fpr < bound.fpr_upper
    assert bound.trials_in == bound.trials_out == 151


def test_infinite_scores_are_scores():
    """The log-probability of an impossible text is -inf."""
    members = np.r_[np.zeros(100), np.inf]
    others = np.r_[np.full(100, -np.inf), 0.0]
    assert 2 < lower_bound(members, others, DELTA).epsilon < math.inf


FOUR = [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize(
    ("attempt", "words"),
    [
        (lambda: lower_bound(FOUR[:3], FOUR[:3], DELTA), "At least 4"),
        (lambda: lower_bound(FOUR, [*FOUR, 5.0], DELTA), "as many runs"),
        (
            lambda: lower_bound(
                [*FOUR[:3], math.nan],
                FOUR,
                DELTA,
            ),
            "NaN",
        ),
        (lambda: lower_bound(FOUR, FOUR, 1.0), "delta"),
        (lambda: lower_bound(FOUR, FOUR, DELTA, 1.0), "confidence"),
        (lambda: mean_lower([], 0.05), "at least one value"),
        (lambda: mean_lower([0.2, 1.1], 0.05), "between 0 and 1"),
        (lambda: mean_lower([0.2, math.nan], 0.05), "between 0 and 1"),
        (lambda: mean_upper([0.2], 1.0), "error probability"),
        (lambda: membership(FOUR[:3], FOUR), "At least 4"),
        (lambda: membership(np.ones((4, 2)), FOUR), "one score"),
        (lambda: membership(FOUR, [*FOUR[:3], math.nan]), "NaN"),
        (lambda: guess_by_rules([1.0], [True], DELTA), "at least two"),
        (lambda: guess_by_rules([1.0, 2.0], [True], DELTA), "one coin"),
        (lambda: guess_by_rules([1.0, math.nan], [True, False], DELTA), "NaN"),
        (lambda: p_value(10, 5, 6, np.ones(1), 0.0), "not possible"),
    ],
)
def test_senseless_input_of_a_statistic_is_refused(attempt, words):
    with pytest.raises(UsageError, match=words):
        attempt()


@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        (0.3, lambda g: (g.random(60) < 0.3).astype(float)),
        (0.5, lambda g: g.random(60)),
        (0.6, lambda g: g.beta(60, 40, size=60)),
        (0.5, lambda g: g.random(1)),
    ],
    ids=["bernoulli", "uniform", "narrow_beta", "single_value"],
)
def test_betting_limits_cover_the_mean(mean, draw):
    samples = np.stack(
        [draw(np.random.default_rng([7, r])) for r in range(200)],
        axis=1,
    )
    assert int((mean_lower(samples, ALPHA) > mean).sum()) <= MOST_MISSES
    assert int((mean_upper(samples, ALPHA) < mean).sum()) <= MOST_MISSES


def test_a_betting_limit_is_that_of_a_gambler_value_by_value():
    values = np.random.default_rng(3).beta(6, 4, size=40)

    def is_refuted(mean: float) -> bool:
        capital, values_so_far = 1.0, [0.5]
        squares = 0.25
        for value in values:
            variance = squares / len(values_so_far)
            bet = min(
                math.sqrt(2 * math.log(1 / ALPHA) / (len(values) * variance)),
                0.9 / mean,
            )
            capital *= 1 + bet * (value - mean)
            if capital >= 1 / ALPHA:
                return True
            values_so_far.append(value)
            squares += (value - sum(values_so_far) / len(values_so_far)) ** 2
        return False

    limit = float(mean_lower(values, ALPHA))
    assert is_refuted(limit - 1e-6)
    assert not is_refuted(limit + 1e-6)
