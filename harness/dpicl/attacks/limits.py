"""One-sided confidence limits of the mean of independent values in [0, 1], by betting.

A run of an audit gives a decision (0 or 1), the probability of one (its clean values and the noise are known), or the
share of many noise resamples. The limits hold for every number of runs and every distribution, and are narrow where
values vary little. P(limit is on the wrong side) <= alpha; for two limits that must hold at once give each alpha/2.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from dpicl.core.errors import UsageError

#: Of the intervals and the bound of every attack.
CONFIDENCE: Final = 0.95
#: A bet stakes at most this part of what keeps the capital positive. Waudby-Smith & Ramdas use 1/2 or 3/4; more
#: narrows the limits for values that vary little, which are the ones that an audit with known noise sees.
LARGEST_STAKE: Final = 0.9
#: Halvings of [0, 1] in the search for a limit: it is off by less than 1e-9, to the safe side.
_HALVINGS: Final = 30


def mean_lower(values: ArrayLike, alpha: float) -> np.ndarray:
    """Lower limit of the mean of independent variables in [0, 1]: values[n] or [n, k] (k means at once) -> [] or [k].

    A gambler bets against "the mean is m or less": his capital is multiplied by 1 + bet_i (x_i - m), so under that
    hypothesis it is a supermartingale and passes 1/alpha with probability alpha at most (Ville's inequality). The limit
    is the largest m at which it passes 1/alpha after any number of values. The bets are the predictable plug-in ones
    for a fixed sample size, one-sided (Waudby-Smith & Ramdas 2024, JRSS B 86(1), "Estimating means of bounded random
    variables by betting": hedged capital).

    Values are taken in the order of rows, which must not depend on them; another order gives a slightly different, just
    as valid limit. Raises UsageError without a value, for one outside [0, 1] and for alpha outside (0, 1).
    """
    if not 0 < alpha < 1:
        raise UsageError(f"The error probability of a limit must lie between 0 and 1, not {alpha}.")
    x = np.asarray(values, dtype=np.float64)
    if x.ndim not in (1, 2) or not len(x) or not bool(((x >= 0) & (x <= 1)).all()):
        raise UsageError("A limit of a mean needs at least one value, and every value must lie between 0 and 1.")
    bets = np.sqrt(2 * math.log(1 / alpha) / (len(x) * _earlier_variances(x)))
    low, high = np.zeros(x.shape[1:]), np.ones(x.shape[1:])
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        growth = 1 + np.minimum(bets, LARGEST_STAKE / middle) * (x - middle)  # at least 1 - LARGEST_STAKE
        with np.errstate(over="ignore", under="ignore"):
            refuted = np.cumprod(growth, axis=0).max(axis=0) >= 1 / alpha  # the less, the larger m: halving finds it
        low, high = np.where(refuted, middle, low), np.where(refuted, high, middle)
    return low


def mean_upper(values: ArrayLike, alpha: float) -> np.ndarray:
    """Upper limit of the mean of independent variables in [0, 1]; as `mean_lower`."""
    return 1 - mean_lower(1 - np.asarray(values, dtype=np.float64), alpha)


def _earlier_variances(x: np.ndarray) -> np.ndarray:
    """[n, ...]: before each value, the variance of those before it; one made-up value 1/2 of variance 1/4 starts it."""
    seen = np.arange(2, len(x) + 2).reshape(-1, *[1] * (x.ndim - 1))
    means = (0.5 + np.cumsum(x, axis=0)) / seen
    variances = (0.25 + np.cumsum((x - means) ** 2, axis=0)) / seen
    return np.concatenate([np.full_like(x[:1], 0.25), variances[:-1]])
