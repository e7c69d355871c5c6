"""What boards show of attacks: on the rows of a board, and of all attacks under a results folder."""

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
    confidence_of,
    measure_name,
    measured_text,
    options_text,
    question_of,
    rates_text,
    sizes_text,
    trials_text,
)
from dpicl.leaderboards.model.audits import attack_name
from dpicl.leaderboards.model.comparability import BASELINES, weights
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.text import bound_text, confidence_text, counted, epsilon_text, names_text
from dpicl.tables.document import (
    Block,
    Column,
    Part,
    Table,
    make_table,
    notes,
    words,
)

_NOTHING = "There are no attacks yet; make some with: dpicl audit voting --task agnews --epsilon 1"
_ENDS = (*BASELINES, *CONTROLS)


@dataclass(frozen=True)
class Attacked:
    """An attack of ours or of others on something. proved: the upper bound that it faces. on: what it was made on."""

    label: str
    task: str
    epsilon: float
    attack: AttackResult | External
    proved: float
    on: str
    power: Power | None = None

    @property
    def name(self) -> str:
        return self.attack.attack + (" (external)" if isinstance(self.attack, External) else "")

    @property
    def audited(self) -> float | None:
        if isinstance(self.attack, External):
            return self.attack.audited
        return None if self.attack.bound is None else self.attack.bound.epsilon


def _confidence(one: Attacked) -> str:
    attack = one.attack
    return confidence_text(attack.confidence) if isinstance(attack, External) else confidence_of(attack)


def _trials(one: Attacked) -> str:
    return f"{one.attack.trials:,}" if isinstance(one.attack, External) else trials_text(one.attack)


def _rates(one: Attacked) -> str | None:
    return None if isinstance(one.attack, External) else rates_text(one.attack)


def _measured(one: Attacked) -> str | None:
    """Every measure that says something, then counts."""
    if isinstance(one.attack, External):
        return None
    shown = {name: measured_text(one.attack, name, one.power) for name in one.attack.measures}
    parts = [f"{measure_name(name)} {text}" for name, text in shown.items() if text != "–"]
    parts += [f"{name} {count:,}" for name, count in one.attack.counts.items()]
    return "; ".join(parts) or None


def _source(one: Attacked) -> str:
    if isinstance(one.attack, AttackResult):
        return one.attack.id
    parts = [f"{one.attack.authors}, {one.attack.date}: {one.attack.reference}", one.attack.code, one.attack.note]
    return "; ".join(part for part in parts if part)


_BOUND = (
    Column("access", "access", attrgetter("attack.access")),
    Column("proved", "proved ε", attrgetter("proved"), epsilon_text, "upper bound, from the ledger of that run"),
    Column("audited", "audited ε", attrgetter("audited"), bound_text, "lower bound that the attack proves"),
    Column("confidence", "confidence", _confidence, help="of the audited ε, by itself"),
    Column("trials", "trials", _trials, wide=True),
    Column("measured", "measured", _measured, wide=True, optional=True),
)
_LABEL = Column("row", "mechanism", attrgetter("label"))
_TASK = Column("task", "task", attrgetter("task"))
_EPSILON = Column("epsilon", "ε", attrgetter("epsilon"), epsilon_text)
_ATTACK = Column("attack", "attack", attrgetter("name"), wide=True)
_RATES = Column("rates", "TPR, FPR", _rates, page=True)
_ON = Column("on", "made on", attrgetter("on"), wide=True)
_SOURCE = Column("source", "source", _source, wide=True)


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


def attacks_table(title: str, attacked: Sequence[Attacked], several_tasks: bool = False) -> Table:
    """A line an attack on rows of a board."""
    columns = [_LABEL, *([_TASK] if several_tasks else []), _EPSILON, _ATTACK, *_BOUND, _RATES, _ON, _SOURCE]
    ours = [one.attack for one in attacked if isinstance(one.attack, AttackResult)]
    noted = dict.fromkeys(note for one in ours for note in one.notes)
    return make_table(title, columns, attacked, keep=3, heading=True, notes=tuple(noted))


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


