"""Private voting: Wu et al., "Privacy-Preserving In-Context Learning for Large Language Models", ICLR 2024 (arXiv
2305.01639), with Gaussian noise.

For every query:

1. sample records and assign them to M slots; a slot's records are the examples of its prompt. With N = 1 every sampled
   record has a slot of its own, M in expectation (not with `partition: once`);
2. every slot votes for one public candidate. Classification: the label with the highest log-probability over all its
   tokens, after contextual calibration inside the slot (``calibrate``). Extraction: the first line that the model
   writes, if it is a public candidate: a span of the query text, or a keyword of the task's list. A slot whose numbers
   are not finite, or whose line is no candidate, abstains;
3. the answer is the argmax over candidates of the ballots of all slots + N(0, 2 sigma^2), or + N(0, sigma^2) where
   every record has its own slot.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose ballot is one corner of the simplex or nothing: the counts move by at most sqrt(2) in L2. Where every record has
its own slot it adds one ballot: 1 in L2. An answer is one Gaussian release. Calibration looks at one slot's examples
and public inputs alone, so it changes no sensitivity. Unlike the paper, which reports the noisy maximum of other noise,
and its code, which samples a fixed number of records without replacement and does not calibrate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpicl import (
    AnswerContext,
    AnswerMechanism,
    GaussianSum,
    Knob,
    PublicTask,
    Query,
    Sample,
    Sizes,
    check_positive,
    fold_text,
    unknown_name,
)
from dpicl import dp_event as dp

CANDIDATES = ("spans", "keywords")


@dataclass(frozen=True)
class Voting(AnswerMechanism):
    """calibrate: contextual calibration of the ballots (classification); the paper has none.

    candidates: what an extraction may answer: 'spans' of 1 to ``span_words`` words of the query, or the task's public
    'keywords'.
    """

    name = "voting"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Wu et al., ICLR 2024, arXiv 2305.01639"
    summary = "answers by the label with most noisy votes of slots"
    published = {"agnews": {"slots": 10, "examples_per_slot": 4, "calibrate": False}}

    calibrate: bool = True
    candidates: str = "spans"
    span_words: int = 4

    slot_per_record = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(span_words=self.span_words)
        if self.candidates not in CANDIDATES:
            raise unknown_name("kind of candidates", self.candidates, CANDIDATES)

    def skip(self, task: PublicTask) -> str | None:
        if task.chooses or task.kind == "extraction":
            return None
        return "it votes among few public answers, and a text has too many; esa, ksa and sga are for texts"

    def release(self, knob: float) -> dp.DpEvent:
        return self._sum(knob).event

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float | None:
        """The classical Gaussian mechanism for one query without amplification, as Xia et al. 2025 audit it: noise of
        2 sqrt(ln(1.25/delta)) / epsilon on every count. No theorem from epsilon = 1 on."""
        return math.sqrt(2 * math.log(1.25 / delta)) / knob if knob > 0 else math.inf

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str:
        if context.task.chooses:
            choices = context.task.labels
            votes = self._votes(query, sample, context)
            rows = ballots(votes, len(choices))
        else:
            choices = self._phrases(query, context.task)
            if not choices:
                return ""
            places = {_normal(phrase): at for at, phrase in reversed(list(enumerate(choices)))}
            lines = [
                (text.splitlines() or [""])[0] for text in context.reader.texts(query, sample.slots)
            ]
            rows = ballots([places.get(_normal(line), -1) for line in lines], len(choices))
        return choices[self._sum(context.knob).choose(rows, sample)]

    def _votes(self, query: Query, sample: Sample, context: AnswerContext) -> np.ndarray:
        """int64[M]: the label that each slot votes for; -1 abstains."""
        if not sample.slots:
            return np.zeros(0, dtype=np.int64)
        scores = context.reader.label_scores(query, sample.slots, calibrated=self.calibrate)
        return np.where(np.isfinite(scores).all(axis=1), scores.argmax(axis=1), -1)

    def _sum(self, knob: float) -> GaussianSum:
        return GaussianSum(knob, self.scheme.own_slots)

    def _phrases(self, query: Query, task: PublicTask) -> tuple[str, ...]:
        return spans(query.text, self.span_words) if self.candidates == "spans" else task.labels


def ballots(votes: Sequence[int] | np.ndarray, candidates: int) -> np.ndarray:
    """float64[M, K]: a 1 where each slot votes; -1 abstains."""
    chosen = np.asarray(votes, dtype=np.int64)[:, None]
    return (chosen == np.arange(candidates)).astype(np.float64)


def spans(text: str, longest: int) -> tuple[str, ...]:
    """All runs of 1 to ``longest`` words of a text, each once: short ones first, then in the order of the text."""
    words = text.split()
    matches = (
        " ".join(words[at : at + length])
        for length in range(1, longest + 1)
        for at in range(len(words) - length + 1)
    )
    return tuple(dict.fromkeys(matches))


def _normal(phrase: str) -> str:
    """Upper and lower case, Unicode forms, and blanks, do not make another answer."""
    return " ".join(fold_text(phrase).split())
