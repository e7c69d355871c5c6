"""Echo: how likely a text is under an n-gram model of the released texts. Meeus et al. 2025, "The
canary's echo: auditing privacy risks of LLM-generated synthetic text", ICML (arXiv 2502.14921):
their data-based attack, whose n-gram model has n = 2.

Nothing is asked and no language model is run: who has only the released texts can do it. The score
of a candidate is the mean over its n-grams of ln P(word | the words before it), each with one count
more than was seen (Laplace), less the same under the texts of all other candidates: so common words
speak for nobody. Unlike theirs, which compares with synthetic texts of reference models that were
trained without the candidate: here other releases would cost as much as the attack itself.

Members are ordinary records; `exposure` inserts canaries. Letters count without case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.membership import explain_no_answer, membership_finding
from dpicl.attacks.targets import Target
from dpicl.core.scripts import fold_text, split_words
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Mechanism

Gram = tuple[str, ...]
EMPTY: Mapping[Gram, int] = MappingProxyType({})


@dataclass(frozen=True)
class Echo(Attack):
    """n: words of an n-gram. generations: releases of a mechanism with noise. trials: of one that
    shows records."""

    name = "echo"
    source = "Meeus et al. 2025, ICML, arXiv 2502.14921"
    summary = "compares texts with an n-gram model of the released demonstrations"
    positive_control = "broken_demonstrations"

    n: int = 2
    generations: int = 5
    trials: int = 15

    def __post_init__(self) -> None:
        self.require_at_least(n=1, generations=1, trials=1)
        self.require_at_most(n=10)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        return explain_no_answer(mechanism, task, answers="it releases answers, and no texts")

    def run(self, setup: AttackSetup) -> AttackFinding:
        return membership_finding(
            setup, self.log_likelihood_ratios, releases=self.generations, shown=self.trials
        )

    def log_likelihood_ratios(self, target: Target, candidates: Sequence[Record]) -> list[float]:
        """Of every candidate's text: mean natural logarithm, released texts against the other
        candidates."""
        released = NGrams.of(self._grams(text) for text in target.prompt().texts)
        texts = [self._grams(record.text) for record in candidates]
        everybody = NGrams.of(texts)
        scores = []
        for grams in texts:
            by_others = everybody.mean_log_prob(grams, Counter(grams))
            scores.append(released.mean_log_prob(grams) - by_others)
        return scores

    def _grams(self, text: str) -> list[Gram]:
        folded = split_words(fold_text(text))
        starts = range(len(folded) - self.n + 1)
        return [tuple(folded[start : start + self.n]) for start in starts]


@dataclass
class NGrams:
    """Counts of n-grams, and of the first n - 1 words of each; vocabulary: their last words."""

    counts: Counter[Gram] = field(default_factory=Counter)
    starts: Counter[Gram] = field(default_factory=Counter)
    vocabulary: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, texts: Iterable[Sequence[Gram]]) -> NGrams:
        """Of the n-grams of several texts."""
        model = cls()
        for grams in texts:
            model.counts.update(grams)
            model.starts.update(gram[:-1] for gram in grams)
            model.vocabulary.update(gram[-1] for gram in grams)
        return model

    def mean_log_prob(
        self,
        grams: Sequence[Gram],
        left_out: Mapping[Gram, int] = EMPTY,
    ) -> float:
        """Mean of ln P(word | words before it), 0 without an n-gram. left_out: counts of a text
        that the model is to be without."""
        starts = Counter[Gram]()
        for gram, count in left_out.items():
            starts[gram[:-1]] += count
        total = 0.0
        for gram in grams:
            times = self.counts[gram] - left_out.get(gram, 0) + 1
            started = self.starts[gram[:-1]] - starts[gram[:-1]]
            total += math.log(times / (started + len(self.vocabulary) + 1))
        return total / max(1, len(grams))