def share_text(row: Row | None) -> str | None:
    """Audited ε over the ε that was proved for the attacked run, as a percentage."""
    best = None if row is None else row.audit.best
    return None if best is None else _share(best)


def _share(best: AttackResult) -> str | None:
    if best.bound is None or not 0 < best.privacy.epsilon_proved < math.inf:
        return None
    return f"{100 * best.bound.epsilon / best.privacy.epsilon_proved:.0f}%"


# The board of all attacks.


def attack_blocks(board: AttackBoard) -> list[Block]:
    """Every attack under a results folder, whether a suite has a row for it or not."""
    blocks: list[Block] = [*notes(board.notes)]
    if not board.attacks and not board.external:
        return [*blocks, words(_NOTHING)]
    blocks += [_summary(board.attacks)] if board.attacks else []
    for (name, question), found in groupby(board.attacks, lambda one: (one.attack, question_of(one))):
        own = list(found)
        title = name + (f" ({question})" if question else "")
        blocks.append(Part((_of_attack(title, own, board.powers),), f"{title}: {counted(len(own))}"))
    if board.external:
        external = [Attacked(one.label, one.task, one.epsilon, one, math.nan, "") for one in board.external]
        suite = Column("suite", "suite", lambda one: f"{one.attack.suite}, version {one.attack.version}", wide=True)
        model = Column("model", "model", lambda one: model_name(one.attack.model), wide=True)
        shown = [column for column in _BOUND if column.key not in ("proved", "measured")]
        columns = [_LABEL, suite, _TASK, _EPSILON, model, _ATTACK, *shown, _SOURCE]
        blocks.append(make_table("External evaluations", columns, external, heading=True))
    return blocks


def _model(one: Attacked) -> str:
    assert isinstance(one.attack, AttackResult)
    return f"{model_name(one.attack.manifest.model.name)} ({weights(one.attack)[:12] or 'no fingerprint'})"


def _of_attack(title: str, results: Sequence[AttackResult], known: Mapping[str, Power]) -> Table:
    """The results of one attack, with what they and their controls say about their measures."""
    items = [
        Attacked(
            one.subject.mechanism,
            one.subject.task,
            one.subject.epsilon,
            one,
            one.privacy.epsilon_proved,
            f"{sizes_text(one)}, {options_text(one.subject.options)}",
            known.get(one.id),
        )
        for one in results
    ]
    columns = (
        *(_LABEL, _EPSILON, _TASK, *_BOUND, _ON, Column("source", "records", attrgetter("attack.subject.source"))),
        Column("model", "model", _model, wide=True),
        Column("settings", "settings", lambda one: options_text(one.attack.settings), wide=True, page=True),
        Column("id", "id", attrgetter("attack.id"), page=True),
    )
    said = dict.fromkeys([f"exact: {ATTAINED}"] if results[0].attack in (EXACT, GROUP) else [])
    for one in results:
        noted = (f"{measure_name(name)}: {found.note}" for name, found in one.measures.items() if found.note)
        power = [str(known[one.id])] if one.id in known else []
        said |= dict.fromkeys((*power, *one.notes, *noted))
    return make_table(
        title, columns, items, kind=lambda one: "end" if one.label in _ENDS else "", keep=2, notes=tuple(said)
    )


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
        Column("share", "share", lambda i: i[3] and _share(i[3]), help="the first over the second"),
        Column("by", "by", lambda i: i[3] and f"{attack_name(i[3])} on {i[3].subject.task}", wide=True),
    )
    return make_table(
        "In short", columns, items, kind=lambda item: "end" if item[0] in _ENDS else "", keep=2, heading=True
    )


def _best(attacks: Iterable[AttackResult]) -> AttackResult | None:
    bounded = [one for one in attacks if one.bound is not None]
    return max(bounded, key=lambda one: one.bound.epsilon if one.bound else 0.0, default=None)
