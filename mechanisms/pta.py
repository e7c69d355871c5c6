"""Plausible Token Amplification: Yamasaki et al., "Plausible Token Amplification for Improving Accuracy of
Differentially Private In-Context Learning Based on Implicit Bayesian Inference", ICML 2025, algorithms 1 and 2.

For every token of a synthetic demonstration:

1. V_pub = the top-k tokens of the public prompt; with ``top_p`` its head only (PA2);
2. sample records of the label and sample them into M slots; a slot's records are the examples of its prompt;
3. every slot answers with p(v) proportional to p_base(v) * (p(v | private prompt) / p(v | public prompt))^alpha over
   the full vocabulary: tokens that the private examples make more plausible are amplified. p_base conditions on the
   generated text alone (eq. 11); without ``base`` it is constant (PA3). All in log space, normalised per slot;
4. the next token is the argmax over V_pub of the sum over slots + N(0, 2 sigma^2).

Privacy (unit: one record; neighbours: add/remove; proved mode): as for Tang. A record touches one slot, whose
distribution moves inside the simplex, and restricting it to the public V_pub keeps it in the sub-simplex: sqrt(2) in L2
on the sum. Normalising after averaging (eq. 2) would have no such bound, and the noise of eq. 3 or of line 8 is not the
noise of Table 4's epsilon; this file adds the noise to the sum. An empty slot's private prompt is the public prompt, so
it answers with p_base.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.harness.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.harness.mechanism.generation import (
    PromptWriter,
    ReleasedText,
    check_positive,
    public_log_probs,
    public_vocabulary,
)
from dpicl.harness.privacy import accountants
from dpicl.harness.privacy.events import parallel
from dpicl.harness.privacy.primitives import GaussianSum
from dpicl.harness.privacy.private_set import PrivateSet, sampling_rate

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask


@dataclass(frozen=True)
class PTA(DemonstrationMechanism):
    """Options, with the paper's symbols: slots M, examples_per_slot N, tokens T, top_k k, top_p p, alpha."""

    name = "pta"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Yamasaki et al., ICML 2025"
    published = {
        "agnews": {"slots": 10, "examples_per_slot": 2, "tokens": 100},
        "dbpedia": {"slots": 40, "examples_per_slot": 2, "tokens": 100},
        "trec": {"slots": 80, "examples_per_slot": 1, "tokens": 15},
        "ginc": {"slots": 5, "examples_per_slot": 4, "tokens": 10},
    }

    slots: int = 20
    examples_per_slot: int = 1
    tokens: int = 50
    top_k: int | None = 10
    top_p: float | None = None
    alpha: float = 1.0
    base: bool = True
    record_tokens: int | None = None
    style: str = "completion"

    def __post_init__(self) -> None:
        check_positive(
            slots=self.slots,
            examples_per_slot=self.examples_per_slot,
            tokens=self.tokens,
            top_k=self.top_k,
            top_p=self.top_p,
            alpha=self.alpha,
            record_tokens=self.record_tokens,
        )

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        release = GaussianSum(knob).event
        expected = self.slots * self.examples_per_slot
        return parallel(
            {
                group: dp.SelfComposedDpEvent(
                    dp.PoissonSampledDpEvent(sampling_rate(expected, sizes.records[group], group), release),
                    self.tokens * shots,
                )
                for group, shots in sizes.shots.items()
            }
        )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The estimate, not the upper bound, of the PRV accountant for Poisson sampling (appendix D)."""
        return accountants.epsilon(self.events(knob, sizes), delta).estimate

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "generation":
            return (
                "a demonstration is an input with its output here, and the paper releases one text for a public label"
            )
        return None

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return context.for_each_shot(lambda label: self._write(label, private, context))

    def _write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model, group = context.model, private.partition_of(label)
        mechanism = GaussianSum(context.knob)
        expected = self.slots * self.examples_per_slot
        sampler = private.poisson_slots(
            expected, self.slots, partition=group, releases=mechanism.event, times=self.tokens
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, self.record_tokens, self.style)
        public_and_base = model.decoder([prompts.public, []])
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                public_and_base.append(text.tokens[-1])
            public, base = public_log_probs(public_and_base.log_probs, model)
            if not self.base:
                base = np.zeros_like(public)
            allowed = public_vocabulary(public, self.top_k, self.top_p)

            sample = sampler.draw()
            filled = [[*prompts.private(slot), *text.tokens] for slot in sample.slots if slot]
            rows = np.tile(self.amplified(public[None], public, base)[:, allowed], (self.slots, 1))
            if filled:
                private_rows = model.next_token_log_probs(filled).numpy()
                rows[: len(filled)] = self.amplified(private_rows, public, base)[:, allowed]
            text.append(int(allowed[mechanism.choose(rows, sample)]))
        return text.demonstration(label)

    def amplified(self, private: np.ndarray, public: np.ndarray, base: np.ndarray) -> np.ndarray:
        """float64[B, V]: softmax(log p_base + alpha (log p_priv - log p_pub)), each of the B rows on its own (lines
        5-6).

        A token that the public prompt gives probability 0 gets weight 0: it is outside V_pub anyway. A row that is not
        finite stays so, and counts as 0 in the primitive.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            possible = np.isfinite(public) & np.isfinite(base)
            ratio = np.subtract(private, public, out=np.full(private.shape, -np.inf), where=possible)
            logits = np.where(possible, base + self.alpha * ratio, -np.inf)
            weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
            return weights / weights.sum(axis=-1, keepdims=True)
