"""Estimates the power of an attack from controls that hide nothing.

Two controls, with the settings of the attack itself: real demonstrations (epsilon = infinity), and a mechanism that is
broken on purpose (dpicl.attacks.broken). Where the interval on the first of them includes what guessing gives, a small
number about another mechanism says nothing about that mechanism.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from dpicl.attacks.results import AttackResult, Estimate

#: What is said of a number that an attack without power gives.
NO_POWER: Final = "no power here"
#: Measures that speak for an attack, the first one that it has; name -> what guessing gives.
CHANCE: Final[Mapping[str, float]] = {"auc": 0.5, "leaking": 0.0}
#: The controls, in the order in which they decide.
CONTROLS: Final[tuple[str, ...]] = ("real_demonstrations", "broken_answers", "broken_demonstrations")


@dataclass(frozen=True)
class Power:
    """What an attack found on its controls. measure: of `CHANCE`. controls: name -> estimate, the first decides."""

    measure: str
    controls: Mapping[str, Estimate]

    @property
    def sufficient(self) -> bool | None:
        """Whether the first control is told from guessing; None without a control."""
        return next((_is_found(self.measure, one) for one in self.controls.values()), None)

    def is_inconclusive(self, result: AttackResult) -> bool:
        """Whether its numbers say nothing: neither its own measure of power nor the control is told from guessing."""
        own = result.measures.get(self.measure)
        return self.sufficient is False and not (own is not None and _is_found(self.measure, own))

    def __str__(self) -> str:
        """'power (auc): real_demonstrations 0.57 [0.46, 0.68], no power here; broken_answers 1.00 [0.96, 1.00]'."""
        if not self.controls:
            return "power: not measured, since neither real demonstrations nor a broken mechanism was attacked so"
        said = (
            f"{name} {one.value:z.2f} [{one.low:z.2f}, {one.high:z.2f}]"
            f"{'' if _is_found(self.measure, one) else f', {NO_POWER}'}"
            for name, one in self.controls.items()
        )
        return f"power ({self.measure}, {CHANCE[self.measure]:g} by guessing): {'; '.join(said)}"

    def to_json(self) -> dict[str, object]:
        """Measure, what guessing gives, each control's estimate, and whether the first is told from guessing."""
        found = {name: one.model_dump(mode="json") for name, one in self.controls.items()}
        return {
            "measure": self.measure,
            "chance": CHANCE[self.measure],
            "controls": found,
            "sufficient": self.sufficient,
        }


def powers(results: Iterable[AttackResult]) -> dict[str, Power]:
    """Id -> the power of the attack with that result's settings, for those that have a measure of it."""
    groups: dict[str, list[AttackResult]] = {}
    for result in results:
        groups.setdefault(_settings(result), []).append(result)
    found: dict[str, Power] = {}
    for own in groups.values():
        measure = next((name for name in CHANCE if any(name in one.measures for one in own)), None)
        if measure is None:
            continue
        controls: dict[str, Estimate] = {
            name: one.measures[measure]
            for name in CONTROLS
            for one in own
            if one.subject.mechanism == name and measure in one.measures
        }
        found |= {one.id: Power(measure, controls) for one in own}
    return found


def _settings(result: AttackResult) -> str:
    """Everything that a control has in common with what it is a control for."""
    own = result.subject
    where = (own.task, own.task_version, own.source, own.model, own.members, own.seed)
    return json.dumps([result.attack, result.access, result.settings, where])


def _is_found(measure: str, estimate: Estimate) -> bool:
    """Whether its interval lies above what guessing gives."""
    return estimate.low is not None and estimate.low > CHANCE[measure]
