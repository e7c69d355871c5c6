"""AdaDPSyn: Gao et al., "Data-adaptive Differentially Private Prompt Synthesis for In-Context Learning", ICLR 2025
(arXiv 2410.12085). As Tang et al. (mechanisms/tang.py), but where the slots agree the sum gets less noise.

For every token of a synthetic demonstration:

1. K = the top-k tokens of the public prompt; every slot of a fresh sample answers with its distribution on K;
2. a noisy histogram of the slots' distances to the public prompt's distribution gives the smallest of eight public
   radii whose ball holds ``share`` of the slots;
3. the next token is the argmax over K of the noisy sum of the slots' distributions, each projected into that ball. The
   noise shrinks with the radius.

This is a version of ours that can be proved; the paper's own text was not at hand, and its algorithm is known from the
released code. That takes the noisy mean as the centre and refines it for up to T rounds, finds the radius by GoodRadius
(six Gaussian releases where the histogram is one), and draws the same noise and the same records for every token, so
that its epsilon does not follow (docs/reports/re-accounting.md). Guessed: the public centre, the radii, and the share
of the budget that the histogram gets.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record touches one slot of the token's sample. Both
releases are Gaussian mechanisms on that sample, of public multipliers whatever the radius is
(`dpicl.privacy.near_centre`), and together one of the knob's: T * shots Poisson-subsampled Gaussian releases
for a label, as for Tang at the same knob. Labels are disjoint and compose in parallel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl import NearCentre, Sample, Sizes, UsageError
from dpicl import dp_event as dp
from dpicl.mechanisms.tang import Tang

#: Up to the radius of the simplex, as the released GoodRadius searches.
RADII = tuple(math.sqrt(0.5) * step / 8 for step in range(1, 9))


@dataclass(frozen=True)
class AdaDPSyn(Tang):
    """Options as Tang's: slots M, examples_per_slot N, tokens T, top_k K. share: of the slots, that the ball is to
    hold; histogram_share: of the privacy that the histogram spends."""

    name = "adadpsyn"
    source = "Gao et al., ICLR 2025, arXiv 2410.12085; our provable version of the released code"
    summary = "Tang with less noise where slots agree: distributions are projected into a ball of noisy radius"
    published = {
        "agnews": {"slots": 10, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "dbpedia": {"slots": 10, "examples_per_slot": 2, "tokens": 100, "top_k": 100},
        "trec": {"slots": 20, "examples_per_slot": 2, "tokens": 15, "top_k": 100},
        "mit_g": {"slots": 40, "examples_per_slot": 1, "tokens": 20, "top_k": 100},
        "mit_d": {"slots": 40, "examples_per_slot": 1, "tokens": 20, "top_k": 100},
    }

    share: float = 0.8
    histogram_share: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        self._near_centre(1.0)
        if self.top_k is None:
            raise UsageError(
                "Option top_k must be a number: distances are measured on the likeliest tokens."
            )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        return None  # the released code has three kinds of noise and no formula for one knob

    def token_event(self, knob: float) -> dp.DpEvent:
        return self._near_centre(knob).event

    def choose(
        self, knob: float, rows: np.ndarray, public: np.ndarray, sample: Sample, allowed: np.ndarray
    ) -> int:
        return self._near_centre(knob).choose(rows, public, sample, allowed)

    def _near_centre(self, knob: float) -> NearCentre:
        return NearCentre(knob, RADII, self.slots, self.share, self.histogram_share, self.own_slots)
