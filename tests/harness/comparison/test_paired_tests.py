"""Paired tests against scipy, hand calculations, and slow obvious ways."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from dpicl.evaluation.inference import POWER, analyse
from dpicl.evaluation.statistics import seeds_documents_interval, seeds_documents_means
from dpicl.leaderboards.compare.paired_tests import (
    bootstrap_test,
    crossed_test,
    fewest_documents,
    holm,
    mcnemar_detectable,
    mcnemar_test,
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


def test_the_crossed_test_is_never_below_the_sign_flips_of_documents():
    differences = np.zeros((3, 150))
    differences[:, :5] = -1.0
    differences[0, 20] = 1.0
    flips = sign_flip_test(differences.mean(axis=0), 9_999)
    tail = float(analyse(differences).tail(differences.mean()))
    assert crossed_test(differences, 9_999) == pytest.approx(max(flips, tail))


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
