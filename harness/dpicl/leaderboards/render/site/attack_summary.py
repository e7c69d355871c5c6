"""What attacks found, in one line for each mechanism and ε: the details come after it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dpicl.attacks.power import CONTROLS
from dpicl.attacks.results import AttackResult
from dpicl.leaderboards.model.attacks import AttackBoard
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.leaderboards.model.rows import Row


@dataclass(frozen=True)
class Attacked:
    """A mechanism at one ε on some tasks. best: the attack with the largest bound; None where none gives one.

    flagged: how many rows lost their rank by attacks; None where there are no rows to lose it.
    """

    mechanism: str
    epsilon: float
    tasks: tuple[str, ...]
    attacks: int
    best: AttackResult | None
    flagged: int | None = None

    @property
    def share(self) -> float | None:
        """The bound over the ε that was proved for the attacked run: how much of the proof the attack has seen."""
        if self.best is None or self.best.bound is None or not 0 < self.best.privacy.epsilon_proved < float("inf"):
            return None
        return self.best.bound.epsilon / self.best.privacy.epsilon_proved

    @property
    def best_name(self) -> str:
        return "" if self.best is None else f"{attack_name(self.best)} on {self.best.subject.task}"


def attack_summary(rows: Sequence[Row]) -> list[Attacked]:
    """Of the rows of a section that were attacked."""
    own: dict[tuple[str, float], list[Row]] = defaultdict(list)
    for row in rows:
        if row.audit.attacks or row.audit.external:
            own[row.label, row.epsilon].append(row)
    return [
        Attacked(
            mechanism=label,
            epsilon=epsilon,
            tasks=tuple(row.task for row in found),
            attacks=sum(len(row.audit.attacks) + len(row.audit.external) for row in found),
            best=_best(one for row in found for one in row.audit.attacks),
            flagged=sum(bool(row.audit.flag) for row in found),
        )
        for (label, epsilon), found in sorted(own.items())
    ]


def all_attacks_summary(board: AttackBoard) -> list[Attacked]:
    """Of every attack of ours; reference baselines and broken mechanisms last."""
    own: dict[tuple[bool, str, float], list[AttackResult]] = defaultdict(list)
    for table in board.tables:
        for one in table.results:
            own[one.subject.mechanism in (*BASELINES, *CONTROLS), one.subject.mechanism, one.subject.epsilon].append(
                one
            )
    return [
        Attacked(mechanism, epsilon, tuple(dict.fromkeys(one.subject.task for one in found)), len(found), _best(found))
        for (_, mechanism, epsilon), found in sorted(own.items())
    ]


def _best(attacks: Iterable[AttackResult]) -> AttackResult | None:
    bounded = [one for one in attacks if one.bound is not None]
    return max(bounded, key=lambda one: one.bound.epsilon if one.bound else 0.0, default=None)
