"""The statistics of verdicts and intervals, against hand calculations, scipy and planted truths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.evaluation.statistics import (
    NO_PRIOR,
    POWER,
    Differences,
    Prior,
    analyse,
    holm,
    paired_tests,
    prior_of,
)


def pair(spread: float, luck: float, fixed: float, *, seeds: int = 3, documents: int = 150) -> Differences:
    own = (seeds, 0.1, spread, luck, fixed, seeds - 1, documents - 1, documents, 1.0)
    return Differences(*map(np.asarray, own))


def test_the_parts_are_those_of_a_two_way_table():
    differences = np.random.default_rng(4).normal(size=(4, 7))
    found = analyse(differences)
    by_seed, by_document, mean = differences.mean(1), differences.mean(0), differences.mean()
    seeds = sum(7 * (value - mean) ** 2 for value in by_seed)
    documents = sum(4 * (value - mean) ** 2 for value in by_document)
    total = sum((value - mean) ** 2 for value in differences.ravel())
    assert found.mean == pytest.approx(mean)
    assert found.spread == pytest.approx(seeds / 3 / 7)
    assert found.fixed == pytest.approx(documents / 6 / 28)
    assert found.luck == pytest.approx((total - seeds - documents) / 18 / 7)  # the sums of squares add up


def test_the_tail_is_the_mean_over_drawn_variances_of_the_seeds():
    found = pair(0.9 / 40, 0.3 / 40, 0.4 / 120, documents=40)
    draws = np.random.default_rng(6).chisquare(2, 400_000) / 2
    errors = np.sqrt((0.4 + np.maximum(0.9 / draws - 0.3, 0)) / 120)
    assert found.tail(np.array(0.1)) == pytest.approx((2 * stats.t.sf(0.1 / errors, 39)).mean(), abs=0.002)


def test_without_a_part_of_the_seeds_it_is_students_test_of_the_documents():
    differences = np.random.default_rng(7).normal(0.2, 1, size=(3, 50))
    found = analyse(differences)
    settled = replace(found, spread=found.luck, degrees=np.asarray(1e5), known=np.asarray(49))
    expected = stats.ttest_1samp(differences.mean(axis=0), 0).pvalue
    assert settled.tail(settled.mean) == pytest.approx(expected, rel=1e-2)


def test_where_seeds_alone_differ_it_is_students_test_of_the_seeds():
    by_seed = np.array([0.30, 0.10, 0.22, 0.41])
    differences = np.repeat(by_seed[:, None], 500, axis=1) + np.random.default_rng(8).normal(0, 1e-4, (4, 500))
    found = analyse(differences)
    assert found.tail(found.mean) == pytest.approx(stats.ttest_1samp(by_seed, 0).pvalue, rel=0.01)


def test_the_half_width_is_where_the_p_value_meets_the_level():
    found = analyse(np.random.default_rng(9).normal(size=(3, 30)))
    for p in (0.05, 0.005, 1e-4):
        assert found.tail(found.half_width(p)) == pytest.approx(p, rel=1e-4)


def test_few_documents_that_differ_know_little():
    """Five documents of 100 that are all lost: signs alone have p = 2 / 2^5."""
    differences = np.zeros((4, 100))
    differences[:, :5] = -1.0
    assert 0.03 < float(analyse(differences).tail(np.asarray(0.05))) < 0.15
    assert analyse(np.zeros((4, 100))).half_width(0.05) == 0


def test_one_document_says_nothing():
    with pytest.raises(UsageError, match="two documents"):
        analyse(np.ones((3, 1)))


def draw_tables(generator: np.random.Generator, ratios: np.ndarray, seeds: int) -> list[Differences]:
    spreads = ratios * generator.chisquare(seeds - 1, len(ratios)) / (seeds - 1)
    return [pair(float(spread), 1.0, 1.0, seeds=seeds) for spread in spreads]


def test_the_prior_finds_the_scale_that_all_rows_share_and_trusts_it():
    prior = prior_of(draw_tables(np.random.default_rng(10), np.full(400, 2.5), 3))
    assert prior.ratio == pytest.approx(2.5, rel=0.15)
    assert prior.degrees > 10


def test_rows_that_differ_make_a_weak_prior_and_few_rows_none():
    generator = np.random.default_rng(11)
    scattered = 3 / (generator.chisquare(3, 400) / 3)  # scaled inverse chi2 with 3 degrees of freedom
    prior = prior_of(draw_tables(generator, scattered, 5))
    assert 1.5 < prior.degrees < 4  # at its lower limit, so not above the truth
    assert prior_of(draw_tables(generator, np.ones(3), 3)) == NO_PRIOR
    assert prior_of([pair(0.0, 0.0, 1.0)] * 10) == NO_PRIOR


def test_a_prior_moves_the_seeds_variance_up_to_what_it_expects_and_never_down():
    differences = np.random.default_rng(12).normal(size=(3, 40))
    plain = analyse(differences)
    expected = (6 * 50.0 * plain.luck + 2 * plain.spread) / 8
    assert plain.moderate(Prior(50.0, 6.0)).spread == pytest.approx(expected)
    assert plain.moderate(Prior(50.0, 6.0)).degrees == 8
    assert plain.moderate(Prior(1e-6, 6.0)).spread == plain.spread


def test_two_seeds_give_no_prior_and_trust_none():
    plain = analyse(np.random.default_rng(13).normal(0.3, 1, size=(2, 40)))
    assert plain.moderate(Prior(0.1, 50.0)).degrees == 1
    tables = draw_tables(np.random.default_rng(14), np.ones(40), 3)
    calm = draw_tables(np.random.default_rng(15), np.full(40, 1e-3), 2)
    assert prior_of(calm) == NO_PRIOR
    assert prior_of([*tables, *calm]) == prior_of(tables)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04, and the last one not below the third.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def make_losses(count: int, documents: int = 150, won: int = 0) -> np.ndarray:
    """[1, D]: of so many documents some are lost and some are won."""
    return np.array([[-1.0] * count + [1.0] * won + [0.0] * (documents - count - won)])


@pytest.mark.parametrize(("worse", "better"), [(0, 0), (1, 0), (4, 0), (5, 0), (7, 7), (2, 12), (12, 2), (40, 61)])
def test_of_one_seed_it_is_as_sure_as_the_exact_test_of_signs(worse, better):
    (test,) = paired_tests([make_losses(worse, won=better)])
    exact = stats.binomtest(worse, worse + better).pvalue if worse + better else 1.0
    assert 0.45 * exact < test.p <= max(1.1 * exact, 0.05)
    assert test.low <= test.mean <= test.high


@pytest.mark.parametrize("documents", [5, 150])
def test_few_documents_that_all_change_alike_are_no_more_than_their_signs(documents):
    (test,) = paired_tests([make_losses(5, documents)])
    assert test.p == pytest.approx(2 / 2**5, rel=0.3) and test.p >= 2 / 2**5
    assert paired_tests([make_losses(1, documents)])[0].p >= 0.3


def test_copies_of_a_seed_count_once():
    one, three = paired_tests([make_losses(9)])[0], paired_tests([np.repeat(make_losses(9), 3, axis=0)])[0]
    assert (three.p, three.low) == pytest.approx((one.p, one.low))


def test_no_drop_is_detectable_in_five_documents_and_a_small_one_in_many():
    assert paired_tests([make_losses(0, 5)])[0].detectable is None
    assert paired_tests([make_losses(0)])[0].detectable == 6 / 150  # 2 / 2^6 = 0.03125, 2 / 2^5 = 0.0625
    many = [paired_tests([make_losses(25, won=25)] * cells)[0].detectable for cells in (1, 12)]
    assert 0.05 < many[0] < many[1] < 0.3


def test_a_detectable_drop_is_found_with_the_stated_probability():
    generator, documents = np.random.default_rng(12), 400
    drops = [
        paired_tests([generator.choice([-1.0, 1.0, 0.0], p=[0.1, 0.1, 0.8], size=(1, documents))])[0].detectable
        for _ in range(6)
    ]
    drop = float(np.mean(drops))
    shares = [0.1 + drop / 2, 0.1 - drop / 2, 0.8]
    found = [
        paired_tests([generator.choice([-1.0, 1.0, 0.0], p=shares, size=(1, documents))])[0].p <= 0.05
        for _ in range(150)
    ]
    assert np.mean(found) == pytest.approx(POWER, abs=0.1)
