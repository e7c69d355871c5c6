"""False alarms of `dpicl compare`, over simulated comparisons whose cells share their test records."""

import numpy as np
import pytest
from scipy import stats

from dpicl.evaluation.statistics import paired_tests
from dpicl.leaderboards.compare.releases import DEFAULTS

COMPARISONS = 60
#: Of so many comparisons at a family-wise error of 0.05 more give an alarm once in two thousand times.
MOST_ALARMS = int(stats.binom.ppf(1 - 1 / 2_000, COMPARISONS, 0.05))


@pytest.mark.parametrize(
    "effects",
    [
        (0.04,),
        (0.01, 0.025, 0.04, 0.07),
    ],
)
def test_false_alarms_are_within_binomial_limits(effects):
    generator, alarms = np.random.default_rng(len(effects)), 0
    for _ in range(COMPARISONS):
        cells = [generator.normal(0, effect, 10) for effect in generator.choice(effects, size=10)]
        alarms += any(
            DEFAULTS.verdict(test) in ("regression", "improvement") for test in paired_tests(cells)
        )
    assert alarms <= MOST_ALARMS
