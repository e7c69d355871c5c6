"""Paired tests against scipy, hand calculations, and slow obvious ways."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.statistics import seeds_documents_interval, seeds_documents_means
from dpicl.leaderboards.compare.paired_tests import (
    NO_PRIOR,
    POWER,
    Crossed,
    Prior,
    bootstrap_test,
    crossed,
    crossed_test,
    fewest_documents,
    holm,
    mcnemar_detectable,
    mcnemar_test,
    seeds_prior,
    sign_flip_test,
)


@pytest.mark.parametrize(("worse", "better"), [(0, 0), (1, 0), (5, 0), (2, 10), (10, 2), (7, 7), (40, 61)])
def test_mcnemar_is_the_two_sided_binomial_test_of_the_documents_that_changed(worse, better):
    expected = stats.binomtest(worse, worse + better).pvalue if worse + better else 1.0
    assert mcnemar_test(worse, better) == pytest.approx(expected)


def test_holm_by_hand():
    # Sorted 0.005, 0.01, 0.03, 0.04 times 4, 3, 2, 1: 0.02, 0.03, 0.06, 0.04, and the last one not below the third.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []


def all_sign_flips(values: np.ndarray) -> float:
    flips = [abs(np.dot(signs, values)) for signs in itertools.product((-1, 1), repeat=len(values))]
    return float(np.mean(np.array(flips) >= abs(values.sum()) - 1e-9))


def test_few_sign_flips_are_counted_exactly():
    values = np.array([0.3, -0.1, 0.25, 0.0, 0.4, 0.1, -0.05, 0.2])
    assert sign_flip_test(values, draws=1) == pytest.approx(all_sign_flips(values))


def test_many_sign_flips_are_drawn_close_to_the_exact_share_and_never_zero():
    values = np.random.default_rng(1).normal(0.12, 0.3, 16)
    assert sign_flip_test(values, draws=40_000) == pytest.approx(all_sign_flips(values), abs=0.01)
    assert sign_flip_test(np.ones(200), draws=99) == 0.01


def test_sign_flips_of_zeros_and_ones_are_mcnemar():
    values = np.array([-1.0] * 9 + [1.0] * 2 + [0.0] * 89)
    assert sign_flip_test(values, draws=1) == pytest.approx(mcnemar_test(9, 2))


def test_the_bootstrap_test_is_the_share_of_shifted_replicates():
    differences = np.random.default_rng(2).choice([-1.0, 0.0, 1.0], p=[0.2, 0.7, 0.1], size=(3, 60))
    generator = np.random.default_rng(5)
    slow = []
    for _ in range(4_000):
        seeds, documents = generator.integers(3, size=3), generator.integers(60, size=60)
        slow.append(differences[np.ix_(seeds, documents)].mean())
    mean = differences.mean()
    assert bootstrap_test(differences, 10_000) == pytest.approx(
        np.mean(np.abs(np.array(slow) - mean) >= abs(mean)), abs=0.02
    )
    assert bootstrap_test(np.zeros((2, 5)), 100) == 1.0


def test_replicates_of_the_mean_are_those_of_the_interval():
    differences = np.random.default_rng(3).normal(size=(3, 20))
    low, high = np.quantile(seeds_documents_means(differences), [0.025, 0.975])
    assert seeds_documents_interval(differences) == (pytest.approx(low), pytest.approx(high))


def test_mean_squares_are_those_of_a_two_way_table():
    differences = np.random.default_rng(4).normal(size=(4, 7))
    table = crossed(differences)
    by_seed, by_document, mean = differences.mean(1), differences.mean(0), differences.mean()
    seeds = sum(7 * (value - mean) ** 2 for value in by_seed)
    documents = sum(4 * (value - mean) ** 2 for value in by_document)
    total = sum((value - mean) ** 2 for value in differences.ravel())
    assert table.of_seeds == pytest.approx(seeds / 3)
    assert table.of_documents == pytest.approx(documents / 6)
    assert table.rest == pytest.approx((total - seeds - documents) / 18)  # the sums of squares add up


def test_the_tail_is_the_mean_over_drawn_variances_of_the_seeds():
    table = Crossed(3, 40, 0.1, of_seeds=0.9, of_documents=0.4, rest=0.3)
    draws = np.random.default_rng(6).chisquare(2, 400_000) / 2
    errors = np.sqrt((0.4 + np.maximum(0.9 / draws - 0.3, 0)) / 120)
    assert table.tail(0.1) == pytest.approx((2 * stats.t.sf(0.1 / errors, 39)).mean(), abs=0.002)


def test_without_a_part_of_the_seeds_it_is_students_test_of_the_documents():
    """Many degrees of freedom say that seeds move nothing: then only documents are left."""
    differences = np.random.default_rng(7).normal(0.2, 1, size=(3, 50))
    table = crossed(differences)
    settled = Crossed(3, 50, table.mean, 0.0, table.of_documents, table.rest, Prior(0.5, 1e5))
    expected = stats.ttest_1samp(differences.mean(axis=0), 0).pvalue
    assert settled.tail(table.mean) == pytest.approx(expected, rel=1e-3)


def test_where_seeds_alone_differ_it_is_students_test_of_the_seeds():
    by_seed = np.array([0.30, 0.10, 0.22, 0.41])
    differences = np.repeat(by_seed[:, None], 500, axis=1) + np.random.default_rng(8).normal(0, 1e-4, (4, 500))
    assert crossed(differences).tail(by_seed.mean()) == pytest.approx(stats.ttest_1samp(by_seed, 0).pvalue, rel=0.01)


def test_the_half_width_is_where_the_p_value_meets_the_level():
    table = crossed(np.random.default_rng(9).normal(size=(3, 30)))
    for level in (0.95, 0.995):
        assert table.tail(table.half_width(level)) == pytest.approx(1 - level, rel=1e-4)


def test_the_crossed_test_is_never_below_the_sign_flips_of_documents():
    differences = np.zeros((3, 150))
    differences[:, :5] = -1.0
    differences[0, 20] = 1.0
    assert crossed(differences).tail(differences.mean()) < 0.06
    assert crossed_test(differences, 9_999) == sign_flip_test(differences.mean(axis=0), 9_999) >= 2 / 2**5


def test_one_seed_or_one_document_cannot_be_taken_apart():
    for shape in ((1, 10), (3, 1)):
        with pytest.raises(UsageError, match="two of each"):
            crossed(np.ones(shape))


def drawn_tables(generator: np.random.Generator, ratios: np.ndarray, seeds: int) -> list[Crossed]:
    squares = ratios * generator.chisquare(seeds - 1, len(ratios)) / (seeds - 1)
    return [Crossed(seeds, 150, 0.0, float(square), 1.0, 1.0) for square in squares]


def test_the_prior_finds_the_scale_that_all_cells_share_and_trusts_it():
    prior = seeds_prior(drawn_tables(np.random.default_rng(10), np.full(400, 2.5), 3))
    assert prior.ratio == pytest.approx(2.5, rel=0.15)
    assert prior.degrees > 10


def test_cells_that_differ_make_a_weak_prior_and_few_cells_none():
    generator = np.random.default_rng(11)
    scattered = 3 / (generator.chisquare(3, 400) / 3)  # scaled inverse chi2 with 3 degrees of freedom
    prior = seeds_prior(drawn_tables(generator, scattered, 5))
    assert 1.5 < prior.degrees < 4  # at its lower limit, so not above the truth
    assert seeds_prior(drawn_tables(generator, np.ones(3), 3)) == NO_PRIOR
    assert seeds_prior([Crossed(3, 150, 0.0, 0.0, 1.0, 0.0)] * 10) == NO_PRIOR


def test_a_prior_moves_the_seeds_mean_square_up_to_what_it_expects_and_never_down():
    table = Crossed(3, 150, 0.0, of_seeds=4.0, of_documents=1.0, rest=0.5, prior=Prior(2.0, 6.0))
    assert table.moderated == 4.0  # not down
    assert replace(table, of_seeds=0.2).moderated == pytest.approx((6 * 2.0 * 0.5 + 2 * 0.2) / 8)
    assert table.degrees == 8


def test_two_seeds_neither_give_nor_take_a_prior():
    differences = np.random.default_rng(13).normal(0.3, 1, size=(3, 40))
    strong = Prior(0.1, 50.0)
    assert crossed(differences[:2], strong).prior == NO_PRIOR
    assert crossed_test(differences[:2], 99, strong) == crossed_test(differences[:2], 99)
    assert crossed(differences, strong).prior == strong
    tables = drawn_tables(np.random.default_rng(14), np.ones(40), 3)
    calm = drawn_tables(np.random.default_rng(15), np.full(40, 1e-3), 2)
    assert seeds_prior(calm) == NO_PRIOR
    assert seeds_prior([*tables, *calm]) == seeds_prior(tables)


def test_the_fewest_documents_that_can_reach_a_level():
    assert fewest_documents(0.05, 150) == 6 / 150  # 2 / 2^6 = 0.03125, 2 / 2^5 = 0.0625
    assert fewest_documents(0.0625, 5) == 1.0
    assert fewest_documents(0.05, 5) is None


@pytest.mark.parametrize(("discordant", "level"), [(30, 0.05), (30, 0.005), (0, 0.05)])
def test_a_detectable_drop_is_found_by_mcnemar_with_probability_80_percent(discordant, level):
    documents = 150
    drop = mcnemar_detectable(discordant, documents, level)
    changed = max(drop, discordant / documents)
    generator = np.random.default_rng(12)
    counts = generator.multinomial(documents, [(changed + drop) / 2, (changed - drop) / 2, 1 - changed], size=4_000)
    found = np.mean([mcnemar_test(int(worse), int(better)) <= level for worse, better, _ in counts])
    assert found == pytest.approx(POWER, abs=4 * math.sqrt(POWER * (1 - POWER) / 4_000) + 0.01)


def test_no_drop_is_detectable_in_five_documents():
    assert mcnemar_detectable(0, 5, 0.05) is None
