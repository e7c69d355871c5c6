"""Contextual calibration: label probabilities divided by what the prompt says about an input without content.

Zhao et al. 2021, "Calibrate Before Use", section 3, in the diagonal form of Tang et al. 2024's code: W = diag(p_cf)^-1,
b = 0, where p_cf is the mean over content-free inputs of the label probabilities, normalised over the labels.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

#: The least probability that a log-loss tells from 0; its logarithm is the unit of log-losses.
LEAST = 1e-3


def content_free_probabilities(log_probs: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """p_cf, float64[L], from the label log-probabilities of the content-free inputs, [C, L] with C >= 1."""
    return _label_probabilities(log_probs).mean(axis=0)


def predictions(
    log_probs: Sequence[Sequence[float]] | np.ndarray,
    p_cf: np.ndarray | None = None,
) -> np.ndarray:
    """int64[D]: the most probable label of each document, after calibration when p_cf[L] is given."""
    scores = _label_probabilities(log_probs)
    if p_cf is not None:
        scores = scores / np.maximum(p_cf, np.finfo(np.float64).tiny)
    return scores.argmax(axis=1)


def log_losses(
    log_probs: Sequence[Sequence[float]] | np.ndarray,
    gold: np.ndarray,
) -> np.ndarray:
    """float64[D] in [0, 1]: -ln p(right label) in units of ln 1000 (6.9 nats), where p below 1/1000 counts as 1/1000.

    p is over the L labels, without calibration. log_probs: float[D, L], natural logarithm. gold: int[D].
    """
    right = _label_probabilities(log_probs)[np.arange(len(gold)), gold]
    at_least = np.maximum(right, LEAST)
    return np.abs(np.log(at_least) / np.log(LEAST))


def _label_probabilities(log_probs: Sequence[Sequence[float]] | np.ndarray) -> np.ndarray:
    """float64[D, L]: softmax over the L labels."""
    return softmax(np.asarray(log_probs, dtype=np.float64), axis=1)
