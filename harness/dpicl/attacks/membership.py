"""Computes the metrics of membership attacks from the scores of one or several releases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.attacks import rates
from dpicl.attacks.base import AttackFinding, AttackSetup
from dpicl.attacks.lower_bounds import CONFIDENCE
from dpicl.attacks.one_run import OneRun, guess_by_rules
from dpicl.attacks.results import F_DP, Estimate, LowerBound
from dpicl.attacks.targets import QueryView, Target
from dpicl.attacks.trade_off import curve_bound
from dpicl.core.errors import (
    AccountantsDisagree,
    ModelError,
    UnsupportedEvent,
    UsageError,
    one_line,
)
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Query, Record
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import fixed_epsilon
from dpicl.mechanism.outputs import skip_reason

#: The scores of candidates after what a target has released.
Values = Callable[[Target, Sequence[Record]], Sequence[float]]

#: (candidates, the answers to the questions of each of them) -> the scores of candidates.
Scores = Callable[[Sequence[Record], Sequence[Sequence[str]]], Sequence[float]]

#: The setup of a release, its target, and who is in the private set and who is not.
Game = tuple[AttackSetup, Target, Sequence[Record], Sequence[Record]]

#: Why a result has no lower bound on epsilon.
COUNTED = (
    "no lower bound on epsilon: the noise was calibrated to the counted number of records, which the"
    " coins decide"
)
SHOWN = "no lower bound on epsilon: all members of a release are shown, and no coin decides who they are"
FEW_COINS = (
    "no lower bound on epsilon: fewer than two candidates were members by a coin of their own"
)
#: What the bound by the mechanism's own curve is, wherever it is shown.
OWN_CURVE = (
    "95% lower bound from the same guesses, for a mechanism with a curve of its event's shape; above the proved epsilon"
    " it refutes the proof"
)


def membership_finding(
    setup: AttackSetup,
    scores: Values,
    notes: Sequence[str] = (),
    releases: int = 1,
    shown: int | None = None,
) -> AttackFinding:
    """AUC, TPR at 1% and 0.1% FPR, advantage, with 95% intervals, and the lower bounds of one run.

    scores: called with the target and the candidates of each release; one number a candidate, a larger one speaks for a
    member.
    releases: each from a private set of its own: other records, other randomness. Where the mechanism shows records as
    they are: ``shown`` releases of a few members who are all shown (None: as many as the setup's own members make), and
    no bound.
    The intervals take candidates as independent; those of one release are not, so they are descriptive. The bound
    assumes only that the coins are independent.
    Raises ModelError for a NaN, and UsageError where too few members make no release.
    """
    showing = can_show_records(setup.mechanism)
    if showing:
        number = shown or len(setup.members) // max(1, setup.config.shots)
        games = play_shown_games(setup, shown)
    else:
        number, setups = releases, map(setup.resample, range(releases))
        games = ((game, game.target(), game.members, game.others) for game in setups)
    targets: list[Target] = []
    played: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    counted = False
    for game, target, members, others in games:
        candidates = [*members, *others] if showing else game.candidates
        played.append(_score(game, candidates, {*members}, scores(target, candidates)))
        targets.append(target)
        counted = counted or is_calibrated_to_members(game, target)
        if number > 1 or showing:
            setup.report(len(played), number, "releases")
    if not played:
        raise UsageError(
            f"{setup.mechanism.name} shows {setup.config.shots} members in a release and there are too few of their"
            " labels; raise --members and --others, or lower --shots."
        )
    values, inside, canary = map(np.concatenate, zip(*played, strict=True))
    measures = rates.membership(values[inside], values[~inside], setup.config.seed)
    counts = {"members": int(inside.sum()), "others": int((~inside).sum()), "releases": len(played)}
    no_bound = None
    if showing:
        no_bound = SHOWN
    elif counted:
        no_bound = COUNTED
    elif canary.sum() < 2:
        no_bound = FEW_COINS
    if no_bound:
        return AttackFinding(targets[0], None, measures, counts, notes=(*notes, no_bound))
    delta = setup.config.delta
    runs = guess_by_rules(values[canary], inside[canary], delta)
    run = max(runs, key=lambda each: each.epsilon)
    by_curve, why_none = measure_by_curve(targets, runs, delta)
    return AttackFinding(
        targets[0],
        LowerBound(epsilon=run.epsilon, delta=delta, confidence=CONFIDENCE, method="one run"),
        measures | by_curve,
        counts,
        {"candidates": run.candidates, "guesses": run.guesses, "correct guesses": run.correct},
        (*notes, *why_none),
    )


def _score(
    setup: AttackSetup,
    candidates: Sequence[Record],
    members: set[Record],
    scores: Sequence[float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(float64[n] scores of candidates, bool[n] which are members, bool[n] for which a coin decided it)."""
    values = np.array(scores, dtype=np.float64)
    if np.isnan(values).any():
        raise ModelError("The model gives NaN for a candidate; load it in float32.")
    is_member = np.array([record in members for record in candidates])
    is_canary = np.array([record in setup.canaries for record in candidates])
    return values, is_member, is_canary


def measure_by_curve(
    targets: Sequence[Target], runs: Sequence[OneRun], delta: float
) -> tuple[dict[str, Estimate], list[str]]:
    """(the bound of one run by the curve of what was released, notes); see dpicl.attacks.trade_off.

    None where nothing has noise. A note says why there is none where the accountants give no curve.
    """
    mechanism, knob = targets[0].mechanism, targets[0].mechanism.knob
    releases = [release for target in targets for release in target.releases]
    epsilons = [release.calibration.epsilon for release in releases]
    if knob is None or math.inf in epsilons:
        return {}, []

    def events(factor: float) -> list[dp.DpEvent]:
        noisier = []
        for release in releases:
            calibration = release.calibration
            by_label = {
                label: change(value, factor) for label, value in calibration.by_label.items()
            }
            event = mechanism.events_of(change(calibration.knob, factor), by_label, release.sizes)
            noisier.append(event)
        return list(dict.fromkeys(noisier))

    def change(value: float, factor: float) -> float:
        return min(max(value * factor, knob.low), knob.high)

    try:
        return {F_DP: Estimate(value=curve_bound(events, runs, delta), note=OWN_CURVE)}, []
    except (UnsupportedEvent, AccountantsDisagree, ArithmeticError) as error:
        return {}, [f"no lower bound by the curve of its event: {one_line(error, 200)}"]


def score_each(score: Callable[[Record, Sequence[str]], float]) -> Scores:
    """Scores candidates one by one, each by its own answers."""
    return lambda candidates, answers: list(map(score, candidates, answers))


def ask_and_score(
    setup: AttackSetup,
    *,
    questions: Callable[[Record], Sequence[str]],
    score: Scores,
    view: QueryView = lambda task: task,
    notes: Sequence[str] = (),
) -> AttackFinding:
    """Puts the questions of every candidate, texts of queries, to the target, all in one release, and scores the
    answers."""

    def values(target: Target, candidates: Sequence[Record]) -> Sequence[float]:
        of_candidates = [questions(record) for record in candidates]
        texts = [text for of_one in of_candidates for text in of_one]
        answers = target.answers(
            view, [Query(str(number), text) for number, text in enumerate(texts)]
        )
        in_order = iter(answers[str(number)] for number in range(len(texts)))
        return score(candidates, [[next(in_order) for _ in of_one] for of_one in of_candidates])

    return membership_finding(setup, values, notes)


def is_calibrated_to_members(setup: AttackSetup, target: Target) -> bool:
    """Whether some release was calibrated to other sizes than the published ones: then one run bounds nothing."""
    if target.mechanism.knob is None:
        return False  # no noise that could follow
    published: Mapping[Partition, int] = setup.sizes or {}
    if not target.mechanism.by_label:
        published = {None: sum(published.values())}
    return any(
        published.get(group) != size
        for release in target.releases
        for group, size in release.sizes.records.items()
    )


def play_shown_games(setup: AttackSetup, releases: int | None = None) -> Iterator[Game]:
    """Targets whose private set are as many members as they show, with these members and as many others.

    Each group has the labels of the shots, so that all of it is shown. Nobody is in two groups of one setup; more
    ``releases`` than a setup makes come from others of its kind.
    """
    played = 0
    for number in range(1 if releases is None else releases):
        game = setup.resample(number)
        groups = zip(
            label_groups(game, game.members), label_groups(game, game.others), strict=False
        )
        for members, others in groups:
            if played == releases:
                return
            played += 1
            yield game, game.make_target(members), members, others


def can_show_records(mechanism: Mechanism) -> bool:
    """Whether a mechanism releases the texts of records as they are: without noise, at an infinite epsilon."""
    return mechanism.releases_texts and fixed_epsilon(mechanism) == math.inf


def label_groups(
    setup: AttackSetup,
    records: Sequence[Record],
) -> Iterator[tuple[Record, ...]]:
    """Disjoint groups with a record for the label of each shot (any, where labels make no groups), while there are
    any."""
    labels = setup.task.plan_shots(setup.config.shots, streams(setup.config.seed).stream("shots"))
    partitioned = setup.task.partitioned
    of_label = Counter(labels if partitioned else [""] * len(labels))
    stock = {
        label: [record for record in records if not partitioned or record.label == label]
        for label in of_label
    }
    for number in range(len(records)):
        group: list[Record] = []
        for label, size in of_label.items():
            group += stock[label][number * size : (number + 1) * size]
        if len(group) < of_label.total():
            return
        yield tuple(group)


def explain_no_answer(
    mechanism: Mechanism, task: Task, view: Task | None = None, answers: str | None = None
) -> str | None:
    """Why a mechanism does not do the task, or (where it gives answers) does not answer what is asked in its place.

    view: what it is asked instead. answers: why one that gives answers cannot be attacked at all.
    """
    if mechanism.releases_texts:
        return skip_reason(mechanism, task)
    reason = answers or skip_reason(mechanism, task)
    if reason is None and view is not None:
        reason = skip_reason(mechanism, view)
    return reason
