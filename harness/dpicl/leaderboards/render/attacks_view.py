"""Shows attacks: those on the rows of a board, and all of a results folder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter, itemgetter

from dpicl.attacks.audited import attack_name
from dpicl.attacks.power import NO_POWER, Power
from dpicl.attacks.results import AttackResult
from dpicl.attacks.table import ENDS, Attacked, attacks_table, pair_with_settings
from dpicl.core.messages import bound_text, count, epsilon_text, names_text
from dpicl.leaderboards.model.evidence import AttackBoard, question_of
from dpicl.leaderboards.model.rows import Row, name_of
from dpicl.tables.document import Block, Column, Part, Table, make_table, notes, words

_NOTHING = "There are no attacks yet; make some with: dpicl audit voting --task agnews --epsilon 1"


def list_attacks_on(rows: Iterable[Row]) -> list[Attacked]:
    """Every attack on these rows."""
    attacked = []
    for row in rows:
        settings, powers = row.audit.settings, row.audit.powers
        for attack in row.audit.attacks:
            settings_text = settings.get(attack.id, "")
            attacked.append(
                Attacked(row.name, row.epsilon, attack, settings_text, powers.get(attack.id))
            )
    return attacked


def row_attacks(task: str, rows: Sequence[Row]) -> list[Block]:
    """Every attack on the rows of one task, and how to audit rows without an audit."""
    blocks: list[Block] = []
    if attacked := list_attacks_on(rows):
        blocks.append(attacks_table(f"{task}: attacks", attacked))
        if any(len(row.audit.attacks) > 1 for row in rows):
            blocks += notes(
                [
                    "Audited ε of a row is the largest bound at 95% or more; each has its own confidence."
                ]
            )
    if lacking := [row for row in rows if row.audit.command]:
        labels = names_text(dict.fromkeys(row.name for row in lacking))
        blocks += notes([f"no audit yet at some ε: {labels}. Make the first one with:"])
        blocks.append(words(lacking[0].audit.command, "command"))
    return blocks


def audited_text(
    best: AttackResult | None, powers: Mapping[str, Power]
) -> tuple[float, str] | None:
    """Its bound, also in words: an attack without power says nothing."""
    if best is None or best.audited is None:
        return None
    return best.audited, NO_POWER if is_hidden(best, powers) else bound_text(best.audited)


def is_hidden(attack: AttackResult, powers: Mapping[str, Power]) -> bool:
    """Whether an attack without power made it."""
    return attack.id in powers and powers[attack.id].is_inconclusive(attack)


def share_text(best: AttackResult | None, powers: Mapping[str, Power]) -> str | None:
    """Audited ε over the ε that was proved for the attacked run, as a percentage."""
    if best is None or best.audited is None or is_hidden(best, powers):
        return None
    proved = best.privacy.epsilon_proved
    return f"{100 * best.audited / proved:.0f}%" if 0 < proved < math.inf else None


def attack_blocks(board: AttackBoard) -> list[Block]:
    """Every attack under a results folder, whether a suite has a row for it or not."""
    blocks: list[Block] = [*notes(board.notes)]
    if not board.attacks:
        return [*blocks, words(_NOTHING)]
    blocks.append(_summary(board.attacks, board.powers))
    for title, attacks in groupby(board.attacks, _title):
        attacked = [
            replace(item, label=_name(item.attack))
            for item in pair_with_settings(list(attacks), board.powers)
        ]
        table = attacks_table(title, attacked, heading=False)
        blocks.append(Part((table,), f"{title}: {count(len(attacked), 'result')}"))
    return blocks


def _title(attack: AttackResult) -> str:
    """The attack, with its question."""
    question = question_of(attack)
    return attack.attack + (f" ({question})" if question else "")


def _name(attack: AttackResult) -> str:
    """The mechanism, with Q."""
    return name_of(attack.subject.mechanism, attack.privacy.queries)


def _summary(attacks: Sequence[AttackResult], powers: Mapping[str, Power]) -> Table:
    """A line for each mechanism, Q and ε; reference baselines and broken mechanisms last."""
    lines: dict[tuple[bool, str, float], list[AttackResult]] = defaultdict(list)
    for attack in attacks:
        is_end = attack.subject.mechanism in ENDS
        lines[is_end, _name(attack), attack.subject.epsilon].append(attack)
    items = [
        _Attacks(name, epsilon, of_line, _best(of_line, powers), "end" if is_end else "")
        for (is_end, name, epsilon), of_line in sorted(lines.items(), key=itemgetter(0))
    ]

    def audited(item: _Attacks) -> tuple[float, str] | None:
        return audited_text(item.best, powers)

    def share(item: _Attacks) -> str | None:
        return share_text(item.best, powers)

    columns = (
        Column("row", "mechanism", "name"),
        Column("epsilon", "ε", show=epsilon_text),
        Column("attacks", "attacks", lambda item: len(item.attacks)),
        Column("tasks", "tasks", wide=True),
        Column("audited", "largest audited ε", audited, itemgetter(1), "a lower bound"),
        Column("proved", "proved ε of that run", "best.privacy.epsilon_proved", epsilon_text),
        Column("share", "share", share, help="the first over the second"),
        Column("by", "by", wide=True),
    )
    return make_table("In short", columns, items, kind=attrgetter("kind"), keep=2, heading=True)


@dataclass(frozen=True)
class _Attacks:
    """The attacks on a mechanism at one Q and ε. kind: how the line looks."""

    name: str
    epsilon: float
    attacks: Sequence[AttackResult]
    best: AttackResult | None
    kind: str

    @property
    def tasks(self) -> str:
        return names_text(dict.fromkeys(attack.subject.task for attack in self.attacks))

    @property
    def by(self) -> str | None:
        return (
            None if self.best is None else f"{attack_name(self.best)} on {self.best.subject.task}"
        )


def _best(attacks: Iterable[AttackResult], powers: Mapping[str, Power]) -> AttackResult | None:
    """The attack with the largest bound; of several one that has power."""

    def strength(attack: AttackResult) -> tuple[float, bool]:
        return attack.audited or 0.0, not is_hidden(attack, powers)

    return max(
        (attack for attack in attacks if attack.audited is not None), key=strength, default=None
    )
