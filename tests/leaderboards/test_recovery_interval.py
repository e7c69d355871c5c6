"""The interval of a recovery: its coverage, its definition, and where there is none."""

import math

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.evaluation.intervals import ratio_interval
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from tests.leaderboards.factory import ends, make_result


def test_the_interval_covers_the_true_recovery():
    """Of 2,000 worlds 95% varies by .005."""
    generator, covered = np.random.default_rng(1), 0
    for _ in range(2000):
        shared = generator.normal(0, 0.05, 6)
        gain, full = (
            0.2 + shared + generator.normal(0, 0.05, 6),
            0.35 + shared + generator.normal(0, 0.03, 6),
        )
        low, high = ratio_interval(gain, full)
        covered += low <= 0.2 / 0.35 <= high
    assert covered / 2000 == pytest.approx(0.95, abs=0.015)


def test_the_ends_are_where_students_test_meets_the_level():
    generator = np.random.default_rng(2)
    gain, full = generator.normal(0.2, 0.05, 8), generator.normal(0.4, 0.05, 8)
    for end in ratio_interval(gain, full):
        assert stats.ttest_1samp(gain - end * full, 0).pvalue == pytest.approx(0.05)


def test_what_row_and_ends_share_cancels():
    full = np.random.default_rng(3).normal(0.4, 0.05, 8)
    assert ratio_interval(full, full) == pytest.approx((1.0, 1.0))
    assert ratio_interval(0.5 * full, full) == pytest.approx((0.5, 0.5))


def test_the_interval_is_unbounded_when_the_gain_may_be_nothing():
    assert ratio_interval(np.ones(3), np.array([0.9, -0.5, 0.2])) == (-math.inf, math.inf)
    assert ratio_interval(np.ones(1), np.ones(1)) == (-math.inf, math.inf)
    with pytest.raises(UsageError, match="same seeds"):
        ratio_interval(np.ones(2), np.ones(3))


def test_a_board_gives_the_interval_over_the_seeds():
    scores = (0.55, 0.6, 0.65)
    results = [one for seed in range(3) for one in ends(documents=200, seed=seed)]
    results += [
        make_result("tang", score, documents=200, seed=seed) for seed, score in enumerate(scores)
    ]
    board = build_board(results)
    table, rows = board.sections[0].tables[0], board_json(board)["sections"][0]["tasks"][0]["rows"]
    (row,) = table.rows
    half = stats.t.ppf(0.975, 2) * 0.05 / 3**0.5 / 0.4
    assert row.recovery_interval == pytest.approx((0.5 - half, 0.5 + half))
    assert (row.low, row.high) == pytest.approx((0.6 - 0.4 * half, 0.6 + 0.4 * half))
    assert tuple(rows[1]["recovery_interval"]) == row.recovery_interval
    assert table.zero_shot.recovery_interval is None
    assert table.real_data.recovery_interval is None
