"""Intervals of one score, against hand calculations and slow loops."""

from __future__ import annotations

import numpy as np
import pytest

from dpicl.core.errors import UsageError
from dpicl.evaluation.intervals import bootstrap_interval, wilson_interval


@pytest.mark.parametrize(
    ("successes", "trials", "interval"),
    [(0, 10, (0.0, 0.2775)), (5, 10, (0.2366, 0.7634)), (10, 10, (0.7225, 1.0)), (15, 50, (0.1910, 0.4375))],
)
def test_wilson_interval_of_textbook_counts(successes: int, trials: int, interval: tuple[float, float]) -> None:
    assert wilson_interval(successes, trials) == pytest.approx(interval, abs=5e-5)


def test_bootstrap_interval_of_a_share_is_near_the_normal_one() -> None:
    values = np.repeat([0.0, 1.0], [120, 280])
    half = 1.96 * np.sqrt(0.7 * 0.3 / 400)
    assert bootstrap_interval(values) == pytest.approx((0.7 - half, 0.7 + half), abs=0.005)


def test_seeds_that_agree_add_nothing_to_the_documents() -> None:
    row = np.repeat([0.0, 1.0], [60, 140])
    one = bootstrap_interval(row)
    assert bootstrap_interval([row, row, row]) == pytest.approx(one, abs=0.01)


def test_seeds_that_differ_widen_the_interval() -> None:
    outcomes = np.repeat([[0.0], [1.0]], 500, axis=1)  # each seed is right on all documents or on none
    assert bootstrap_interval(outcomes) == (0.0, 1.0)


def test_variance_is_that_of_crossed_factors() -> None:
    """Against the slow loop that draws seeds and documents one by one."""
    generator = np.random.default_rng(5)
    outcomes = (generator.random((4, 30)) < generator.random((1, 30))).astype(float)
    means = []
    for _ in range(4000):
        seeds, documents = generator.integers(4, size=4), generator.integers(30, size=30)
        means.append(outcomes[np.ix_(seeds, documents)].mean())
    assert bootstrap_interval(outcomes) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), abs=0.015)


@pytest.mark.parametrize("values", [[], [1.0, float("nan")]])
def test_nothing_and_nan_have_no_interval(values: list[float]) -> None:
    with pytest.raises(UsageError):
        bootstrap_interval(values)


def test_seeds_need_the_same_documents() -> None:
    with pytest.raises(UsageError, match="same documents"):
        bootstrap_interval([[1.0, 0.0], [1.0]])


def test_impossible_counts_are_refused() -> None:
    for successes, trials in ((-1, 2), (3, 2), (0, 0)):
        with pytest.raises(UsageError):
            wilson_interval(successes, trials)
