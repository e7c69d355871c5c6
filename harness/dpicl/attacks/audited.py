"""Computes the audited ε of a row: the largest lower bound of its attacks, and whether it refutes the proved ε.

Every bound holds at a confidence of its own, and the largest of several 95% bounds is no 95% bound. A flag takes a row
out of the ranks, so it is corrected: with k attacks on a row each must exceed the proved ε at confidence 1 - 0.05/k
(Bonferroni). The k attacks then flag a row (of one task) whose proof holds with probability 5% at most.

An excess that this correction does not confirm is a doubt, shown with the confidence that would settle it (`dpicl audit
--confidence`).

Bounds are of two kinds. A sampled one rests on runs, or on guesses, and has a confidence below 1. An exact one
(dpicl.attacks.exact_audit) has no sampling error, so it needs no correction and weakens no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from dpicl.attacks.lower_bounds import CONFIDENCE
from dpicl.attacks.power import Power
from dpicl.attacks.results import ATTAINED, EXACT, F_DP, GROUP, AttackResult, Attempt
from dpicl.core.messages import bound_text, confidence_text, epsilon_text

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Audit:
    """What attacks say about one row.

    attacks: the strongest bound first. best: the one behind the audited ε, None without a bound at 95%. flag: why the
    row has no rank, or "". doubts: excesses that are not confirmed, in words. settings: id of an attack -> on what it
    was made. powers: id -> what the attack finds where nothing is hidden. command: makes an audit; "" where there is
    one, or where none can be made.
    """

    attacks: tuple[AttackResult, ...] = ()
    best: AttackResult | None = None
    flag: str = ""
    doubts: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    powers: Mapping[str, Power] = field(default_factory=dict)
    command: str = ""

    @property
    def epsilon(self) -> float | None:
        """The audited ε; None where no attack gives a bound at 95%."""
        return None if self.best is None else self.best.audited

    @property
    def kind(self) -> str:
        """'exact' or 'sampled': of the bound behind the audited ε; '' without one."""
        return "" if self.best is None else kind_of(self.best)

    @property
    def best_name(self) -> str:
        """The attack behind the audited ε, with its confidence; '' without one."""
        if self.best is None or self.best.bound is None:
            return ""
        return f"{attack_name(self.best)}, {confidence_text(self.best.bound.confidence)}"


@dataclass(frozen=True)
class _Excess:
    """A bound above the proved ε, one of ``family`` bounds."""

    name: str
    epsilon: float
    confidence: float
    proved: float
    family: int

    @property
    def level(self) -> float:
        """The confidence that each of them needs, for 95% over all."""
        return 1 - (1 - CONFIDENCE) / self.family

    @property
    def confirmed(self) -> bool:
        return self.confidence >= self.level - _ROUNDING

    def __str__(self) -> str:
        """What was seen, and, where it is one of several, what a flag takes."""
        text = f"audited ε {bound_text(self.epsilon)} exceeds proved ε {epsilon_text(self.proved)}: {self.name}"
        text += f", {confidence_text(self.confidence)}"
        if self.family == 1:
            return text
        text += f"; one of {self.family} attacks, and 95% over all of them takes {confidence_text(self.level)}"
        return text if self.confirmed else f"{text}, which it does not reach"


def audit_of(attacks: Sequence[AttackResult]) -> Audit:
    """What these attacks say about a row: each bound is compared with the ε proved for the audited run."""

    def order(result: AttackResult) -> tuple[float, str, str, str]:
        return (
            (-result.bound.epsilon if result.bound else 1.0),
            result.attack,
            result.access,
            result.id,
        )

    ordered = tuple(sorted(attacks, key=order))
    excesses = list(_excesses(ordered))
    confirmed = [one for one in excesses if one.confirmed]
    return Audit(
        attacks=ordered,
        best=next(filter(is_valid, ordered), None),
        flag=str(max(confirmed, key=lambda one: one.epsilon)) if confirmed else "",
        doubts=tuple(str(one) for one in excesses if not one.confirmed),
    )


def is_valid(result: AttackResult) -> bool:
    """Whether its bound may stand in the column: at 95%, and at a δ at which it says something about the row's δ."""
    bound = result.bound
    return (
        bound is not None
        and bound.confidence >= CONFIDENCE - _ROUNDING
        and bound.delta >= result.privacy.delta * (1 - _ROUNDING)
    )


def attack_name(result: AttackResult) -> str:
    """'white-box sampled audit', 'black-box inquiry'; of an exact audit also what it rests on."""
    names = {
        "audit": "sampled audit",
        EXACT: f"exact audit ({ATTAINED})",
        GROUP: f"audit of a group ({ATTAINED})",
    }
    name = names.get(result.attack, result.attack)
    return f"{result.access} {name}"


def kind_of(result: AttackResult) -> str:
    """'exact' for a bound without sampling error, else 'sampled'; '' without a bound."""
    if result.bound is None:
        return ""
    return "exact" if result.bound.method == "exact" else "sampled"


def _most_confident(attacks: Sequence[AttackResult]) -> list[AttackResult]:
    """The attacks with a bound. One that stands there at several confidences is one attack, at the highest of them,
    however its bounds came out: so the confidence that settles a doubt does not rise with the run that settles it."""
    highest: dict[str, AttackResult] = {}
    for result in attacks:
        if result.bound is not None:
            settings = {
                name: value for name, value in result.settings.items() if name != "confidence"
            }
            attempt = Attempt(result.attack, result.access, settings, result.subject)
            other = highest.get(attempt.id)
            if (
                other is None
                or other.bound is None
                or other.bound.confidence < result.bound.confidence
            ):
                highest[attempt.id] = result
    return [*highest.values()]


def _excesses(attacks: Sequence[AttackResult]) -> Iterator[_Excess]:
    tried = [
        (result, *bound) for result in _most_confident(attacks) for bound in _name_bounds(result)
    ]
    sampled = sum(kind_of(result) == "sampled" for result, _, _ in tried)
    for result, name, epsilon in tried:
        bound, proved = result.bound, result.privacy.epsilon_proved
        if bound is not None and is_valid(result) and epsilon > proved * (1 + _ROUNDING):
            family = sampled if kind_of(result) == "sampled" else 1
            yield _Excess(name, epsilon, bound.confidence, proved, family)


def _name_bounds(result: AttackResult) -> list[tuple[str, float]]:
    """(name, epsilon) of each bound of an attack: of one run there may be two."""
    name = attack_name(result)
    bounds = [(name, result.audited or 0.0)]
    if F_DP in result.measures:
        bounds.append((f"{name}, by the curve of its event", result.curve_bound))
    return bounds
