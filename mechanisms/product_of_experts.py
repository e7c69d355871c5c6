"""Product of experts: Romijnders et al., "Private PoEtry: Private In-Context Learning via Product of Experts" (arXiv
2602.05012), algorithm 1, for answers of one token.

For every query:

1. sample records, M in expectation; each stands alone in a prompt of its own (group size 1), which gives p_i over the
   labels. An empty slot, where slots are shared, has the zero-shot prompt;
2. a_i(y) = log p_i(y), raised to -C where it is below (gamma = 2 in all of the paper's runs: probabilities below 13.5%
   count alike); 0 for all labels where a number is no number;
3. the answer is a draw from softmax(sum over i of a_i(y) / temperature). The paper draws in proportion to
   exp(epsilon * sum / (2 gamma)): its temperature is 2 gamma / epsilon.

What is the paper's and what is ours: of the stored copy of the paper only the introduction could be read; steps 2 and
3, gamma and the sizes are from public reviews that quote its text, and its code was not found. So this is **our
reading** where they say nothing: p_i is normalised over the labels (the paper does not say over what); ``calibrate``
divides by the probabilities after a content-free input, inside the slot, as the paper's setup (that of Tang et al.)
does for few-shot prompts; records are a fresh Poisson sample for every query, where the paper has a fixed context of
8 or 25 and one query. The printed operator sets what is below -gamma to 0, the largest score; its explanation and its
proof mean a floor, and so do we.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = M/n and adds one vector
a_i in [-C, 0]^L, which is a function of its own prompt; it changes no other. So all scores move by a vector of range
at most C, and for two labels the odds of the draw change by a factor within exp((a_i(y) - a_i(y')) / temperature),
whose exponents lie in an interval of length C / temperature for all outcomes: an epsilon'-bounded-range choice with
epsilon' = C / temperature. Q answers are Q x Poisson(q, choice). A prompt that shows several records, or `partition:
once`, is an expert that a record *replaces*: both vectors are in the cube, the range is 2C, and so the noise doubles.
At temperature 0 the answer is the argmax.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dpicl import (
    AnswerContext,
    AnswerMechanism,
    Knob,
    ProductChoice,
    PublicTask,
    Query,
    Sample,
    Sizes,
    check_positive,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class ProductOfExperts(AnswerMechanism):
    """clip: C (the paper's gamma), in units of log-probability. calibrate: contextual calibration of every expert."""

    name = "product_of_experts"
    knob = Knob("temperature", low=0.001, high=100_000.0, non_private=0.0)
    source = "Romijnders et al., arXiv 2602.05012"
    reading = (
        "the algorithm is the paper's as public reviews quote it; normalisation over labels, calibration and a sample"
        " for every query are ours"
    )
    summary = "answers by a softmax over summed, clipped log-probabilities, one record an expert"
    # table 1: 8 and 25
    published = {task: {"slots": 25, "clip": 2.0} for task in ("agnews", "dbpedia", "trec")}

    examples_per_slot: int = 1
    clip: float = 2.0
    calibrate: bool = True

    slot_per_record = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(clip=self.clip)

    def skip(self, task: PublicTask) -> str | None:
        if task.chooses:
            return None
        return "its experts give probabilities to a few public labels, and this task has none"

    def release(self, knob: float) -> dp.DpEvent:
        return self._choice(knob).event

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """Of one query, without sampling, by the exponential mechanism of theorem 3.1: exp(epsilon score/(2 gamma))."""
        return 2 * self.clip / knob if knob > 0 else math.inf

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        from scipy.special import log_softmax  # scipy takes a while to load

        labels = context.task.labels
        rows = np.zeros((0, len(labels)))
        if sample.slots:
            scores = context.reader.label_scores(query, sample.slots, calibrated=self.calibrate)
            rows = log_softmax(scores, axis=1)
        return labels[self._choice(context.knob).choose(rows, sample)]

    def _choice(self, knob: float) -> ProductChoice:
        return ProductChoice(self.clip, knob, self.scheme.own_slots)
