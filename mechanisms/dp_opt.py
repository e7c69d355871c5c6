"""DP-OPT: Hong et al., "DP-OPT: Make Large Language Model Your Privacy-Preserving Prompt Engineer", ICLR 2024 (arXiv
2312.03724). What is released is an instruction, which takes the place of the task's own; no demonstration.

For each of n instructions, token by token:

1. sample records; every one has a slot of its own. The student, which is the model with the task's own instruction,
   answers it;
2. the slot's prompt shows the record as one that the student is right or wrong about, with its answer and the right
   one, and asks for a better instruction; the tokens released so far follow. The slot votes for its next token, a
   sample of its distribution by public randomness that all slots share (temperature 0: the most likely one);
3. the token is a draw from the domain of the k most frequent votes, under Gumbel noise, or nothing
   (dpicl.privacy.limited_domain). After nothing, the same token is tried again; more than ``retries`` failures
   end the instruction.

Then a fresh sample of records, the holdout, chooses: the task's own instruction and the n new ones, each with the
number of records that the student answers rightly with it, under Gumbel noise.

Privacy (unit: one record; neighbours: add/remove; proved mode). A try runs on its own Poisson sample of rate q =
slots/N, N all private records. One record more adds one slot and so one vote: the student's answer and the vote are
functions of this record, of what was released before and of public randomness. The choice costs as much as an
epsilon0-bounded-range choice and a (0, delta0) mechanism, epsilon0 = 1/temperature (proved in limited_domain.py). All T
+ ``retries`` tries of an instruction are charged, also where it ends earlier. In the choice among instructions one
record more adds 0 or 1 to every count: epsilon0-bounded range, on a Poisson sample of rate ``holdout``/N of all
records. It is charged besides: nothing rests on the holdout being disjoint from the records that wrote, and its rate is
that of its own sample. Unlike the paper and its code: one record a slot and not 5 (a replaced token would move two
counts: twice the range), Poisson samples and not samples of a fixed size, votes with shared randomness; and there the
release counts as (epsilon0, delta0)-DP in autodp's amplification, the holdout is set apart by a random choice, and the
larger one of both costs counts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl import (
    Context,
    DemonstrationMechanism,
    Knob,
    LimitedDomain,
    NoisyTopK,
    Prefix,
    PrivateSet,
    PromptTooLong,
    PublicTask,
    Record,
    ReleasedPrompt,
    ReleasedText,
    Sample,
    Sizes,
    UsageError,
    check_positive,
    cut_record,
    dp_opt_epsilon,
    label_endings,
    public_log_probs,
    sampling_rate,
)
from dpicl import dp_event as dp

#: The prompt that asks for an instruction, and what a new one is to be like; the words are ours.
HEAD = "A student follows this instruction:\n{instruction}\n\n"
RIGHT = "The student is right here:\n{query}{answer}\n\n"
WRONG = "The student is wrong here:\n{query}{answer}\nThe right answer is:{right}\n\n"
TAIL = "{wish}\nBetter instruction:"
WISHES = (
    "Write an instruction with which the student is right every time.",
    "Write a short and clear instruction for the student.",
    "Write an instruction that says how the answers differ from each other.",
    "Write an instruction that says what the student must look for.",
)


@dataclass(frozen=True)
class DPOpt(DemonstrationMechanism):
    """Options, with the paper's symbols: slots, expected records of a sample. instructions: n. tokens: T, of which the
    first ``least`` do not end the text. retries: failures of an instruction. domain: k. failure: delta0.
    vote_temperature: of the votes. holdout: expected records that choose (None: as many as ``slots``). record_tokens:
    every record is cut to its first so many tokens (None: whole)."""

    name = "dp_opt"
    knob = Knob("temperature", low=0.02, high=10_000.0, non_private=0.0)
    source = "Hong et al., ICLR 2024, arXiv 2312.03724"
    summary = "writes an instruction, token by token, by noisy votes of records"
    needs = "log-probabilities"

    slots: int = 40
    instructions: int = 2
    tokens: int = 20
    least: int = 5
    retries: int = 4
    domain: int = 10
    failure: float = 1e-7
    vote_temperature: float = 1.1
    holdout: int | None = None
    record_tokens: int | None = 48

    def __post_init__(self) -> None:
        self.require_at_least(
            slots=1, instructions=1, tokens=1, least=0, retries=0, domain=1, vote_temperature=0
        )
        self.require_at_most(slots=100_000, instructions=10_000, retries=10_000)
        check_positive(holdout=self.holdout, record_tokens=self.record_tokens)
        if not 0 < self.failure < 1:
            raise UsageError(
                f"Option failure must be a probability above 0 and below 1, not {self.failure}."
            )

    @property
    def by_label(self) -> bool:
        """No: samples are of all private records."""
        return False

    def skip(self, task: PublicTask) -> str | None:
        if task.kind in ("classification", "extraction"):
            return None
        return (
            "it writes an instruction from answers that are right or wrong, and a text is neither"
        )

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        def sample(expected: float, release: dp.DpEvent) -> dp.DpEvent:
            return dp.PoissonSampledDpEvent(sampling_rate(expected, sizes.records[None]), release)

        tries = dp.SelfComposedDpEvent(
            sample(self.slots, self._token(knob).event), self.instructions * self._tries
        )
        return dp.ComposedDpEvent((tries, sample(self._holdout, self._best(knob).event)))

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """autodp's answer for all tries, every failure charged, as in the authors' code; their choice on other records
        costs no more."""
        steps, rate = (
            self.instructions * self._tries,
            sampling_rate(self.slots, sizes.records[None]),
        )
        if knob == 0 or steps * rate * self.failure >= delta:
            return math.inf
        return dp_opt_epsilon(1 / knob, self.failure, rate, steps, delta)

    def release(self, private: PrivateSet, context: Context) -> ReleasedPrompt:
        student = Student(context, self.record_tokens)
        description = context.task.config.description
        written = [
            self._instruction(number, student, private, context)
            for number in range(self.instructions)
        ]
        candidates = list(
            dict.fromkeys(
                [
                    description,
                    *(text + description[len(description.rstrip()) :] for text in written if text),
                ]
            )
        )
        best = self._best(context.knob)
        sample = private.poisson_slots(
            self._holdout, None, partition=None, releases=best.event
        ).draw()
        records = student.records(sample)
        rows = [student.check_answers(instruction, records) for instruction in candidates]
        (chosen,) = best.choose(
            np.array(rows, dtype=np.float64).reshape(len(candidates), -1).T, sample
        )
        context.progress(len(context.shots))
        return ReleasedPrompt(candidates[chosen])

    def _instruction(
        self, number: int, student: Student, private: PrivateSet, context: Context
    ) -> str:
        """One text, in one line; '' where no token was released."""
        model, token = context.model, self._token(context.knob)
        generator = context.streams.stream(f"dp_opt: instruction {number}")
        prompts = MetaPrompts(
            student, WISHES[int(generator.integers(len(WISHES)))], room=self.tokens
        )
        sampler = private.poisson_slots(
            self.slots, None, partition=None, releases=token.event, times=self._tries
        )
        text, failures = ReleasedText(context.task, model), 0
        while not text.ended and len(text.tokens) < self.tokens and failures <= self.retries:
            luck = generator.gumbel(size=model.vocab_size)
            sample = sampler.draw()
            meta_prompts = prompts.of(student.records(sample))
            votes = np.full(len(meta_prompts), -1)
            if speaking := [at for at, prompt in enumerate(meta_prompts) if prompt is not None]:
                grown = [[*(meta_prompts[at] or ()), *text.tokens] for at in speaking]
                rows = model.next_token_log_probs(grown, prompts.prefix).numpy().astype(np.float64)
                if len(text.tokens) < self.least:
                    rows[:, model.eos_token_id] = -np.inf
                votes[speaking] = [self._vote(row, luck) for row in rows]
            chosen = token.choose(votes, model.vocab_size, sample)
            if chosen is None:
                failures += 1
            else:
                text.append(chosen)
        return " ".join(text.demonstration("").text.split())

    def _vote(self, row: np.ndarray, luck: np.ndarray) -> int:
        """The token that a slot votes for; -1 where its numbers are no probabilities."""
        if np.isnan(row).any() or np.isposinf(row).any() or not np.isfinite(row).any():
            return -1
        return int((row / self.vote_temperature + luck if self.vote_temperature else row).argmax())

    @property
    def _tries(self) -> int:
        """Of one instruction, all of which are charged."""
        return self.tokens + self.retries

    @property
    def _holdout(self) -> int:
        return self.holdout or self.slots

    def _token(self, knob: float) -> LimitedDomain:
        return LimitedDomain(knob, self.domain, self.failure)

    def _best(self, knob: float) -> NoisyTopK:
        return NoisyTopK(1, knob, own_slots=True)


class Student:
    """The model as it answers records by an instruction: each answer is a function of its own record."""

    def __init__(self, context: Context, record_tokens: int | None) -> None:
        self.task, self.model, self._record_tokens = context.task, context.model, record_tokens
        self.delimiter = self.task.config.target_delimiter
        self._endings = label_endings(self.task, self.model)
        self._writing = self.task.config.generation_kwargs
        room = max(map(len, self._endings)) if self._endings else self._writing.max_gen_toks
        self._limit = self.model.max_length - self.model.lead_tokens - room

    def records(self, sample: Sample) -> list[Record]:
        """The sampled records, one a slot, cut."""
        return [cut_record(record, self.model, self._record_tokens) for (record,) in sample.slots]

    def check_answers(self, instruction: str, records: Sequence[Record]) -> list[bool]:
        """Whether each record is answered rightly."""
        return [
            answer == record.label
            for answer, record in zip(self.answers(instruction, records), records, strict=True)
        ]

    def answers(self, instruction: str, records: Sequence[Record]) -> list[str]:
        """A label or the first line of a text for each record; '' where its prompt does not fit the model or the model
        fails."""
        head = self.task.icl_prefix((), instruction)
        prompts = [self.model.encode(head + self.task.query(record.text)) for record in records]
        fitting = [at for at, prompt in enumerate(prompts) if len(prompt) <= self._limit]
        texts = [""] * len(records)
        if fitting:
            prefix = self.model.prefix(self.model.encode(head)[: self._limit])
            for at, answer in zip(
                fitting, self._ask([prompts[at] for at in fitting], prefix), strict=True
            ):
                texts[at] = answer
        return texts

    def _ask(self, prompts: list[list[int]], prefix: Prefix) -> list[str]:
        if self._endings:
            rows = self.model.score([(prompt, self._endings) for prompt in prompts], prefix)
            return [
                self.task.labels[int(np.argmax(row))] if np.isfinite(row).all() else ""
                for row in rows
            ]
        room, stop = self._writing.max_gen_toks, self._writing.until
        texts = self.model.generate(prompts, room, stop, prefix, broken="empty")
        return [(text.strip().splitlines() or [""])[0] for text in texts]


class MetaPrompts:
    """The prompts that ask for a better instruction. Raises PromptTooLong where the public one does not fit, and
    ModelError where the model answers it with numbers that are not finite."""

    def __init__(self, student: Student, wish: str, room: int) -> None:
        model, task = student.model, student.task
        self._student, self._own = student, task.config.description
        self._head = HEAD.format(instruction=self._own.strip())
        self._tail = TAIL.format(wish=wish)
        self._limit = model.max_length - model.lead_tokens - room
        public = model.encode(self._head + self._tail)
        if len(public) > self._limit:
            raise PromptTooLong(
                f"The prompt that asks for an instruction of task {task.name} has {len(public)} tokens and {room} are"
                f" to be written, but model {model.identity.name} reads {model.max_length}; lower `tokens`."
            )
        public_log_probs(model.next_token_log_probs([public]), model)
        self.prefix = model.prefix(model.encode(self._head))

    def of(self, records: Sequence[Record]) -> list[list[int] | None]:
        """Each record's prompt; None where it does not fit the model."""
        prompts = []
        for record, answer in zip(records, self._student.answers(self._own, records), strict=True):
            query, delimiter = self._student.task.query(record.text), self._student.delimiter
            shown = (RIGHT if answer == record.label else WRONG).format(
                query=query, answer=delimiter + answer, right=delimiter + record.label
            )
            tokens = self._student.model.encode(self._head + shown + self._tail)
            prompts.append(tokens if len(tokens) <= self._limit else None)
        return prompts
