"""Attacks as tables: on the rows of a board, and all of those under a results folder; one definition of the columns."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter

from dpicl.attacks.power import CONTROLS, Power
from dpicl.attacks.results import ATTAINED, EXACT, GROUP, AttackResult, External
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.attacks import (
    AttackBoard,
    measure_name,
    measured_text,
    options_text,
    question_of,
    sizes_text,
    trials_text,
)
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.comparability import BASELINES, weights
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import bound_text, confidence_text, counted, epsilon_text, names_text
from dpicl.tables.document import Block, Column, Part, Table, make_table, notes, words

_NOTHING = "There are no attacks yet; make some with: dpicl audit voting --task agnews --epsilon 1"
_ENDS = (*BASELINES, *CONTROLS)


@dataclass(frozen=True)
class Attacked:
    """An attack of ours or of others on something. proved: the upper bound that it faces, None where nobody says it.
    on: what it was made on."""

    label: str
    task: str
    epsilon: float
    attack: AttackResult | External
    proved: float | None
    on: str
    power: Power | None = None

    @property
    def ours(self) -> AttackResult | None:
        return self.attack if isinstance(self.attack, AttackResult) else None


def _name(one: Attacked) -> str:
    return one.attack.attack + ("" if one.ours else " (external)")


def _audited(one: Attacked) -> float | None:
    """The lower bound, where there is one."""
    if isinstance(one.attack, External):
        return one.attack.audited
    return None if one.attack.bound is None else one.attack.bound.epsilon


def _confidence(one: Attacked) -> str | None:
    found = one.attack if isinstance(one.attack, External) else one.attack.bound
    return None if found is None else confidence_text(found.confidence)


def _trials(one: Attacked) -> str:
    return f"{one.attack.trials:,}" if isinstance(one.attack, External) else trials_text(one.attack)


def _measured(one: Attacked) -> str | None:
    """Every measure that says something, then counts."""
    if one.ours is None:
        return None
    shown = {name: measured_text(one.ours, name, one.power) for name in one.ours.measures}
    parts = [f"{measure_name(name)} {text}" for name, text in shown.items() if text != "–"]
    parts += [f"{name} {count:,}" for name, count in one.ours.counts.items()]
    return "; ".join(parts) or None


def _model(one: Attacked) -> str:
    if isinstance(one.attack, External):
        return f"{model_name(one.attack.model)}, {one.attack.suite}, version {one.attack.version}"
    return f"{model_name(one.attack.manifest.model.name)} ({weights(one.attack)[:12] or 'no fingerprint'})"


def _source(one: Attacked) -> str:
    if isinstance(one.attack, AttackResult):
        return one.attack.id
    parts = [f"{one.attack.authors}, {one.attack.date}: {one.attack.reference}", one.attack.code, one.attack.note]
    return "; ".join(part for part in parts if part)


_COLUMNS = (
    Column("row", "mechanism", attrgetter("label")),
    Column("epsilon", "ε", attrgetter("epsilon"), epsilon_text),
    Column("task", "task", attrgetter("task")),
    Column("attack", "attack", _name, wide=True),
    Column("access", "access", attrgetter("attack.access")),
    Column("proved", "proved ε", attrgetter("proved"), epsilon_text, "upper bound, from the ledger of that run"),
    Column("audited", "audited ε", _audited, bound_text, "lower bound that the attack proves"),
    Column("confidence", "confidence", _confidence, help="of the audited ε, by itself"),
    Column("trials", "trials", _trials, wide=True),
    Column("measured", "measured", _measured, wide=True, optional=True),
    Column("on", "made on", lambda one: one.on or None, wide=True, optional=True),
    Column("records", "records", lambda one: one.ours and one.ours.subject.source, optional=True, page=True),
    Column("model", "model", _model, wide=True, page=True),
    Column("source", "source", _source, wide=True),
)


def on_rows(rows: Iterable[Row]) -> list[Attacked]:
    """Every attack on these rows."""
    found = []
    for row in rows:
        audit = row.audit
        for one in audit.attacks:
            proved, on = one.privacy.epsilon_proved, audit.settings.get(one.id, "")
            found.append(Attacked(row.name, row.task, row.epsilon, one, proved, on, audit.powers.get(one.id)))
        found += [Attacked(row.name, row.task, row.epsilon, one, row.proved, "") for one in audit.external]
    return found


def attacks_table(title: str, attacked: Sequence[Attacked], heading: bool = True) -> Table:
    """A line an attack, and what they and their controls say about their measures."""
    said: dict[str, None] = {}
    for one in (each for each in attacked if each.ours is not None):
        assert one.ours is not None
        exact = [f"exact: {ATTAINED}"] if one.ours.attack in (EXACT, GROUP) else []
        noted = (f"{measure_name(name)}: {found.note}" for name, found in one.ours.measures.items() if found.note)
        power = [str(one.power)] if one.power is not None else []
        said |= dict.fromkeys((*exact, *power, *one.ours.notes, *noted))
    return make_table(
        title,
        _COLUMNS,
        attacked,
        kind=lambda one: "end" if one.label in _ENDS else "",
        keep=3,
        heading=heading,
        notes=tuple(said),
    )


def row_attacks(task: str, rows: Sequence[Row]) -> list[Block]:
    """Every attack on the rows of one task, and how to audit rows without an audit."""
    blocks: list[Block] = []
    if attacked := on_rows(rows):
        blocks.append(attacks_table(f"{task}: attacks", attacked))
        if any(len(row.audit.attacks) > 1 for row in rows):
            blocks += notes(
                ["Audited ε of a row is the largest bound of ours at 95% or more; each has its own confidence."]
            )
    if lacking := [row for row in rows if row.audit.command]:
        labels = names_text(dict.fromkeys(row.name for row in lacking))
        blocks += notes([f"no audit yet at some ε: {labels}. Make the first one with:"])
        blocks.append(words(lacking[0].audit.command, "command"))
    return blocks


def share_text(best: AttackResult | None) -> str | None:
    """Audited ε over the ε that was proved for the attacked run, as a percentage."""
    if best is None or best.bound is None or not 0 < best.privacy.epsilon_proved < math.inf:
        return None
    return f"{100 * best.bound.epsilon / best.privacy.epsilon_proved:.0f}%"


def attack_blocks(board: AttackBoard) -> list[Block]:
    """Every attack under a results folder, whether a suite has a row for it or not."""
    blocks: list[Block] = [*notes(board.notes)]
    if not board.attacks and not board.external:
        return [*blocks, words(_NOTHING)]
    blocks += [_summary(board.attacks)] if board.attacks else []
    for (name, question), found in groupby(board.attacks, lambda one: (one.attack, question_of(one))):
        own = _of_attack(list(found), board.powers)
        title = name + (f" ({question})" if question else "")
        blocks.append(Part((attacks_table(title, own, heading=False),), f"{title}: {counted(len(own))}"))
    if board.external:
        external = [Attacked(one.label, one.task, one.epsilon, one, None, "") for one in board.external]
        blocks.append(attacks_table("External evaluations", external))
    return blocks


def _of_attack(results: Sequence[AttackResult], known: Mapping[str, Power]) -> list[Attacked]:
    found = []
    for one in results:
        subject, on = one.subject, f"{sizes_text(one)}, {options_text(one.subject.options)}"
        proved = one.privacy.epsilon_proved
        found.append(Attacked(subject.mechanism, subject.task, subject.epsilon, one, proved, on, known.get(one.id)))
    return found


def _summary(attacks: Sequence[AttackResult]) -> Table:
    """A line for each mechanism and ε; reference baselines and broken mechanisms last."""
    own: dict[tuple[bool, str, float], list[AttackResult]] = defaultdict(list)
    for one in attacks:
        own[one.subject.mechanism in _ENDS, one.subject.mechanism, one.subject.epsilon].append(one)
    items = [(label, epsilon, found, _best(found)) for (_, label, epsilon), found in sorted(own.items())]
    columns = (
        Column("row", "mechanism", itemgetter(0)),
        Column("epsilon", "ε", itemgetter(1), epsilon_text),
        Column("attacks", "attacks", lambda item: len(item[2])),
        Column(
            "tasks", "tasks", lambda item: names_text(dict.fromkeys(one.subject.task for one in item[2])), wide=True
        ),
        Column("audited", "largest audited ε", lambda i: i[3] and i[3].bound.epsilon, bound_text, "a lower bound"),
        Column("proved", "proved ε of that run", lambda i: i[3] and i[3].privacy.epsilon_proved, epsilon_text),
        Column("share", "share", lambda item: share_text(item[3]), help="the first over the second"),
        Column("by", "by", lambda i: i[3] and f"{attack_name(i[3])} on {i[3].subject.task}", wide=True),
    )
    return make_table(
        "In short", columns, items, kind=lambda item: "end" if item[0] in _ENDS else "", keep=2, heading=True
    )


def _best(attacks: Iterable[AttackResult]) -> AttackResult | None:
    bounded = [one for one in attacks if one.bound is not None]
    return max(bounded, key=lambda one: one.bound.epsilon if one.bound else 0.0, default=None)
