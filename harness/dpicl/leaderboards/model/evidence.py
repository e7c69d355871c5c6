"""Matches attacks to the rows of a board, withdraws refuted rows, and builds the board of all attacks.

An attack tests code at a target ε, on a private set of its own that is usually smaller. It belongs to the rows that
share its `attack_identity`; sizes may differ and are shown. Options that are words or switches choose another
algorithm: of several rows of one mechanism an attack belongs to those with which it shares most of these options.
An exact audit was made on a row itself: it belongs to the rows with the same options, number of queries and sizes of
the private classes alone.
"""

from __future__ import annotations

import json
import math
import shlex
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dpicl.attacks.audited import Audit, audit_of, kind_of
from dpicl.attacks.power import Power, powers
from dpicl.attacks.results import EXACT, AttackResult
from dpicl.attacks.table import sizes_text
from dpicl.core.cell import Cell
from dpicl.core.messages import count
from dpicl.core.vocabulary import is_simulated
from dpicl.leaderboards.model.comparability import (
    ATTACK,
    REAL_DATA,
    Group,
    attack_identity,
    values_of,
    weights,
)
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import gather
from dpicl.models.server_settings import without_address

Options = Mapping[str, Any]
#: What `dpicl audit` takes when no `--delta` is given.
DEFAULT_DELTA = 1e-5
#: What an attack on another version of a row shares with it.
_SUBJECT = ("mechanism", "task", "model", "ε")
#: Stands for the default of an option where the mechanism is not known here.
_DEFAULT = "its default"


def _no_options(mechanism: str, task: str) -> Options:
    return {}


@dataclass(frozen=True)
class Evidence:
    """Attacks. defaults: (mechanism, task) -> the options that it has when none is given, as far as they are known."""

    attacks: tuple[AttackResult, ...] = ()
    defaults: Callable[[str, str], Options] = _no_options


def audit_rows(tables: Sequence[TaskTable], group: Group, evidence: Evidence) -> None:
    """Gives every row its `Audit`. A flagged row has no rank on any task at this ε."""
    known_powers = powers(evidence.attacks)
    for table in tables:
        attacks = _attacks_of(table.in_order, evidence)
        for row in table.in_order:
            row.audit = _audit(row, attacks[id(row)], group, evidence, known_powers)
    rows = [row for table in tables for row in table.rows]
    flagged = {row.key: row for row in rows if row.audit.flag}
    for row in rows:
        if other := flagged.get(row.key):
            row.unranked = (
                row.audit.flag or row.unranked or f"on {other.task} its {other.audit.flag}"
            )


def _audit(
    row: Row,
    attacks: Sequence[AttackResult],
    group: Group,
    evidence: Evidence,
    known_powers: Mapping[str, Power],
) -> Audit:
    audit = audit_of(attacks)
    defaults = evidence.defaults(row.mechanism, row.task)
    is_audited = any(attack.attack in ("audit", EXACT) for attack in audit.attacks)
    needs_audit = 0 < row.epsilon < math.inf and not is_audited
    ids = [attack.id for attack in audit.attacks]
    return replace(
        audit,
        settings={
            attack.id: describe_against_row(attack, _options(row), defaults)
            for attack in audit.attacks
        },
        powers={id: known_powers[id] for id in ids if id in known_powers},
        command=_audit_command(group, row.results[0].cell, defaults) if needs_audit else "",
    )


def _attacks_of(rows: Sequence[Row], evidence: Evidence) -> dict[int, list[AttackResult]]:
    """id of a row -> its attacks."""
    attacks: dict[int, list[AttackResult]] = defaultdict(list)
    by_identity: dict[tuple[Hashable, ...], list[Row]] = defaultdict(list)
    tasks = {row.task for row in rows}
    for row in rows:
        by_identity[values_of(row.results[0], ATTACK)].append(row)
    of_task = [result for result in evidence.attacks if result.subject.task in tasks]
    for result in of_task:
        candidates = by_identity.get(tuple(attack_identity(result).values()), [])
        if kind_of(result) == "exact":
            candidates = [row for row in candidates if _is_row(result, row)]
        subject = result.subject
        defaults = evidence.defaults(subject.mechanism, subject.task)
        numbers = [_count_differing(subject.options, _options(row), defaults) for row in candidates]
        for row, number in zip(candidates, numbers, strict=True):
            if number == min(numbers):
                attacks[id(row)].append(result)
    return attacks


def _is_row(result: AttackResult, row: Row) -> bool:
    """Whether an exact audit was made on this row."""
    first, subject = row.results[0], result.subject
    return (
        (subject.options, subject.shots) == (first.cell.options, first.cell.shots)
        and result.privacy.queries == first.privacy.queries
        and result.manifest.data.sizes == first.manifest.data.sizes
    )


