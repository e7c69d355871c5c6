"""Intervals of one score, against hand calculations and slow loops."""

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.evaluation.intervals import bootstrap_interval, seeds_interval, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [
        (0, 10, (0.0, 0.2775)),
        (5, 10, (0.2366, 0.7634)),
        (10, 10, (0.7225, 1.0)),
        (15, 50, (0.1910, 0.4375)),
    ],
)
def test_wilson_interval_of_textbook_counts(successes, trials, interval):
    assert wilson_interval(successes, trials) == pytest.approx(interval, abs=5e-5)


def test_a_cell_keeps_the_interval_that_committed_files_have():
    assert bootstrap_interval(
        [1.0] * 30 + [0.0] * 70,
        seed=7,
    ) == (0.21, 0.39)


def test_the_interval_over_seeds_is_students():
    scores = np.random.default_rng(3).normal(0.5, 0.1, 7)
    expected = stats.ttest_1samp(scores, 0).confidence_interval(0.95)
    assert seeds_interval(scores) == pytest.approx((expected.low, expected.high))
    assert seeds_interval([0.5]) == (-np.inf, np.inf)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_nothing_and_nan_have_no_interval(values):
    with pytest.raises(UsageError):
        bootstrap_interval(values)


def test_impossible_counts_are_refused():
    for successes, trials in (
        (-1, 2),
        (3, 2),
        (0, 0),
    ):
        with pytest.raises(UsageError):
            wilson_interval(successes, trials)
