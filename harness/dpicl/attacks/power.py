"""Estimates the power of an attack from controls that hide nothing.

Two controls, with the settings of the attack itself: real demonstrations (epsilon = infinity), and a mechanism that is
broken on purpose (dpicl.attacks.broken). Where the interval on the first of them includes what guessing gives, a small
number about another mechanism says nothing about that mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from dpicl.attacks.results import AttackResult, Estimate

#: Shown in place of the numbers of an attack without power.
NO_POWER = "no power here"
#: Measure of an attack's power, the first one that it has -> its value by guessing.
CHANCE: Mapping[str, float] = {"auc": 0.5, "leaking": 0.0}
#: The controls, in the order in which they decide.
CONTROLS: tuple[str, ...] = (
    "real_demonstrations",
    "broken_answers",
    "broken_demonstrations",
)


@dataclass(frozen=True)
class Power:
    """What an attack found on its controls. measure: of `CHANCE`. controls: name -> estimate, the first decides."""

    measure: str
    controls: Mapping[str, Estimate]

    @property
    def sufficient(self) -> bool | None:
        """Whether the first control beats chance; None without a control."""
        first = next(iter(self.controls.values()), None)
        return None if first is None else _beats_chance(self.measure, first)

    def is_inconclusive(self, result: AttackResult) -> bool:
        """Whether its numbers say nothing: neither its own measure of power nor the control beats chance."""
        estimate = result.measures.get(self.measure)
        beats_chance = estimate is not None and _beats_chance(self.measure, estimate)
        return self.sufficient is False and not beats_chance

    def __str__(self) -> str:
        """'power (auc): real_demonstrations 0.57 [0.46, 0.68], no power here; broken_answers 1.00 [0.96, 1.00]'."""
        if not self.controls:
            return "power: not measured, since neither real demonstrations nor a broken mechanism was attacked so"
        parts = []
        for name, estimate in self.controls.items():
            text = f"{name} {estimate.value:z.2f} [{estimate.low:z.2f}, {estimate.high:z.2f}]"
            parts.append(text if _beats_chance(self.measure, estimate) else f"{text}, {NO_POWER}")
        return f"power ({self.measure}, {CHANCE[self.measure]:g} by guessing): {'; '.join(parts)}"

    def to_json(self) -> dict[str, object]:
        """Measure, what guessing gives, each control's estimate, and whether the first beats chance."""
        return {
            "measure": self.measure,
            "chance": CHANCE[self.measure],
            "controls": {
                name: estimate.model_dump(mode="json") for name, estimate in self.controls.items()
            },
            "sufficient": self.sufficient,
        }


def powers(results: Iterable[AttackResult]) -> dict[str, Power]:
    """Id -> the power of the attack with that result's settings, for those that have a measure of it."""
    groups: dict[str, list[AttackResult]] = {}
    for result in results:
        groups.setdefault(_settings(result), []).append(result)
    by_id: dict[str, Power] = {}
    for group in groups.values():
        measure = next(
            (name for name in CHANCE if any(name in result.measures for result in group)), None
        )
        if measure is None:
            continue
        measured = [result for result in group if measure in result.measures]
        estimates = {result.subject.mechanism: result.measures[measure] for result in measured}
        controls = {name: estimates[name] for name in CONTROLS if name in estimates}
        by_id |= {result.id: Power(measure, controls) for result in group}
    return by_id


def _settings(result: AttackResult) -> str:
    """Everything that a control has in common with what it is a control for."""
    subject = result.subject
    where = (
        subject.task,
        subject.task_version,
        subject.source,
        subject.model,
        subject.members,
        subject.seed,
    )
    return json.dumps([result.attack, result.access, result.settings, where])


def _beats_chance(measure: str, estimate: Estimate) -> bool:
    """Whether its interval lies above what guessing gives."""
    return estimate.low is not None and estimate.low > CHANCE[measure]
