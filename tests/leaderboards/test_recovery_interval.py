"""The interval of a recovery: its coverage on simulated boards, its slow definition, and where there is none."""

import math

import numpy as np
import pytest

from dpicl.core.errors import UsageError
from dpicl.evaluation import intervals
from dpicl.evaluation.intervals import ratio_interval
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from tests.leaderboards.factory import ends, make_result

SEEDS, DOCUMENTS = 6, 120
#: Chances of being right: of zero-shot, a mechanism and real demonstrations.
CHANCES = (0.4, 0.6, 0.75)
RECOVERY = (0.6 - 0.4) / (0.75 - 0.4)


def simulate(generator: np.random.Generator, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """(row - zero-shot, real - zero-shot), each float64[S, D]; chance: share of outcomes that are luck.

    The other outcomes are right when the document is easy enough, which seeds and mechanisms share. A seed that is
    better or worse is so for the row and for the reference baselines.
    """
    ease = generator.random(DOCUMENTS)
    seeds = generator.normal(0, 0.03, (SEEDS, 1))

    def outcomes(level: float) -> np.ndarray:
        lucky = generator.random((SEEDS, DOCUMENTS)) < chance
        needed = np.where(lucky, generator.random((SEEDS, DOCUMENTS)), ease)
        return (needed < level + seeds).astype(np.float64)

    zero_shot, row, real = map(outcomes, CHANCES)
    return row - zero_shot, real - zero_shot


@pytest.mark.parametrize(("chance", "least", "widest"), [(0.1, 0.92, 1.25), (0.9, 0.95, 1.8)])
def test_interval_covers_the_true_recovery(chance: float, least: float, widest: float, monkeypatch: pytest.MonkeyPatch):
    """In 400 worlds a coverage of 95% varies by 0.011.

    Luck of one seed on one document counts up to three times in the variance of the pigeonhole bootstrap (Owen 2007),
    so the interval is up to 1.73 times as wide as it must be where outcomes are mostly luck, never narrower.
    """
    monkeypatch.setattr(intervals, "DRAWS", 1000)
    generator = np.random.default_rng(1)
    estimates, found = [], []
    for _ in range(400):
        gain, full = simulate(generator, chance)
        estimates.append(gain.mean() / full.mean())
        found.append(ratio_interval(gain, full))
    assert np.mean([low <= RECOVERY <= high for low, high in found]) >= least
    width = np.mean([high - low for low, high in found])
    assert 0.9 < width / (2 * 1.96 * np.std(estimates)) < widest


def test_interval_is_that_of_the_loop_that_draws_seeds_and_documents_one_by_one():
    generator = np.random.default_rng(2)
    gain, full = simulate(generator, 0.3)
    ratios = []
    for _ in range(4000):
        drawn = np.ix_(generator.integers(SEEDS, size=SEEDS), generator.integers(DOCUMENTS, size=DOCUMENTS))
        ratios.append(gain[drawn].mean() / full[drawn].mean())
    assert ratio_interval(gain, full) == pytest.approx(tuple(np.quantile(ratios, [0.025, 0.975])), abs=0.02)


def test_what_row_and_ends_share_cancels():
    _, full = simulate(np.random.default_rng(3), 0.3)
    assert ratio_interval(full, full) == (1.0, 1.0)
    assert ratio_interval(0.5 * full, full) == pytest.approx((0.5, 0.5))


@pytest.mark.parametrize(("harmed", "bounded"), [(5, True), (45, False)])
def test_interval_is_unbounded_when_the_gain_may_be_nothing(harmed: int, bounded: bool):
    """50 documents gain. A gain of 50 - 45 of 120 is 0.56 standard errors: in 29% of the draws it is nothing."""
    full = np.repeat([[1.0, -1.0, 0.0]], [50, harmed, 70 - harmed], axis=1)
    low, high = ratio_interval(np.ones_like(full), full)
    assert (math.isfinite(low), math.isfinite(high)) == (bounded, bounded)


def test_ratio_needs_two_matrices_of_one_shape():
    with pytest.raises(UsageError, match="same seeds and documents"):
        ratio_interval(np.ones((2, 5)), np.ones((2, 6)))


def board_row(**scores: float):
    results = [*ends(documents=200, **scores), make_result("tang", 0.6, documents=200)]
    board = build_board(results)
    return board.sections[0].tables[0], board_json(board)["sections"][0]["tasks"][0]["rows"]


def test_board_gives_a_row_the_interval_over_the_documents_that_it_shares_with_both_ends():
    table, rows = board_row()
    (row,) = table.rows
    # Zero-shot fails on 80 of 200 documents on which real demonstrations do not, and the row is right on 40 of these.
    # So the recovery is a share of about 80 drawn documents: 0.5 +- 1.96 sqrt(0.25 / 80) = 0.5 +- 0.110.
    assert row.recovery_interval == pytest.approx((0.39, 0.61), abs=0.02)
    assert tuple(rows[1]["recovery_interval"]) == row.recovery_interval
    assert table.zero_shot.recovery_interval is None
    assert table.real_data.recovery_interval is None
