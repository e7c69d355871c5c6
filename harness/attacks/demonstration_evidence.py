"""What runs of a demonstration mechanism show an auditor: the releases of every token, or the released text."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.special import softmax

from dpicl.harness.attacks.audit_rules import SIDES, AuditEvidence, Fit, Rule, as_it_is, linear, reference_vector
from dpicl.harness.attacks.audit_runs import DemonstrationRuns
from dpicl.harness.attacks.audit_settings import AuditSettings
from dpicl.harness.attacks.canaries import held_out
from dpicl.harness.core.seeds import streams
from dpicl.harness.core.vocabulary import Report
from dpicl.harness.data.task import NEUTRAL_LABEL, Record, Task
from dpicl.harness.mechanism.bases import DemonstrationMechanism
from dpicl.harness.models.base import LanguageModel
from dpicl.harness.privacy.calibration import Calibration
from dpicl.harness.privacy.events import is_gaussian
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.release_hooks import NoisyRelease

#: Clean sums of more coordinates than this, over all tokens, are seen at the canary's own tokens alone.
_MOST_COORDINATES: Final = 5_000
#: Probabilities below this count as this in a likelihood ratio.
_TINY: Final = 1e-12


class DemonstrationEvidence:
    """One demonstration of the first label from ``settings.runs`` samples on each side.

    White-box, the mechanism is made to release the canary's tokens (teacher forcing), so the clean values depend on no
    noise: they are read once for all epsilons. Black-box, every run releases its own text, for every epsilon anew.
    """

    def __init__(
        self,
        mechanism: DemonstrationMechanism,
        task: Task,
        records: int,
        model: LanguageModel,
        settings: AuditSettings,
        report: Report,
    ) -> None:
        self._mechanism, self._settings, self._report, self._model = mechanism, settings, report, model
        label = task.labels[0] if task.labels else NEUTRAL_LABEL
        group = [record for record in task.train if record.label == label] if task.partitioned else list(task.train)
        self.records = records
        private, _ = held_out(group, self.records, streams(settings.seed).stream("audit:records"))
        self._runs = DemonstrationRuns(mechanism, task, private, label, model, settings.seed)
        self.sizes = self._runs.sizes
        self._noisy_releases: dict[bool, list[list[NoisyRelease]]] | None = None
        self._canary: Record | None = None
        self._indices: list[int] = []
        self.notes = [f"one demonstration of the first label, {self.records} records"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon."""
        knob = calibration.knob
        if self._canary is None:
            text, self._indices = self._runs.worst_text(knob, self._settings.rank, self._settings.runs)
            self._canary = Record(text, self._runs.label)
        ledger = self._runs.charged(calibration)
        gaussian = is_gaussian(ledger.event())
        if self._settings.access == "black-box":
            texts = [[self._free(knob, side, run) for run in self._counted(side)] for side in SIDES]
            inside, outside = (np.array([self._overlap(text) for text in side]) for side in texts)
            return AuditEvidence(inside, outside, Rule({"overlap": as_it_is}, None), False, ledger)
        first = self._forced(knob, False, 0)
        if self._noisy_releases is None or not _same_clean(first, self._noisy_releases[False][0]):
            self._noisy_releases = {
                side: [self._forced(knob, side, run) for run in self._counted(side)] for side in SIDES
            }
        scales = [noisy_release.scale for noisy_release in first]
        if self._noisy_releases[True][0][0].kind == "gaussian":
            return self._sums(self._noisy_releases, scales, gaussian, ledger)
        return self._choices(self._noisy_releases, scales, ledger)

    def _sums(
        self, noisy_releases: dict[bool, list[list[NoisyRelease]]], scales: list[float], gaussian: bool, ledger: Ledger
    ) -> AuditEvidence:
        """Noisy sums of all tokens side by side, each in units of its noise."""
        units = np.array([scale or 1.0 for scale in scales])
        sizes = [noisy_release.clean.size for noisy_release in noisy_releases[True][0]]
        whole = sum(sizes) <= _MOST_COORDINATES
        clean = [np.array([self._coordinates(run, units, whole) for run in noisy_releases[side]]) for side in SIDES]
        own = np.ones(len(sizes))
        if whole:
            own = np.concatenate([np.eye(size)[at] for size, at in zip(sizes, self._indices, strict=True)])
        fits: dict[str, Fit] = {"canary's tokens": linear(own), "reference vector": reference_vector}
        return AuditEvidence(clean[0], clean[1], Rule(fits, sd=1.0 if scales[0] > 0 else 0.0), gaussian, ledger)

    def _coordinates(self, run: list[NoisyRelease], units: np.ndarray, whole: bool) -> np.ndarray:
        parts = zip(run, self._indices, units, strict=True)
        return np.concatenate(
            [
                (noisy_release.clean.ravel() if whole else noisy_release.clean.ravel()[[at]]) / u
                for noisy_release, at, u in parts
            ]
        )

    def _choices(
        self, noisy_releases: dict[bool, list[list[NoisyRelease]]], scales: list[float], ledger: Ledger
    ) -> AuditEvidence:
        """Log-likelihood ratios of the tokens that are chosen, [n, m] for m draws of the noise.

        The ratio of every token is learned on the first fifth of the runs, which are then left out.
        """
        pilot = max(4, self._settings.runs // 5)
        inside, outside = (_mean_chances(noisy_releases[side][:pilot], scales) for side in SIDES)
        ratios = np.log(np.maximum(inside, _TINY)) - np.log(np.maximum(outside, _TINY))
        generator = streams(self._settings.seed).stream("audit:choices")
        drawn = [
            np.array([self._ratios_drawn(run, scales, ratios, generator) for run in noisy_releases[side][pilot:]])
            for side in SIDES
        ]
        return AuditEvidence(drawn[0], drawn[1], Rule({"likelihood ratio": as_it_is}, None), False, ledger)

    def _ratios_drawn(
        self, run: list[NoisyRelease], scales: list[float], ratios: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        """float64[m]: the summed log-ratios of one choice a noisy release, m times."""
        total = np.zeros(self._settings.redraws)
        for chances, row in zip(_chances(run, scales), ratios, strict=True):
            reached = np.cumsum(chances)
            total += row[np.searchsorted(reached, generator.random(len(total)) * reached[-1]).clip(max=len(row) - 1)]
        return total

    def _overlap(self, text: str) -> float:
        """How much of the canary's tokens stands in a released text, in one piece: 0 to 1."""
        assert self._canary is not None
        ours, theirs = self._model.encode(self._canary.text), self._model.encode(text)
        match = difflib.SequenceMatcher(None, ours, theirs, autojunk=False).find_longest_match()
        return match.size / max(1, len(ours))

    def _counted(self, present: bool) -> Iterator[int]:
        for run in range(self._settings.runs):
            yield run
            self._report(run + 1, self._settings.runs, f"runs {'with' if present else 'without'} the canary")

    def _forced(self, knob: float, present: bool, run: int) -> list[NoisyRelease]:
        return self._runs.forced(self._canary if present else None, knob, run, self._indices)

    def _free(self, knob: float, present: bool, run: int) -> str:
        return self._runs.free(self._canary if present else None, knob, run, 2 * run + present)


def _same_clean(left: list[NoisyRelease], right: list[NoisyRelease]) -> bool:
    """Whether the clean values depend on no knob, so that those of another epsilon serve."""
    return len(left) == len(right) and all(np.array_equal(a.clean, b.clean) for a, b in zip(left, right, strict=True))


def _chances(run: list[NoisyRelease], scales: list[float]) -> Iterator[np.ndarray]:
    """float64[V] a noisy release: the probability of each token, given the forced ones before."""
    for noisy_release, temperature in zip(run, scales, strict=True):
        clean = noisy_release.clean.ravel().astype(np.float64)
        yield softmax(clean / temperature) if temperature > 0 else (clean == clean.max()).astype(np.float64)


def _mean_chances(runs: list[list[NoisyRelease]], scales: list[float]) -> np.ndarray:
    """float64[T, V]."""
    total: np.ndarray = sum((np.array(list(_chances(run, scales))) for run in runs), np.zeros(()))
    return total / len(runs)
