"""What runs of an answer mechanism show an auditor: noisy sums and choices, or the released answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from dpicl.harness.attacks.audit_rules import (
    SIDES,
    AuditEvidence,
    Fit,
    Rule,
    frequencies,
    linear,
    noise_p_value,
    reference_vector,
    table,
)
from dpicl.harness.attacks.audit_runs import AnswerRuns, Seen
from dpicl.harness.attacks.audit_settings import AuditSettings
from dpicl.harness.attacks.canaries import canary
from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.vocabulary import FinalPrompt, Report
from dpicl.harness.data.task import Record, Task
from dpicl.harness.mechanism.bases import AnswerMechanism
from dpicl.harness.models.base import LanguageModel
from dpicl.harness.models.embeddings import EmbeddingModel, load_embeddings
from dpicl.harness.privacy.calibration import Calibration
from dpicl.harness.privacy.events import is_gaussian
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.run.output_cache import OutputCache


class AnswerEvidence:
    """Answers to one question (Q = 1) from ``settings.runs`` samples on each side, assigned to slots once for all
    epsilons.

    private: the private set. other: the record that the canary is made of.
    sizes: public ones. records: n. notes: what a reader of a result must know.
    """

    def __init__(
        self,
        mechanism: AnswerMechanism,
        task: Task,
        private: Sequence[Record],
        other: Record,
        model: LanguageModel,
        settings: AuditSettings,
        outputs: OutputCache,
        report: Report,
    ) -> None:
        self._mechanism, self._settings, self._report = mechanism, settings, report
        expected, self.records = mechanism.slots * mechanism.examples_per_slot, len(private)
        self._canary = canary(
            settings.question, task, other, private, model, self._embeddings, settings.words, settings.repeats
        )
        if reason := mechanism.skip(self._canary.seen):
            raise UsageError(f"{mechanism.name} cannot answer the audit's question: {reason}.")
        self._runs = AnswerRuns(mechanism, self._canary, private, model, outputs, settings.seed)
        self.sizes = self._runs.sizes
        self._slots = {side: [self._runs.assign(i, side) for i in range(settings.runs)] for side in SIDES}
        self._runs.reader.read_public()
        rate = 1.0 if mechanism.partition == "once" else expected / self.records
        self.notes = [f"one query, question {settings.question}, {self.records} records, sampling rate {rate:.3g}"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon."""
        knob, ledger = calibration.knob, self._runs.charged(calibration)
        seen = {side: [rows[0] for rows in self._redrawn(knob, side, 1)] for side in SIDES}
        runs = [*seen[True], *seen[False]]
        gaussian = is_gaussian(ledger.event())
        if not all(run.observed_releases for run in runs):
            raise UsageError(
                f"{self._mechanism.name} released nothing through a noisy release in some runs; `dpicl check` says what"
                " that is."
            )
        if self._settings.access == "black-box":
            return self._black_box(knob, ledger)
        if all([observed.noisy_release.kind for observed in run.observed_releases] == ["gaussian"] for run in runs):
            clean = [
                np.array([run.observed_releases[0].noisy_release.clean.ravel() for run in seen[side]]) for side in SIDES
            ]
            rule = Rule(self._directions(clean[0].shape[1]), sd=runs[0].observed_releases[0].noisy_release.scale)
            return AuditEvidence(
                clean[0], clean[1], rule, gaussian, ledger, noise_p_value([run.observed_releases[0] for run in runs])
            )
        drawn = [
            np.array([[_features(one) for one in rows] for rows in self._redrawn(knob, side, self._settings.redraws)])
            for side in SIDES
        ]
        return AuditEvidence(drawn[0], drawn[1], Rule({"reference vector": reference_vector}, None), gaussian, ledger)

    def _redrawn(self, knob: float, present: bool, times: int) -> Iterator[list[Seen]]:
        """Each run with so many draws of the noise."""
        slots, seed = self._slots[present], self._settings.seed
        for run, assigned in enumerate(slots):
            yield [self._runs.observe(assigned, knob, (seed, int(present), run, draw)) for draw in range(times)]
            self._report(run + 1, len(slots), f"runs {'with' if present else 'without'} the canary")

    def _directions(self, size: int) -> dict[str, Fit]:
        """The published direction, where the sum has a coordinate for each answer or lies among embeddings, and the
        learned one."""
        found: dict[str, Fit] = {}
        labels = self._canary.seen.labels
        if size == len(labels):
            ends = [np.eye(size)[labels.index(word)] for word in (self._canary.member, self._canary.non_member)]
            found["answers"] = linear(ends[0] - ends[1])
        elif not labels and size == self._embeddings().dimension:
            ends = list(self._embeddings().encode([self._canary.member, self._canary.non_member]))
            found["answers"] = linear(ends[0] - ends[1])
        return {**found, "reference vector": reference_vector}

    def _black_box(self, knob: float, ledger: Ledger) -> AuditEvidence:
        said = [
            [self._texts([one.released for one in rows]) for rows in self._redrawn(knob, side, self._settings.redraws)]
            for side in SIDES
        ]
        answers = list(dict.fromkeys(text for side in said for row in side for text in row))
        codes = {text: i for i, text in enumerate(answers)}
        inside, outside = (np.array([[codes[text] for text in row] for row in side]) for side in said)
        fits = {"answers": table(self._towards(answers)), "frequencies": frequencies(len(codes))}
        return AuditEvidence(inside, outside, Rule(fits, None), False, ledger)

    def _texts(self, released: Sequence[str | FinalPrompt]) -> list[str]:
        prompts = list(dict.fromkeys(one.prompt for one in released if isinstance(one, FinalPrompt)))
        written = dict(zip(prompts, self._runs.reader.write(prompts), strict=True))
        return [written[one.prompt] if isinstance(one, FinalPrompt) else one for one in released]

    def _towards(self, answers: list[str]) -> list[float]:
        """How much each answer speaks for membership by the published rule: the label, or a difference of distances."""
        if self._canary.seen.labels:
            return [float(a == self._canary.member) - float(a == self._canary.non_member) for a in answers]
        rows = self._embeddings().encode([*answers, self._canary.member, self._canary.non_member])
        distances = np.linalg.norm(rows[:-2, None] - rows[None, -2:], axis=2)
        return [float(away) for away in distances[:, 1] - distances[:, 0]]

    def _embeddings(self) -> EmbeddingModel:
        return load_embeddings(getattr(self._mechanism, "embedding", "embedded"))


def _features(seen: Seen) -> np.ndarray:
    """float64[d] of one run: what left by the first noisy release and, where it is another one, by the last.

    What was chosen is marked among the K that could be, the first with 1 and the others with less and less; sums of
    several clusters are added up. Both have public sizes.
    """
    ends = (
        seen.observed_releases[:1]
        if len(seen.observed_releases) == 1
        else [seen.observed_releases[0], seen.observed_releases[-1]]
    )
    parts = []
    for observed in ends:
        if observed.noisy_release.kind == "choice":
            marked = np.zeros(observed.noisy_release.clean.size)
            count = len(observed.released)
            marked[observed.released.astype(np.int64)] = 1.0 - np.arange(count) / count
            parts.append(marked)
        else:
            parts.append(observed.released.reshape(-1, observed.released.shape[-1]).sum(axis=0))
    return np.concatenate(parts)
