"""Accounts for fixed-size sampling under replacement of one record, for the published (`paper`) samplers.

The authors draw exactly qn records and account for Poisson sampling. What their code guarantees, when one record is
replaced by another, has the hockey-stick curve delta(eps) = q * delta_G(ln(1 + (e^eps - 1)/q)) for eps >= 0 (Balle,
Barthe & Gaboardi 2018, theorem 9), with delta_G the Gaussian's own curve; below zero symmetry gives
delta(-eps) = 1 - e^-eps + e^-eps * delta(eps). The curve is discretised pessimistically and self-composed.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from dp_accounting.pld import pld_pmf
from scipy.special import log_ndtr, ndtri

GRID = 5e-4
#: Probability beyond the discretised range; it is counted as infinite loss.
TAIL = 1e-16


def gaussian_delta(epsilon: np.ndarray, multiplier: float) -> np.ndarray:
    """delta of a Gaussian of noise multiplier sigma at each epsilon (Balle & Wang 2018, theorem 8)."""
    first = log_ndtr(0.5 / multiplier - epsilon * multiplier)
    second = epsilon + log_ndtr(-0.5 / multiplier - epsilon * multiplier)
    return np.exp(first) * -np.expm1(np.minimum(second - first, 0.0))


def fixed_size_delta(epsilon: np.ndarray, multiplier: float, rate: float) -> np.ndarray:
    """delta of one Gaussian step on a sample of fixed size, at each epsilon of either sign; replace-one neighbours."""
    size = np.abs(epsilon)
    # ln(1 + (e^size - 1)/rate), without overflow
    inner = size + np.log1p((1 / rate - 1) * -np.expm1(-size))
    above = rate * gaussian_delta(inner, multiplier)
    below = -np.expm1(-size) + np.exp(-size) * above
    return np.where(epsilon >= 0, above, below)


@lru_cache(maxsize=128)
def fixed_replace_one(
    multiplier: float,
    rate: float,
    steps: int,
    delta: float,
) -> float:
    """Upper bound on the epsilon of ``steps`` Gaussian steps on fresh samples of fixed size; replace-one neighbours."""
    reach = 0.5 / multiplier**2 - float(ndtri(TAIL)) / multiplier
    amplified = math.log1p(rate * math.expm1(min(reach, 700.0)))
    top = max(0.0, amplified) if rate < 1 else reach
    cells = max(1, math.ceil(top / GRID))
    points = np.arange(-cells, cells + 1)
    deltas = fixed_size_delta(points * GRID, multiplier, rate)
    deltas = np.minimum.accumulate(np.clip(deltas, 0.0, 1.0))
    one = pld_pmf.create_pmf_pessimistic_connect_dots(GRID, points, deltas).to_dense_pmf()
    return float(one.self_compose(steps).get_epsilon_for_delta(delta))
