"""What several checks look at: ordinary runs, and pairs of runs on neighbouring sets; made when first asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.conformance.adversaries import additions, scripted
from harness.conformance.bench import Bench, Run, other_corpus
from harness.conformance.transcript import Passage, Transcript
from harness.conformance.watched import Presence
from harness.record_sets import Record

#: Ordinary runs, each with coins and noise of its own.
ORDINARY = 60
#: Rounds of the search for the worst neighbours; each has coins and a script of its own.
ROUNDS = 12


@dataclass(frozen=True)
class Pair:
    """Two runs whose sets differ by one record at the end, with the same coins for all others and the same releases.

    base: conditions of the run without the record. records, presence: what the other run has in addition.
    """

    base: Run
    records: tuple[Record, ...]
    presence: Presence
    without: Transcript
    with_it: Transcript

    @property
    def added(self) -> int:
        """Number of the added record."""
        return len(self.records) - 1

    @property
    def passages(self) -> list[tuple[Passage, Passage]]:
        """Passages of both runs side by side, as long as they go the same way."""
        both = zip(self.without.passages, self.with_it.passages, strict=False)
        return [(a, b) for a, b in both if a.clean.shape == b.clean.shape]

    def holds(self, passage: Passage) -> bool:
        """Whether the sample that this passage (of the set with the record) was paid from holds the record."""
        sample = self.with_it.sample_of(passage)
        return sample is not None and self.added in self.with_it.samples[sample].members


class Evidence:
    """All that is known of one bench."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    @cached_property
    def plain(self) -> Transcript:
        """The first ordinary run."""
        return self.bench.run()

    @cached_property
    def runs(self) -> list[Transcript]:
        """Ordinary runs."""
        seeds = np.random.default_rng(self.bench.seed).integers(2**31, size=(ORDINARY - 1, 2)).tolist()
        return [self.plain, *(self.bench.run(Run(coins=coins, noise=noise)) for coins, noise in seeds)]

    @cached_property
    def other_records(self) -> tuple[Record, ...]:
        """Records of the same task from another corpus."""
        return other_corpus(self.bench)

    @cached_property
    def pairs(self) -> list[Pair]:
        """Neighbours whose added record is in every sample of its group (the worst case), then such whose record is in
        every other sample, then such whose record is in none."""
        patterns: list[tuple[int, Presence]] = [(ROUNDS, lambda at: True), (2, lambda at: at % 2 == 1)]
        patterns += [(2, lambda at: at % 2 == 0), (2, lambda at: False)]
        found: list[Pair] = []
        for rounds, presence in patterns:
            for _ in range(rounds):
                found += self._round(len(found), presence)
        return found

    def _round(self, number: int, presence: Presence) -> list[Pair]:
        """One base set and all additions to it; every third base is nearly empty, so that most slots are."""
        bench = self.bench
        generator = np.random.default_rng((bench.seed, number))
        base = list(bench.task.train)[: 3 if number % 3 == 2 else None]
        kind = ("random", "whole")[number % 2]
        how = Run(records=base, coins=1000 + number, script=scripted(kind, number))
        label = bench.shots[int(generator.integers(len(bench.shots)))]
        without, pairs = bench.run(how), []
        for record in additions(bench.task, label, generator):
            records = (*base, record)
            with_it = bench.run(replace(how, records=records, presence=presence))
            pairs.append(Pair(how, records, presence, without, with_it))
        return pairs
