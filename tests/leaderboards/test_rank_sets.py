"""Rank sets: what they promise, on tables whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks.rank_coverage import measure
from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import alpha_of_pair, components, rank_sets


def outcomes(scores: list[float], seeds: int = 8, documents: int = 200, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.random((seeds, documents, len(scores))) < np.array(scores)).astype(float)


def test_clear_differences_give_single_ranks() -> None:
    sets = rank_sets(outcomes([0.9, 0.2, 0.55]))
    assert sets.low.tolist() == sets.high.tolist() == [1, 3, 2]
    assert sets.pairs.mean[0, 1] == pytest.approx(0.7, abs=0.05) == -sets.pairs.mean[1, 0]


def test_equal_rows_share_all_ranks_and_copies_never_differ() -> None:
    table = outcomes([0.5])
    sets = rank_sets(np.repeat(table, 3, axis=2))
    assert sets.low.tolist() == [1, 1, 1] and sets.high.tolist() == [3, 3, 3]
    assert all(sets.difference(i, j).p == 1 for i, j in [(0, 1), (0, 2), (2, 1)])


def test_the_scale_and_the_order_of_rows_change_nothing() -> None:
    table = outcomes([0.7, 0.6, 0.5, 0.4])
    one, turned = rank_sets(table), rank_sets(table[:, :, ::-1] / 10)
    assert turned.low[::-1].tolist() == one.low.tolist() and turned.high[::-1].tolist() == one.high.tolist()


def test_rows_with_fewer_seeds_are_compared_over_common_ones() -> None:
    table = outcomes([0.9, 0.2, 0.5])
    table[3:, :, 1] = np.nan
    table[:, :, 2] = np.nan
    table[7, :, 2] = 0.0  # a single seed, none of it shared with the second row
    sets = rank_sets(table)
    assert sets.pairs.mean[0, 1] == pytest.approx(float((table[:3, :, 0] - table[:3, :, 1]).mean()))
    assert not sets.comparable[1, 2] and not sets.comparable[0, 2]
    with np.errstate(divide="raise", invalid="raise"):  # nobody divides by seeds that are not shared
        assert 0 < sets.detectable < 1 and sets.difference(0, 1).verdict == "better"
    assert sets.low[2] == 1 and sets.high[2] == 3


def test_the_standard_error_is_that_of_the_variance_components() -> None:
    table = outcomes([0.6, 0.5], seeds=10, documents=80)
    found = components(table[:, :, 0] - table[:, :, 1])
    error = np.sqrt(found.by_seed / 10 + found.by_document / 80 + found.rest / 800)
    assert rank_sets(table).pairs.error[0, 1] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("scene", ["ties", "uneven"])
def test_the_family_wise_error_is_kept(scene: str) -> None:
    """5% of 120 tables is 6; 14 or more has a probability of .2%. A test without adjustment errs in every third."""
    assert measure(scene, 5, 5, True, 120)["error"] <= 13 / 120


def test_a_row_that_fails_at_one_seed_in_ten_is_not_seen_by_three_seeds() -> None:
    """What docs/reading-the-board.md says is assumed: .9^3 of tables have no failure, and .47 a false verdict."""
    assert measure("rare", 2, 3, True, 40)["error"] > 0.2


def test_true_differences_are_found() -> None:
    assert measure("half", 2, 20, False, 20)["power"] > 0.8


@pytest.mark.parametrize("shape", [(2, 3, 0), (2, 3), (2, 1, 2)], ids=["no row", "flat", "one document"])
def test_what_is_no_table_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError):
        rank_sets(np.zeros(shape))


def test_a_row_lacks_a_seed_as_a_whole() -> None:
    table = outcomes([0.5, 0.5])
    table[0, 3, 1] = np.nan
    with pytest.raises(UsageError, match="seed"):
        rank_sets(table)


def test_one_seed_compares_nothing():
    sets = rank_sets(outcomes([0.95, 0.1, 0.5], seeds=1))
    assert sets.low.tolist() == [1, 1, 1] and sets.difference(0, 1) is None


def test_the_largest_of_all_pairs_is_tukeys_and_tables_share_the_error():
    assert alpha_of_pair(2) == pytest.approx(0.05) and alpha_of_pair(2, 5) == pytest.approx(0.01)
    drawn = np.random.default_rng(0).normal(size=(40_000, 5))
    largest = (drawn.max(axis=1) - drawn.min(axis=1)) / np.sqrt(2)
    assert 2 * stats.norm.sf(np.quantile(largest, 0.95)) == pytest.approx(alpha_of_pair(5), rel=0.05)


def test_rows_are_equivalent_inside_the_margin_and_only_there():
    table = outcomes([0.5, 0.5, 0.9], seeds=10, documents=400)
    table[:, :, 1] = table[:, :, 0]
    table[:2, :4, 1] = 1 - table[:2, :4, 1]  # a difference or none in eight of 4,000 answers
    sets = rank_sets(table, margin=0.03)
    found = [sets.difference(*pair) for pair in ((0, 1), (0, 2), (2, 1))]
    assert [one.verdict for one in found] == ["equivalent", "better", "better"]
    assert max(-found[0].low, found[0].high) <= found[0].excluded < 0.03
    assert rank_sets(table, margin=0.001).difference(0, 1).verdict == "inconclusive"


def test_no_interval_leaves_what_scores_can_reach():
    table = np.zeros((2, 60, 2))
    table[0, :, 0] = 1.0  # two seeds that could not differ more
    (free, held) = (rank_sets(table, reach=reach).difference(0, 1) for reach in (np.inf, 1.0))
    assert free.excluded > 1 and (held.low, held.high, held.excluded) == (-1.0, 1.0, 1.0)


def test_copies_on_few_documents_are_not_equivalent():
    """Of 100 documents a share of 4% may be missing, on which the two would differ."""
    same = [np.repeat(outcomes([0.5], documents=documents), 2, axis=2) for documents in (100, 150)]
    assert [rank_sets(one).difference(0, 1).verdict for one in same] == ["inconclusive", "equivalent"]


def test_rows_that_all_fail_everywhere_are_not_equivalent_and_state_no_mde():
    sets = rank_sets(np.zeros((5, 16, 3)), reach=1.0)
    assert sets.difference(0, 1).verdict == "inconclusive"
    assert sets.difference(0, 1).excluded == pytest.approx(1 - (sets.alpha / 2) ** (1 / 16))
    assert np.isnan(sets.detectable)


def test_two_seeds_with_the_same_mean_by_chance_are_no_proof_that_seeds_do_nothing() -> None:
    generator = np.random.default_rng(5)
    outcomes = (generator.random((5, 60, 8)) < 0.5).astype(float)
    outcomes[2:, :, 1::2] = np.nan
    for one in range(0, 8, 2):  # rows with two common seeds, whose differences have the same mean at both
        other = one + 1
        outcomes[1, :, one], outcomes[1, :, other] = outcomes[0, ::-1, one], outcomes[0, ::-1, other]
    sets = rank_sets(outcomes)
    for one in range(0, 8, 2):
        by_document = (outcomes[:2, :, one] - outcomes[:2, :, one + 1]).mean(axis=0)
        assert sets.pairs.error[one, one + 1] ** 2 >= by_document.var(ddof=1) / 60 - 1e-12


def test_rows_without_luck_have_no_variance_by_seed() -> None:
    generator = np.random.default_rng(6)
    still = np.repeat((generator.random((1, 50, 2)) < 0.5).astype(float), 4, axis=0)
    moving = (generator.random((4, 50, 4)) < 0.5).astype(float)
    sets = rank_sets(np.concatenate([still, moving], axis=2))
    between = (still[0, :, 0] - still[0, :, 1]).var(ddof=1) / 50
    assert sets.pairs.error[0, 1] ** 2 == pytest.approx(between, rel=1e-9)
