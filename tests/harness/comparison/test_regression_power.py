"""False alarms of `dpicl compare`, over simulated comparisons.

An outcome is right with a probability that depends on the document (probit; two outcomes of one document correlate at
about 0.6) and on the seed of the cell.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from dpicl.evaluation.statistics import paired_tests
from dpicl.leaderboards.compare.releases import DEFAULTS

COMPARISONS = 20
#: Of so many comparisons at a family-wise error of 0.05 more give an alarm once in two thousand times.
MOST_ALARMS = int(stats.binom.ppf(1 - 1 / 2_000, COMPARISONS, 0.05))
#: What a seed does to a whole cell: nothing, or a standard deviation as in 42 cells of committed results.
NONE, MEASURED = (0.0,), (0.0, 0.0, 0.025, 0.04, 0.07)
WITHIN_DOCUMENT = 0.81


def differences(generator, effects, seeds, documents=150):
    """Differences[S, D] of one cell for each standard deviation over seeds."""
    cells = []
    for effect in effects:
        score = generator.uniform(0.3, 0.8)
        difficulty = generator.standard_normal((1, documents)) * WITHIN_DOCUMENT**0.5
        sides = []
        for _ in range(2):
            true = score + effect * generator.standard_normal((seeds, 1))
            luck = generator.standard_normal((seeds, documents)) * (1 - WITHIN_DOCUMENT) ** 0.5
            sides.append((difficulty + luck < special.ndtri(np.clip(true, 0.01, 0.99))).astype(float))
        cells.append(sides[1] - sides[0])
    return cells


@pytest.mark.parametrize(("seeds", "effects"), [(1, NONE), (3, NONE), (2, MEASURED), (3, MEASURED)])
def test_false_alarms_are_within_binomial_limits(seeds, effects):
    generator, alarms = np.random.default_rng([1, seeds, len(effects)]), 0
    for _ in range(COMPARISONS):
        tests = paired_tests(differences(generator, generator.choice(effects, size=10), seeds))
        alarms += any(DEFAULTS.verdict(test) in ("regression", "improvement") for test in tests)
    assert alarms <= MOST_ALARMS


def test_a_cell_whose_seeds_move_does_not_borrow_the_calm_of_the_others():
    """Two seeds, one such cell of thirty. Only its own p-value is needed to see an alarm at Holm's first step."""
    generator, comparisons = np.random.default_rng(2), 60
    tables = (differences(generator, (0.2,) + (0.0,) * 29, 2, documents=100) for _ in range(comparisons))
    alarms = sum(paired_tests(cells)[0].p <= 0.05 / len(cells) for cells in tables)
    assert alarms <= stats.binom.ppf(1 - 1 / 2_000, comparisons, 0.05)
