"""One release: calibrate, put the records behind a ledger, let the mechanism release, prove what the ledger holds.

This is the only place where private records meet a mechanism. Demonstrations are released once; an answer mechanism
answers every test record.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpicl.harness.core.errors import BudgetExceeded, PluginError, UsageError
from dpicl.harness.core.seeds import NoiseSource, Streams, accounted_delta, streams
from dpicl.harness.data.concealed import concealed
from dpicl.harness.mechanism.bases import (
    AnswerContext,
    AnswerMechanism,
    Context,
    Demonstration,
    DemonstrationMechanism,
    Mechanism,
    Query,
    Sizes,
)
from dpicl.harness.mechanism.outputs import checked_claim, checked_demonstrations, named_failure, require_noise
from dpicl.harness.privacy import accountants
from dpicl.harness.privacy.bounds import Bounds
from dpicl.harness.privacy.calibration import Calibration, calibrate
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.private_set import PrivateSet
from dpicl.harness.run.answering import answer_all, per_query_epsilon, queries_of
from dpicl.harness.run.expand import refusal
from dpicl.harness.run.output_cache import OutputCache
from dpicl.harness.run.reader import SlotReader

if TYPE_CHECKING:
    from dpicl.harness.data.task import Task
    from dpicl.harness.models.base import LanguageModel

Report = Callable[[int, int, str], None]
Phase = Callable[[str], AbstractContextManager[None]]

#: Rounding only: a proved epsilon may exceed its target by this factor, never by more.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class Terms:
    """What a release is made for.

    queries: Q of an answer mechanism, None for as many as are asked. reveal: whether secure noise may come with an
        infinite epsilon. Raises UsageError for secure noise at too small a delta.
    """

    epsilon: float
    delta: float
    seed: int = 0
    noise: str = "seeded"
    mode: str = "proved"
    shots: int = 4
    queries: int | None = None
    reveal: bool = False

    def __post_init__(self) -> None:
        self.accounted_delta  # noqa: B018  refuses a delta that is too small

    @property
    def secure(self) -> bool:
        """Whether the records are private in earnest."""
        return self.noise == "secure"

    @property
    def accounted_delta(self) -> float:
        """The delta at which noise is calibrated and epsilon proved."""
        return accounted_delta(self.delta, self.noise)


@dataclass(frozen=True)
class Stated:
    """What is said of a release before its mechanism sees a record.

    claimed: epsilon by the authors' formula, None without one. per_query: proved epsilon of one answer alone, None for
    demonstrations.
    """

    claimed: float | None
    per_query: float | None

    @classmethod
    def of(cls, mechanism: Mechanism, calibration: Calibration, sizes: Sizes) -> Stated:
        """Raises PluginError for a claim that is no number."""
        claimed: float | None = calibration.epsilon
        if mechanism.knob is not None and math.isfinite(calibration.epsilon):
            claimed = checked_claim(mechanism, mechanism.paper_epsilon(calibration.knob, sizes, calibration.delta))
        return cls(claimed, per_query_epsilon(mechanism, calibration.knob, sizes, calibration.delta))


@dataclass(frozen=True)
class Release:
    """What came out of a mechanism, and what it cost. answers: query id -> answer; None for demonstrations."""

    calibration: Calibration
    sizes: Sizes
    stated: Stated
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

        Raises BudgetExceeded when the ledger proves more than the target: then nothing is returned. With secure noise
        raises UsageError without declared sizes, and for an infinite epsilon that is not wanted; Concealed for every
        error that comes after that.
        """
        randomness = streams(terms.seed, terms.noise)
        if terms.secure and task.declared is None:
            raise UsageError(f"Secure noise needs the declared sizes of {task.name}; give them under `sizes`.")
        if isinstance(mechanism, AnswerMechanism):
            asked = queries_of(task) if queries is None else list(queries)
            return self._answer(mechanism, task, terms, asked, randomness)
        if isinstance(mechanism, DemonstrationMechanism):
            return self._demonstrate(mechanism, task, terms, randomness)
        raise PluginError(f"Mechanism '{mechanism.name}' is neither a DemonstrationMechanism nor an AnswerMechanism.")

    def _demonstrate(self, mechanism: DemonstrationMechanism, task: Task, terms: Terms, randomness: Streams) -> Release:
        shots = task.plan_shots(terms.shots, randomness.stream("shots"))
        sizes = task.sizes(shots)
        calibration, stated = self._calibrate(mechanism, sizes, terms)
        ledger = Ledger(calibration.event, terms.epsilon)
        coins = randomness.source("sampling")
        private = PrivateSet(task.train, ledger, sizes=sizes.records, coins=coins, noise=randomness.source("noise"))
        report = self._reporting(terms)
        context = Context(
            task.public_view(),
            self._model,
            shots,
            calibration.knob,
            randomness.public,
            lambda done: report(done, len(shots), "demonstrations"),
        )

        def released() -> list[Demonstration]:
            given = mechanism.release(private, context)
            demonstrations = checked_demonstrations(mechanism, given, shots, self._model)
            self._end(mechanism, private, terms, [each.text for each in demonstrations])
            return demonstrations

        with self._phase("release"):
            demonstrations = concealed(terms.secure, lambda: named_failure(mechanism, released))
        bounds = self._proved(mechanism, terms, ledger)
        return Release(calibration, sizes, stated, demonstrations, None, ledger, bounds)

    def _answer(
        self, mechanism: AnswerMechanism, task: Task, terms: Terms, queries: Sequence[Query], randomness: Streams
    ) -> Release:
        budget = terms.queries or len(queries)
        sizes = Sizes.of_queries(task.size, budget)
        calibration, stated = self._calibrate(mechanism, sizes, terms)
        ledger = Ledger(calibration.event, terms.epsilon)
        coins = _coins(mechanism, randomness)
        private = PrivateSet(task.train, ledger, sizes=sizes.records, coins=coins, noise=randomness.source("noise"))
        outputs = OutputCache(None) if randomness.secure else self._outputs()
        seen = task.public_view()
        reader = SlotReader(seen, self._model, outputs, mechanism.dealing, queries, mechanism.record_tokens)
        context = AnswerContext(seen, reader, calibration.knob, randomness.public)

        def released() -> dict[str, str]:
            answers = answer_all(mechanism, queries, private, context, budget, self._reporting(terms))
            self._end(mechanism, private, terms, list(answers.values()))
            return answers

        with self._phase("release"):
            answers = concealed(terms.secure, lambda: named_failure(mechanism, released))
        bounds = self._proved(mechanism, terms, ledger)
        return Release(calibration, sizes, stated, [], answers, ledger, bounds)

    def _calibrate(self, mechanism: Mechanism, sizes: Sizes, terms: Terms) -> tuple[Calibration, Stated]:
        delta, mode = terms.accounted_delta, terms.mode
        with self._phase("calibrate"):
            calibration = named_failure(mechanism, lambda: calibrate(mechanism, sizes, terms.epsilon, delta, mode=mode))
        if terms.secure and math.isinf(calibration.bounds.upper) and not terms.reveal:
            raise UsageError(refusal(mechanism.name))
        with self._phase("account"):
            return calibration, named_failure(mechanism, lambda: Stated.of(mechanism, calibration, sizes))

    def _reporting(self, terms: Terms) -> Report:
        """With secure noise a release says nothing while it is made: how far it is may depend on the records."""
        return _nothing if terms.secure else self._report

    def _end(self, mechanism: Mechanism, private: PrivateSet, terms: Terms, texts: Sequence[str]) -> None:
        """Closes the private set. Raises PluginError where texts were released without noise at a finite epsilon."""
        releases = private.close()
        if math.isfinite(terms.epsilon):
            require_noise(mechanism, texts, releases)

    def _proved(self, mechanism: Mechanism, terms: Terms, ledger: Ledger) -> Bounds:
        ledger.settle()
        with self._phase("account"):
            bounds = accountants.epsilon(ledger.event(), terms.accounted_delta)
        if terms.mode == "proved" and not bounds.upper <= terms.epsilon * _ROUNDING:
            raise BudgetExceeded(
                f"The ledger proves epsilon={bounds.upper:.6g}, over the target {terms.epsilon:g}; nothing was kept."
                f" Mechanism '{mechanism.name}' charges what its `events` do not declare."
            )
        return bounds


def _nothing(done: int, total: int, unit: str) -> None:
    """Reports nothing."""


def _coins(mechanism: AnswerMechanism, randomness: Streams) -> NoiseSource:
    """The sampling coins: of the cell's seed, or of the mechanism's own."""
    if mechanism.sampling_seed is None:
        return randomness.source("sampling")
    if randomness.secure:
        raise UsageError(
            "Option sampling_seed makes the sampling coins public, and noise: secure keeps them secret; drop one."
        )
    return streams(mechanism.sampling_seed).source("sampling")
