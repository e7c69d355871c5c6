"""vote: every token is the noisy plurality vote of prompts that hold private records.

One token of a demonstration with label y:

1. The public prompt (no record) gives the ``top_k`` likeliest next tokens. Only these can win, so the list is public.
2. Every record of class y is sampled with rate slots / n_y (Poisson), and gets a slot of its own.
3. Each slot's prompt votes for its favourite among the ``top_k`` tokens.
4. The token with the most votes after Gaussian noise is written.

Unit: one record; neighbours: add or remove one. One record adds one ballot and changes no other: 1 in L2, which
`GaussianSum` takes as its sensitivity where every record has its own slot. Event: tokens x shots of y x Poisson(slots / n_y, Gaussian), in parallel
over classes, since a record has one label. The ballots are those of Wu et al. ("Privacy-preserving in-context learning
for large language models", ICLR 2024); that they choose the tokens of demonstrations follows Tang et al. (ICLR 2024).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from dp_accounting import dp_event as dp

from dpicl import (
    Context,
    Demonstration,
    DemonstrationMechanism,
    GaussianSum,
    Knob,
    PrivateSet,
    PromptWriter,
    PublicTask,
    ReleasedText,
    Sizes,
    parallel,
    public_vocabulary,
    sampling_rate,
)


@dataclass(frozen=True)
class Vote(DemonstrationMechanism):
    """slots: M, prompts that vote, in expectation. tokens: T, the longest demonstration. top_k: public candidates for each token.
    record_tokens: every record's text is cut to its first so many tokens (None: whole)."""

    name = "vote"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Example of this project, after Wu et al. and Tang et al. (both ICLR 2024)"

    slots: int = 8
    tokens: int = 12
    top_k: int = 10
    record_tokens: int | None = 24

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        def of_one_class(group: str | None, shots: int) -> dp.DpEvent:
            rate = sampling_rate(self.slots, sizes.records[group], group)
            token = dp.PoissonSampledDpEvent(rate, GaussianSum(knob).event)
            return dp.SelfComposedDpEvent(token, self.tokens * shots)

        return parallel({group: of_one_class(group, shots) for group, shots in sizes.shots.items()})

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return context.for_each_shot(lambda label: self._write(label, private, context))

    def skip(self, task: PublicTask) -> str | None:
        return "its records are pairs of input and output" if task.kind == "generation" else None

    def _write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model, noisy = context.model, GaussianSum(context.knob, own_slots=True)
        sampler = private.poisson_slots(
            self.slots, None, partition=private.partition_of(label), releases=noisy.event, times=self.tokens
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, self.record_tokens, "completion")
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            public = model.next_token_log_probs([[*prompts.public, *text.tokens]], prompts.prefix).numpy()[0]
            allowed = public_vocabulary(public, top_k=self.top_k, top_p=None)
            sample = sampler.draw()
            asked = [[*prompts.private(slot), *text.tokens] for slot in sample.slots]
            favourites = model.next_token_log_probs(asked, prompts.prefix).numpy()[:, allowed].argmax(axis=1)
            votes = np.eye(len(allowed))[favourites]
            text.append(int(allowed[noisy.choose(votes, sample)]))
        return text.demonstration(label)
