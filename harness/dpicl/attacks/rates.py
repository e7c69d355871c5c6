"""Computes AUC, TPR at a low FPR and advantage of a membership attack, with intervals.

Scores of one attack on independent candidates; a larger score speaks for membership. Intervals are two-sided, 95%,
and they behave for 50 candidates a side and for perfect or useless attacks.

A note marks what a small sample cannot say: with 50 non-members, an FPR of 0.1% means "no false positive among 50",
which shows only that the FPR is below about 7%.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri
from scipy.stats import binomtest, rankdata

from dpicl.attacks.lower_bounds import CONFIDENCE, check_runs, halves, score_thresholds
from dpicl.attacks.results import Estimate
from dpicl.core.errors import UsageError
from dpicl.evaluation.intervals import wilson_interval

#: The false positive rates at which `membership` reports the TPR (Carlini et al. 2022, "Membership Inference Attacks
#: From First Principles", section III: average measures say nothing about the few who are surely exposed).
LOW_FPRS = (0.01, 0.001)
#: Standard deviations to either side of a normal interval.
_Z = float(ndtri((1 + CONFIDENCE) / 2))


def membership(
    members: ArrayLike,
    non_members: ArrayLike,
    seed: int = 0,
) -> dict[str, Estimate]:
    """auc, tpr_at_fpr_0.01, tpr_at_fpr_0.001 and advantage from scores [n] of members and [l] of non-members.

    ``seed`` halves the candidates for what needs a chosen threshold. Raises UsageError for fewer than 4 candidates on a
    side and NaN scores.
    """
    low = {f"tpr_at_fpr_{fpr:g}": tpr_at_fpr(members, non_members, fpr) for fpr in LOW_FPRS}
    return {
        "auc": auc(members, non_members),
        **low,
        "advantage": advantage(members, non_members, seed),
    }


def auc(members: ArrayLike, non_members: ArrayLike) -> Estimate:
    """P(member's score > non-member's) + P(equal)/2, the Mann-Whitney estimate, with an interval.

    The interval is the hull of two. One inverts |AUC - a| = z sqrt(V(a)) with the Hanley-McNeil variance at each
    possible a and the mean sample size in it (Newcombe 2006, Statistics in Medicine 25, 559-573, method 5); it does not
    shrink to a point at an AUC of 0 or 1, but is too short for members of two kinds. The other has the estimated
    variance of DeLong, DeLong & Clarke-Pearson (1988), which sees those.
    """
    inside, outside = _scores(members), _scores(non_members)
    n_in, n_out = len(inside), len(outside)
    ranks = rankdata(np.concatenate([inside, outside]))
    share_below = (ranks[:n_in] - rankdata(inside)) / n_out  # of non-members, for each member
    share_above = 1 - (ranks[n_in:] - rankdata(outside)) / n_in  # of members, for each non-member
    value = float(share_below.mean())
    half = _Z * math.sqrt(share_below.var(ddof=1) / n_in + share_above.var(ddof=1) / n_out)
    low = min(_newcombe_end(value, 0.0, n_in, n_out), max(0.0, value - half))
    high = max(_newcombe_end(value, 1.0, n_in, n_out), min(1.0, value + half))
    return Estimate(value=value, low=low, high=high)


def tpr_at_fpr(members: ArrayLike, non_members: ArrayLike, fpr: float) -> Estimate:
    """The TPR at the smallest threshold that leaves at most ``fpr``, in (0, 1), of the non-members above it.

    Equal scores fall on the same side, so the realised FPR may be lower. Clopper-Pearson intervals. With too few
    non-members for one false positive this is the TPR without any, and the note says what is known of the FPR.
    """
    inside, outside = _scores(members), _scores(non_members)
    allowed = math.floor(fpr * len(outside) + 1e-9)
    threshold = np.sort(outside)[::-1][allowed]
    hits = int((inside > threshold).sum())
    tpr = binomtest(hits, len(inside))
    low, high = tpr.proportion_ci(CONFIDENCE)
    note = ""
    if not allowed:
        upper = binomtest(0, len(outside)).proportion_ci(CONFIDENCE).high
        note = f"at no false positive among {len(outside)}: FPR below {upper:.2g}"
    return Estimate(value=tpr.statistic, low=float(low), high=float(high), note=note)


def advantage(members: ArrayLike, non_members: ArrayLike, seed: int = 0) -> Estimate:
    """TPR - FPR, that is 2 (accuracy - 1/2) on balanced candidates (Yeom et al. 2018), of a threshold chosen elsewhere.

    The threshold, and whether members score above or below it, maximise TPR - FPR on one half of the candidates; the
    other half gives the value, so it may be negative. The interval of the difference of two shares is Newcombe's
    (1998, Statistics in Medicine 17, 873-890, method 10), which stays inside [-1, 1].
    """
    choosing_in, judging_in = halves(_scores(members), seed)
    choosing_out, judging_out = halves(_scores(non_members), seed)
    thresholds = score_thresholds(choosing_in, choosing_out)
    gains = (choosing_in[:, None] > thresholds).mean(axis=0) - (
        choosing_out[:, None] > thresholds
    ).mean(axis=0)
    best = int(np.argmax(np.abs(gains)))
    above = bool(gains[best] >= 0)
    hits = int(((judging_in > thresholds[best]) == above).sum())
    alarms = int(((judging_out > thresholds[best]) == above).sum())
    tpr, fpr = hits / len(judging_in), alarms / len(judging_out)
    tpr_low, tpr_high = wilson_interval(hits, len(judging_in), CONFIDENCE)
    fpr_low, fpr_high = wilson_interval(alarms, len(judging_out), CONFIDENCE)
    value = tpr - fpr
    low = value - math.hypot(tpr - tpr_low, fpr_high - fpr)
    high = value + math.hypot(tpr_high - tpr, fpr - fpr_low)
    return Estimate(value=value, low=low, high=high, note="threshold chosen on the other half")


def _scores(candidates: ArrayLike) -> np.ndarray:
    """float64[n]; raises UsageError for fewer than 4, for NaN and for more than one score a candidate."""
    scores = check_runs(np.asarray(candidates, dtype=np.float64))
    if scores.ndim > 1:
        raise UsageError("Each candidate has one score.")
    return scores


def _newcombe_end(value: float, end: float, members: int, others: int) -> float:
    """The point between the estimate and 0 or 1 from which the estimate is z standard deviations away."""

    def excess(a: float) -> float:
        ties = (1 - a) / (2 - a) + a / (1 + a)
        spread = 1 + ((members + others) / 2 - 1) * ties
        variance = a * (1 - a) * spread / (members * others)
        return abs(value - a) - _Z * math.sqrt(variance)

    if abs(value - end) < 1e-9:
        return end
    # at an estimate of 0 or 1 itself both sides vanish
    start = value + math.copysign(1e-12, end - value)
    return float(brentq(excess, start, end, xtol=1e-9))
