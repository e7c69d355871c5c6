"""False alarms and power of the whole procedure, on a small seeded part of benchmarks/regression_power.py."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchmarks import regression_power as power

COMPARISONS = 20
#: Of so many comparisons at a family-wise error of 0.05 more give an alarm once in two thousand times.
MOST_ALARMS = int(stats.binom.ppf(1 - 1 / 2_000, COMPARISONS, 0.05))


@pytest.fixture(autouse=True)
def fewer_draws(monkeypatch):
    monkeypatch.setattr(power, "DRAWS", 499)


@pytest.mark.parametrize(("seeds", "effect"), [(1, "none"), (3, "none"), (3, "as measured")])
def test_false_alarms_are_within_binomial_limits(seeds, effect):
    alarms, _, _ = power.simulate(COMPARISONS, seeds, power.SEED_EFFECTS[effect], 0.0, power.ours, seed=1)
    assert alarms <= MOST_ALARMS


def test_a_large_drop_is_nearly_always_found_and_nothing_else():
    alarms, stopped, found = power.simulate(10, 5, power.SEED_EFFECTS["none"], 0.2, power.ours, seed=1)
    assert alarms <= MOST_ALARMS
    assert stopped == 10
    assert found >= 0.9 * 10 * power.PLANTED


def test_documents_alone_would_take_the_luck_of_seeds_for_a_regression():
    """Why seeds are a sample too: the test that forgets them gives alarms far above its 5%."""
    alone = power.OTHERS["sign flips of documents alone"]
    alarms, _, _ = power.simulate(COMPARISONS, 3, power.SEED_EFFECTS["as measured"], 0.0, alone, seed=1)
    assert alarms > MOST_ALARMS


def test_planted_drops_have_their_size_and_outcomes_of_a_document_their_correlation():
    generator = np.random.default_rng(0)
    cells = power.draw_comparison(generator, 5, (0.0,), 0.1, documents=20_000)
    assert [round(float(cell.mean()), 2) for cell in cells[: power.PLANTED]] == pytest.approx([-0.1] * 3, abs=0.011)
    assert np.abs([cell.mean() for cell in cells[power.PLANTED :]]).max() < 0.01
