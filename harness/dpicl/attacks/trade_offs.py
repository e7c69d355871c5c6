"""What a true and a false positive rate say about privacy: mu of Gaussian DP, and (epsilon, delta).

Two statements can be refuted by a test of "canary in" against "canary out" with rates TPR and FPR:

* mu-GDP (Dong, Roth & Su 2022, arXiv:1905.02383, definition 2.6): ppf(TPR) - ppf(FPR) <= mu for every test. If the
  mechanism's curve is that of a Gaussian, mu turns into epsilon at delta by the Gaussian's own curve. For another curve
  that epsilon can be far above the true one (randomised response: ln 3 would become 6.2 at delta = 1e-5).
* (epsilon, delta)-DP: TPR <= e^epsilon FPR + delta, and the same for TNR and FNR (Kairouz, Oh & Viswanath 2015,
  theorem 2.1). This holds for every mechanism.

With a lower limit in place of TPR and an upper one in place of FPR the results are lower bounds.
"""

from __future__ import annotations

import math

import numpy as np
from dp_accounting import gaussian_mechanism
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpicl.core.errors import UsageError
from dpicl.privacy.fixed_sampling import gaussian_delta

#: `epsilon_of_mu` is rounded down by this much, ten times the accuracy of dp_accounting's search.
EPSILON_ERROR = 1e-11


def mu_lower(tpr_lower: ArrayLike, fpr_upper: ArrayLike) -> np.ndarray:
    """ppf(TPR) - ppf(FPR), elementwise: no mechanism with such a test is mu-GDP for a smaller mu (may be negative).

    -inf where the rates say nothing (both 0 or both 1).
    """
    with np.errstate(invalid="ignore"):
        difference = ndtri(np.asarray(tpr_lower, dtype=np.float64)) - ndtri(np.asarray(fpr_upper, dtype=np.float64))
    return np.where(np.isnan(difference), -np.inf, difference)


def delta_of_mu(mu: float, epsilon: float) -> float:
    """The smallest delta at which every mu-GDP mechanism is (epsilon, delta)-DP, for an epsilon of either sign
    (arXiv:1905.02383, corollary 2.13). mu: finite, at least 0."""
    if mu == 0:
        return max(0.0, -math.expm1(epsilon))
    return float(gaussian_delta(np.asarray(epsilon, dtype=np.float64), 1 / mu))


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The epsilon >= 0 with delta(epsilon; mu) = delta, rounded down; 0 where delta(0; mu) <= delta.

    Infinite for mu > 0 and delta = 0: a Gaussian release is (epsilon, 0)-DP for no epsilon. Raises UsageError for delta
    outside [0, 1).
    """
    check_delta(delta)
    multiplier = 1 / mu if mu > 0 else math.inf
    return max(0.0, float(gaussian_mechanism.get_epsilon_gaussian(multiplier, delta)) - EPSILON_ERROR)


def epsilon_of_rates(tpr_lower: ArrayLike, fpr_upper: ArrayLike, delta: float) -> np.ndarray:
    """Lower bound on the epsilon at delta of any mechanism with such a test, elementwise: the larger one of
    ln((TPR - delta)/FPR) and ln((TNR - delta)/FNR), and 0 at least.

    Both directions use the same two limits, so taking the larger one costs no confidence.
    """
    check_delta(delta)
    tpr, fpr = np.asarray(tpr_lower, dtype=np.float64), np.asarray(fpr_upper, dtype=np.float64)

    def one_way(gain: np.ndarray, loss: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(gain > delta, np.log(gain - delta) - np.log(loss), -np.inf)

    return np.maximum(np.maximum(one_way(tpr, fpr), one_way(1 - fpr, 1 - tpr)), 0.0)


def check_delta(delta: float) -> None:
    """Raises UsageError unless 0 <= delta < 1."""
    if not 0 <= delta < 1:
        raise UsageError(f"delta must lie in [0, 1), not {delta}.")
