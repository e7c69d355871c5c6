"""Which coordinate of a noisy vector is the largest: the exact chance of one of them."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr

#: Points of the quadrature over one coordinate's noise, in standard deviations. Both the normal density and the chance
#: that all others are below are entire functions, so the trapezoidal rule converges faster than any power of its step.
_POINTS = np.arange(-8.55, 8.56, 0.15)
_WEIGHTS = 0.15 * np.exp(-(_POINTS**2) / 2) / np.sqrt(2 * np.pi)
#: A coordinate that is so far behind is never the largest, to the last bit.
_FAR = 17.0


def argmax_chance(clean: np.ndarray, scale: float, place: int) -> float:
    """P(argmax of clean + N(0, scale^2) on every coordinate = place), to 6 digits for up to 50,000 coordinates: the
    integral of phi(y) prod_u Phi(y + (clean_place - clean_u)/scale) over y.

    clean: float64[K]. scale 0: whether it is the first of the largest ones.
    """
    if scale == 0:
        return float(clean.argmax() == place)
    ahead = np.delete(clean[place] - clean, place) / scale
    if (ahead < -_FAR).any():
        return 0.0
    others = ahead[ahead < _FAR]
    below = np.array([log_ndtr(point + others).sum() for point in _POINTS])
    return min(1.0, float(_WEIGHTS @ np.exp(below)))
