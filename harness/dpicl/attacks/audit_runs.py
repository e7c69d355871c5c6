"""What runs of a mechanism with a canary and without show an auditor: noisy releases, or what was released.

Both sets of a run are sampled with the same randomness, so they differ in the canary alone; runs are independent of
each other. What a model says of a sample depends on no noise: it is read once, and the noise is drawn as often as
wanted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dpicl.attacks.audit_rules import (
    AuditEvidence,
    Fit,
    Rule,
    answer_fits,
    linear,
    noise_p_value,
    reference_vector,
)
from dpicl.attacks.audit_settings import AuditSetup
from dpicl.attacks.canaries import asked_canary
from dpicl.attacks.exact_pairs import label_only_ceiling
from dpicl.attacks.observers import CoupledSampling, Observation, Policy, Recording
from dpicl.attacks.views import with_records
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Query, Record
from dpicl.data.task import PublicTask
from dpicl.mechanism.bases import AnswerMechanism, Reader
from dpicl.mechanism.outputs import skip_reason
from dpicl.privacy.calibration import Calibration
from dpicl.privacy.events import is_gaussian
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import Execution, ExecutionResult

#: With the canary, and without.
SIDES: Final = (True, False)

#: What was observed in each run, with the canary and without.
Observed = Mapping[bool, Sequence[Sequence[Observation]]]


class AuditRuns(ABC):
    """One answer, demonstration or preparation from ``settings.runs`` samples on each side. The size of the private set
    is public, so the sampling rate is the same on both sides.

    notes: what a reader of a result must know. canary: None until it is made.
    """

    def __init__(self, setup: AuditSetup, task: PublicTask, canary: Record | None, query: Query | None) -> None:
        self._setup, self._settings, self._mechanism = setup, setup.settings, setup.mechanism
        self._task, self.canary = task, canary
        self._queries = [] if query is None else [query]
        self._reader: Reader | None = None
        self.notes: list[str] = []

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon. Raises BudgetExceeded when a run spends more than was calibrated for, and UsageError
        for a mechanism that makes no noisy release."""
        knob, ledger = calibration.knob, Ledger(calibration.event, calibration.epsilon)
        first, _ = self.run(False, knob, 0, ledger=ledger)
        if not first:
            raise UsageError(f"{self._mechanism.name} makes no noisy release, so there is nothing to audit.")
        if self._settings.access == "black-box":
            return self._black_box(knob, ledger, first)
        return replace(self._white_box(knob, ledger, first), gaussian=is_gaussian(ledger.event()))

    def execution(self, present: bool, knob: float, run: int, draw: int = 0, ledger: Ledger | None = None) -> Execution:
        """The mechanism on the records of one side, sampled as in every execution of this run. draw: of the noise.

        ledger: None for an auditor's own runs, which have no budget.
        """
        setup, randomness = self._setup, streams(self._settings.seed)
        return Execution(
            setup.mechanism,
            self._task,
            setup.model,
            knob,
            records=[*setup.private, *([self.canary] if present and self.canary else [])],
            sizes=setup.sizes,
            ledger=ledger or Ledger(None, math.inf),
            sampling=CoupledSampling(self._settings.seed, run),
            noise=randomness.source(f"audit:{int(present)}:{run}:{draw}"),
            public=randomness.public,
            shots=(setup.label,),
            queries=self._queries,
            outputs=lambda: setup.outputs,
            reader=self._reader,
        )

    def run(
        self,
        present: bool,
        knob: float,
        number: int,
        draw: int = 0,
        path: Policy | None = None,
        ledger: Ledger | None = None,
    ) -> tuple[list[Observation], ExecutionResult]:
        """The noisy releases of one execution, and what it made. path: what they give in place of noise."""
        recording = Recording(path)
        with observing(recording):
            made = self.execution(present, knob, number, draw, ledger).run()
        self._reader = made.reader
        return recording.observed_releases, made

    def _both(self, knob: float, path: Policy | None = None) -> Observed:
        """The noisy releases of all runs."""
        return {side: [self.run(side, knob, n, path=path)[0] for n in self._setup.counted(side)] for side in SIDES}

    def _sums(
        self, runs: Observed, scales: Sequence[float], ledger: Ledger, fits: Mapping[str, Fit], only: Sequence[int] = ()
    ) -> AuditEvidence:
        """Noisy sums side by side, each in units of its noise. only: of every sum this coordinate alone."""
        units = [scale or 1.0 for scale in scales]

        def coordinates(run: Sequence[Observation]) -> np.ndarray:
            sums = [each.release.clean.ravel() / unit for each, unit in zip(run, units, strict=True)]
            return np.concatenate([own[[at]] for own, at in zip(sums, only, strict=True)] if only else sums)

        inside, outside = (np.array([coordinates(run) for run in runs[side]]) for side in SIDES)
        rule = Rule({**fits, "reference vector": reference_vector}, sd=1.0 if scales[0] > 0 else 0.0)
        return AuditEvidence(inside, outside, rule, ledger)

    def _black_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        """What was released, of all noise resamples of every run: [n, m] codes, or [n] decisions of one draw each."""

        def text(side: bool, number: int, draw: int) -> str:
            _, made = self.run(side, knob, number, draw)
            return "\n".join(made.prompt.texts if made.answers is None else made.answers.values())

        said = [
            [[text(side, n, draw) for draw in range(self._draws)] for n in self._setup.counted(side)] for side in SIDES
        ]
        texts = list(dict.fromkeys(one for side in said for row in side for one in row))
        codes = {one: at for at, one in enumerate(texts)}
        inside, outside = (np.array([[codes[one] for one in row] for row in side]).squeeze() for side in said)
        return AuditEvidence(inside, outside, Rule(answer_fits(self._towards(texts)), None), ledger)

    @property
    def _draws(self) -> int:
        return self._settings.redraws

    @abstractmethod
    def _white_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        """What the noisy releases of all runs show. first: those of one run without the canary."""

    def _towards(self, answers: Sequence[str]) -> list[float]:
        """How much each answer speaks for membership, by a rule that is known beforehand."""
        assert self.canary is not None
        return [float(answer == self.canary.label) for answer in answers]


