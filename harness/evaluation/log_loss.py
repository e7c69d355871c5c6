"""Log-loss and hit rate of release distributions on texts, and paired differences between rows.

L = -(1/T) sum log(.99 pi(x_t) + .01 p0(x_t)), in nats a token: pi is the release distribution, p0 the public prompt's.
H = mean pi(x_t). L judges how likely real texts are, H how often the mechanism would say the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from dpicl.harness.evaluation.statistics import bootstrap_interval

#: The public prompt's share in a log-loss: no token is impossible.
PUBLIC_SHARE: Final = 0.01
#: What is measured of a row.
MEASURES: Final = ("log_loss", "hit_rate")


@dataclass(frozen=True)
class TextScore:
    """Of one row on one text. variances: of both measures over draws of public randomness, where there are any."""

    log_loss: float
    hit_rate: float
    variances: tuple[float, float] | None = None


def text_score(chances: np.ndarray, public: np.ndarray) -> TextScore:
    """chances: float64[R, T], whose mean over R draws is pi(x_t). public: float64[T], p0(x_t).

    With R > 1 the log-loss is that of the mean over draws, which is above that of the distribution by about half the
    relative variance of the mean; `variances` are the jackknife's (Efron & Tibshirani 1993, chapter 11).
    """
    log_loss, hit_rate = _loss(chances.mean(axis=0), public), float(chances.mean())
    draws = len(chances)
    if draws == 1:
        return TextScore(log_loss, hit_rate)
    others = (chances.sum(axis=0) - chances) / (draws - 1)
    jackknife = [[_loss(own, public) for own in others], others.mean(axis=1)]
    of_loss, of_rate = ((draws - 1) * float(np.var(own)) for own in jackknife)
    return TextScore(log_loss, hit_rate, (of_loss, of_rate))


def _loss(pi: np.ndarray, public: np.ndarray) -> float:
    mixed = (1 - PUBLIC_SHARE) * pi + PUBLIC_SHARE * public
    return float(-np.log(np.maximum(mixed, np.finfo(float).tiny)).mean())


@dataclass(frozen=True)
class RowScores:
    """One row at one epsilon (its public prompt: at 0) on n texts.

    public: the row of its public prompt. knob: its calibrated value. log_loss, hit_rate: float64[n], by text. spread:
    standard errors of both means from draws of public randomness alone; None where nothing was drawn: then every
    distribution is exact.
    """

    row: str
    epsilon: float
    public: str
    knob: float | None
    log_loss: np.ndarray = field(repr=False)
    hit_rate: np.ndarray = field(repr=False)
    spread: tuple[float, float] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, row: str, epsilon: float, public: str, knob: float | None, texts: Sequence[TextScore]) -> RowScores:
        drawn = [each.variances for each in texts if each.variances is not None]
        spread = np.sqrt(np.sum(drawn, axis=0)) / len(texts) if drawn else None
        return cls(
            row,
            epsilon,
            public,
            knob,
            np.array([each.log_loss for each in texts]),
            np.array([each.hit_rate for each in texts]),
            None if spread is None else (float(spread[0]), float(spread[1])),
        )

    def error(self, measure: str) -> float:
        """Standard error of the mean over texts."""
        values: np.ndarray = getattr(self, measure)
        return float(values.std(ddof=1)) / math.sqrt(len(values))


@dataclass(frozen=True)
class PairedDifference:
    """first - second in both measures, over the same texts: mean, standard error and 95% interval of each."""

    epsilon: float
    first: str
    second: str
    log_loss: float
    log_loss_error: float
    log_loss_interval: tuple[float, float]
    hit_rate: float
    hit_rate_error: float
    hit_rate_interval: tuple[float, float]


def paired_differences(rows: Sequence[RowScores], seed: int = 0) -> list[PairedDifference]:
    """Between every two rows of one finite epsilon, and between each and its public prompt; the bootstrap over texts.

    The intervals are not adjusted for how many differences there are.
    """
    return [_difference(epsilon, first, second, seed) for epsilon, first, second in _pairs(rows)]


def _pairs(rows: Sequence[RowScores]) -> Iterator[tuple[float, RowScores, RowScores]]:
    public = {row.row: row for row in rows if row.epsilon == 0}
    for epsilon in dict.fromkeys(row.epsilon for row in rows if 0 < row.epsilon < math.inf):
        own = [row for row in rows if row.epsilon == epsilon]
        yield from ((epsilon, row, public[row.public]) for row in own)
        yield from ((epsilon, first, second) for at, first in enumerate(own) for second in own[at + 1 :])


def _difference(epsilon: float, first: RowScores, second: RowScores, seed: int) -> PairedDifference:
    found: dict[str, tuple[float, float, tuple[float, float]]] = {}
    for measure in MEASURES:
        differences: np.ndarray = getattr(first, measure) - getattr(second, measure)
        error = float(differences.std(ddof=1)) / math.sqrt(len(differences))
        found[measure] = (float(differences.mean()), error, bootstrap_interval(differences, seed=seed))
    return PairedDifference(epsilon, first.row, second.row, *found["log_loss"], *found["hit_rate"])
