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

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from dpicl import Context, Demonstration, Partition, PrivateSet, Sizes, UsageError, VoteHistogram
from dpicl import dp_event as dp
from dpicl.mechanisms.one_vote import (
    OneVote,
    find_places,
    find_votes,
    remove_repetitions,
    stream_name,
)


@dataclass(frozen=True)
class PrivateEvolution(OneVote):
    """rounds: R, how many histograms. candidates: N, parents of a generation and label. variations: of each parent
    (L - 1). selection: of parents, see above. threshold: H, in standard deviations of the noise. The others are those
    of `OneVote` (mechanisms/one_vote.py), which writes the first candidates and counts the votes."""

    name = "private_evolution"
    source = "Xie et al., ICML 2024, arXiv 2403.01749"
    summary = "picks model-written texts by noisy votes of records for their nearest one"

    candidates: int = 10
    rounds: int = 5
    variations: int = 2
    selection: Literal["rank", "draw"] = "rank"
    threshold: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.require_at_least(rounds=1, variations=1)
        self.require_at_most(rounds=1_000, variations=1_000)
        if self.threshold < 0:
            raise UsageError(f"Option threshold must be 0 or more, not {self.threshold}.")

    def votes_event(self, knob: float) -> dp.DpEvent:
        return dp.SelfComposedDpEvent(VoteHistogram(knob).event, self.rounds)

    def paper_epsilon(self, knob: float, sizes: Sizes, delta: float) -> float:
        """The exact curve of R Gaussian releases, as here (section 3)."""

        from dpicl import epsilon  # loads dp_accounting and prv_accountant

        return epsilon(self.events(knob, sizes), delta).upper

    def choose_texts(
        self, group: Partition, numbers: Mapping[str, int], private: PrivateSet, context: Context
    ) -> dict[str, list[Demonstration]]:
        histogram, stream = VoteHistogram(context.knob, self.threshold), stream_name(group)
        generator = context.streams.stream(stream)
        parents = max(self.candidates, *numbers.values())
        sample = self.draw_all(group, private, context.knob)
        candidates = dict.fromkeys(numbers, parents * (1 + self.variations))
        texts = self.write_first(candidates, group, context)
        points = self.embed_records(sample, context)
        for done in range(1, self.rounds + 1):
            votes = find_votes(points, self.embed_texts(texts, context))
            places = find_places(texts, numbers)
            if done == self.rounds:
                ranked = histogram.best(votes, places, max(numbers.values()), sample)
                return {
                    label: [texts[at] for at in best]
                    for label, best in zip(numbers, ranked, strict=True)
                }
            if self.selection == "rank":
                chosen = histogram.best(votes, places, parents, sample)
            else:
                chosen = histogram.draw(votes, places, parents, sample, generator)
            survivors = [texts[at] for best in chosen for at in best]
            shown = [text for text in survivors for _ in range(self.variations)]
            varied = self.write_after(shown, context, f"{stream}: {done}")
            texts = remove_repetitions([*survivors, *varied], numbers)
        raise AssertionError("unreachable: the last round returns")
