"""One vote: texts that the model writes from the public prompt, of which private records choose the best. A control: it
is the first round of private evolution (mechanisms/private_evolution.py) alone, and shows what the others are worth.

For every label:

1. public: the model writes N candidates from the public prompt, by sampling;
2. every private record of the label votes for the candidate whose public embedding is nearest to its own; a record
   without any text abstains;
3. counts + N(0, sigma^2); the candidates with the largest noisy counts are the demonstrations.

Where labels are no groups of records (extraction), candidates of all labels stand in one histogram, and the best are
chosen label by label.

Privacy (unit: one record; neighbours: add/remove; proved mode). A record of the label is in the one sample of the run
for certain (rate 1), has a slot of its own, and votes once: it adds 1 to one count, and the votes of others are what
they were, since a vote depends on its own record and on public candidates. So the histogram moves by at most 1 in L2
and is one Gaussian release, mu = 1/sigma (sigma = 3.73 at epsilon = 1, delta = 1e-5), for any number of texts of the
label, which the same histogram ranks, and whatever n_y is. Labels are disjoint and compose in parallel. Which texts are
released is post-processing of noisy counts; the labels are those of the shots, which are public.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np

from dpicl import (
    LATER_OPTION,
    Context,
    Demonstration,
    DemonstrationMechanism,
    Knob,
    Partition,
    PrivateSet,
    PromptWriter,
    PublicTask,
    Record,
    Sample,
    Sizes,
    VoteHistogram,
    check_embedding_name,
    check_positive,
    check_style,
    find_nearest,
    parallel,
    write_texts,
)
from dpicl import dp_event as dp


@dataclass(frozen=True)
class OneVote(DemonstrationMechanism):
    """candidates: N, how many texts of a label the model writes. tokens: the longest text. temperature: at which the
    model writes. embedding: name of the embedding model. texts: how many texts are released on classification tasks,
    for classifiers that are made of them (None: the shots of the prompt, which are the first of them)."""

    name = "one_vote"
    knob = Knob("noise_multiplier", low=0.05, high=2000.0, non_private=0.0)
    source = (
        "a control; the first histogram of Xie et al., ICML 2024, arXiv 2403.01749, and no other"
    )
    summary = "picks texts that the model writes in public by one noisy vote of records for the nearest one"
    needs = "texts"

    candidates: int = 60
    tokens: int = 50
    temperature: float = 1.0
    embedding: str = "embedded"
    style: str = "completion"
    texts: int | None = field(default=None, metadata={LATER_OPTION: True})

    def __post_init__(self) -> None:
        check_embedding_name(self.embedding)
        check_style(self.style)
        self.require_at_least(candidates=1, tokens=1, texts=1)
        self.require_at_most(candidates=10_000, texts=10_000)
        check_positive(temperature=self.temperature)

    def events(self, knob: float, sizes: Sizes) -> dp.DpEvent:
        return parallel(dict.fromkeys(sizes.shots, self.votes_event(knob)))

    def votes_event(self, knob: float) -> dp.DpEvent:
        """All that is released from the records of a label."""
        return VoteHistogram(knob).event

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "generation":
            return None
        return "a demonstration is an input with its output here, and the model writes one text for a public label"

    def count_released(self, shots: int, task: PublicTask) -> int:
        return max(shots, self.texts or 0) if task.kind == "classification" else shots

    def release(self, private: PrivateSet, context: Context) -> list[Demonstration]:
        groups: dict[Partition, Counter[str]] = {}
        for label in context.shots:
            groups.setdefault(private.partition_of(label), Counter())[label] += 1
        best: dict[str, Iterator[Demonstration]] = {}
        for done, (group, numbers) in enumerate(groups.items(), start=1):
            chosen = self.choose_texts(group, numbers, private, context)
            best |= {label: cycle(texts) for label, texts in chosen.items()}
            context.progress(len(context.shots) * done // len(groups))
        return [next(best[label]) for label in context.shots]

    def choose_texts(
        self, group: Partition, numbers: Mapping[str, int], private: PrivateSet, context: Context
    ) -> dict[str, list[Demonstration]]:
        """For each label of the group its texts, the best first: as many as `numbers` says, where so many differ."""
        candidates = {label: max(self.candidates, count) for label, count in numbers.items()}
        texts = self.write_first(candidates, group, context)
        sample = self.draw_all(group, private, context.knob)
        votes = find_votes(self.embed_records(sample, context), self.embed_texts(texts, context))
        places = find_places(texts, numbers)
        ranked = VoteHistogram(context.knob).best(votes, places, max(numbers.values()), sample)
        return {
            label: [texts[at] for at in best] for label, best in zip(numbers, ranked, strict=True)
        }

    def draw_all(self, group: Partition, private: PrivateSet, knob: float) -> Sample:
        """All records of a group, each in a slot of its own."""
        size = private.size(group)
        return private.poisson_slots(
            size, None, partition=group, releases=self.votes_event(knob)
        ).draw()

    def embed_records(self, sample: Sample, context: Context) -> np.ndarray:
        """float64[n, d]: rows of length 1; zeros for a record without any text."""
        return context.embed([record.text for (record,) in sample.slots], self.embedding)

    def embed_texts(self, texts: Sequence[Demonstration], context: Context) -> np.ndarray:
        """float64[K, d]."""
        return context.embed([text.text for text in texts], self.embedding)

    def write_first(
        self, numbers: Mapping[str, int], group: Partition, context: Context
    ) -> list[Demonstration]:
        """So many texts of each label of a group from the public prompt, without repetitions: those of a seed are the
        same for every mechanism that begins with them."""
        blank = [
            Demonstration("", label) for label, number in numbers.items() for _ in range(number)
        ]
        return remove_repetitions(
            self.write_after(blank, context, f"{stream_name(group)}: 0"), numbers
        )

    def write_after(
        self, shown: Sequence[Demonstration], context: Context, stream: str
    ) -> list[Demonstration]:
        """A new text after each: of its label, from a prompt that shows it (the public prompt, where it is empty)."""
        writers = {
            label: PromptWriter(context.task, context.model, label, self.tokens, None, self.style)
            for label in {text.label for text in shown}
        }
        prompts = [
            writers[d.label].private([Record(d.text, d.label)] if d.text else ()) for d in shown
        ]
        labels = [d.label for d in shown]
        return write_texts(context, labels, prompts, self.tokens, stream, self.temperature)


def stream_name(group: Partition) -> str:
    """Of the public randomness of a group's texts."""
    return f"private evolution {group or ''}"


def find_votes(records: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """int64[n]: which of K texts [K, d] is the nearest to each record [n, d]; -1 for a record of zeros."""
    return np.where(records.any(axis=1), find_nearest(records, texts), -1)


def find_places(texts: Sequence[Demonstration], labels: Iterable[str]) -> list[list[int]]:
    """For each label where its texts are."""
    return [[at for at, text in enumerate(texts) if text.label == label] for label in labels]


def remove_repetitions(
    texts: Sequence[Demonstration], labels: Iterable[str]
) -> list[Demonstration]:
    """The texts without repetitions and without empty ones; an empty one for a label that has no other."""
    unique = list({(each.label, each.text): each for each in texts if each.text}.values())
    written_for = {each.label for each in unique}
    return unique + [Demonstration("", label) for label in labels if label not in written_for]
