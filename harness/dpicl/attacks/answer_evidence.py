"""What runs of an answer mechanism show an auditor: noisy sums and choices, or the released answers.

A run assigns the records to slots and answers one question from two neighbouring private sets, one of which holds the
canary. Both sets of a run are sampled with the same randomness, so they differ in one slot; runs are independent of
each other. The model's answers do not depend on the noise: they are read once, and the noise is drawn as often as
wanted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dpicl.attacks.audit_rules import (
    AuditEvidence,
    Fit,
    Rule,
    linear,
    noise_p_value,
    reference_vector,
)
from dpicl.attacks.audit_settings import SIDES, AuditSetup
from dpicl.attacks.canaries import canary
from dpicl.attacks.exact_pairs import label_only_ceiling
from dpicl.attacks.observers import Observation, Recording
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import FinalPrompt
from dpicl.mechanism.bases import AnswerMechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.embeddings import EmbeddingModel, load_embeddings
from dpicl.privacy.calibration import Calibration
from dpicl.privacy.events import is_gaussian
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.private_set import PrivateRecord, Sample
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.reader import SlotReader

Slots = tuple[tuple[PrivateRecord, ...], ...]


@dataclass(frozen=True)
class AuditRun:
    """One run: its noisy releases in order, and the answer that was released."""

    observed_releases: list[Observation] = field(repr=False)
    released: str | FinalPrompt


class AnswerEvidence:
    """Answers to one question (Q = 1) from ``settings.runs`` samples on each side, assigned to slots once for all
    epsilons. The size of the private set is public, so the sampling rate is the same on both sides.

    notes: what a reader of a result must know.
    """

    def __init__(self, mechanism: AnswerMechanism, setup: AuditSetup) -> None:
        self._mechanism, self._setup, self._settings = mechanism, setup, setup.settings
        self.canary = canary(setup, self._embeddings)
        if reason := skip_reason(mechanism, self.canary.seen):
            raise UsageError(f"{mechanism.name} cannot answer the audit's question: {reason}.")
        self._seen, asked = self.canary.seen.public_view(), [self.canary.query]
        self._reader = SlotReader(
            self._seen, setup.model, setup.outputs, mechanism.scheme, asked, mechanism.record_tokens
        )
        self._slots = {side: [self.assign(run, side) for run in range(self._settings.runs)] for side in SIDES}
        self._reader.read_public()
        size = len(setup.private)
        which = mechanism.scheme.described(size)
        self.notes = [f"one query, question {self._settings.question}, {count(size, 'record')}, {which}"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon. Raises BudgetExceeded when a run spends more than was calibrated for."""
        knob = calibration.knob
        ledger = Ledger(calibration.event, calibration.epsilon)
        self._setup.execution(self._seen, knob, None, ledger).sampler(self._mechanism)
        seen = {side: [draws[0] for draws in self._runs(knob, side, 1)] for side in SIDES}
        runs = [*seen[True], *seen[False]]
        gaussian = is_gaussian(ledger.event())
        if not all(run.observed_releases for run in runs):
            raise UsageError(
                f"{self._mechanism.name} made no noisy release in some runs; `dpicl check` says what that is."
            )
        if self._settings.access == "black-box":
            return self._black_box(knob, ledger, runs[0])
        if all([observed.noisy_release.kind for observed in run.observed_releases] == ["gaussian"] for run in runs):
            first = {side: [run.observed_releases[0] for run in seen[side]] for side in SIDES}
            clean = [np.array([observed.noisy_release.clean.ravel() for observed in first[side]]) for side in SIDES]
            rule = Rule(self._directions(clean[0].shape[1]), sd=first[True][0].noisy_release.scale)
            noise_p = noise_p_value([*first[True], *first[False]])
            return AuditEvidence(clean[0], clean[1], rule, gaussian, ledger, noise_p)
        drawn = [
            np.array([[_features(run) for run in draws] for draws in self._runs(knob, side, self._settings.redraws)])
            for side in SIDES
        ]
        return AuditEvidence(drawn[0], drawn[1], Rule({"reference vector": reference_vector}, None), gaussian, ledger)

    def assign(self, run: int, present: bool) -> Slots:
        """The slots of a run, with or without the canary."""
        knob = self._mechanism.knob.non_private if self._mechanism.knob else 0.0
        execution = self._setup.execution(self._seen, knob, self.canary.record if present else None, None, run)
        return execution.sampler(self._mechanism)(self.canary.query.text).slots

    def _runs(self, knob: float, present: bool, times: int) -> Iterator[list[AuditRun]]:
        """Each run, with ``times`` draws of the noise."""
        for run in self._setup.counted(present):
            slots, name = self._slots[present][run], f"audit:{int(present)}:{run}"
            yield [self._observe(slots, knob, f"{name}:{draw}") for draw in range(times)]

    def _observe(self, slots: Slots, knob: float, noise: str) -> AuditRun:
        """Answers the query from these slots, with the noise of that name."""
        recording, own = Recording(), self._mechanism.scheme.own_slots
        source = streams(self._settings.seed).source(noise)
        sample = Sample(slots, self._mechanism.release(knob), source, own_slots=own)
        execution = self._setup.execution(
            self._seen,
            knob,
            None,
            None,
            queries=[self.canary.query],
            reader=self._reader,
            samples=lambda text: sample,
        )
        with observing(recording):
            (answer,) = execution.run().answered or ()
        return AuditRun(recording.observed_releases, answer)

    def _directions(self, size: int) -> dict[str, Fit]:
        """The published direction, where the sum has a coordinate for each answer or lies among embeddings, and the
        learned one."""
        labels, words = self.canary.seen.labels, [self.canary.member, self.canary.non_member]
        if size == len(labels):
            ends = np.eye(size)[[labels.index(word) for word in words]]
        elif not labels and size == self._embeddings().dimension:
            ends = self._embeddings().encode(words)
        else:
            return {"reference vector": reference_vector}
        return {"answers": linear(ends[0] - ends[1]), "reference vector": reference_vector}

    def _black_box(self, knob: float, ledger: Ledger, first: AuditRun) -> AuditEvidence:
        said = [
            [self._texts([run.released for run in draws]) for draws in self._runs(knob, side, self._settings.redraws)]
            for side in SIDES
        ]
        return replace(AuditEvidence.of_texts(said, self._towards, ledger), ceiling=self._ceiling(first))

    def _ceiling(self, run: AuditRun) -> tuple[float, float] | None:
        """What the winner of a noisy vote can show; None where the answer is no such winner."""
        labels, first = len(self.canary.seen.labels), run.observed_releases[0].noisy_release
        alone = len(run.observed_releases) == 1 and first.kind == "gaussian" and first.scale > 0
        if not (alone and first.clean.size == labels > 1):
            return None
        own, slots = self._mechanism.scheme.own_slots, self._mechanism.slots
        return label_only_ceiling(first.scale, slots, labels, own, self._settings.delta)

    def _texts(self, released: Sequence[str | FinalPrompt]) -> list[str]:
        prompts = list(dict.fromkeys(one.prompt for one in released if isinstance(one, FinalPrompt)))
        written = dict(zip(prompts, self._reader.write(prompts), strict=True))
        return [written[one.prompt] if isinstance(one, FinalPrompt) else one for one in released]

    def _towards(self, answers: list[str]) -> list[float]:
        """How much each answer speaks for membership by the published rule: the label, or a difference of distances."""
        if self.canary.seen.labels:
            return [float(a == self.canary.member) - float(a == self.canary.non_member) for a in answers]
        rows = self._embeddings().encode([*answers, self.canary.member, self.canary.non_member])
        distances = np.linalg.norm(rows[:-2, None] - rows[None, -2:], axis=2)
        return [float(away) for away in distances[:, 1] - distances[:, 0]]

    def _embeddings(self) -> EmbeddingModel:
        return load_embeddings(getattr(self._mechanism, "embedding", "embedded"))


def _features(run: AuditRun) -> np.ndarray:
    """float64[d] of one run: what its first noisy release released and, where it is another one, its last.

    What was chosen is marked among the K that could be, the first with 1 and the others with less and less; sums of
    several clusters are added up. Both have public sizes.
    """
    parts = []
    for at in sorted({0, len(run.observed_releases) - 1}):
        noisy_release, released = run.observed_releases[at].noisy_release, run.observed_releases[at].released
        if noisy_release.kind == "choice":
            marked = np.zeros(noisy_release.clean.size)
            marked[released.astype(np.int64)] = 1.0 - np.arange(len(released)) / len(released)
            parts.append(marked)
        else:
            parts.append(released.reshape(-1, released.shape[-1]).sum(axis=0))
    return np.concatenate(parts)
