"""PRISM: Bhusal et al., arXiv 2509.13625, algorithm 1. One private example a prompt, the same prompts for a whole
demonstration, every token drawn from a softmax of averaged, clipped logits.

For every demonstration, sample records of its label, one for each prompt (s expected); then for every token:

1. z = (1/s) * sum over prompts of clip_c(logits), with the constant s; u = clip_c(logits of the public prompt);
2. draw the token from softmax(((z + u)/2) / tau).

Privacy (unit: one record; neighbours: add/remove; proved mode). One record adds one clipped vector: every score
moves by at most c/(2s), the range of the move is at most c/s, so a token is an epsilon' = c/(s tau) bounded-range
choice, which may look at the tokens before it. The whole demonstration runs on one Poisson sample of rate q = s/n_y:
Poisson(q, T x bounded range epsilon'), accounted by the exact recursion for T adaptive choices and the sampling of its
privacy loss distribution. Labels are disjoint. The paper's own formula, epsilon = sqrt(2 T ln(1/delta)) epsilon', drops
a term of advanced composition and claims no amplification; at the same epsilon it uses a temperature 2 to 3 times
higher than it needs.
"""

from __future__ import annotations

from dataclasses import dataclass

from dp_accounting import dp_event as dp

from dpicl.harness.mechanism.bases import Context, Demonstration, Knob, Sizes
from dpicl.harness.mechanism.generation import PromptWriter, ReleasedText, check_positive, public_log_probs
from dpicl.harness.privacy.primitives import BoundedRangeChoice
from dpicl.harness.privacy.private_set import PrivateSet
from dpicl.harness.reaccounting.published import prism_formula
from dpicl.mechanisms._label_texts import LabelTexts, per_label


@dataclass(frozen=True)
class Prism(LabelTexts):
    """Options, with the paper's symbols: prompts s (expected), tokens T, clip c."""

    name = "prism"
    knob = Knob("temperature", low=1e-4, high=1e5, non_private=0.0)
    source = "Bhusal et al., arXiv 2509.13625"
    published = {task: {"prompts": 380, "tokens": 100} for task in ("agnews", "dbpedia", "trec", "mit_g", "mit_d")}

    prompts: int = 64
    tokens: int = 50
    clip: float = 10.0
    record_tokens: int | None = None
    style: str = "chat"

    def __post_init__(self) -> None:
        check_positive(prompts=self.prompts, tokens=self.tokens, clip=self.clip, record_tokens=self.record_tokens)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return per_label(sizes, self.prompts, self._text(knob), 1)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """sqrt(2 T ln(1/delta)) c/(s tau), whatever the number of (disjoint) demonstrations (section 3.2)."""
        return prism_formula(self._token(knob).range_epsilon, self.tokens, delta)

    def write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model = context.model
        token = self._token(context.knob)
        prompts = PromptWriter(context.task, model, label, self.tokens, self.record_tokens, self.style)
        sample = private.poisson_slots(
            self.prompts, None, partition=private.partition_of(label), releases=self._text(context.knob)
        ).draw()
        public = model.decoder([prompts.public], prompts.prefix)
        private_rows = model.decoder([prompts.private(slot) for slot in sample.slots], prompts.prefix)
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                public.append(text.tokens[-1])
                private_rows.append(text.tokens[-1])
            public_row = public_log_probs(public.log_probs, model)[0]
            text.append(token.choose(private_rows.log_probs.numpy(), public_row, sample))
        return text.demonstration(label)

    def _text(self, temperature: float) -> dp.DpEvent:
        """What one text releases from its sample."""
        return dp.SelfComposedDpEvent(self._token(temperature).event, self.tokens)

    def _token(self, temperature: float) -> BoundedRangeChoice:
        return BoundedRangeChoice(self.clip, self.prompts, temperature)
