"""Keyword space aggregation by the exponential mechanism (KSA-EM): Wu et al., "Privacy-Preserving In-Context Learning
for Large Language Models", ICLR 2024 (arXiv 2305.01639).

For every query:

1. public: the words of the query, without stopwords, are the list of possible suggestions;
2. sample records and assign them to M slots (with N = 1 every sampled record has a slot of its own, M in expectation,
   but not with `partition: once`); every slot writes an answer;
3. for each word of the list: how many of the M answers hold it;
4. the k words with the largest counts under Gumbel noise of temperature tau, in order;
5. the model answers the query, in public, with these words as suggestions.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record is sampled with q = MN/n and touches one slot,
whose answer is replaced: every count moves by at most 1, some up and others down. Each of the k choices is
epsilon'-bounded range with epsilon' = 2/tau. Where every record has its own slot it adds one answer, so every count
rises by 0 or 1: epsilon' = 1/tau. All k are charged, also where the list is shorter. Unlike the paper, which draws the
k words at once (joint exponential mechanism), and the code of Joo et al. 2025, whose list is every word of a private
answer: no epsilon at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dpicl import (
    AnswerContext,
    AnswerMechanism,
    FinalPrompt,
    Knob,
    NoisyTopK,
    PublicTask,
    Query,
    Sample,
    Sizes,
    check_positive,
    sampled_exponential_epsilon,
    sampling_rate,
    split_words,
    write_request,
)
from dpicl import dp_event as dp

#: The paper's request, by task; other tasks use the last one.
REQUESTS = {
    "samsum": "Summarize the above dialogue",
    "xsum": "Summarize the above document",
    "chatdoctor": "Answer the above question",
}
SUGGESTIONS = "{request} with the following word suggestions ranked by their frequency from high to low: [{words}]"


@dataclass(frozen=True)
class KSA(AnswerMechanism):
    """words: k, how many are suggested."""

    name = "ksa"
    knob = Knob("temperature", low=0.02, high=10_000.0, non_private=0.0)
    source = "Wu et al., ICLR 2024, arXiv 2305.01639"
    summary = "answers by the model after words that many slots used, chosen with noise"
    needs = "texts"
    published = {"samsum": {"slots": 100, "examples_per_slot": 4, "words": 10}}

    words: int = 10

    slot_per_record = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive(words=self.words)

    def skip(self, task: PublicTask) -> str | None:
        if task.kind == "generation":
            return None
        return "it suggests words for a text; where the answers are few and public, voting chooses among them"

    def release(self, knob: float) -> dp.DpEvent:
        return self._top(knob).event

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """autodp's answer for exponential mechanisms with epsilon0 = 1/tau, as in the authors' notebook. They draw all
        k words as one choice; here each of the k draws counts as one."""
        if knob == 0:
            return math.inf
        expected = self.slots * self.examples_per_slot
        rate = 1.0 if self.partition == "once" else sampling_rate(expected, sizes.records[None])
        return sampled_exponential_epsilon(1 / knob, rate, self.words * (sizes.queries or 1), delta)

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> FinalPrompt:
        task, public = context.task, public_words(query.text)
        if not public:
            return write_request(task, query, request="")
        answers = [words_of(text) for text in context.reader.texts(query, sample.slots)]
        rows = np.array([[word in text for word in public] for text in answers], dtype=np.float64)
        chosen = self._top(context.knob).choose(rows.reshape(-1, len(public)), sample)
        request = REQUESTS.get(task.name, REQUESTS["chatdoctor"])
        words = ", ".join(public[at] for at in chosen)
        return write_request(task, query, SUGGESTIONS.format(request=request, words=words))

    def _top(self, knob: float) -> NoisyTopK:
        return NoisyTopK(self.words, knob, self.scheme.own_slots)


def public_words(text: str) -> tuple[str, ...]:
    """The words of a query that may be suggested, each once, in the order of the text; stopwords are left out."""
    return tuple(word for word in dict.fromkeys(_split(text)) if word not in stopwords())


def words_of(text: str) -> frozenset[str]:
    """All words of a text (`split_words`), in lower case."""
    return frozenset(_split(text))


@cache
def stopwords() -> frozenset[str]:
    """mechanisms/stopwords.txt, a public list."""
    lines = (Path(__file__).parent / "stopwords.txt").read_text(encoding="utf-8").splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())


def _split(text: str) -> list[str]:
    return split_words(text.lower())
