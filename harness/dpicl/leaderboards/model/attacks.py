"""Attacks: the board of every attack result and external evaluation under a results folder, whether a suite has a row
for it or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from dpicl.attacks.power import Power, powers
from dpicl.attacks.results import AttackResult, External
from dpicl.attacks.table import sizes_text
from dpicl.leaderboards.model.comparability import REAL_DATA, is_simulated, weights
from dpicl.leaderboards.model.text import counted

Options = Mapping[str, Any]

#: Stands for the default of an option where the mechanism is not known here.
_DEFAULT = "its default"


def differing_options(attacked: Options, own: Options, defaults: Options) -> dict[str, tuple[Any, Any]]:
    """Option -> (value in the attack, value in the row), where they differ; one that is not given has its default."""
    pairs = {
        name: tuple(given.get(name, defaults.get(name, _DEFAULT)) for given in (attacked, own))
        for name in dict.fromkeys([*attacked, *own])
    }
    return {name: (here, there) for name, (here, there) in pairs.items() if here != there}


def against_row(result: AttackResult, own: Options, defaults: Options) -> str:
    """What was attacked, where it is not the row's own: '8 records, 1 query, slots = 4 (row: 10)'."""
    pairs = differing_options(result.subject.options, own, defaults)
    options = [f"{name} = {here} (row: {there})" for name, (here, there) in sorted(pairs.items())]
    return ", ".join([sizes_text(result), *options])


@dataclass(frozen=True)
class AttackBoard:
    """Our attacks by attack, question, task, source and model, then what others found."""

    attacks: tuple[AttackResult, ...]
    external: tuple[External, ...]
    notes: tuple[str, ...]

    @cached_property
    def powers(self) -> Mapping[str, Power]:
        """Id of a result -> what its attack finds where nothing is hidden."""
        return powers(self.attacks)


def build_attacks(attacks: Sequence[AttackResult], external: Sequence[External]) -> AttackBoard:
    """The board of these results. Those of simulated models are left out where there are real ones; a note says so."""
    notes = []
    real = [result for result in attacks if not is_simulated(result.manifest.model.name)]
    if real and len(real) < len(attacks):
        notes.append(f"Left out: {counted(len(attacks) - len(real), 'attack')} on a simulated model.")
        attacks = real
    elif attacks and not real:
        notes.append("The model is simulated: these numbers test the machinery and say nothing about any mechanism.")
    ordered = sorted(external, key=lambda one: (one.suite, one.task, one.label, one.epsilon, one.authors))
    return AttackBoard(tuple(sorted(attacks, key=_order)), tuple(ordered), tuple(notes))


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
