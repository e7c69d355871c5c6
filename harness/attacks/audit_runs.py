"""Runs of a mechanism on two neighbouring private sets, one of which holds a canary, as an auditor at its noisy
releases sees them.

A run assigns the records to slots anew; the two sets of a run are sampled with the same coins, so they differ in one
slot. Runs are independent of each other. What the model says does not depend on the noise: it is read once, and the
noise is drawn as often as wanted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from dpicl.harness.attacks.canaries import Canary
from dpicl.harness.attacks.observers import CoupledSampling, Forcing, Observation, Recording
from dpicl.harness.attacks.views import with_records
from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.seeds import streams
from dpicl.harness.core.vocabulary import Demonstration, FinalPrompt, Partition, Sizes
from dpicl.harness.data.task import Record, Task
from dpicl.harness.mechanism.bases import AnswerContext, AnswerMechanism, Context, DemonstrationMechanism
from dpicl.harness.mechanism.outputs import checked_answer, checked_demonstrations
from dpicl.harness.models.base import LanguageModel
from dpicl.harness.privacy.calibration import Calibration
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.private_set import PrivateRecord, PrivateSet, Sample
from dpicl.harness.privacy.release_hooks import NoisyRelease, Observer, observing
from dpicl.harness.run.output_cache import OutputCache
from dpicl.harness.run.reader import SlotReader

Slots = tuple[tuple[PrivateRecord, ...], ...]

#: How many ranks are tried until a forced text is as long as it may be.
_MOST_TRIES = 40


@dataclass(frozen=True)
class Seen:
    """One run: what left by the noisy releases, in order, and what was released in the end."""

    observed_releases: list[Observation] = field(repr=False)
    released: str | FinalPrompt


class AnswerRuns:
    """One audited query, answered from fresh samples of ``private`` without and with the canary.

    n = len(private) is the public number of records, so the sampling rate is the same on both sides.
    """

    def __init__(
        self,
        mechanism: AnswerMechanism,
        canary: Canary,
        private: Sequence[Record],
        model: LanguageModel,
        outputs: OutputCache,
        seed: int,
    ) -> None:
        self.mechanism, self.canary, self.sizes = mechanism, canary, Sizes.of_queries(len(private), 1)
        self._private, self._seed = tuple(private), seed
        self.reader = SlotReader(
            canary.seen.public_view(), model, outputs, mechanism.scheme, [canary.query], mechanism.record_tokens
        )

    def charged(self, calibration: Calibration) -> Ledger:
        """What one run puts on its ledger. Raises BudgetExceeded when that is more than was calibrated for."""
        ledger = Ledger(calibration.event, calibration.epsilon)
        private = self._set(self._private, ledger, CoupledSampling(self._seed))
        self.mechanism.scheme.samples(private, self.mechanism.release(calibration.knob), 1)
        return ledger

    def assign(self, run: int, present: bool) -> Slots:
        """The slots of a run."""
        records = [*self._private, self.canary.record] if present else list(self._private)
        release = self.mechanism.release(self.mechanism.knob.non_private if self.mechanism.knob else 0.0)
        private = self._set(records, _unlimited(), CoupledSampling(self._seed, run))
        return next(self.mechanism.scheme.samples(private, release, 1)).slots

    def _set(self, records: Sequence[Record], ledger: Ledger, sampling: CoupledSampling) -> PrivateSet:
        """Records that are assigned to slots; what is released from them is released in `observe`."""
        noise = streams(self._seed).source("noise")
        return PrivateSet(records, ledger, sizes=self.sizes.records, sampling=sampling, noise=noise)

    def observe(self, slots: Slots, knob: float, noise_seed: tuple[int, ...]) -> Seen:
        """Answers the query from these slots, with fresh noise."""
        randomness = streams(noise_seed[0])
        noise = randomness.source(f"audit:{':'.join(map(str, noise_seed[1:]))}")
        context = AnswerContext(self.canary.seen.public_view(), self.reader, knob, randomness.public)
        sample = Sample(slots, self.mechanism.release(knob), noise)
        recording = Recording()
        with observing(recording):
            said = checked_answer(self.mechanism, self.mechanism.answer(self.canary.query, sample, context))
        return Seen(recording.observed_releases, said)


class DemonstrationRuns:
    """Demonstrations of one label, released from ``private`` without and with a canary of that label.

    The canary's text is made of what the mechanism could release but hardly would: at every token the one of a fixed
    rank among the public candidates. It shows what one record can do to these tokens at worst.
    """

    def __init__(
        self,
        mechanism: DemonstrationMechanism,
        task: Task,
        private: Sequence[Record],
        label: str,
        model: LanguageModel,
        seed: int,
    ) -> None:
        self.mechanism, self.label = mechanism, label
        self._private, self._model, self._seed = tuple(private), model, seed
        self._task = with_records(task, private)
        group: Partition = label if task.partitioned else None
        self.sizes = Sizes({group: len(private)}, {group: 1})

    def release(
        self,
        records: Sequence[Record],
        knob: float,
        run: int,
        observer: Observer,
        noise_seed: int = 0,
        ledger: Ledger | None = None,
    ) -> Demonstration:
        """One demonstration from these records, sampled with the coins of a run."""
        randomness = streams(noise_seed)
        private = PrivateSet(
            records,
            ledger or _unlimited(),
            sizes=self.sizes.records,
            sampling=CoupledSampling(self._seed, run),
            noise=randomness.source(f"audit:{self._seed}:{run}"),
        )
        context = Context(self._task.public_view(), self._model, (self.label,), knob, randomness.public)
        with observing(observer):
            given = self.mechanism.release(private, context)
        return checked_demonstrations(self.mechanism, given, context.shots, self._model)[0]

    def charged(self, calibration: Calibration) -> Ledger:
        """What one run puts on its ledger. Raises BudgetExceeded when that is more than was calibrated for."""
        ledger = Ledger(calibration.event, calibration.epsilon)
        self.release(self._private, calibration.knob, 0, Recording(), ledger=ledger)
        return ledger

    def worst_text(self, knob: float, rank: int, run: int) -> tuple[str, list[int]]:
        """(the canary's text, the index that each noisy release was made to release).

        rank: of a sum, the position in the public order of its coordinates; of a choice, the rank of the score without
        the canary in a sample that no run has (``run``). Where a token ends the text, the next better rank takes its
        place. Raises UsageError when no text is released by a choice among public tokens.
        """
        ranks: dict[int, int] = {}
        longest = 0
        for _ in range(_MOST_TRIES):
            forcing = Forcing(lambda t, noisy_release: _at_rank(noisy_release, ranks.get(t, rank)))
            text = self.release(self._private, knob, run, forcing).text
            length = len(forcing.forced)
            longest = max(longest, length)
            last = ranks.get(length - 1, rank)
            if not length or length >= getattr(self.mechanism, "tokens", longest) or last == 0:
                break
            ranks[length - 1] = last - 1
        if not forcing.forced:
            raise UsageError(
                f"{self.mechanism.name} releases nothing through a noisy release, so there is nothing to audit."
            )
        return text, list(forcing.forced)

    def forced(self, canary: Record | None, knob: float, run: int, indices: Sequence[int]) -> list[NoisyRelease]:
        """The noisy releases of one run that is made to release the canary's tokens: worst case, white-box."""
        forcing = Forcing(lambda t, noisy_release: indices[t] if t < len(indices) else 0)
        self.release(self._with(canary), knob, run, forcing)
        return [observed.noisy_release for observed in forcing.observed_releases]

    def free(self, canary: Record | None, knob: float, run: int, noise_seed: int) -> str:
        """The text that one run releases with its own noise: black-box."""
        return self.release(self._with(canary), knob, run, Recording(), noise_seed).text

    def _with(self, canary: Record | None) -> list[Record]:
        return [*self._private, *([canary] if canary else [])]


def _at_rank(noisy_release: NoisyRelease, rank: int) -> int:
    flat = noisy_release.clean.ravel()
    if noisy_release.kind == "gaussian":
        return min(rank, flat.size - 1)
    return int(np.argsort(-flat, kind="stable")[min(rank, flat.size - 1)])


def _unlimited() -> Ledger:
    """A ledger that admits everything: an auditor's own runs have no budget."""
    return Ledger(None, math.inf)
