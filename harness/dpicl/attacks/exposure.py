"""Canary exposure: a rare suffix behind an ordinary text is inserted, and ranked by the model among others like it.
Carlini et al. 2019, "The secret sharer", USENIX Security, section 4.2 (definition 1: rank; 2: exposure).

Some members end with a suffix of digits, each drawn with equal probability. After what was released, the model says how
likely it is behind the same first words, and how likely candidates are that nobody ends with. With R candidates the
exposure of a canary is log2 R - log2 rank: log2 R where its suffix is the likeliest, and by guessing about 1.4 bits.
Candidates of equal likelihood share the mean of their ranks. ``auc`` is the share of the others that are less likely.

The texts before the suffix are those of records, so a canary is like every other record but for its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln
from scipy.stats import rankdata

from dpicl.attacks.base import Attack, AttackFinding, AttackSetup
from dpicl.attacks.lower_bounds import CONFIDENCE, mean_lower, mean_upper
from dpicl.attacks.membership import can_show_records, explain_no_answer, label_groups
from dpicl.attacks.results import Estimate
from dpicl.attacks.targets import Target
from dpicl.attacks.views import first_words, show_start
from dpicl.core.errors import ModelError, UsageError
from dpicl.core.seeds import streams
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Mechanism

#: Number of digits of a suffix.
_DIGITS = 6


@dataclass(frozen=True)
class Exposure(Attack):
    """canaries: members of a release that end with a suffix. candidates: R. words: first words of the record before it.
    generations: releases of a mechanism with noise. trials: of one that shows records, which are all canaries then."""

    name = "exposure"
    source = "Carlini et al. 2019, USENIX Security"
    summary = "inserts canaries with a rare suffix and ranks it among candidates by the model's likelihood"
    membership = False

    canaries: int = 10
    candidates: int = 100
    words: int = 12
    generations: int = 5
    trials: int = 15

    def __post_init__(self) -> None:
        self.require_at_least(canaries=1, candidates=2, words=1, generations=1, trials=1)
        self.require_at_most(candidates=10_000)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        answers = "it releases answers, and no text after which the model gives a likelihood"
        return explain_no_answer(mechanism, task, answers=answers)

    def run(self, setup: AttackSetup) -> AttackFinding:
        targets: list[Target] = []
        all_ranks: list[float] = []
        releases = self.trials if can_show_records(setup.mechanism) else self.generations
        for number in range(releases):
            target, inserted, suffixes = self._insert_canaries(setup.resample(number))
            all_ranks += self._ranks(target, inserted, suffixes)
            targets.append(target)
            setup.report(number + 1, releases, "releases")
        ranks, most, bits = np.array(all_ranks), self.candidates, math.log2(self.candidates)
        guessing = bits - gammaln(most + 1) / math.log(2) / most
        note = f"bits of {bits:.1f}; {guessing:.2f} by guessing"
        shares = (most - ranks) / (most - 1)
        return AttackFinding(
            target=targets[0],
            measures={
                "exposure": _mean(1 - np.log2(ranks) / bits, bits, note),
                "auc": _mean(shares, 1.0, "share of the other suffixes that are less likely"),
            },
            counts={
                "canaries": len(ranks),
                "first": int((ranks == 1).sum()),
                "releases": len(targets),
            },
            notes=(
                "intervals take the canaries as independent, which those of one release are not",
            ),
        )

    def _insert_canaries(
        self,
        setup: AttackSetup,
    ) -> tuple[Target, list[str], list[str]]:
        """(the target, the first words of each canary, their suffixes and then those that nobody ends with)."""
        randomness = streams(setup.config.seed).stream("exposure")
        shown = can_show_records(setup.mechanism)
        if shown:
            members = next(label_groups(setup, setup.members), ())
        else:
            order = randomness.permutation(len(setup.members)).tolist()
            members = tuple(setup.members[place] for place in order)
        count = len(members) if shown else min(len(members), self.canaries)
        if not count:
            raise UsageError(
                "There are too few members to insert a canary; raise --members, or lower --shots."
            )
        size = count + self.candidates - 1
        numbers = randomness.choice(10**_DIGITS, size=size, replace=False).tolist()
        suffixes = [f"{number:0{_DIGITS}d}" for number in numbers]
        inserted = []
        canaries = []
        for record, suffix in zip(members[:count], suffixes, strict=False):
            start = first_words(record.text, self.words)
            inserted.append(start)
            canaries.append(Record(f"{start} {suffix}", record.label))
        target = setup.make_target((*canaries, *members[count:]), None if shown else setup.sizes)
        return target, inserted, suffixes

    def _ranks(
        self,
        target: Target,
        inserted: Sequence[str],
        suffixes: Sequence[str],
    ) -> list[float]:
        """The rank of each canary's suffix beside those of nobody, 1 for the likeliest."""
        model, prefix = target.model, target.prefix(target.task)
        queries = []
        others = suffixes[len(inserted) :]
        for start, inserted_suffix in zip(inserted, suffixes, strict=False):
            before = prefix + show_start(target.task, start)
            tokens = model.encode(before)
            whole = [model.encode(f"{before} {suffix}") for suffix in (inserted_suffix, *others)]
            queries.append((tokens, [ids[len(tokens) :] for ids in whole]))
        rows = np.array(model.score(queries), dtype=np.float64)
        if np.isnan(rows).any():
            raise ModelError(
                f"Model {model.identity.name} gives NaN for a candidate; load it in float32."
            )
        return [float(rankdata(-row)[0]) for row in rows]


def _mean(values: np.ndarray, scale: float, note: str) -> Estimate:
    """The mean of values in [0, 1] times the scale, with limits by betting (dpicl.attacks.lower_bounds)."""
    alpha = (1 - CONFIDENCE) / 2
    clipped = np.clip(values, 0.0, 1.0)
    low, high = float(mean_lower(clipped, alpha)), float(mean_upper(clipped, alpha))
    return Estimate(
        value=scale * float(values.mean()), low=scale * low, high=scale * high, note=note
    )
