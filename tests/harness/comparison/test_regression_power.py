"""False alarms and power of the whole procedure, on a small seeded part of benchmarks/regression_power.py."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from benchmarks import regression_power as power
from dpicl.evaluation.statistics import holm, paired_tests

COMPARISONS = 20
#: Of so many comparisons at a family-wise error of 0.05 more give an alarm once in two thousand times.
MOST_ALARMS = int(stats.binom.ppf(1 - 1 / 2_000, COMPARISONS, 0.05))


@pytest.mark.parametrize(("seeds", "setting"), [(1, "none"), (3, "none"), (2, "as measured"), (3, "as measured")])
def test_false_alarms_are_within_binomial_limits(seeds, setting):
    alarms, _, _ = power.simulate(COMPARISONS, power.SETTINGS[setting], seeds, 0.0, seed=1)
    assert alarms <= MOST_ALARMS


def test_a_cell_whose_seeds_move_does_not_borrow_the_calm_of_the_others():
    """Two seeds, one such cell of thirty. Only its own p-value is needed to see an alarm at Holm's first step."""
    generator, setting = np.random.default_rng(2), power.SETTINGS["one-cell"]
    alarms, comparisons = 0, 60
    for _ in range(comparisons):
        cells = power.draw_comparison(generator, setting, 2, 0.0)
        alarms += paired_tests(cells)[0].p <= 0.05 / len(cells)
    assert alarms <= stats.binom.ppf(1 - 1 / 2_000, comparisons, 0.05)


def test_a_large_drop_is_nearly_always_found_and_nothing_else():
    alarms, stopped, found = power.simulate(10, power.SETTINGS["none"], 5, 0.2, seed=1)
    assert alarms <= MOST_ALARMS
    assert stopped == 10
    assert found >= 0.9 * 10 * power.PLANTED


def test_documents_alone_would_take_the_luck_of_seeds_for_a_regression():
    """Why seeds are a sample too: the test that forgets them gives alarms far above its 5%."""

    def alone(cells):
        return holm([float(np.nan_to_num(stats.ttest_1samp(cell.mean(axis=0), 0.0).pvalue, nan=1.0)) for cell in cells])

    alarms, _, _ = power.simulate(COMPARISONS, power.SETTINGS["as measured"], 3, 0.0, alone, seed=1)
    assert alarms > MOST_ALARMS


def test_planted_drops_have_their_size_and_outcomes_of_a_document_their_correlation():
    setting = replace(power.SETTINGS["none"], documents=20_000)
    cells = power.draw_comparison(np.random.default_rng(0), setting, 5, 0.1)
    assert [round(float(cell.mean()), 2) for cell in cells[: power.PLANTED]] == pytest.approx([-0.1] * 3, abs=0.011)
    assert np.abs([cell.mean() for cell in cells[power.PLANTED :]]).max() < 0.01
