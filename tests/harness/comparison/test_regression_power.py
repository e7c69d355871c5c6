"""False alarms and power of `dpicl compare`, over simulated comparisons.

An outcome is right with a probability that depends on the document (probit; two outcomes of one document correlate at
about 0.6), on the seed of the cell and on the drop that is planted in the first `PLANTED` cells of the candidate.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dpicl.evaluation.statistics import paired_tests
from dpicl.leaderboards.compare.releases import DEFAULTS

COMPARISONS, PLANTED = 20, 3
#: Of so many comparisons at a family-wise error of 0.05 more give an alarm once in two thousand times.
MOST_ALARMS = int(stats.binom.ppf(1 - 1 / 2_000, COMPARISONS, 0.05))
#: What a seed does to a whole cell: nothing, or a standard deviation as in 42 cells of committed results.
NONE, MEASURED = (0.0,), (0.0, 0.0, 0.025, 0.04, 0.07)
WITHIN_DOCUMENT = 0.81


def differences(generator, effects, seeds, drop=0.0, documents=150):
    """Differences[S, D] of one cell for each standard deviation over seeds."""
    cells = []
    for at, effect in enumerate(effects):
        score = generator.uniform(0.3, 0.8)
        difficulty = generator.standard_normal((1, documents)) * WITHIN_DOCUMENT**0.5
        sides = []
        for loss in (0.0, drop if at < PLANTED else 0.0):
            true = score - loss + effect * generator.standard_normal((seeds, 1))
            luck = generator.standard_normal((seeds, documents)) * (1 - WITHIN_DOCUMENT) ** 0.5
            sides.append((difficulty + luck < special.ndtri(np.clip(true, 0.01, 0.99))).astype(float))
        cells.append(sides[1] - sides[0])
    return cells


def verdicts(effects, seeds, drop=0.0, comparisons=COMPARISONS):
    """int[comparisons, 10]: 1 an improvement, -1 a regression, 0 neither."""
    generator, found = np.random.default_rng([1, seeds, len(effects)]), []
    for _ in range(comparisons):
        cells = differences(generator, generator.choice(effects, size=10), seeds, drop)
        tests = [test.adjusted for test in paired_tests(cells)]
        means = np.array([cell.mean() for cell in cells])
        found.append(np.sign(means) * ((np.array(tests) <= DEFAULTS.alpha) & (np.abs(means) >= DEFAULTS.min_effect)))
    return np.array(found)


@pytest.mark.parametrize(("seeds", "effects"), [(1, NONE), (3, NONE), (2, MEASURED), (3, MEASURED)])
def test_false_alarms_are_within_binomial_limits(seeds, effects):
    assert verdicts(effects, seeds).any(axis=1).sum() <= MOST_ALARMS


def test_a_cell_whose_seeds_move_does_not_borrow_the_calm_of_the_others():
    """Two seeds, one such cell of thirty. Only its own p-value is needed to see an alarm at Holm's first step."""
    generator, comparisons = np.random.default_rng(2), 60
    tables = (differences(generator, (0.2,) + (0.0,) * 29, 2, documents=100) for _ in range(comparisons))
    alarms = sum(paired_tests(cells)[0].p <= 0.05 / len(cells) for cells in tables)
    assert alarms <= stats.binom.ppf(1 - 1 / 2_000, comparisons, 0.05)


def test_a_large_drop_is_nearly_always_found_and_nothing_else():
    found = verdicts(NONE, 5, drop=0.2, comparisons=10)
    assert found[:, PLANTED:].any(axis=1).sum() <= MOST_ALARMS
    assert (found == -1).any(axis=1).all() and (found[:, :PLANTED] == -1).mean() >= 0.9
