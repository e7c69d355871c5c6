"""The board of all attacks: every attack result and external evaluation under a results folder, row of a suite or not.

A table holds one attack, with one question where it has several, on one task with one source of records and one model
(hash of its weights).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dpicl.harness.attacks.results import AttackResult, External
from dpicl.leaderboards.model.attack_text import measure_name
from dpicl.leaderboards.model.comparability import REAL_DATA, is_simulated, weights
from dpicl.leaderboards.model.text import counted


@dataclass(frozen=True)
class AttackTable:
    """Results of one attack that may be compared: by mechanism and rising ε. question: "" where there is only one.

    weights: "" where nothing identifies them.
    """

    attack: str
    question: str
    task: str
    source: str
    model: str
    weights: str
    results: tuple[AttackResult, ...]

    @property
    def title(self) -> str:
        asked = f" ({self.question})" if self.question else ""
        return f"{self.attack}{asked} on {self.task}"

    @property
    def measures(self) -> list[str]:
        """Every measure that some result has."""
        return list(dict.fromkeys(name for result in self.results for name in result.measures))

    @property
    def counts(self) -> list[str]:
        """Every count that some result has."""
        return list(dict.fromkeys(name for result in self.results for name in result.counts))

    @property
    def remarks(self) -> list[str]:
        """What results say about themselves and about their measures, each once."""
        said: dict[str, None] = {}
        for one in self.results:
            noted = (f"{measure_name(name)}: {found.note}" for name, found in one.measures.items() if found.note)
            said |= dict.fromkeys((*one.notes, *noted))
        return list(said)


@dataclass(frozen=True)
class AttackBoard:
    """All tables by attack, task, source and model; then what others found."""

    tables: tuple[AttackTable, ...]
    external: tuple[External, ...]
    notes: tuple[str, ...]


def build_attacks(attacks: Sequence[AttackResult], external: Sequence[External]) -> AttackBoard:
    """The board of these results. Those of simulated models are left out where there are real ones; a note says so."""
    notes = []
    real = [result for result in attacks if not is_simulated(result.manifest.model.name)]
    if real and len(real) < len(attacks):
        notes.append(f"Left out: {counted(len(attacks) - len(real), 'attack')} on a simulated model.")
        attacks = real
    elif attacks and not real:
        notes.append("The model is simulated: these numbers test the machinery and say nothing about any mechanism.")
    groups: dict[tuple[str, str, str, str, str, str], list[AttackResult]] = defaultdict(list)
    for result in attacks:
        question, subject, model = str(result.settings.get("question", "")), result.subject, result.manifest.model.name
        groups[result.attack, question, subject.task, subject.source, model, weights(result)].append(result)
    tables = (AttackTable(*key, tuple(sorted(own, key=_order))) for key, own in sorted(groups.items()))
    ordered = sorted(external, key=lambda one: (one.suite, one.task, one.label, one.epsilon, one.authors))
    return AttackBoard(tuple(tables), tuple(ordered), tuple(notes))


def _order(result: AttackResult) -> tuple[float, str, float, str, str]:
    """Zero-shot and other ε = 0 first, mechanisms by name and ε, real demonstrations last."""
    epsilon = result.privacy.epsilon_proved
    place = 0.0 if epsilon == 0 else 2.0 if result.subject.mechanism == REAL_DATA else 1.0
    return place, result.subject.mechanism, result.subject.epsilon, result.access, result.id
