"""Three small mechanisms that are right, step by step. Each broken one (mistakes.py) gets one step wrong."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.accounting.events import gaussian, parallel
from dpicl.mechanism.bases import (
    AnswerContext,
    AnswerMechanism,
    Demonstration,
    DemonstrationMechanism,
    Knob,
)
from dpicl.mechanism.generation import (
    PromptWriter,
    ReleasedText,
    public_log_probs,
    public_vocabulary,
)
from dpicl.privacy.primitives import SIMPLEX_DIAMETER, project_sub_simplex
from dpicl.privacy.private_set import Sample, sampling_rate


@dataclass(frozen=True)
class SoundVoting(AnswerMechanism):
    """Every slot votes for its likeliest label; the argmax of the noisy counts is the answer."""

    name = "sound_voting"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)

    def skip(self, task):
        return None if task.kind == "classification" else "it votes for labels"

    def release(self, knob):
        return gaussian(knob)

    def answer(self, query, sample, context):
        counts = self.ballots(query, sample.slots, context).sum(axis=0)
        return context.task.labels[self.winner(counts, sample, context)]

    def ballots(self, query, slots, context) -> np.ndarray:
        """float64[slots, labels]: one at the likeliest label of each slot."""
        scores = context.reader.label_scores(query, slots, calibrated=False)
        rows = np.zeros(scores.shape)
        says = np.isfinite(scores).all(axis=1)
        rows[says, scores[says].argmax(axis=1)] = 1.0
        return rows

    def winner(self, counts: np.ndarray, sample: Sample, context: AnswerContext) -> int:
        return int(np.argmax(self.noisy(counts, sample, context)))

    def noisy(self, counts: np.ndarray, sample: Sample, context: AnswerContext) -> np.ndarray:
        return sample.spend(self.release(context.knob)).noisy_sum(counts, SIMPLEX_DIAMETER)


@dataclass(frozen=True)
class SoundOwnSlots(SoundVoting):
    """Where every sampled record has a slot of its own, it adds one ballot and changes no other."""

    name = "sound_own_slots"
    slot_per_record = True

    def noisy(self, counts: np.ndarray, sample: Sample, context: AnswerContext) -> np.ndarray:
        bound = 1.0 if self.scheme.own_slots else SIMPLEX_DIAMETER
        return sample.spend(self.release(context.knob)).noisy_sum(counts, bound)


@dataclass(frozen=True)
class SoundTokens(DemonstrationMechanism):
    """Token by token: the argmax of the noisy sum of the slots' distributions over a public vocabulary."""

    name = "sound_tokens"
    knob: ClassVar[Knob | None] = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    slots: int = 5
    tokens: int = 5
    top_k: int = 10
    #: Samples that are charged for a token.
    draws = 1

    def skip(self, task):
        return "it writes one text for a label" if task.kind == "generation" else None

    def events(self, knob, sizes):
        def one(group):
            return dp.PoissonSampledDpEvent(
                sampling_rate(self.slots, sizes.records[group], group), gaussian(knob)
            )

        times = self.tokens * self.draws
        return parallel(
            {g: dp.SelfComposedDpEvent(one(g), times * shots) for g, shots in sizes.shots.items()}
        )

    def release(self, private, context):
        return context.for_each_shot(lambda label: self.write(label, private, context))

    def write(self, label, private, context) -> Demonstration:
        model, group = context.model, private.partition_of(label)
        sampler = private.poisson_slots(
            self.slots,
            self.slots,
            partition=group,
            releases=gaussian(context.knob),
            times=self.tokens * self.draws,
        )
        prompts = PromptWriter(context.task, model, label, self.tokens, None, "completion")
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            public = public_log_probs(
                model.next_token_log_probs([[*prompts.public, *text.tokens]]), model
            )[0]
            sample, slots = self.draw_slots(sampler, private, group)
            prompt_rows = [[*prompts.private(slot), *text.tokens] for slot in slots]
            rows = np.exp(model.next_token_log_probs(prompt_rows).double().numpy())
            if self.should_stop(rows, model):
                break
            allowed = self.vocabulary(public, rows)
            text.append(int(allowed[np.argmax(self.noisy(rows[:, allowed], sample, context.knob))]))
        return text.demonstration(self.label(label, sample))

    def draw_slots(self, sampler, private, group):
        sample = sampler.draw()
        self.see(sample.slots)
        return sample, sample.slots

    def see(self, slots):
        """For mistakes that keep something of what was sampled."""

    def should_stop(self, rows, model):
        return False

    def vocabulary(self, public, rows):
        return public_vocabulary(public, self.top_k, None)

    def total(self, rows, sample) -> np.ndarray:
        """float64[allowed]: the sum over slots, which a record moves by root two at most."""
        return project_sub_simplex(rows).sum(axis=0)

    def noisy(self, rows, sample, knob):
        return sample.spend(gaussian(knob)).noisy_sum(self.total(rows, sample), SIMPLEX_DIAMETER)

    def label(self, label, sample):
        return label


@dataclass(frozen=True)
class SoundLabels(SoundTokens):
    """The same, with noise of each label's own."""

    name = "sound_labels"
    knob_per_label = True

    def release(self, private, context):
        return context.for_each_shot(
            lambda label: self.write(label, private, context.for_label(label))
        )
