"""Rank sets: what they promise, on tables whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rank_coverage import measure
from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import rank_sets


def draw(means: list[float], seeds: int = 12, deviation: float = 0.05, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(means, deviation, size=(seeds, len(means)))


def test_clear_differences_give_single_ranks() -> None:
    scores = draw([0.9, 0.2, 0.55])
    sets = rank_sets(scores)
    assert sets.low.tolist() == sets.high.tolist() == [1, 3, 2]
    assert rank_sets(scores, lower_is_better=True).low.tolist() == [3, 1, 2]
    there, back = sets.difference(0, 1), sets.difference(1, 0)
    assert there.value == pytest.approx((scores[:, 0] - scores[:, 1]).mean())
    assert (back.value, back.low, back.high, back.p) == (
        -there.value,
        -there.high,
        -there.low,
        there.p,
    )


def test_the_scale_and_the_order_of_rows_change_nothing() -> None:
    scores = draw([0.7, 0.6, 0.5, 0.4])
    one, turned = rank_sets(scores), rank_sets(scores[:, ::-1] / 10)
    assert (
        turned.low[::-1].tolist() == one.low.tolist()
        and turned.high[::-1].tolist() == one.high.tolist()
    )


def test_rows_with_fewer_seeds_are_compared_over_common_ones() -> None:
    scores = draw([0.9, 0.2, 0.5], seeds=30)
    scores[12:, 1] = np.nan
    scores[:25, 2] = np.nan
    sets = rank_sets(scores)
    assert sets.pairs.mean[0, 1] == pytest.approx((scores[:12, 0] - scores[:12, 1]).mean())
    assert not sets.comparable[1, 2] and not sets.comparable[0, 2]
    with np.errstate(
        divide="raise", invalid="raise"
    ):  # nobody divides by seeds that are not shared
        assert 0 < sets.detectable < 1 and sets.difference(0, 1).verdict == "better"
    assert sets.low[2] == 1 and sets.high[2] == 3


@pytest.mark.parametrize(("rows", "seeds"), [(2, 10), (5, 10), (20, 10), (5, 20)])
def test_the_family_wise_error_is_kept_with_more_rows_than_seeds(rows: int, seeds: int) -> None:
    """5% of 120 tables is 6; 14 or more has a probability of .2%. A test without adjustment errs in every third."""
    generator = np.random.default_rng([rows, seeds])
    wrong = sum(
        rank_sets(generator.normal(size=(seeds, rows)) * 0.1).better.any() for _ in range(120)
    )
    assert wrong <= 13


def test_with_skewed_seed_effects_the_error_is_kept() -> None:
    """Rows that lose .5 at one seed in ten and little else: by Student and Holm alone half of these tables err."""
    generator = np.random.default_rng(1)
    falls = generator.random((400, 6)) < 0.1
    centred = 0.5 * (0.1 - falls) + generator.normal(0, 0.02, (400, 6))
    errors = measure(centred, 10, 100)
    assert errors["better"] <= 0.12 and errors["equivalent"] <= 0.12


def test_true_differences_are_found() -> None:
    power = measure(draw([0.0] * 4, seeds=60, deviation=0.02), 20, 20)["power"]
    assert power["0.1"] > 0.9 and power["0.05"] <= power["0.1"]


def test_pairs_that_are_decided_leave_the_family() -> None:
    """One step for all pairs would adjust every p-value as the one of the largest |t|."""
    scores = draw([0.9, 0.6, 0.3, 0.28], seeds=20, deviation=0.02)
    together, alone = (
        rank_sets(scores).difference(2, 3).p,
        rank_sets(scores[:, 2:]).difference(0, 1).p,
    )
    assert together == pytest.approx(alone, abs=0.01)


@pytest.mark.parametrize("shape", [(3, 0), (0, 2), (3,)], ids=["no row", "no seed", "flat"])
def test_what_is_no_table_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        rank_sets(np.zeros(shape))


def test_rows_are_equivalent_inside_the_margin_and_only_there() -> None:
    scores = draw([0.5, 0.5, 0.9], seeds=20, deviation=0.01)
    sets = rank_sets(scores, margin=0.03)
    differences = [sets.difference(*pair) for pair in ((0, 1), (0, 2), (2, 1))]
    assert [one.verdict for one in differences] == ["equivalent", "better", "better"]
    assert max(-differences[0].low, differences[0].high) == differences[0].excluded < 0.03
    assert rank_sets(scores, margin=0.001).difference(0, 1).verdict == "inconclusive"


def test_no_interval_leaves_what_scores_can_reach() -> None:
    scores = np.zeros((10, 2))
    scores[::2, 0] = 1.0  # seeds that could not differ more
    difference = rank_sets(
        np.hstack([scores, 1 - scores, draw([0.5] * 8, seeds=10, deviation=0.3)])
    ).difference(0, 2)
    assert (difference.low, difference.high, difference.excluded) == (-1.0, 1.0, 1.0)
