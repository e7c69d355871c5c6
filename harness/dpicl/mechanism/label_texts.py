"""The loop that Tang, PTA and PRISM share: a text for each label, written token by token from Poisson samples of its
records.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import parallel
from dpicl.core.errors import UsageError, require_known
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Sizes
from dpicl.mechanism.generation import (
    PromptWriter,
    ReleasedText,
    check_positive,
    check_style,
    public_log_probs,
    public_vocabulary,
)
from dpicl.mechanism.options import LATER_OPTION
from dpicl.privacy.primitives import GaussianSum
from dpicl.privacy.private_set import PrivateSet, Sample, sampling_rate

if TYPE_CHECKING:
    from dpicl.data.task import PublicTask

#: (log-probabilities [B, V] after the slots' prompts, float64[V] after the public one, the sample) -> the next token.
NextToken = Callable[[np.ndarray, np.ndarray, Sample], int]


@dataclass(frozen=True)
class LabelTexts(DemonstrationMechanism):
    """A subclass writes one text in `write`.

    dropped: labels that get no text, such as a class that is too small (the released code of Tang et al. drops TREC's
    Abbreviation, run_exp_trec.py). A public choice of the suite, which says nothing of the records.
    """

    knob_per_label = True

    dropped: tuple[str, ...] | None = field(
        default=None,
        kw_only=True,
        metadata={LATER_OPTION: True},
    )

    @abstractmethod
    def write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        """One text of the label; ``context.knob`` is that of the label."""

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        return context.for_each_shot(
            lambda label: self.write(label, private, context.for_label(label))
        )

    def shot_labels(self, task: PublicTask) -> Sequence[str]:
        require_known("label", self.dropped or (), task.labels)
        if not (labels := [label for label in task.labels if label not in (self.dropped or ())]):
            raise UsageError(f"`dropped` leaves no label of {task.name}; name fewer.")
        return labels

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "generation":
            return None
        return "a demonstration is an input with its output here, and the paper releases one text for a public label"


def compose_labels(
    sizes: Sizes,
    expected: float,
    release: dp.DpEvent,
    times: int,
) -> dp.DpEvent:
    """The event of all shots: each one draws ``times`` Poisson samples of ``expected`` records of its label, and makes
    ``release`` from each sample. Labels are disjoint and compose in parallel."""
    events = {}
    for group, shots in sizes.shots.items():
        rate = sampling_rate(expected, sizes.records[group], group)
        events[group] = dp.SelfComposedDpEvent(
            dp.PoissonSampledDpEvent(rate, release), times * shots
        )
    return parallel(events)


@dataclass(frozen=True)
class OneSampleTexts(LabelTexts):
    """All tokens of a text are released from one Poisson sample of ``prompts`` records in expectation (s), each in a
    prompt of its own. A subclass says how the next token is released (`next_token`)."""

    prompts: int = 64
    tokens: int = 50
    record_tokens: int | None = None
    style: str = "chat"

    def __post_init__(self) -> None:
        check_positive(prompts=self.prompts, tokens=self.tokens, record_tokens=self.record_tokens)
        check_style(self.style)

    @abstractmethod
    def text_event(self, knob: float) -> dp.DpEvent:
        """Everything that one text releases from its sample."""

    @abstractmethod
    def next_token(self, context: Context) -> NextToken:
        """How the tokens of one text are released, in order."""

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return compose_labels(sizes, self.prompts, self.text_event(knob), 1)

    def write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model, next_token = context.model, self.next_token(context)
        prompts = PromptWriter(
            context.task, model, label, self.tokens, self.record_tokens, self.style
        )
        sample = private.poisson_slots(
            self.prompts,
            None,
            partition=private.partition_of(label),
            releases=self.text_event(context.knob),
        ).draw()
        public = model.decoder([prompts.public], prompts.prefix)
        private_rows = model.decoder(
            [prompts.private(slot) for slot in sample.slots], prompts.prefix
        )
        text = ReleasedText(context.task, model)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                public.append(text.tokens[-1])
                private_rows.append(text.tokens[-1])
            public_row = public_log_probs(public.log_probs, model)[0]
            # a model server may show the likeliest tokens only
            known = np.flatnonzero(public_row > -np.inf)
            if len(known) == len(public_row):
                text.append(next_token(private_rows.log_probs.numpy(), public_row, sample))
            else:
                rows = private_rows.listed(known.tolist()).numpy()[:, known]
                text.append(int(known[next_token(rows, public_row[known], sample)]))
        return text.demonstration(label)


@dataclass(frozen=True)
class NoisyTokens(LabelTexts):
    """Every token is the argmax over a public vocabulary of a noisy sum of distributions, one for each slot of a fresh
    sample. A subclass says what a slot's distribution is.

    With one example a slot every sampled record has a slot of its own (`own_slots`): one record adds one distribution,
    1 in L2, and there are no empty slots, so nothing stands in for them. With more, records share ``slots`` slots, a
    record replaces one distribution, sqrt(2) in L2, and an empty slot has the public prompt's.
    """

    needs = "log-probabilities"

    slots: int = 20
    examples_per_slot: int = 1
    tokens: int = 50
    top_k: int | None = 100
    top_p: float | None = None
    record_tokens: int | None = None
    style: str = "completion"

    def __post_init__(self) -> None:
        names = ("slots", "examples_per_slot", "tokens", "top_k", "top_p", "record_tokens")
        check_positive(**{name: getattr(self, name) for name in names})
        check_style(self.style)

    @property
    def own_slots(self) -> bool:
        """Whether every sampled record has a slot of its own."""
        return self.examples_per_slot == 1

    @abstractmethod
    def public_prompts(self, prompt: list[int]) -> list[list[int]]:
        """The public prompts that are read along with the text; the first is ``prompt``, the label's."""

    @abstractmethod
    def distributions(
        self,
        rows: np.ndarray,
        public: np.ndarray,
        allowed: np.ndarray,
    ) -> np.ndarray:
        """float64[B, K]: the weights of the K ``allowed`` tokens, each row on its own.

        rows: log-probabilities [B, V] after the slots' prompts. public: float64[P, V], after the public prompts.
        """

    def votes(self, weights: np.ndarray, randomness: np.random.Generator) -> np.ndarray:
        """float64[M, K]: what the slots add to the sum, each row by its own weights; here these themselves.

        randomness: public, of this text. What is taken from it must not depend on the weights.
        """
        return weights

    def token_event(self, knob: float) -> dp.DpEvent:
        """Everything that one token releases from its sample."""
        return GaussianSum(knob).event

    def choose(
        self,
        knob: float,
        rows: np.ndarray,
        public: np.ndarray,
        sample: Sample,
        allowed: np.ndarray,
    ) -> int:
        """The next token. rows: float64[M, K], what the slots say. public: float64[K], what the public prompt says."""
        return GaussianSum(knob, self.own_slots).choose(rows, sample, allowed)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return compose_labels(
            sizes, self.slots * self.examples_per_slot, self.token_event(knob), self.tokens
        )

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        """The estimate, not the upper bound, of the PRV accountant for Poisson sampling (Tang: section 4.1; PTA:
        appendix D)."""
        from dpicl.accounting import accountants  # loads dp_accounting and prv_accountant

        return accountants.epsilon(self.events(knob, sizes), delta).estimate

    def write(self, label: str, private: PrivateSet, context: Context) -> Demonstration:
        model = context.model
        sampler = private.poisson_slots(
            self.slots * self.examples_per_slot,
            None if self.own_slots else self.slots,
            partition=private.partition_of(label),
            releases=self.token_event(context.knob),
            times=self.tokens,
        )
        prompts = PromptWriter(
            context.task, model, label, self.tokens, self.record_tokens, self.style
        )
        decoder = model.decoder(self.public_prompts(prompts.public), prompts.prefix)
        text = ReleasedText(context.task, model)
        randomness = context.streams.stream_of_shot(self.name)
        while not text.ended and len(text.tokens) < self.tokens:
            if text.tokens:
                decoder.append(text.tokens[-1])
            likeliest = public_log_probs(decoder.likeliest(self.top_k), model)
            allowed = public_vocabulary(likeliest[0], self.top_k, self.top_p)
            public = likeliest
            # a server has shown other tokens after another prompt
            if not (likeliest[:, allowed] > -np.inf).all():
                public = public_log_probs(decoder.listed(allowed.tolist()), model)

            sample = sampler.draw()
            filled = [[*prompts.private(slot), *text.tokens] for slot in sample.slots if slot]
            # Empty slots: all M slots but the filled ones; none where every record has its own.
            empty = self.distributions(public[:1], public, allowed)
            rows = np.tile(empty, (len(sample.slots), 1))
            if filled:
                private_rows = model.listed_log_probs(
                    filled, allowed.tolist(), prompts.prefix
                ).numpy()
                rows[: len(filled)] = self.distributions(private_rows, public, allowed)
            text.append(
                self.choose(
                    context.knob,
                    self.votes(rows, randomness),
                    empty[0],
                    sample,
                    allowed,
                )
            )
        return text.demonstration(label)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities of float64 rows of logits, each row on its own; a row that is not finite stays so, and counts as 0
    in the primitive."""
    # the order of a sum must not depend on how many rows there are
    logits = np.ascontiguousarray(logits)
    with np.errstate(invalid="ignore", over="ignore"):
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)
