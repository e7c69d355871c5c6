"""Formulas by which published papers and codes compute their epsilon, to recompute claims; they are not our proofs.

| formula | used by | is |
|---|---|---|
| `prism_formula` | Bhusal et al., Algorithm 1 | advanced composition without its second term: no theorem |
| `advanced_composition` | Dwork, Rothblum & Vadhan 2010, III.3 | an upper bound for epsilon0-DP releases, loose |
| `sampled_exponential_epsilon` | KSA-EM, SGA 2024 (autodp) | Renyi DP of samples of epsilon0-DP choices |
| `dp_opt_epsilon` | Hong et al., ICLR 2024 (autodp) | the same for choices that fail; every failure is charged |
| `ksa_ptr_epsilon` | Wu et al., KSA-PTR (autodp) | the same with a noisy gap; one failure is charged for all queries |

Wu et al. 2024 (KSA) and the SGA authors treat one choice as epsilon0-DP and call autodp (Zhu & Wang 2019, "Poisson
subsampled Renyi differential privacy"): `PureDP_Mechanism`, `AmplificationBySampling`, `Composition`, `get_approxDP`.
The last three formulas repeat that computation.

The proofs are in accounting/accountants.py; table.py has the classical Gaussian formula, and compares them.
"""

from __future__ import annotations

import math

import numpy as np

from dpicl.core.errors import UsageError

#: Renyi orders tried; the curve is interpolated between whole orders, as autodp does.
HIGHEST_ORDER = 600
STEPS_PER_ORDER = 20
#: The largest epsilon0: e^epsilon0 is a number.
LARGEST = 700.0


def prism_formula(epsilon0: float, steps: int, delta: float) -> float:
    """sqrt(2 T ln(1/delta)) epsilon0 for T releases of epsilon0-DP: PRISM's temperature, solved for epsilon."""
    return math.sqrt(2 * steps * math.log(1 / delta)) * epsilon0


def advanced_composition(epsilon0: float, steps: int, delta: float) -> float:
    """Upper bound for T adaptive releases of epsilon0-DP: `prism_formula` + T epsilon0 (e^epsilon0 - 1); may be inf."""
    growth = math.expm1(epsilon0) if epsilon0 < 700 else math.inf
    return prism_formula(epsilon0, steps, delta) + steps * epsilon0 * growth


def dp_opt_epsilon(
    epsilon0: float,
    delta0: float,
    rate: float,
    steps: int,
    delta: float,
) -> float:
    """DP-OPT's own epsilon for ``steps`` limited-domain choices with parameters (epsilon0, delta0) on samples at rate.

    Every choice pays delta0 q for its failures. Raises UsageError when they leave nothing of delta.
    """
    return ksa_ptr_epsilon(epsilon0, math.inf, delta0, rate, steps, delta, failures=steps)


def ksa_ptr_epsilon(
    epsilon0: float,
    multiplier: float,
    delta0: float,
    rate: float,
    steps: int,
    delta: float,
    failures: int = 1,
) -> float:
    """KSA-PTR's own epsilon: an epsilon0-DP choice of k, then a propose-test-release with Gaussian noise on the gap.

    multiplier: of that Gaussian; delta0: the probability that the test wrongly passes. The authors pay delta0 q once,
    not for each of the ``steps`` queries: only so their printed numbers come out. failures: how often it is paid.
    Raises UsageError when even that leaves nothing of delta.
    """
    spent = failures * rate * delta0
    if spent >= delta:
        raise UsageError(
            f"Failures use up delta = {delta:g}; give a delta above {spent:.6g} or a smaller delta0."
        )
    # the rate given that a release does not fail: autodp's
    successes = rate * (1 - delta0) / (1 - rate * delta0)
    return sampled_exponential_epsilon(epsilon0, successes, steps, delta - spent, multiplier)


