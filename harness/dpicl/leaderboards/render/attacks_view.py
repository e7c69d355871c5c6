"""Shows attacks: those on the rows of a board, and all of a results folder."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

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
    return [
        Attacked(row.name, row.epsilon, one, row.audit.settings.get(one.id, ""), row.audit.powers.get(one.id))
        for row in rows
        for one in row.audit.attacks
    ]


def row_attacks(task: str, rows: Sequence[Row]) -> list[Block]:
    """Every attack on the rows of one task, and how to audit rows without an audit."""
    blocks: list[Block] = []
    if attacked := list_attacks_on(rows):
        blocks.append(attacks_table(f"{task}: attacks", attacked))
        if any(len(row.audit.attacks) > 1 for row in rows):
            blocks += notes(["Audited ε of a row is the largest bound at 95% or more; each has its own confidence."])
    if lacking := [row for row in rows if row.audit.command]:
        labels = names_text(dict.fromkeys(row.name for row in lacking))
        blocks += notes([f"no audit yet at some ε: {labels}. Make the first one with:"])
        blocks.append(words(lacking[0].audit.command, "command"))
    return blocks


def audited_text(best: AttackResult | None, powers: Mapping[str, Power]) -> tuple[float, str] | None:
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
    for (name, question), found in groupby(board.attacks, lambda one: (one.attack, question_of(one))):
        own = [replace(one, label=_name(one.attack)) for one in pair_with_settings(list(found), board.powers)]
        title = name + (f" ({question})" if question else "")
        blocks.append(Part((attacks_table(title, own, heading=False),), f"{title}: {count(len(own), 'result')}"))
    return blocks


def _name(attack: AttackResult) -> str:
    """The mechanism, with Q."""
    return name_of(attack.subject.mechanism, attack.privacy.queries)


def _summary(attacks: Sequence[AttackResult], powers: Mapping[str, Power]) -> Table:
    """A line for each mechanism, Q and ε; reference baselines and broken mechanisms last."""
    own: dict[tuple[bool, str, float], list[AttackResult]] = defaultdict(list)
    for one in attacks:
        own[one.subject.mechanism in ENDS, _name(one), one.subject.epsilon].append(one)
    items = [(*key[1:], found, _best(found, powers), key[0]) for key, found in sorted(own.items(), key=itemgetter(0))]
    columns = (
        Column("row", "mechanism", itemgetter(0)),
        Column("epsilon", "ε", itemgetter(1), epsilon_text),
        Column("attacks", "attacks", lambda item: len(item[2])),
        Column(
            "tasks", "tasks", lambda item: names_text(dict.fromkeys(one.subject.task for one in item[2])), wide=True
        ),
        Column("audited", "largest audited ε", lambda i: audited_text(i[3], powers), itemgetter(1), "a lower bound"),
        Column("proved", "proved ε of that run", lambda i: i[3] and i[3].privacy.epsilon_proved, epsilon_text),
        Column("share", "share", lambda item: share_text(item[3], powers), help="the first over the second"),
        Column("by", "by", lambda i: i[3] and f"{attack_name(i[3])} on {i[3].subject.task}", wide=True),
    )
    return make_table("In short", columns, items, kind=lambda item: "end" if item[4] else "", keep=2, heading=True)


def _best(attacks: Iterable[AttackResult], powers: Mapping[str, Power]) -> AttackResult | None:
    """The one with the largest bound; of several one that has power."""
    bounded = [one for one in attacks if one.audited is not None]
    return max(bounded, key=lambda one: (one.audited or 0.0, not is_hidden(one, powers)), default=None)
