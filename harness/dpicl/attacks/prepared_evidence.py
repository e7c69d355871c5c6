"""What runs of a prepared mechanism show an auditor: its noisy sums, or the answer to a question about the canary.

The canary is a record that is not in the private set, with the label that follows its own in the task's order: it says
of its text what no other record says. Both sets of a run are sampled with the same randomness.
"""

from __future__ import annotations

import numpy as np

from dpicl.attacks.audit_rules import AuditEvidence, Rule, noise_p_value, reference_vector
from dpicl.attacks.audit_settings import SIDES, AuditSetup
from dpicl.attacks.observers import Observation, Recording
from dpicl.attacks.views import with_records
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Query, Record
from dpicl.mechanism.bases import PreparedMechanism
from dpicl.privacy.calibration import Calibration
from dpicl.privacy.events import is_gaussian
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import ALL_RECORDS
from dpicl.releasing.reader import SlotReader


class PreparedEvidence:
    """``settings.runs`` preparations on each side; the size of the private set is public.

    White-box, the auditor sees the noisy sums that come before any whose input follows from an earlier one's noise: of
    these the clean values are known (of gradient descent the first step alone). Black-box, the answer to the canary's
    own text.
    """

    def __init__(self, mechanism: PreparedMechanism, setup: AuditSetup) -> None:
        self._mechanism, self._setup, self._settings = mechanism, setup, setup.settings
        self._task = with_records(setup.task, setup.private).public_view()
        self._query = Query("canary", setup.other.text)
        labels = setup.task.labels
        own = labels.index(setup.other.label) if setup.other.label in labels else 0
        self._canary = Record(setup.other.text, labels[(own + 1) % len(labels)] if labels else setup.other.label)
        self._reader = SlotReader(self._task, setup.model, setup.outputs, ALL_RECORDS, [self._query])
        self.notes = [f"one preparation from {count(len(setup.private), 'record')}, every one of which may be in it"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon. Raises BudgetExceeded when a run spends more than was calibrated for."""
        knob, ledger = calibration.knob, Ledger(calibration.event, calibration.epsilon)
        first, _ = self._prepare(False, knob, 0, 0, ledger)
        gaussian = is_gaussian(ledger.event())
        if not first:
            raise UsageError(f"{self._mechanism.name} makes no noisy release, so there is nothing to audit.")
        if self._settings.access == "black-box":
            return self._black_box(knob, ledger)
        again, _ = self._prepare(False, knob, 0, 1)
        known = _free_of_noise(first, again)
        scales = {one.noisy_release.scale for one in first[:known]}
        if len(scales) > 1 or any(one.noisy_release.kind != "gaussian" for one in first[:known]):
            raise UsageError(f"{self._mechanism.name} makes choices, or sums of several scales; audit it black-box.")
        runs = {side: [self._prepare(side, knob, run, 0)[0][:known] for run in self._runs(side)] for side in SIDES}
        clean = [
            np.array([np.concatenate([one.noisy_release.clean.ravel() for one in run]) for run in runs[side]])
            for side in SIDES
        ]
        rule = Rule({"reference vector": reference_vector}, sd=scales.pop())
        return AuditEvidence(clean[0], clean[1], rule, gaussian, ledger, noise_p_value(first))

    def _runs(self, present: bool) -> list[int]:
        return list(self._setup.counted(present))

    def _prepare(
        self, present: bool, knob: float, run: int, draw: int, ledger: Ledger | None = None
    ) -> tuple[list[Observation], str]:
        """The noisy releases of one run, and the answer about the canary. draw: of the noise, on each side its own."""
        noise, recording = streams(self._settings.seed).source(f"audit:{int(present)}:{run}:{draw}"), Recording()
        canary = self._canary if present else None
        execution = self._setup.execution(
            self._task, knob, canary, ledger, run, noise=noise, queries=[self._query], reader=self._reader
        )
        with observing(recording):
            made = execution.run()
        return recording.observed_releases, made.answer([self._query])[self._query.id]

    def _black_box(self, knob: float, ledger: Ledger) -> AuditEvidence:
        draws = range(self._settings.redraws)
        said = [
            [[self._prepare(side, knob, run, draw)[1] for draw in draws] for run in self._runs(side)] for side in SIDES
        ]
        return AuditEvidence.of_texts(said, lambda texts: [float(text == self._canary.label) for text in texts], ledger)


def _free_of_noise(first: list[Observation], again: list[Observation]) -> int:
    """How many releases come before the first whose input differs between two draws of the noise."""
    pairs = zip(first, again, strict=True)
    same = [np.array_equal(a.noisy_release.clean, b.noisy_release.clean) for a, b in pairs]
    return same.index(False) if False in same else len(same)