class AnswerRuns(AuditRuns):
    """Answers to one question (Q = 1). White-box, the clean values of a single noisy sum are known; else the first and
    the last noisy release are seen. Black-box, the released answers."""

    def __init__(self, setup: AuditSetup) -> None:
        self.asked = asked_canary(setup)
        if reason := skip_reason(setup.mechanism, self.asked.seen):
            raise UsageError(f"{setup.mechanism.name} cannot answer the audit's question: {reason}.")
        super().__init__(setup, self.asked.seen.public_view(), self.asked.record, self.asked.query)
        assert isinstance(setup.mechanism, AnswerMechanism)
        self._scheme, size = setup.mechanism.scheme, len(setup.private)
        which = self._scheme.described(size)
        self.notes = [f"one query, question {self._settings.question}, {count(size, 'record')}, {which}"]

    def _white_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        runs = self._both(knob)
        every = [*runs[True], *runs[False]]
        if not all(every):
            raise UsageError(
                f"{self._mechanism.name} made no noisy release in some runs; `dpicl check` says what that is."
            )
        if all([one.release.kind for one in run] == ["gaussian"] for run in every):
            release = first[0].release
            found = self._sums(runs, [release.scale], ledger, self._directions(release.clean.size))
            return replace(found, noise_p=noise_p_value([run[0] for run in every]))
        inside, outside = (
            np.array(
                [
                    [_features(self.run(side, knob, n, draw)[0]) for draw in range(self._draws)]
                    for n in self._setup.counted(side)
                ]
            )
            for side in SIDES
        )
        return AuditEvidence(inside, outside, Rule({"reference vector": reference_vector}, None), ledger)

    def _directions(self, size: int) -> dict[str, Fit]:
        """The published direction, where the sum has a coordinate for each answer or lies among embeddings."""
        labels, words = self.asked.seen.labels, [self.asked.member, self.asked.non_member]
        if size == len(labels):
            ends = np.eye(size)[[labels.index(word) for word in words]]
        elif not labels and size == self._setup.embeddings.dimension:
            ends = self._setup.embeddings.encode(words)
        else:
            return {}
        return {"answers": linear(ends[0] - ends[1])}

    def _black_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        return replace(super()._black_box(knob, ledger, first), ceiling=self._ceiling(first))

    def _ceiling(self, first: Sequence[Observation]) -> tuple[float, float] | None:
        """What the winner of a noisy vote can show; None where the answer is no such winner."""
        labels, release = len(self.asked.seen.labels), first[0].release
        alone = len(first) == 1 and release.kind == "gaussian" and release.scale > 0
        if not (alone and release.clean.size == labels > 1):
            return None
        slots = self._mechanism.slots  # type: ignore[attr-defined]
        return label_only_ceiling(release.scale, slots, labels, self._scheme.own_slots, self._settings.delta)

    def _towards(self, answers: Sequence[str]) -> list[float]:
        """By the published rule: the label, or a difference of distances."""
        if self.asked.seen.labels:
            return [float(a == self.asked.member) - float(a == self.asked.non_member) for a in answers]
        rows = self._setup.embeddings.encode([*answers, self.asked.member, self.asked.non_member])
        distances = np.linalg.norm(rows[:-2, None] - rows[None, -2:], axis=2)
        return [float(away) for away in distances[:, 1] - distances[:, 0]]


