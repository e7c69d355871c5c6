"""What published papers and codes compute as their epsilon: formulas to recompute a claim with, not proofs of ours.

| formula | used by | is |
|---|---|---|
| `prism_formula` | Bhusal et al., Algorithm 1 | advanced composition without its second term: no theorem |
| `advanced_composition` | Dwork, Rothblum & Vadhan 2010, III.3 | an upper bound for epsilon0-DP releases, loose |
| `renyi.sampled_exponential_epsilon` | KSA-EM, SGA 2024 (autodp) | Renyi DP of samples of epsilon0-DP choices |
| `dp_opt_epsilon` | Hong et al., ICLR 2024 (autodp) | the same for choices that fail; every failure is charged |
| `ksa_ptr_epsilon` | Wu et al., KSA-PTR (autodp) | the same with a noisy gap; one failure is charged for all queries |

The classical Gaussian formula is in settings.py; the proofs are in privacy/accountants.py; table.py compares them.
"""

from __future__ import annotations

import math

from dpicl.harness.core.errors import UsageError
from dpicl.harness.reaccounting.renyi import sampled_exponential_epsilon


def prism_formula(epsilon0: float, steps: int, delta: float) -> float:
    """sqrt(2 T ln(1/delta)) epsilon0 for T releases of epsilon0-DP: PRISM's temperature, solved for epsilon."""
    return math.sqrt(2 * steps * math.log(1 / delta)) * epsilon0


def advanced_composition(epsilon0: float, steps: int, delta: float) -> float:
    """Upper bound for T adaptive releases of epsilon0-DP: `prism_formula` + T epsilon0 (e^epsilon0 - 1); may be inf."""
    growth = math.expm1(epsilon0) if epsilon0 < 700 else math.inf
    return prism_formula(epsilon0, steps, delta) + steps * epsilon0 * growth


def dp_opt_epsilon(epsilon0: float, delta0: float, rate: float, steps: int, delta: float) -> float:
    """DP-OPT's own epsilon for ``steps`` limited-domain choices with parameters (epsilon0, delta0) on samples at rate.

    Every choice pays delta0 q for its failures. Raises UsageError when they leave nothing of delta.
    """
    left = _left(delta, steps * rate * delta0)
    return sampled_exponential_epsilon(epsilon0, _rate_of_successes(rate, delta0), steps, left)


def ksa_ptr_epsilon(epsilon0: float, multiplier: float, delta0: float, rate: float, steps: int, delta: float) -> float:
    """KSA-PTR's own epsilon: an epsilon0-DP choice of k, then a propose-test-release with Gaussian noise on the gap.

    multiplier: of that Gaussian; delta0: the probability that the test wrongly passes. The authors pay delta0 q once,
    not for each of the ``steps`` queries: only so their printed numbers come out. Raises UsageError when even that
    leaves nothing of delta.
    """
    left = _left(delta, rate * delta0)
    return sampled_exponential_epsilon(epsilon0, _rate_of_successes(rate, delta0), steps, left, multiplier)


def _left(delta: float, failures: float) -> float:
    if failures >= delta:
        raise UsageError(f"Failures use up delta = {delta:g}; give a delta above {failures:.6g} or a smaller delta0.")
    return delta - failures


def _rate_of_successes(rate: float, delta0: float) -> float:
    """The sampling rate given that a release does not fail: q(1 - delta0)/(1 - q delta0), as autodp has it."""
    return rate * (1 - delta0) / (1 - rate * delta0)
