"""What runs of a demonstration mechanism show an auditor: the releases of every token, or the released text.

The canary's text is made of what the mechanism could release but hardly would: at every token the one of a fixed rank
among the public candidates. It shows what one record can do to these tokens at worst. Both sets of a run, with and
without the canary, are sampled with the same randomness; runs are independent of each other.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Final

import numpy as np
from scipy.special import softmax

from dpicl.attacks.audit_rules import AuditEvidence, Fit, Rule, as_it_is, linear, reference_vector
from dpicl.attacks.audit_settings import SIDES, AuditSetup
from dpicl.attacks.observers import Forcing, Recording
from dpicl.attacks.views import with_records
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Record
from dpicl.mechanism.bases import DemonstrationMechanism
from dpicl.privacy.above_threshold import first_chances
from dpicl.privacy.calibration import Calibration
from dpicl.privacy.events import is_gaussian
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import NoisyRelease, Observer, observing

#: Clean sums of more coordinates than this, over all tokens, are seen at the canary's own tokens alone.
_MOST_COORDINATES: Final = 5_000
#: Probabilities below this count as this in a likelihood ratio.
_TINY: Final = 1e-12
#: How many ranks are tried until a forced text is as long as it may be.
_MOST_TRIES: Final = 40

#: The noisy releases of each run, with and without the canary.
Runs = dict[bool, list[list[NoisyRelease]]]


class DemonstrationEvidence:
    """One demonstration of the first label from ``settings.runs`` samples on each side.

    White-box, the mechanism is made to release the canary's tokens (teacher forcing), so the clean values depend on no
    noise: they are read once for all epsilons. Black-box, every run releases its own text at every epsilon.
    """

    def __init__(self, mechanism: DemonstrationMechanism, setup: AuditSetup) -> None:
        self._mechanism, self._setup, self._settings, self._model = mechanism, setup, setup.settings, setup.model
        self._task = with_records(setup.task, setup.private).public_view()
        self._forced_runs: Runs | None = None
        self._canary: Record | None = None
        self._indices: list[int] = []
        self.notes = [f"one demonstration of the first label, {count(len(setup.private), 'record')}"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        """The runs at one epsilon. Raises BudgetExceeded when a run spends more than was calibrated for."""
        knob = calibration.knob
        if self._canary is None:
            self._canary = self._worst_case(knob)
        ledger = Ledger(calibration.event, calibration.epsilon)
        self._release(False, knob, 0, Recording(), ledger=ledger)
        gaussian = is_gaussian(ledger.event())
        if self._settings.access == "black-box":
            # Every run releases a text of its own, with its own noise.
            texts = [
                [self._release(side, knob, run, Recording(), 2 * run + side) for run in self._setup.counted(side)]
                for side in SIDES
            ]
            inside, outside = (np.array([self._overlap(text) for text in side]) for side in texts)
            return AuditEvidence(inside, outside, Rule({"overlap": as_it_is}, None), False, ledger)
        first = self._forced(knob, False, 0)
        if self._forced_runs is None or not _same_clean(first, self._forced_runs[False][0]):
            self._forced_runs = {
                side: [self._forced(knob, side, run) for run in self._setup.counted(side)] for side in SIDES
            }
        scales = [noisy_release.scale for noisy_release in first]
        if self._forced_runs[True][0][0].kind == "gaussian":
            return self._sums(self._forced_runs, scales, gaussian, ledger)
        return self._choices(self._forced_runs, scales, ledger)

    def _release(
        self,
        present: bool,
        knob: float,
        run: int,
        observer: Observer,
        noise_seed: int = 0,
        ledger: Ledger | None = None,
    ) -> str:
        """The text of one demonstration (or the instruction) from the sample of a run.

        ledger: None for the auditor's own runs, which have no budget.
        """
        assert self._canary is not None or not present
        randomness = streams(noise_seed)
        execution = self._setup.execution(
            self._task,
            knob,
            self._canary if present else None,
            ledger,
            run,
            noise=randomness.source(f"audit:{self._settings.seed}:{run}"),
            public=randomness.public,
            shots=(self._setup.label,),
        )
        with observing(observer):
            return "\n".join(execution.run().prompt.texts)

    def _worst_case(self, knob: float) -> Record:
        """The canary; `_indices` is then what each noisy release was made to release.

        The rank is, of a sum, the position in the public order of its coordinates; of a choice, the rank of the score
        without the canary in a sample that no run has. Where a token ends the text, the next better rank takes its
        place. Raises UsageError when no text is released by a choice among public tokens.
        """
        ranks: dict[int, int] = {}
        rank, longest = self._settings.rank, 0
        for _ in range(_MOST_TRIES):
            forcing = Forcing(lambda t, noisy_release: _at_rank(noisy_release, ranks.get(t, rank)))
            text = self._release(False, knob, self._settings.runs, forcing)
            length = len(forcing.forced)
            longest = max(longest, length)
            last = ranks.get(length - 1, rank)
            if not length or length >= getattr(self._mechanism, "tokens", longest) or last == 0:
                break
            ranks[length - 1] = last - 1
        if not forcing.forced:
            raise UsageError(f"{self._mechanism.name} makes no noisy release, so there is nothing to audit.")
        self._indices = forcing.forced
        return Record(text, self._setup.label)

    def _forced(self, knob: float, present: bool, run: int) -> list[NoisyRelease]:
        """The noisy releases of one run that is made to release the canary's tokens: worst case, white-box."""
        forcing = Forcing(lambda t, _: self._indices[t] if t < len(self._indices) else 0)
        self._release(present, knob, run, forcing)
        return forcing.noisy_releases

    def _sums(self, runs: Runs, scales: list[float], gaussian: bool, ledger: Ledger) -> AuditEvidence:
        """Noisy sums of all tokens side by side, each in units of its noise."""
        units = np.array([scale or 1.0 for scale in scales])
        sizes = [noisy_release.clean.size for noisy_release in runs[True][0]]
        whole = sum(sizes) <= _MOST_COORDINATES
        clean = [np.array([self._coordinates(run, units, whole) for run in runs[side]]) for side in SIDES]
        own = np.ones(len(sizes))
        if whole:
            own = np.concatenate([np.eye(size)[at] for size, at in zip(sizes, self._indices, strict=True)])
        fits: dict[str, Fit] = {"canary's tokens": linear(own), "reference vector": reference_vector}
        return AuditEvidence(clean[0], clean[1], Rule(fits, sd=1.0 if scales[0] > 0 else 0.0), gaussian, ledger)

    def _coordinates(self, run: list[NoisyRelease], units: np.ndarray, whole: bool) -> np.ndarray:
        parts = [noisy_release.clean.ravel() for noisy_release in run]
        if not whole:
            parts = [part[[at]] for part, at in zip(parts, self._indices, strict=True)]
        return np.concatenate([part / unit for part, unit in zip(parts, units, strict=True)])

    def _choices(self, runs: Runs, scales: list[float], ledger: Ledger) -> AuditEvidence:
        """Log-likelihood ratios of the tokens that are chosen, [n, m] for m draws of the noise.

        The ratio of every token is learned on the first fifth of the runs, which are then left out.
        """
        pilot = max(4, self._settings.runs // 5)
        inside, outside = (_mean_chances(runs[side][:pilot], scales) for side in SIDES)
        ratios = [np.log(np.maximum(a, _TINY) / np.maximum(b, _TINY)) for a, b in zip(inside, outside, strict=True)]
        generator = streams(self._settings.seed).stream("audit:choices")
        drawn = [
            np.array([self._ratios_drawn(run, scales, ratios, generator) for run in runs[side][pilot:]])
            for side in SIDES
        ]
        return AuditEvidence(drawn[0], drawn[1], Rule({"likelihood ratio": as_it_is}, None), False, ledger)

    def _ratios_drawn(
        self, run: list[NoisyRelease], scales: list[float], ratios: list[np.ndarray], generator: np.random.Generator
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


def _at_rank(noisy_release: NoisyRelease, rank: int) -> int:
    flat = noisy_release.clean.ravel()
    if noisy_release.kind == "gaussian":
        return min(rank, flat.size - 1)
    if noisy_release.kind == "threshold":
        return 1  # above: a private token follows
    return int(np.argsort(-flat, kind="stable")[min(rank, flat.size - 1)])


def _same_clean(left: list[NoisyRelease], right: list[NoisyRelease]) -> bool:
    """Whether the clean values depend on no knob, so that those of another epsilon serve."""
    return len(left) == len(right) and all(np.array_equal(a.clean, b.clean) for a, b in zip(left, right, strict=True))


def _chances(run: list[NoisyRelease], scales: list[float]) -> Iterator[np.ndarray]:
    """float64[V] a noisy release: the probability of each token, given the forced ones before; [2] of "below" and
    "above" of a question, which is the first of its round."""
    for noisy_release, temperature in zip(run, scales, strict=True):
        clean = noisy_release.clean.ravel().astype(np.float64)
        if noisy_release.kind == "threshold":
            yield first_chances(float(clean[0]), temperature)
            continue
        yield softmax(clean / temperature) if temperature > 0 else (clean == clean.max()).astype(np.float64)


def _mean_chances(runs: list[list[NoisyRelease]], scales: list[float]) -> list[np.ndarray]:
    """float64[K] a noisy release; K differs where the tokens that may be chosen do."""
    each = (_chances(run, scales) for run in runs)
    return [np.sum(chances, axis=0) / len(runs) for chances in zip(*each, strict=True)]
