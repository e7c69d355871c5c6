"""Private evolution for texts: Xie et al., "Differentially Private Synthetic Data via Foundation Model APIs 2: Text"
(Aug-PE), ICML 2024 (arXiv 2403.01749). The model is used as it is and never reads a private record.

For every label:

1. public: the model writes candidates from the public prompt, by sampling;
2. every private record of the label votes for the candidate whose public embedding is nearest to its own; a record
   without any text abstains;
3. counts + N(0, sigma^2); the N candidates with the largest noisy counts are the parents (``selection: rank``), or N of
   them are drawn by the noisy counts that reach H (``selection: draw``, as in Lin et al. 2024 for images);
4. public: the model writes variations of every parent, from a prompt that shows it. Parents and variations are the next
   candidates;
5. after R histograms the candidates with the largest noisy counts of the last one are the demonstrations.

Where labels are no groups of records (extraction), candidates of all labels stand in one histogram, and parents are
chosen label by label.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record of the label is in the one sample of the run
for certain (rate 1) and has a slot of its own: in each of R histograms it adds one vote to one count, and the votes of
others are what they were, since a vote depends on its own record and on candidates that were released before. So a
histogram moves by at most 1 in L2, and R of them are R Gaussian releases: mu = sqrt(R)/sigma, for any number of
texts of the label (``texts``), which the same histograms rank, and whatever n_y is. Labels are disjoint and compose in
parallel. Parents are post-processing of noisy counts by public randomness; candidates are written from public prompts
and released candidates. Unlike the released code, which makes the synthetic set's class sizes those of the private set,
and so releases these without noise: here labels are those of the shots, which are public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle
from typing import TYPE_CHECKING, Literal

import numpy as np
from dp_accounting import dp_event as dp

from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import Partition, Record
from dpicl.mechanism.bases import Context, Demonstration, DemonstrationMechanism, Knob, Sizes
from dpicl.mechanism.generation import PromptWriter, check_positive, check_style
from dpicl.mechanism.options import LATER
from dpicl.mechanism.public_candidates import find_nearest
from dpicl.mechanism.sampled_texts import write_texts
from dpicl.models.embeddings import check_name
from dpicl.privacy import accountants
from dpicl.privacy.events import parallel
from dpicl.privacy.private_set import PrivateSet
from dpicl.privacy.vote_histogram import VoteHistogram

if TYPE_CHECKING:
    from dpicl.data.task import PublicTask


@dataclass(frozen=True)
class PrivateEvolution(DemonstrationMechanism):
    """rounds: R, how many histograms. candidates: N, parents of a generation and label. variations: of each parent
    (L - 1). selection: of parents, see above. threshold: H, in standard deviations of the noise. tokens: the longest
    text. temperature: at which the model writes. embedding: name of the embedding model. texts: how many texts are
    released on classification tasks, for classifiers that are made of them (None: the shots of the prompt, which are
    the first of them)."""

    name = "private_evolution"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = "Xie et al., ICML 2024, arXiv 2403.01749"
    summary = "picks model-written texts by noisy votes of records for their nearest one"
    needs = "texts"

    rounds: int = 5
    candidates: int = 10
    variations: int = 2
    selection: Literal["rank", "draw"] = "rank"
    threshold: float = 2.0
    tokens: int = 50
    temperature: float = 1.0
    embedding: str = "embedded"
    style: str = "completion"
    texts: int | None = field(default=None, metadata={LATER: True})

    def __post_init__(self) -> None:
        check_name(self.embedding)
        check_style(self.style)
        self.require_at_least(rounds=1, candidates=1, variations=1, tokens=1, texts=1)
        self.require_at_most(rounds=1_000, candidates=10_000, variations=1_000, texts=10_000)
        check_positive(temperature=self.temperature)
        if self.threshold < 0:
            raise UsageError(f"Option threshold must be 0 or more, not {self.threshold}.")

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return parallel(dict.fromkeys(sizes.shots, self._histograms(knob)))

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The exact curve of R Gaussian releases, as here (section 3)."""
        return accountants.epsilon(self.events(knob, sizes), delta).upper

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "generation":
            return None
        return "a demonstration is an input with its output here, and the model varies one text for a public label"

    def count_released(self, shots: int, task: PublicTask) -> int:
        return max(shots, self.texts or 0) if task.kind == "classification" else shots

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        groups: dict[Partition, Counter[str]] = {}
        for label in context.shots:
            groups.setdefault(private.partition_of(label), Counter())[label] += 1
        evolved: dict[str, Iterator[Demonstration]] = {}
        for done, (group, wanted) in enumerate(groups.items(), start=1):
            found = self._evolve(group, wanted, private, context)
            evolved |= {label: cycle(best) for label, best in found.items()}
            context.progress(len(context.shots) * done // len(groups))
        return [next(evolved[label]) for label in context.shots]

    def _evolve(
        self, group: Partition, wanted: Mapping[str, int], private: PrivateSet, context: Context
    ) -> dict[str, list[Demonstration]]:
        """For each label of the group its texts, the best first: as many as are wanted, where so many differ."""
        histogram, stream = VoteHistogram(context.knob, self.threshold), f"private evolution {group or ''}"
        generator = context.streams.stream(stream)
        parents = max(self.candidates, *wanted.values())
        sample = private.poisson_slots(
            private.size(group), None, partition=group, releases=self._histograms(context.knob)
        ).draw()
        first = [Demonstration("", label) for label in wanted for _ in range(parents * (1 + self.variations))]
        texts = remove_repetitions(self._vary(first, context, f"{stream}: 0"), wanted)
        points = context.embed([record.text for (record,) in sample.slots], self.embedding)
        for done in range(1, self.rounds + 1):
            public = context.embed([text.text for text in texts], self.embedding)
            votes = np.where(points.any(axis=1), find_nearest(points, public), -1)
            places = [[at for at, text in enumerate(texts) if text.label == label] for label in wanted]
            if done == self.rounds:
                ranked = histogram.best(votes, places, max(wanted.values()), sample)
                return {label: [texts[at] for at in best] for label, best in zip(wanted, ranked, strict=True)}
            if self.selection == "rank":
                chosen = histogram.best(votes, places, parents, sample)
            else:
                chosen = histogram.draw(votes, places, parents, sample, generator)
            kept = [texts[at] for best in chosen for at in best]
            varied = self._vary([text for text in kept for _ in range(self.variations)], context, f"{stream}: {done}")
            texts = remove_repetitions([*kept, *varied], wanted)
        raise AssertionError("unreachable: the last round returns")

    def _vary(self, shown: Sequence[Demonstration], context: Context, stream: str) -> list[Demonstration]:
        """A new text after each: of its label, from a prompt that shows it (the public prompt, where it is empty)."""
        writers = {
            label: PromptWriter(context.task, context.model, label, self.tokens, None, self.style)
            for label in {text.label for text in shown}
        }
        prompts = [writers[d.label].private([Record(d.text, d.label)] if d.text else ()) for d in shown]
        labels = [d.label for d in shown]
        return write_texts(context, labels, prompts, self.tokens, stream, self.temperature)

    def _histograms(self, knob: float) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(VoteHistogram(knob).event, self.rounds)


def remove_repetitions(texts: Sequence[Demonstration], labels: Iterable[str]) -> list[Demonstration]:
    """The texts without repetitions and without empty ones; an empty one for a label that has no other."""
    unique = list({(each.label, each.text): each for each in texts if each.text}.values())
    written_for = {each.label for each in unique}
    return unique + [Demonstration("", label) for label in labels if label not in written_for]
