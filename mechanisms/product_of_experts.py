"""Product of experts: Romijnders et al., "Private PoEtry: Private In-Context Learning via Product of Experts" (arXiv
2602.05012). Written from the paper's abstract: our reading, so its scores are no verdict on the paper.

For every query:

1. public: p_0, the probabilities of the labels after the zero-shot prompt;
2. sample records, M in expectation; each stands alone in a prompt of its own, which gives p_i over the labels. p_0 and
   p_i are normalised over the labels, each by itself: what a label's words cost the model in general cancels, and no
   other slot is looked at. With ``calibrate`` each is divided by its probabilities after a content-free input first
   (contextual calibration, inside the slot);
3. a_i(y) = log p_i(y) - log p_0(y), clipped to [-C, C]; 0 for all labels where a number is not finite;
4. the answer is a draw from softmax(beta (log p_0(y) + sum over i of a_i(y))), beta = 1 / temperature.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = M/n and adds one vector
a_i in [-C, C]^L, which is a function of its own prompt and public things; it changes no other. So all scores move by a
vector of range at most 2C, and for two labels the odds of the draw change by a factor within
exp(beta (a_i(y) - a_i(y'))), whose exponents lie in an interval of length 2 beta C for all outcomes: an
epsilon'-bounded-range choice with epsilon' = 2 C beta. Q answers are Q x Poisson(q, choice). p_0 is public and moves
nothing. A prompt that shows several records, or `partition: once`, is an expert that a record *replaces*: both vectors
are in the cube, the range is 4C, and so the noise doubles. At temperature 0 the answer is the argmax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dp_accounting import dp_event as dp
from scipy.special import log_softmax

from dpicl.harness.mechanism.bases import AnswerContext, AnswerMechanism, Knob, Query
from dpicl.harness.mechanism.generation import check_positive
from dpicl.harness.privacy.primitives import ProductChoice
from dpicl.harness.privacy.private_set import Sample

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask


@dataclass(frozen=True)
class ProductOfExperts(AnswerMechanism):
    """clip: C, in units of log-probability. calibrate: contextual calibration of every expert and of the public
    prompt."""

    name = "product_of_experts"
    knob = Knob("temperature", low=0.001, high=100_000.0, non_private=0.0)
    source = "Romijnders et al., arXiv 2602.05012"
    summary = "answers by a softmax over summed, clipped log-ratios, one record an expert"

    examples_per_slot: int = 1
    clip: float = 1.0
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

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        prompts = [(), *sample.slots]
        public, *experts = context.reader.label_scores(query, prompts, calibrated=self.calibrate)
        normalised = log_softmax(public)
        rows = log_softmax(experts, axis=1) if experts else normalised[None, :][:0]
        return context.task.labels[self._choice(context.knob).choose(rows, normalised, sample)]

    def _choice(self, knob: float) -> ProductChoice:
        return ProductChoice(self.clip, knob, self.scheme.own_slots)
