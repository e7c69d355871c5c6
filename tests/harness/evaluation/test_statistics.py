"""The statistics of verdicts, against hand calculations, scipy and planted truths."""

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import POWER, flip_signs, holm, paired_tests, rank_sets, summarize


def test_a_pair_is_students_paired_test_of_the_common_seeds():
    scores = np.random.default_rng(4).normal(size=(14, 2))
    scores[11:, 1] = np.nan
    summary = summarize(scores[:, 0] - scores[:, 1])
    expected = stats.ttest_rel(scores[:11, 0], scores[:11, 1])
    interval = expected.confidence_interval(0.95)
    assert int(summary.seeds) == 11
    assert float(summary.p) == pytest.approx(expected.pvalue)
    assert summary.mean + summary.half_width(0.05) == pytest.approx(interval.high)


def test_two_rows_alone_have_students_interval_or_a_wider_one():
    scores = np.random.default_rng(5).normal(0.5, 0.1, size=(20, 2))
    difference = rank_sets(scores).difference(0, 1)
    interval = stats.ttest_rel(*scores.T).confidence_interval(0.95)
    assert difference.low <= interval.low + 1e-12 and difference.high >= interval.high - 1e-12
    assert difference.high - difference.low < 1.2 * (interval.high - interval.low)


def test_flips_count_the_patterns_that_are_as_large():
    assert flip_signs(np.array([3.0, 1.0, 2.0])) == 0.25  # all alike, of the four patterns
    assert flip_signs(np.array([3.0, -1.0, 2.0])) == 0.5  # 4, and 6
    assert flip_signs(np.random.default_rng(0).normal(0, 1, 40)) > 0.05
    assert flip_signs(np.random.default_rng(0).normal(1, 1, 40)) < 0.001


def test_an_equal_difference_at_every_seed_says_nothing():
    same = np.repeat([[0.57, 0.3, 0.57]], 12, axis=0)
    sets = rank_sets(same)
    assert sets.difference(0, 1) is None and not sets.better.any()
    assert sets.low.tolist() == [1, 1, 1]
    assert sets.high.tolist() == [3, 3, 3]


def test_below_ten_common_seeds_there_is_no_verdict():
    scores = np.random.default_rng(6).normal(
        [0.9, 0.1],
        0.01,
        size=(10, 2),
    )
    assert rank_sets(scores).difference(0, 1).verdict == "better"
    scores[0, 1] = np.nan
    assert rank_sets(scores).difference(0, 1) is None


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04, and the last one not below the third.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def test_several_differences_are_adjusted_their_intervals_not():
    columns = list(
        np.random.default_rng(7)
        .normal(
            [0.0, 0.3, 0.1],
            0.2,
            size=(12, 3),
        )
        .T
    )
    tests = paired_tests(columns)
    alone = [stats.ttest_1samp(column, 0) for column in columns]
    assert [test.p for test in tests] == pytest.approx([one.pvalue for one in alone])
    assert [test.adjusted for test in tests] == holm([test.p for test in tests])
    assert tests[1].low == pytest.approx(alone[1].confidence_interval(0.95).low)
    assert tests[1].excluded > tests[1].high
    with pytest.raises(UsageError, match="two differences"):
        paired_tests([np.ones(1)])


def test_a_detectable_drop_is_found_with_the_stated_probability():
    generator = np.random.default_rng(12)
    drop = np.mean([paired_tests([generator.normal(0, 0.1, 12)])[0].detectable for _ in range(200)])
    detected = [paired_tests([generator.normal(-drop, 0.1, 12)])[0].p <= 0.05 for _ in range(300)]
    assert np.mean(detected) == pytest.approx(POWER, abs=0.08)