def pure_dp_curve(epsilon0: float, orders: np.ndarray) -> np.ndarray:
    """Renyi divergence of an epsilon0-DP mechanism at orders > 1, shape of orders.

    min(a epsilon0^2/2, ln((sinh(a epsilon0) - sinh((a - 1) epsilon0))/sinh(epsilon0))/(a - 1)) (Bun & Steinke 2016,
    proposition 3.3 and its proof).
    """
    ratio = _log_sinh(orders * epsilon0)
    difference = ratio + np.log(-np.expm1(_log_sinh((orders - 1) * epsilon0) - ratio))
    return np.minimum(
        orders * epsilon0**2 / 2, (difference - _log_sinh(np.asarray(epsilon0))) / (orders - 1)
    )


def sampled_exponential_epsilon(
    epsilon0: float, rate: float, count: int, delta: float, multiplier: float = math.inf
) -> float:
    """What autodp answers for ``count`` choices, each epsilon0-DP and on its own Poisson sample at ``rate``.

    multiplier: of a Gaussian that follows each choice on the same sample (noise / L2 sensitivity); none by default.

    Not a proof of ours, for two reasons. The authors weight words by e^(-epsilon0 difference/2) and take the choice
    as epsilon0-DP; if one record moves scores by one either way it is only 2 epsilon0-bounded range. And autodp's bound
    for samples of any mechanism puts the divergence of order j + 1 where the theorem has 3 times that of order j.
    Raises UsageError for numbers outside their range.
    """
    if not (
        0 < epsilon0 <= LARGEST
        and multiplier > 0
        and 0 < rate <= 1
        and count >= 1
        and 0 < delta < 1
    ):
        raise UsageError(
            f"The published accounting needs epsilon0 > 0, at most {LARGEST:g}, a rate in (0, 1], at least one choice "
            f"and delta in (0, 1), not {epsilon0}, {rate}, {count} and {delta}."
        )
    whole = np.arange(1, HIGHEST_ORDER + 1)
    moments = np.append([0.0], _sampled_moments(epsilon0, rate, multiplier))
    orders = np.arange(1 + 1 / STEPS_PER_ORDER, HIGHEST_ORDER, 1 / STEPS_PER_ORDER)
    curve = np.interp(orders, whole, moments) / (orders - 1)
    curve = np.where(orders < 2, moments[1], curve)
    most = math.log1p(rate * math.expm1(epsilon0)) if math.isinf(multiplier) else math.inf
    total = count * np.minimum(curve, most)
    converted = total + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    return max(0.0, float(np.min(converted)))


def _sampled_moments(epsilon0: float, rate: float, multiplier: float) -> np.ndarray:
    """(a - 1) times the divergence of one sampled choice at orders a = 2, 3, ..., shape (HIGHEST_ORDER - 1,)."""
    from scipy.special import gammaln, logsumexp  # mechanisms import this module for their claims

    def curve(at: np.ndarray) -> np.ndarray:
        return pure_dp_curve(epsilon0, at) + at / (2 * multiplier**2)

    orders = np.arange(2, HIGHEST_ORDER + 1)
    if rate == 1:
        return (orders - 1) * curve(orders)
    inside = orders * curve(orders + 1)
    inside[0] = curve(np.array([2.0]))[0]
    log_absent, part = math.log1p(-rate), math.log(rate)
    order, j = orders[:, None], orders[None, :]
    outside = np.maximum(order - j, 0)
    chosen = (
        gammaln(order + 1) - gammaln(j + 1) - gammaln(outside + 1) + j * part + outside * log_absent
    )
    two_or_more = logsumexp(
        np.where(j <= order, chosen + inside, -np.inf),
        axis=1,
    )
    none_or_one = (orders - 1) * log_absent + np.log1p((orders - 1) * rate)
    return np.logaddexp(none_or_one, two_or_more)


def _log_sinh(x: np.ndarray) -> np.ndarray:
    return x + np.log(-np.expm1(-2 * x)) - math.log(2)
