"""One release: calibrate, put the records behind a ledger, let the mechanism release, prove what the ledger holds.

This is the only place where private records meet a mechanism. Demonstrations are released once; an answer mechanism
answers every test record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.answering import answer_all, queries_of
from harness.errors import BudgetExceeded, PluginError, UsageError
from harness.mechanism import (
    AnswerContext,
    AnswerMechanism,
    Context,
    Demonstration,
    DemonstrationMechanism,
    Mechanism,
    Query,
    Sizes,
)
from harness.output_cache import OutputCache
from harness.privacy import accountants
from harness.privacy.bounds import Bounds
from harness.privacy.calibration import Calibration, calibrate
from harness.privacy.ledger import Ledger
from harness.privacy.private_set import PrivateSet
from harness.seeds import NoiseSource, Streams, streams
from harness.slot_reader import SlotReader

if TYPE_CHECKING:
    from harness.models.base import LanguageModel
    from harness.task import Task

Report = Callable[[int, int, str], None]
Phase = Callable[[str], AbstractContextManager[None]]

#: Rounding only: a proved epsilon may exceed its target by this factor, never by more.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Terms:
    """What a release is made for. queries: Q of an answer mechanism, None for as many as are asked."""

    epsilon: float
    delta: float
    seed: int = 0
    noise: str = "seeded"
    mode: str = "proved"
    shots: int = 4
    queries: int | None = None


@dataclass(frozen=True)
class Release:
    """What came out of a mechanism, and what it cost. answers: query id -> answer; None for demonstrations."""

    calibration: Calibration
    sizes: Sizes
    demonstrations: list[Demonstration]
    answers: dict[str, str] | None
    ledger: Ledger
    bounds: Bounds


class Releaser:
    """Makes releases with one model.

    outputs: opens the cache of what slots answered; not called with secure noise, nor for demonstrations.
    report: called with (done, total, unit). phase: opened around 'calibrate', 'release' and 'account'.
    """

    def __init__(
        self,
        model: LanguageModel,
        outputs: Callable[[], OutputCache],
        report: Report = lambda *_: None,
        phase: Phase = lambda name: nullcontext(),
    ) -> None:
        self._model, self._outputs, self._report, self._phase = model, outputs, report, phase

    def release(
        self, mechanism: Mechanism, task: Task, terms: Terms, queries: Sequence[Query] | None = None
    ) -> Release:
        """Demonstrations, or answers to ``queries`` (None: to every test record).

        Raises BudgetExceeded when the ledger proves more than the target: then nothing is returned.
        """
        randomness = streams(terms.seed, terms.noise)
        if isinstance(mechanism, AnswerMechanism):
            asked = queries_of(task) if queries is None else list(queries)
            return self._answer(mechanism, task, terms, asked, randomness)
        if isinstance(mechanism, DemonstrationMechanism):
            return self._demonstrate(mechanism, task, terms, randomness)
        raise PluginError(f"Mechanism '{mechanism.name}' is neither a DemonstrationMechanism nor an AnswerMechanism.")

    def _demonstrate(self, mechanism: DemonstrationMechanism, task: Task, terms: Terms, randomness: Streams) -> Release:
        shots = task.plan_shots(terms.shots, randomness.stream("shots"))
        sizes = task.sizes(shots)
        calibration = self._calibrate(mechanism, sizes, terms)
        ledger = Ledger(calibration.event, terms.epsilon, terms.delta)
        private = PrivateSet(task.train, ledger, sizes=sizes.records, coins=randomness.source("sampling"))
        context = Context(
            task, self._model, shots, calibration.knob, randomness, randomness.source("noise"), self._report
        )
        with self._phase("release"):
            demonstrations = mechanism.release(private, context)
        bounds = self._proved(mechanism, terms, ledger)
        return Release(calibration, sizes, demonstrations, None, ledger, bounds)

    def _answer(
        self, mechanism: AnswerMechanism, task: Task, terms: Terms, queries: Sequence[Query], randomness: Streams
    ) -> Release:
        budget = terms.queries or len(queries)
        sizes = Sizes.of_queries(task.size, budget)
        calibration = self._calibrate(mechanism, sizes, terms)
        ledger = Ledger(calibration.event, terms.epsilon, terms.delta)
        private = PrivateSet(task.train, ledger, sizes=sizes.records, coins=_coins(mechanism, randomness))
        outputs = OutputCache(None) if randomness.secure else self._outputs()
        reader = SlotReader(task, self._model, outputs, mechanism.dealing, queries, mechanism.record_tokens)
        context = AnswerContext(task, reader, calibration.knob, randomness, randomness.source("noise"))
        with self._phase("release"):
            answers = answer_all(mechanism, queries, private, context, budget, self._report)
        bounds = self._proved(mechanism, terms, ledger)
        return Release(calibration, sizes, [], answers, ledger, bounds)

    def _calibrate(self, mechanism: Mechanism, sizes: Sizes, terms: Terms) -> Calibration:
        with self._phase("calibrate"):
            return calibrate(mechanism, sizes, terms.epsilon, terms.delta, mode=terms.mode)

    def _proved(self, mechanism: Mechanism, terms: Terms, ledger: Ledger) -> Bounds:
        with self._phase("account"):
            bounds = accountants.epsilon(ledger.event(), terms.delta)
        if terms.mode == "proved" and not bounds.upper <= terms.epsilon * _ROUNDING:
            raise BudgetExceeded(
                f"The ledger proves epsilon={bounds.upper:.6g}, over the target {terms.epsilon:g}; nothing was kept."
                f" Mechanism '{mechanism.name}' charges what its `events` do not declare."
            )
        return bounds


def _coins(mechanism: AnswerMechanism, randomness: Streams) -> NoiseSource:
    """The sampling coins: of the cell's seed, or of the mechanism's own."""
    if mechanism.sampling_seed is None:
        return randomness.source("sampling")
    if randomness.secure:
        raise UsageError(
            "Option sampling_seed makes the sampling coins public, and noise: secure keeps them secret; drop one."
        )
    return streams(mechanism.sampling_seed).source("sampling")
