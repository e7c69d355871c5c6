from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from dpicl.attacks.lower_bounds import mean_lower, mean_upper

ALPHA = 0.05
#: Misses in 200 repetitions that a limit at level 5% exceeds with probability 0.1%: 21.
MOST_MISSES = int(stats.binom.ppf(0.999, 200, ALPHA))


@pytest.mark.parametrize(
    ("mean", "draw"),
    [
        (0.3, lambda g: (g.random(60) < 0.3).astype(float)),
        (0.5, lambda g: g.random(60)),
        (0.6, lambda g: g.beta(60, 40, size=60)),
        (0.04, lambda g: g.beta(2, 48, size=60)),
        (0.5, lambda g: g.random(1)),
    ],
    ids=["bernoulli", "uniform", "narrow_beta", "small_beta", "single_value"],
)
def test_betting_limits_cover_the_mean(mean: float, draw: Callable[[np.random.Generator], np.ndarray]) -> None:
    samples = np.stack([draw(np.random.default_rng([7, r])) for r in range(200)], axis=1)
    assert int((mean_lower(samples, ALPHA) > mean).sum()) <= MOST_MISSES
    assert int((mean_upper(samples, ALPHA) < mean).sum()) <= MOST_MISSES


def test_betting_limit_is_that_of_a_gambler_who_plays_value_by_value() -> None:
    values = np.random.default_rng(3).beta(6, 4, size=40)

    def refutes(mean: float) -> bool:
        capital, seen = 1.0, [0.5]
        squares = 0.25
        for value in values:
            variance = squares / len(seen)
            bet = min(math.sqrt(2 * math.log(1 / ALPHA) / (len(values) * variance)), 0.9 / mean)
            capital *= 1 + bet * (value - mean)
            if capital >= 1 / ALPHA:
                return True
            seen.append(value)
            squares += (value - sum(seen) / len(seen)) ** 2
        return False

    limit = float(mean_lower(values, ALPHA))
    assert refutes(limit - 1e-6)
    assert not refutes(limit + 1e-6)
