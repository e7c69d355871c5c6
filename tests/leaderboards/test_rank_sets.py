"""Rank sets: what they promise, on tables whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.rank_coverage import measured
from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.components import components
from dpicl.leaderboards.model.rank_sets import rank_sets


def outcomes(scores: list[float], seeds: int = 8, documents: int = 200, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.random((seeds, documents, len(scores))) < np.array(scores)).astype(float)


def test_clear_differences_give_single_ranks() -> None:
    sets = rank_sets([outcomes([0.9, 0.2, 0.55])])
    assert sets.low.tolist() == sets.high.tolist() == [1, 3, 2]
    assert sets.first.tolist() == [True, False, False]
    assert sets.differences[0, 1] == pytest.approx(0.7, abs=0.05) == -sets.differences[1, 0]


def test_equal_rows_share_all_ranks_and_copies_never_differ() -> None:
    table = outcomes([0.5])
    sets = rank_sets([np.repeat(table, 3, axis=2)])
    assert sets.low.tolist() == [1, 1, 1] and sets.high.tolist() == [3, 3, 3]
    assert (sets.p_values == 1).all()


def test_lower_is_better_turns_the_order() -> None:
    table = outcomes([0.9, 0.2])
    assert rank_sets([table], lower_is_better=True).low.tolist() == [2, 1]


def test_the_scale_and_the_order_of_rows_change_nothing() -> None:
    table = outcomes([0.7, 0.6, 0.5, 0.4])
    one, turned = rank_sets([table]), rank_sets([table[:, :, ::-1] / 10])
    assert turned.low[::-1].tolist() == one.low.tolist() and turned.high[::-1].tolist() == one.high.tolist()


def test_rows_with_fewer_seeds_are_compared_over_common_ones() -> None:
    table = outcomes([0.9, 0.2, 0.5])
    table[3:, :, 1] = np.nan
    table[:, :, 2] = np.nan
    table[7, :, 2] = 0.0  # a single seed, none of it shared with the second row
    sets = rank_sets([table])
    assert sets.differences[0, 1] == pytest.approx(float((table[:3, :, 0] - table[:3, :, 1]).mean()))
    assert np.isnan(sets.errors[1, 2]) and np.isnan(sets.errors[0, 2])
    assert sets.low[2] == 1 and sets.high[2] == 3


def test_several_tasks_are_one_mean() -> None:
    first, second = outcomes([0.9, 0.5, 0.5], documents=120), outcomes([0.1, 0.5, 0.2], documents=60, seed=1)
    sets = rank_sets([first, second])
    expected = [(first[:, :, j].mean() + second[:, :, j].mean()) / 2 for j in range(3)]
    assert sets.differences[0, 1] == pytest.approx(expected[0] - expected[1])
    assert sets.low[2] == 3


def test_the_standard_error_is_that_of_the_variance_components() -> None:
    table = outcomes([0.6, 0.5], seeds=10, documents=80)
    error = components(table[:, :, 0] - table[:, :, 1]).error(10, 80)
    assert rank_sets([table]).errors[0, 1] == pytest.approx(error, rel=1e-6)


def test_components_find_what_was_planted() -> None:
    generator = np.random.default_rng(0)
    planted = 0.2 * generator.standard_normal((400, 1)) + 0.3 * generator.standard_normal((1, 400))
    found = components(planted + 0.5 * generator.standard_normal((400, 400)))
    assert found.by_seed == pytest.approx(0.04, rel=0.2)
    assert found.by_document == pytest.approx(0.09, rel=0.2)
    assert found.rest == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("scene", ["ties", "uneven"])
def test_the_family_wise_error_is_kept(scene: str) -> None:
    """5% of 120 tables is 6; 14 or more has a probability of .2%. A test without adjustment errs in every third."""
    assert measured(scene, 5, 5, True, 120)["error"] <= 13 / 120


def test_true_differences_are_found() -> None:
    assert measured("half", 2, 20, False, 20)["power"] > 0.8


@pytest.mark.parametrize(
    "tables",
    [[], [np.zeros((2, 3))], [np.zeros((2, 3, 2)), np.zeros((3, 3, 2))], [np.zeros((2, 1, 2))]],
    ids=["none", "flat", "other seeds", "one document"],
)
def test_what_is_no_table_is_refused(tables: list[np.ndarray]) -> None:
    with pytest.raises(UsageError):
        rank_sets(tables)


def test_a_row_lacks_a_seed_as_a_whole() -> None:
    table = outcomes([0.5, 0.5])
    table[0, 3, 1] = np.nan
    with pytest.raises(UsageError, match="seed"):
        rank_sets([table])


def test_two_seeds_with_the_same_mean_by_chance_are_no_proof_that_seeds_do_nothing() -> None:
    generator = np.random.default_rng(5)
    outcomes = (generator.random((5, 60, 8)) < 0.5).astype(float)
    outcomes[2:, :, 1::2] = np.nan
    for one in range(0, 8, 2):  # rows with two common seeds, whose differences have the same mean at both
        other = one + 1
        outcomes[1, :, one], outcomes[1, :, other] = outcomes[0, ::-1, one], outcomes[0, ::-1, other]
    sets = rank_sets([outcomes], draws=200)
    for one in range(0, 8, 2):
        by_document = (outcomes[:2, :, one] - outcomes[:2, :, one + 1]).mean(axis=0)
        assert sets.errors[one, one + 1] ** 2 >= by_document.var(ddof=1) / 60 - 1e-12


def test_rows_without_luck_have_no_variance_by_seed() -> None:
    generator = np.random.default_rng(6)
    still = np.repeat((generator.random((1, 50, 2)) < 0.5).astype(float), 4, axis=0)
    moving = (generator.random((4, 50, 4)) < 0.5).astype(float)
    sets = rank_sets([np.concatenate([still, moving], axis=2)], draws=200)
    between = (still[0, :, 0] - still[0, :, 1]).var(ddof=1) / 50
    assert sets.errors[0, 1] ** 2 == pytest.approx(between, rel=1e-9)
