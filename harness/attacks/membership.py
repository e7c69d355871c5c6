"""From the scores of one or several releases to what a membership attack found: the numbers that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harness.attacks import rates
from harness.attacks.base import Finding
from harness.attacks.one_run import OneRun, one_run_bound
from harness.attacks.results import Estimate, LowerBound
from harness.errors import ModelError
from harness.mechanism import AnswerMechanism, Mechanism, Partition, Query

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.attacks.base import Scene
    from harness.attacks.targets import Target
    from harness.record_sets import Record
    from harness.task import Task

CONFIDENCE = 0.95
#: Why a result has no lower bound on epsilon.
COUNTED = "no lower bound on epsilon: the noise was calibrated to the counted number of records, which the coins decide"
FEW_COINS = "no lower bound on epsilon: fewer than two candidates were members by a coin of their own"


@dataclass(frozen=True)
class Scores:
    """Scores of the candidates of one release, in an order that says nothing about membership.

    values: float64[n], a larger one speaks for membership. inside: bool[n]. canary: bool[n], whether a coin decided.
    counted: whether the noise followed the number of members that the coins gave.
    """

    values: np.ndarray = field(repr=False)
    inside: np.ndarray = field(repr=False)
    canary: np.ndarray = field(repr=False)
    counted: bool = False


def scored(scene: Scene, target: Target, score: Mapping[Record, float]) -> Scores:
    """The scores of all candidates of a scene, after ``target`` has released. Raises ModelError for a NaN."""
    members, candidates = set(scene.members), scene.candidates
    values = np.array([score[record] for record in candidates], dtype=np.float64)
    if np.isnan(values).any():
        raise ModelError(f"Model {scene.model.identity.name} gives NaN for a candidate; load it in float32.")
    return Scores(
        values,
        np.array([record in members for record in candidates]),
        np.array([record in scene.canaries for record in candidates]),
        follows_the_count(scene, target),
    )


def follows_the_count(scene: Scene, target: Target) -> bool:
    """Whether some release was calibrated to other sizes than the published ones: then one run bounds nothing."""
    if target.mechanism.knob is None:
        return False  # no noise that could follow
    published = scene.sizes or {}
    total: Mapping[Partition, int] = {None: sum(published.values())}
    wanted = total if isinstance(target.mechanism, AnswerMechanism) else published
    return any(
        wanted.get(group) != size for release in target.releases for group, size in release.sizes.records.items()
    )


def membership_finding(
    target: Target, releases: Sequence[Scores], delta: float, seed: int, notes: Sequence[str] = (), bound: bool = True
) -> Finding:
    """AUC, TPR at 1% and 0.1% FPR, advantage, with 95% intervals, and the lower bound of one run.

    The intervals take candidates as independent; those of one release are not, so they are descriptive. The bound takes
    nothing as independent but the coins. bound: False where the attack has no coins (it says so in ``notes``).
    """
    values = np.concatenate([each.values for each in releases])
    inside = np.concatenate([each.inside for each in releases])
    canary = np.concatenate([each.canary for each in releases])
    found = rates.membership(values[inside], values[~inside], delta, CONFIDENCE, seed)
    notes = list(notes)
    run: OneRun | None = None
    if bound:
        if any(each.counted for each in releases):
            notes.append(COUNTED)
        elif canary.sum() < 2:
            notes.append(FEW_COINS)
        else:
            run = one_run_bound(values[canary], inside[canary], delta, CONFIDENCE)
    return Finding(
        target=target,
        bound=None
        if run is None
        else LowerBound(epsilon=run.epsilon, delta=delta, confidence=run.confidence, method="one run"),
        measures=measures_of(found),
        counts={"members": int(inside.sum()), "others": int((~inside).sum()), "releases": len(releases)},
        details={}
        if run is None
        else {"candidates": run.candidates, "guesses": run.guesses, "correct guesses": run.correct},
        notes=tuple(notes),
    )


def measures_of(found: rates.Membership) -> dict[str, Estimate]:
    """The fields of a result: auc, tpr_at_fpr_0.01, tpr_at_fpr_0.001, advantage."""
    measures = {"auc": Estimate(**asdict(found.auc))}
    for each in found.tpr_at_fpr:
        note = (
            "" if each.resolvable else f"at no false positive among {found.non_members}: FPR below {each.fpr_high:.2g}"
        )
        measures[f"tpr_at_fpr_{each.asked_fpr:g}"] = Estimate(**asdict(each.tpr), note=note)
    measures["advantage"] = Estimate(**asdict(found.advantage), note="threshold chosen on the other half")
    return measures


def ask_all(scene: Scene, look: Callable[[Task], Task], texts: Sequence[str]) -> tuple[Target, list[str]]:
    """The target made from the members, and its answers to ``texts``, all in one release, in the same order."""
    target = scene.target()
    answers = target.answers(look, [Query(str(at), text) for at, text in enumerate(texts)])
    return target, [answers[str(at)] for at in range(len(texts))]


def cannot_answer(mechanism: Mechanism, task: Task, seen: Task | None = None) -> str | None:
    """Why a mechanism does not do the task, or (an answer mechanism) does not answer what is asked in its place."""
    reason = mechanism.skip(task)
    if reason is None and seen is not None and isinstance(mechanism, AnswerMechanism):
        reason = mechanism.skip(seen)
    return reason


def first_words(text: str, words: int | None) -> str:
    """The first ``words`` words, with single blanks between them; None: the text as it is."""
    return text if words is None else " ".join(text.split()[:words])