def _audit_command(group: Group, cell: Cell, defaults: Mapping[str, Any]) -> str:
    """The command that audits a row's mechanism at its epsilon.

    It has the row's options that are words or switches, where they differ from ``defaults``; sizes are the audit's own.
    """
    text = (
        f"dpicl audit {shlex.quote(cell.mechanism)} --task {cell.task} --epsilon {cell.epsilon:g}"
    )
    text += f" --model {shlex.quote(without_address(group.model))} --source {group.source}"
    if group.delta != DEFAULT_DELTA:
        text += f" --delta {group.delta:g}"
    for name, value in sorted(cell.options.items()):
        if isinstance(value, str | bool) and (name not in defaults or defaults[name] != value):
            word = json.dumps(value) if isinstance(value, bool) else value
            text += f" --option {shlex.quote(f'{name}={word}')}"
    return text + (" --plugin FILE" if cell.plugin else "")


def _options(row: Row) -> Options:
    return row.results[0].cell.options


def _count_differing(attacked: Options, of_row: Options, defaults: Options) -> int:
    """How many options that are words or switches differ."""
    pairs = differing_options(attacked, of_row, defaults).values()
    return sum(any(isinstance(value, str | bool) for value in pair) for pair in pairs)


def list_left_out(rows: Sequence[Row], evidence: Evidence) -> Iterator[str]:
    """Attacks on another version of a row."""
    used = {id(attack) for row in rows for attack in row.audit.attacks}
    by_subject: dict[tuple[Hashable, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_subject[values_of(row.results[0], _SUBJECT)].append(row)
    notes = []
    for result in evidence.attacks:
        identity = attack_identity(result)
        subject = tuple(identity[name] for name in _SUBJECT)
        for row in [] if id(result) in used else by_subject[subject]:
            values = zip(ATTACK, values_of(row.results[0], ATTACK), strict=True)
            differing = [name for name, value in values if identity[name] != value]
            if differing:  # else it is exact, of another row
                notes.append((f"Left out attacks with another {', '.join(differing)}", row.place))
                break
    yield from gather(notes)


def differing_options(
    attacked: Options,
    of_row: Options,
    defaults: Options,
) -> dict[str, tuple[Any, Any]]:
    """Option -> (value in the attack, value in the row), where they differ; one that is not given has its default."""
    pairs = {}
    for name in dict.fromkeys([*attacked, *of_row]):
        default = defaults.get(name, _DEFAULT)
        here, there = attacked.get(name, default), of_row.get(name, default)
        if here != there:
            pairs[name] = here, there
    return pairs


def describe_against_row(result: AttackResult, of_row: Options, defaults: Options) -> str:
    """What was attacked, and the options that differ from the row's: '8 records, 1 query, slots = 4 (row: 10)'."""
    pairs = differing_options(result.subject.options, of_row, defaults)
    options = [f"{name} = {here} (row: {there})" for name, (here, there) in sorted(pairs.items())]
    return ", ".join([sizes_text(result), *options])


@dataclass(frozen=True)
class AttackBoard:
    """Attacks by attack, question, task, source and model."""

    attacks: tuple[AttackResult, ...]
    notes: tuple[str, ...]

    @cached_property
    def powers(self) -> Mapping[str, Power]:
        """Id of a result -> what its attack finds where nothing is hidden."""
        return powers(self.attacks)


def build_attacks(attacks: Sequence[AttackResult]) -> AttackBoard:
    """The board of these results. Those of simulated models are left out where there are real ones; a note says so."""
    notes = []
    real = [result for result in attacks if not is_simulated(result.manifest.model.name)]
    if real and len(real) < len(attacks):
        notes.append(f"Left out: {count(len(attacks) - len(real), 'attack')} on a simulated model.")
        attacks = real
    elif attacks and not real:
        notes.append(
            "The model is simulated: these numbers test the machinery and say nothing about any mechanism."
        )
    return AttackBoard(tuple(sorted(attacks, key=_order)), tuple(notes))


def question_of(result: AttackResult) -> str:
    """Which of its questions the attack asked; '' where it has only one."""
    return str(result.settings.get("question", ""))


def _order(result: AttackResult) -> tuple[str | float, ...]:
    """On one task: zero-shot and other ε = 0 first, mechanisms by name and ε, real demonstrations last."""
    subject = result.subject
    place = 2 if subject.mechanism == REAL_DATA else 1
    return (
        result.attack,
        question_of(result),
        subject.task,
        subject.source,
        result.manifest.model.name,
        weights(result),
        0 if result.privacy.epsilon_proved == 0 else place,
        subject.mechanism,
        subject.epsilon,
        result.access,
        result.id,
    )