class PreparedRuns(AuditRuns):
    """One preparation. The canary is a record that is not in the private set, with the label that follows its own in
    the task's order: it says of its text what no other record says.

    White-box, the auditor sees the noisy sums that come before any whose input follows from an earlier one's noise: of
    these the clean values are known (of gradient descent the first step alone). Black-box, the answer to the canary's
    own text.
    """

    def __init__(self, setup: AuditSetup) -> None:
        text, label, labels = setup.other.text, setup.other.label, setup.task.labels
        if labels:
            label = labels[((labels.index(label) if label in labels else 0) + 1) % len(labels)]
        task = with_records(setup.task, setup.private).public_view()
        super().__init__(setup, task, Record(text, label), Query("canary", text))
        self.notes = [f"one preparation from {count(len(setup.private), 'record')}, every one of which may be in it"]

    def _white_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        again, _ = self.run(False, knob, 0, draw=1)
        known = equal_inputs(first, again)
        if any(one.release.kind != "gaussian" for one in first[:known]):
            raise UsageError(f"{self._mechanism.name} makes choices; audit it black-box.")
        runs = {side: [run[:known] for run in own] for side, own in self._both(knob).items()}
        found = self._sums(runs, [one.release.scale for one in first[:known]], ledger, {})
        return replace(found, noise_p=noise_p_value(first))


def _features(run: Sequence[Observation]) -> np.ndarray:
    """float64[d] of one run: what its first noisy release released and, where it is another one, its last.

    What was chosen is marked among the K that could be, the first with 1 and the others with less and less; sums of
    several clusters are added up. Both have public sizes.
    """
    parts = []
    for at in sorted({0, len(run) - 1}):
        release, released = run[at].release, run[at].released
        if release.kind == "choice":
            marked = np.zeros(release.clean.size)
            marked[released.astype(np.int64)] = 1.0 - np.arange(len(released)) / len(released)
            parts.append(marked)
        else:
            parts.append(released.reshape(-1, released.shape[-1]).sum(axis=0))
    return np.concatenate(parts)


def equal_inputs(first: Sequence[Observation], again: Sequence[Observation]) -> int:
    """How many releases come before the first whose input differs."""
    pairs = zip(first, again, strict=False)
    same = [np.array_equal(a.release.clean, b.release.clean) for a, b in pairs]
    return same.index(False) if False in same else len(same)
