"""The runs of an exact audit: a row's calibration, and its mechanism in two worlds with one canary after another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal

from dpicl.attacks import canaries
from dpicl.attacks.driver import subject_of
from dpicl.attacks.exact_worlds import Seen, World, compare_worlds, of_rank, path_of
from dpicl.attacks.observers import Policy
from dpicl.attacks.results import EXACT, GROUP, Attempt
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Query, Record, Report, silent
from dpicl.data.task import Task
from dpicl.mechanism.bases import AnswerMechanism, Mechanism
from dpicl.models.base import LanguageModel
from dpicl.privacy import accountants
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import observing
from dpicl.privacy.sampling_schemes import JoiningScheme
from dpicl.releasing.execution import ALL_RECORDS, Execution, sampling_of
from dpicl.releasing.reader import SlotReader
from dpicl.releasing.release import Declared, calibrate_mechanism, declare

#: Which records stand beside the canary: none, or those of the row with the sampling of its seed.
Deal = Literal["alone", "sampled"]
#: What is asked: the row's own queries, or again and again the one of them that moves the releases most, as an
#: adversary may who chooses the queries.
Asked = Literal["own", "chosen"]
#: Queries on which every canary of an answer mechanism is tried; the best goes on to all of them.
_TRIAL: Final = 8
#: Canaries of demonstrations that are tried where each costs two whole releases.
_MOST_WHOLE: Final = 4
#: How often a text that ended is made longer.
_LENGTHENED: Final = 6
_NOISELESS: Final = path_of({})


@dataclass(frozen=True)
class ExactJob:
    """A row to be audited, as one of its cells; beside which records, by which queries, and with how many copies of the
    canary."""

    cell: Cell
    mechanism: Mechanism
    task: Task
    deal: Deal = "alone"
    asked: Asked = "own"
    copies: int = 1

    def __str__(self) -> str:
        return f"exact audit of {self.cell.label} on {self.cell.task}, epsilon={self.cell.epsilon:g}"

    @cached_property
    def declared(self) -> Declared:
        """The row's own labels, queries and sizes."""
        return declare(self.mechanism, self.task, self.cell.release)

    @property
    def chooses(self) -> bool:
        """Whether queries are asked, and chosen."""
        return self.asked == "chosen" and self.declared.sizes.queries is not None

    @property
    def attempt(self) -> Attempt:
        """Known before the model is read."""
        names = ("options", "plugin", "model", "epsilon", "delta", "seed", "shots")
        same = {name: getattr(self.cell, name) for name in names}
        settings: dict[str, Any] = {"deal": self.deal, "queries": self.declared.sizes.queries}
        settings |= {} if self.asked == "own" else {"asked": self.asked}
        settings |= {} if self.copies == 1 else {"copies": self.copies}
        subject = subject_of(self.mechanism, self.task, members=self.task.size, **same)
        return Attempt(EXACT if self.copies == 1 else GROUP, "white-box", settings, subject)


