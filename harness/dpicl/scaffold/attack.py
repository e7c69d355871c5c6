"""my_attack: a text whose words come back in what was released is taken for a member.

The score of a candidate is the largest share of its words that one released demonstration repeats. It asks no model:
anybody who has the demonstrations can make this attack.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpicl import Attack, AttackFinding, AttackSetup, Mechanism, Record, Target, Task, membership_finding


@dataclass(frozen=True)
class MyAttack(Attack):
    name = "my_attack"
    # Decide: black-box (sees what was released) or white-box (sees the noisy releases inside as well).
    access = "black-box"
    source = "an example"
    summary = "takes a text whose words were released for a member"

    # Decide: the options, with their defaults. `--set length=5` changes them.
    length: int = 4

    def __post_init__(self) -> None:
        self.require_at_least(length=1)

    def skip(self, mechanism: Mechanism, task: Task) -> str | None:
        # Decide: what the attack says nothing about.
        if not mechanism.releases_texts:
            return "it releases answers, and no demonstration whose words could be compared"
        return mechanism.skip(task)

    def run(self, setup: AttackSetup) -> AttackFinding:
        # One release from members who were drawn at random, so that the scores bound epsilon; of a mechanism that shows
        # records as they are several, each of a few members who are all shown.
        return membership_finding(setup, self.scores)

    def scores(self, target: Target, candidates: Sequence[Record]) -> list[float]:
        # Decide: one number a candidate; a larger one speaks for a member.
        released = [self._words(demonstration.text) for demonstration in target.demonstrations()]
        return [max((self._share(record, words) for words in released), default=0.0) for record in candidates]

    def _share(self, record: Record, released: set[str]) -> float:
        own = self._words(record.text)
        return len(own & released) / len(own) if own else 0.0

    def _words(self, text: str) -> set[str]:
        return {word for word in text.lower().split() if len(word) >= self.length}
