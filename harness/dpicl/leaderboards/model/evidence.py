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
from dpicl.leaderboards.model.comparability import REAL_DATA, Group, attack_identity, value_of, values_of, weights
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.model.text import gather
from dpicl.models.server_settings import without_address

Options = Mapping[str, Any]
#: What `dpicl audit` takes when no `--delta` is given.
DEFAULT_DELTA = 1e-5
#: Stands for the default of an option where the mechanism is not known here.
_DEFAULT = "its default"


@dataclass(frozen=True)
class Evidence:
    """Attacks. defaults: (mechanism, task) -> the options that it has when none is given."""

    attacks: tuple[AttackResult, ...] = ()
    defaults: Callable[[str, str], Options] = lambda mechanism, task: {}


def audit_rows(tables: Sequence[TaskTable], group: Group, evidence: Evidence) -> None:
    """Gives every row its `Audit`. A flagged row has no rank on any task at this ε."""
    known_powers = powers(evidence.attacks)
    for table in tables:
        attacks = _attacks_of(table.in_order, evidence)
        for row in table.in_order:
            row.audit = _audit(row, attacks[id(row)], group, evidence, known_powers)
    flagged = {row.key: row for table in tables for row in table.rows if row.audit.flag}
    for row in (row for table in tables for row in table.rows):
        if other := flagged.get(row.key):
            said = row.unranked or f"on {other.task} its {other.audit.flag}"
            row.unranked = row.audit.flag or said


def _audit(
    row: Row, attacks: Sequence[AttackResult], group: Group, evidence: Evidence, known_powers: Mapping[str, Power]
) -> Audit:
    audit = audit_of(attacks)
    known, first = evidence.defaults(row.mechanism, row.task), row.results[0]
    done = any(one.attack in ("audit", EXACT) for one in audit.attacks)
    wanted = 0 < row.epsilon < math.inf and not done
    return replace(
        audit,
        settings={one.id: describe_against_row(one, _options(row), known) for one in audit.attacks},
        powers={one.id: known_powers[one.id] for one in audit.attacks if one.id in known_powers},
        command=_audit_command(group, first.cell, known) if wanted else "",
    )


def _attacks_of(rows: Sequence[Row], evidence: Evidence) -> dict[int, list[AttackResult]]:
    """id of a row -> its attacks."""
    found: dict[int, list[AttackResult]] = defaultdict(list)
    identities = [attack_identity(result) for result in evidence.attacks]
    conditions = [*identities[0]] if identities else []
    by_identity: dict[tuple[Hashable, ...], list[Row]] = defaultdict(list)
    for row in rows:
        by_identity[values_of(row.results[0], conditions)].append(row)
    for result, identity in zip(evidence.attacks, identities, strict=True):
        candidates = by_identity.get(tuple(identity.values()), [])
        if kind_of(result) == "exact":
            candidates = [row for row in candidates if _is_row(result, row)]
        known = evidence.defaults(result.subject.mechanism, result.subject.task)
        differ = [_count_differing(result.subject.options, _options(row), known) for row in candidates]
        for row, number in zip(candidates, differ, strict=True):
            if number == min(differ):
                found[id(row)].append(result)
    return found


def _is_row(result: AttackResult, row: Row) -> bool:
    """Whether an exact audit was made on this row."""
    one, subject = row.results[0], result.subject
    audited = (subject.options, subject.shots, result.privacy.queries, result.manifest.data.sizes)
    return audited == (one.cell.options, one.cell.shots, one.privacy.queries, one.manifest.data.sizes)


def _audit_command(group: Group, cell: Cell, defaults: Mapping[str, Any]) -> str:
    """The command that audits a row's mechanism at its epsilon.

    It has the row's options that are words or switches, where they differ from ``defaults``; sizes are the audit's own.
    """
    words = ["dpicl", "audit", cell.mechanism, "--task", cell.task, "--epsilon", f"{cell.epsilon:g}"]
    words += ["--model", without_address(group.model), "--source", group.source]
    if group.delta != DEFAULT_DELTA:
        words += ["--delta", f"{group.delta:g}"]
    for name, value in sorted(cell.options.items()):
        if isinstance(value, str | bool) and (name not in defaults or defaults[name] != value):
            words += ["--option", f"{name}={json.dumps(value) if isinstance(value, bool) else value}"]
    return shlex.join(words) + (" --plugin FILE" if cell.plugin else "")


def _options(row: Row) -> Options:
    return row.results[0].cell.options


def _count_differing(attacked: Options, own: Options, defaults: Options) -> int:
    pairs = differing_options(attacked, own, defaults).values()
    return sum(any(isinstance(value, str | bool) for value in pair) for pair in pairs)


def list_left_out(rows: Sequence[Row], evidence: Evidence) -> Iterator[str]:
    """Attacks on another version of a row."""
    used = {id(one) for row in rows for one in row.audit.attacks}
    others = []
    for result in evidence.attacks:
        own = attack_identity(result)
        for row in rows if id(result) not in used else []:
            first = row.results[0]
            if any(value_of(first, name) != own[name] for name in ("mechanism", "task", "model", "ε")):
                continue
            differs = [name for name, value in own.items() if value_of(first, name) != value]
            if differs:  # none: exact, of another row
                others.append((f"Left out attacks with another {', '.join(differs)}", f"{row.title} on {row.task}"))
                break
    yield from gather(others)


def differing_options(attacked: Options, own: Options, defaults: Options) -> dict[str, tuple[Any, Any]]:
    """Option -> (value in the attack, value in the row), where they differ; one that is not given has its default."""
    pairs = {
        name: tuple(given.get(name, defaults.get(name, _DEFAULT)) for given in (attacked, own))
        for name in dict.fromkeys([*attacked, *own])
    }
    return {name: (here, there) for name, (here, there) in pairs.items() if here != there}


def describe_against_row(result: AttackResult, own: Options, defaults: Options) -> str:
    """What was attacked, where it is not the row's own: '8 records, 1 query, slots = 4 (row: 10)'."""
    pairs = differing_options(result.subject.options, own, defaults)
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
        notes.append("The model is simulated: these numbers test the machinery and say nothing about any mechanism.")
    return AttackBoard(tuple(sorted(attacks, key=_order)), tuple(notes))


def question_of(result: AttackResult) -> str:
    """Which of several questions the attack asked; '' where there is only one."""
    return str(result.settings.get("question", ""))


def _order(result: AttackResult) -> tuple[str | float, ...]:
    """On one task: zero-shot and other ε = 0 first, mechanisms by name and ε, real demonstrations last."""
    subject = result.subject
    end = 2.0 if subject.mechanism == REAL_DATA else 1.0
    place = 0.0 if result.privacy.epsilon_proved == 0 else end
    what = (result.attack, question_of(result), subject.task, subject.source, result.manifest.model.name)
    return *what, weights(result), place, subject.mechanism, subject.epsilon, result.access, result.id