class ExactRuns:
    """The mechanism of a row in pairs of worlds. Raises UsageError as `calibrate_mechanism` does.

    label: the group of the canary: the one that loses most; None where all records are one.
    """

    def __init__(self, job: ExactJob, model: LanguageModel, outputs: OutputCache) -> None:
        self._job, self._mechanism, self._model, self._outputs = job, job.mechanism, model, outputs
        self._others = job.task.train if job.deal == "sampled" else ()
        self._public, self._streams = job.task.public_view(), streams(job.cell.seed)
        self.calibration = calibrate_mechanism(job.mechanism, job.declared.sizes, job.cell.epsilon, job.cell.delta)
        self.bounds = accountants.epsilon(self.calibration.event, job.cell.delta)
        self.label: Partition = self.bounds.accountants.get("worst_groups", [None])[0]
        self._shots = tuple(label for label in job.declared.shots if self.label in (None, label))
        self._strongest: tuple[Record, Sequence[Query], Policy]

    def strongest(self, report: Report = silent) -> tuple[Seen, int]:
        """(what the strongest canary shows, how many were tried). report: of the runs of the mechanism, first of none;
        a text that ends early has a few more."""
        job, tried, trials = self._job, self._canaries(), self._trials()
        if job.declared.shots and job.deal == "sampled":
            tried = tried[:_MOST_WHOLE]
        leading = (True, False) if self._mechanism.reads_all else (True,)
        pairs = [*itertools.product(tried, trials, leading)]

        def whole(queries: Sequence[Query]) -> Sequence[Query]:
            return [*queries] * (job.declared.sizes.queries or 1) if job.chooses else job.declared.queries

        total = 2 * (len(pairs) + (whole(trials[0]) != trials[0]))
        report(0, total, "runs of the mechanism")
        found: list[Seen] = []
        for canary, queries, leads in pairs:
            found.append(self._both(canary, queries, leads))
            report(2 * len(found), total, "runs of the mechanism")
        at = max(range(len(found)), key=lambda number: found[number].strength)
        (canary, queries, _), best = pairs[at], found[at]
        if not best.moved:
            raise UsageError(f"{self._mechanism.name} makes no noisy release, so there is nothing to audit.")
        if (asked := whole(queries)) != queries:
            best = self._both(canary, asked)
            report(total, total, "runs of the mechanism")
        self._strongest = canary, asked, _NOISELESS
        return self._longer(canary, best), len(tried)

    def group(self, copies: int) -> list[World]:
        """Worlds with 0, 1, ..., ``copies`` copies of the canary that `strongest` found in every sample, along the path
        of one."""
        canary, queries, path = self._strongest
        one, _ = self._world([canary], path, queries)
        more = [self._world([canary] * number, one.repeated, queries, one)[0] for number in range(2, copies + 1)]
        return [self._world([], one.repeated, queries)[0], one, *more]

    def _trials(self) -> list[Sequence[Query]]:
        """The lists of queries on which every canary is tried."""
        queries = self._job.declared.queries
        if self._job.chooses:
            return [[query] for query in queries[:_TRIAL]]
        return [queries[:_TRIAL] if self._job.declared.sizes.queries and not self._joining else queries]

    def _longer(self, canary: Record, found: Seen) -> Seen:
        """The same canary along a text that goes on where the first one ended: more releases, where there is room."""
        ranks: Mapping[int, int] = {}
        for _ in range(_LENGTHENED if len(self._shots) == 1 else 0):
            if len(found.moved) >= getattr(self._mechanism, "tokens", 0):
                break
            last = len(found.moved) - 1
            ranks = {**ranks, last: ranks.get(last, 0) + 1}
            longer = self._both(canary, (), path=path_of(ranks))
            if longer.strength > found.strength:
                found, self._strongest = longer, (canary, (), path_of(ranks))
        return found

    def _both(self, canary: Record, queries: Sequence[Query], leads: bool = True, path: Policy = _NOISELESS) -> Seen:
        """Both worlds of one canary. leads: whether the one with the canary leads, along this path."""
        first, second = ([canary], []) if leads else ([], [canary])
        leading, _ = self._world(first, path, queries)
        following, _ = self._world(second, leading.repeated, queries)
        return compare_worlds(leading, following) if leads else compare_worlds(following, leading)

    def _world(
        self, canary: Sequence[Record], path: Policy, queries: Sequence[Query], single: World | None = None
    ) -> tuple[World, str]:
        """One world, and what its mechanism writes (demonstrations alone). canary: its copies."""
        job, sampling = self._job, sampling_of(self._mechanism, self._streams)
        world = World(path, randomness=sampling, group=self.label, copies=len(canary), single=single)
        execution = Execution(
            job.mechanism,
            self._public,
            self._model,
            self.calibration.knob,
            self.calibration.by_label,
            records=[*self._others, *canary],
            sizes=job.declared.sizes,
            ledger=Ledger(self.calibration.event, self.calibration.epsilon),
            sampling=world,
            noise=self._streams.source("noise"),
            public=self._streams.public,
            observer=world,
            outputs=lambda: self._outputs,
            shots=self._shots,
            queries=queries,
            reader=None if job.declared.shots else self._reader,
        )
        with observing(world):
            made = execution.run()  # nothing is written: what a model makes of released things is no release
        return world, next(iter(made.prompt.texts), "")

    def _canaries(self) -> list[Record]:
        job = self._job
        if job.declared.shots:
            texts = [self._world([], of_rank(rank), ())[1] for rank in canaries.RANKS]
            return canaries.hostile_texts(job.task, self.label, texts)
        if job.mechanism.reads_all:
            return canaries.hostile_prepared(job.task, job.declared.queries, self.label)
        if joining := self._joining:
            rows = self._reader.embed([query.text for query in job.declared.queries], joining.embedding)
            return canaries.hostile_joiners(job.task, job.declared.queries, rows, joining.threshold)
        return canaries.hostile_answers(job.task, job.declared.queries)

    @property
    def _joining(self) -> JoiningScheme | None:
        scheme = getattr(self._mechanism, "scheme", None)
        return scheme if isinstance(scheme, JoiningScheme) else None

    @cached_property
    def _reader(self) -> SlotReader:
        """One for all worlds, which has read the public prompts of an answer mechanism."""
        asked, mechanism = (self._public, self._model, self._outputs), self._mechanism
        if not isinstance(mechanism, AnswerMechanism):
            return SlotReader(*asked, ALL_RECORDS, self._job.declared.queries)
        reader = SlotReader(*asked, mechanism.scheme, self._job.declared.queries, mechanism.record_tokens)
        reader.read_public()
        return reader
