"""The runs that several checks share (ordinary ones, and pairs on neighbouring sets), and the verdict of a check."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeVar

import numpy as np

from dpicl.conformance.adversaries import (
    CROWDED,
    FLOODED,
    SCRIPTS,
    additions,
    few_texts,
    make_echoes,
    mix_hostile,
    other_sets,
    scripted,
)
from dpicl.conformance.bench import HIGH_EPSILON, Bench, Run, other_corpus
from dpicl.conformance.dictionary import levels_of
from dpicl.conformance.transcript import (
    EVEN_SAMPLES,
    EVERY_SAMPLE,
    NO_SAMPLE,
    ODD_SAMPLES,
    ObservedRelease,
    Presence,
    Transcript,
)
from dpicl.core.errors import one_line
from dpicl.core.vocabulary import Record

_Value = TypeVar("_Value")

#: How many of the other sets are replayed by every script.
THOROUGH = 6


@dataclass(frozen=True)
class Effort:
    """runs: ordinary ones, each with its own sampling and noise. rounds: of the search for the worst neighbours, each
    with its own sampling and script. others: rounds where the record is not in every sample. additions: of a round.
    sets: how many other sets are replayed. words: how many possible triggers are tried one by one. None is all of them.
    scripts: how many of them replay the first sets. noisy: how many sets are run with true noise too. epsilons: whether
    a second one is calibrated to.
    """

    runs: int
    rounds: int
    others: int
    additions: int | None
    sets: int | None
    words: int | None
    scripts: int
    noisy: int
    epsilons: bool


FULL = Effort(60, 10, 6, None, None, None, 3, 20, True)
#: On every task but the first.
OTHER_TASKS = Effort(30, 6, 3, None, None, 16, 1, 8, True)
#: At other settings; and at other scales, and where two options differ.
QUICK = Effort(8, 4, 3, None, None, 4, 1, 4, False)
LEAST = Effort(2, 3, 1, 3, 5, 0, 1, 1, False)


@dataclass(frozen=True)
class Pair:
    """Two runs whose sets differ in one record, wherever it stands, with the same sampling of all others and the same
    releases.

    base: conditions of the run without the record. added: its number in the one with it.
    """

    base: Run
    added: int
    record: Record
    without: Transcript
    with_it: Transcript

    @property
    def observed_releases(self) -> list[tuple[ObservedRelease, ObservedRelease]]:
        """Releases of both runs side by side, as long as their shapes agree."""
        both = zip(self.without.observed_releases, self.with_it.observed_releases, strict=False)
        return [pair for pair in both if pair[0].release.clean.shape == pair[1].release.clean.shape]

    def is_record_sampled(self, observed: ObservedRelease) -> bool:
        """Whether the sample that this release (of the run with the record) was charged to holds the record."""
        sample = self.with_it.sample_of(observed)
        return sample is not None and self.added in self.with_it.samples[sample].members


#: The private set of a second run in words, the kind of script (see `scripted`), and two runs with the same scripted
#: releases: on the first set, and on that one.
Twins = tuple[str, str, Transcript, Transcript]


class CheckEvidence:
    """All runs of one bench that checks share."""

    def __init__(self, bench: Bench, effort: Effort = FULL) -> None:
        self.bench, self.effort = bench, effort
        self.words = bench.words[: effort.words]

    @cached_property
    def plain(self) -> Transcript:
        """The first ordinary run."""
        return self.bench.run()

    @cached_property
    def runs(self) -> list[Transcript]:
        """Ordinary runs; the noise of every other one claims to be secure."""
        generator = np.random.default_rng(self.bench.seed)
        seeds = generator.integers(2**31, size=(self.effort.runs - 1, 2)).tolist()
        runs = [self.plain]
        for number, (sampling, noise) in enumerate(seeds):
            knob = self.knobs[number // 2 % 2]
            how = Run(sampling=sampling, noise=noise, unseeded=number % 2 == 0, knob=knob)
            runs.append(self.bench.run(how))
        return runs

    @cached_property
    def knobs(self) -> tuple[float, ...]:
        """The calibrated one, that of a high epsilon, both ends, one between (with less effort nothing is calibrated
        for it), and those that the mechanism's own code may tell from these."""
        knob = self.bench.mechanism.knob
        if knob is None:
            return (0.0,) * 5
        usual = self.bench.knob()
        other = self.bench.knob(epsilon=HIGH_EPSILON) if self.effort.epsilons else usual
        between = math.sqrt(usual * (other if self.effort.epsilons else knob.low))
        known = (usual, other, knob.low, knob.high, between)
        return *known, *levels_of(type(self.bench.mechanism), known)

    @cached_property
    def other_records(self) -> tuple[Record, ...]:
        """Records of the same task from another corpus."""
        return other_corpus(self.bench)

    @cached_property
    def sets(self) -> dict[str, list[Record]]:
        """Private sets that share nothing with the bench's own (but texts that are public); name -> records."""
        return other_sets(self.bench.task, self.other_records, self.words)

    @cached_property
    def replays(self) -> list[Twins]:
        """Runs on private sets of every kind, each by one of three scripts (the first sets by all)."""
        bench = self.bench
        hows = {}
        for number, kind in enumerate(SCRIPTS):
            script = scripted(kind, 100 + number)
            hows[kind] = Run(script=script, knob=self.knobs[number], sampling=number, public=number)
        kinds = SCRIPTS if self.effort.sets is None else SCRIPTS[:2]
        expected = {kind: bench.run(hows[kind]) for kind in kinds}
        replayed: list[tuple[str, str, list[Record]]] = []
        for number, name in enumerate(list(self.sets)[: self.effort.sets]):
            times = self.effort.scripts if number < THOROUGH else 1
            for more in range(times):
                kind = kinds[(number + more) % len(kinds)]
                replayed.append((name, kind, self.sets[name]))
        queries = [query.text for query in bench.queries]
        for kind in SCRIPTS[: self.effort.scripts]:
            echoes = make_echoes(bench.task, queries, _texts(expected[kind]))
            replayed += [(name, kind, records) for name, records in echoes.items()]
        replays = []
        for number, (name, kind, records) in enumerate(replayed):
            how = replace(hows[kind], records=records, **_deal(9 + number))
            replays.append((name, kind, expected[kind], bench.run(how)))
        return replays

    def twins(self) -> Iterator[Twins]:
        """All runs with the same scripted releases."""
        yield from self.replays
        for pair in self.pairs:
            yield (
                f"with one record more ({pair.record.text[:40]!r})",
                "",
                pair.without,
                pair.with_it,
            )

    def all_runs(self) -> Iterator[Transcript]:
        """The first one before any other is made; runs on other sets where epsilon is finite."""
        yield self.plain
        yield from self.runs
        for _, _, expected, run in () if self.bench.unbounded else self.twins():
            yield expected
            yield run

    @cached_property
    def pairs(self) -> list[Pair]:
        """Neighbours whose added record is in every sample of its group (the worst case), then in every other sample,
        then in none. Each round has the next words."""
        patterns: Iterator[Presence] = itertools.cycle((ODD_SAMPLES, EVEN_SAMPLES, NO_SAMPLE))
        presences = [EVERY_SAMPLE] * self.effort.rounds
        presences += itertools.islice(patterns, self.effort.others)
        pairs: list[Pair] = []
        for number, presence in enumerate(presences):
            pairs += self._round(number, presence, self.words[number :: len(presences)])
        return pairs

    def _round(
        self,
        number: int,
        presence: Presence,
        words: Sequence[str],
    ) -> list[Pair]:
        """One base set and all additions to it. Of the ordinary five bases two hold the same few texts many times, one
        is nearly empty, so most slots are too, and a third of one is hostile."""
        bench = self.bench
        records = list(bench.task.train)
        few = few_texts(records)
        bases = bench.scale.bases(records)
        if not bases:
            bases = [records, few, records[:3], few, mix_hostile(records)]
        base = bases[number % len(bases)]
        how = replace(self._conditions(number), records=base, **_deal(number))
        more = bench.task.labels if bench.answers or not bench.task.partitioned else ()
        labels = list(dict.fromkeys((*bench.shots, *more)))
        label = labels[number % len(labels)] if labels else ""
        without = bench.run(how)
        echoed = [query.text for query in bench.queries] if bench.answers else []
        echoed += _texts(without)
        added = additions(bench.task, label, base, echoed or [""], words, number)
        most = self.effort.additions
        if most is not None:
            added = _take_turn(added, number, most)
            if bench.scale.limits:  # one more that says what most say comes first
                added[0] = Record(base[0].text, added[0].label)
            if len(labels) > most:  # each addition has another label
                turns = zip(added, _take_turn(labels, number, most), strict=True)
                added = [replace(record, label=of_turn) for record, of_turn in turns]
        pairs = []
        places = (0, len(base) // 2, len(base))
        for at, record in enumerate(added):
            place = places[(number + at) % 3]
            with_it = bench.run(replace(how, added=record, place=place, presence=presence))
            pairs.append(Pair(how, len(base), record, without, with_it))
        return pairs

    def _conditions(self, number: int) -> Run:
        """Of one round: its script, its knob, whether noise is secure, and whether shots are written at once."""
        kind = ("random", "whole")[number // 2 % 2]
        turn = number + number // len(self.knobs)
        return Run(
            script=scripted(kind, number),
            knob=self.knobs[turn % len(self.knobs)],
            unseeded=number % 8 > 3,
            at_once=number % 3 == 0,
            public=number,
        )


def _take_turn(values: Sequence[_Value], turn: int, most: int) -> list[_Value]:
    """So many of the values, the next ones at every turn, from the first again after the last."""
    return [values[number % len(values)] for number in range(turn * most, (turn + 1) * most)]


def _deal(number: int) -> dict[str, Any]:
    """Sampling randomness of a run: every third one crowds records into few slots, and every third one fills all."""
    crowding = CROWDED if number % 3 == 1 else 1.0
    flood = FLOODED if number % 3 == 2 else 1.0
    return {"sampling": 1000 + number, "crowding": crowding, "flood": flood}


def _texts(run: Transcript) -> list[str]:
    """The released texts."""
    return [item[1] for item in run.released or () if item[1]]


Status = Literal["passed", "failed", "not applicable"]

#: The false-alarm probability of every single statistical test, for a mechanism that does what it says.
FALSE_ALARM = 1e-4


@dataclass(frozen=True)
class Verdict:
    """why: one sentence. Failed: what was seen and what to do. Passed: what was checked. Else: why there is nothing to
    check."""

    status: Status
    why: str


passed = partial(Verdict, "passed")
not_applicable = partial(Verdict, "not applicable")


def failed(why: str) -> Verdict:
    """why: may quote a mechanism's output; what a terminal would not print is escaped."""
    return Verdict("failed", printable_line(why))


def printable_line(text: str) -> str:
    """One line of characters that every terminal prints."""
    line = " ".join(text.split())
    return "".join(map(_printable, line))


def _printable(character: str) -> str:
    if character.isascii() and character.isprintable():
        return character
    return ascii(character)[1:-1]


def describe_error(error: BaseException) -> str:
    """'ValueError: what it says', shortened; also of an error that cannot be written out."""
    return f"{type(error).__name__}: {printable_line(one_line(error, 200))}".rstrip(": ")
