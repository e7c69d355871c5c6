"""The runs of an exact audit: a row's calibration, and its mechanism in two worlds with one canary after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, get_args

import numpy as np

from dpicl.attacks import exact_canaries
from dpicl.attacks.exact_worlds import Lengthening, Policy, Seen, World, noiseless, of_rank, seen
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Query, Record, Report, Sizes, silent
from dpicl.data.task import Task
from dpicl.mechanism.bases import AnswerMechanism, Mechanism
from dpicl.models.base import LanguageModel
from dpicl.privacy import accountants
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import observing
from dpicl.privacy.sampling_schemes import JoiningScheme
from dpicl.releasing.execution import ALL_RECORDS, Execution, sampling_of
from dpicl.releasing.output_cache import OutputCache
from dpicl.releasing.reader import SlotReader, embed_texts
from dpicl.releasing.release import calibrate_mechanism, declare

#: Which records stand beside the canary: none, or those of the row with the sampling of its seed.
Deal = Literal["alone", "sampled"]
DEALS: Final[tuple[str, ...]] = get_args(Deal)
#: What is asked: the row's own queries, or again and again the one of them that moves the releases most, as an
#: adversary may who chooses the queries.
Asked = Literal["own", "chosen"]
ASKED: Final[tuple[str, ...]] = get_args(Asked)
#: Queries on which every canary of an answer mechanism is tried; the best goes on to all of them.
_TRIAL: Final = 8
#: How often a text that ended is made longer.
_LENGTHENED: Final = 6


@dataclass(frozen=True)
class AuditedRow:
    """What is audited: a row, as one of its cells, with its mechanism and its records."""

    cell: Cell
    mechanism: Mechanism
    task: Task

    @cached_property
    def _declared(self) -> tuple[tuple[str, ...], Sequence[Query], Sizes]:
        return declare(self.mechanism, self.task, self.cell.release)

    @property
    def shots(self) -> tuple[str, ...]:
        """A label for each demonstration."""
        return self._declared[0]

    @property
    def queries(self) -> Sequence[Query]:
        """The row's own, none of demonstrations."""
        return self._declared[1]

    @property
    def sizes(self) -> Sizes:
        """The public numbers that its epsilon depends on."""
        return self._declared[2]

    @property
    def budget(self) -> int:
        """How many queries may be asked."""
        return self.sizes.queries or len(self.queries)

    @property
    def delta(self) -> float:
        """At which it is accounted."""
        return self.cell.delta


class ExactRuns:
    """The mechanism of a row in pairs of worlds. Raises UsageError as `calibrate_mechanism` does.

    label: the group of the canary: the one that loses most; None where all records are one.
    """

    def __init__(
        self, row: AuditedRow, model: LanguageModel, outputs: OutputCache, deal: Deal = "alone", asked: Asked = "own"
    ) -> None:
        self._row, self._model, self._outputs, self._asked = row, model, outputs, asked
        self._others = row.task.train if deal == "sampled" else ()
        self._public, self._streams = row.task.public_view(), streams(row.cell.seed)
        self.calibration = calibrate_mechanism(row.mechanism, row.sizes, row.cell.epsilon, row.delta, row.cell.mode)
        self.bounds = accountants.epsilon(self.calibration.event, row.delta)
        self.label: Partition = self.bounds.accountants.get("worst_groups", [None])[0]
        self._shots = tuple(label for label in row.shots if self.label in (None, label))
        self._strongest: tuple[Record, Sequence[Query], Policy] | None = None

    def strongest(self, most: int | None = None, report: Report = silent) -> tuple[Seen, int]:
        """(what the strongest canary shows, how many were tried). most: canaries to try, None: all of them."""
        row, candidates, trials = self._row, self._candidates()[:most], self._trials()
        found: list[tuple[float, int, int, Seen]] = []
        for at, canary in enumerate(candidates):
            for trial, queries in enumerate(trials):
                for leads in (True, False) if row.mechanism.reads_all else (True,):
                    shown = self._both(canary, queries, leads)
                    found.append((shown.strength, -at, -trial, shown))
            report(at + 1, len(candidates), "canaries")
        _, at, trial, best = max(found, key=lambda one: one[:3])
        if not best.shares:
            raise UsageError(f"{row.mechanism.name} makes no noisy release, so there is nothing to audit.")
        asked = [*trials[-trial]] * row.budget if self._chooses else row.queries
        if trials[-trial] != asked:
            best = self._both(candidates[-at], asked, True)
        self._strongest = candidates[-at], asked, noiseless
        return self._longer(candidates[-at], best), len(candidates)

    def group(self, copies: int) -> list[World]:
        """Worlds with 0, 1, ..., ``copies`` copies of the strongest canary in every sample, along the path of one."""
        if self._strongest is None:
            self.strongest()
        assert self._strongest is not None
        canary, queries, path = self._strongest
        leading, _ = self._world([canary], path, queries)
        worlds = [self._world([], leading.released, queries)[0], leading]
        for number in range(2, copies + 1):
            worlds.append(self._world([canary] * number, leading.released, queries, leading.slots)[0])
        return worlds

    @property
    def _chooses(self) -> bool:
        """Whether queries are asked, and chosen."""
        return self._asked == "chosen" and self._row.sizes.queries is not None

    def _trials(self) -> list[Sequence[Query]]:
        """The lists of queries on which every canary is tried."""
        queries = self._row.queries
        if self._chooses:
            return [[query] for query in queries[:_TRIAL]]
        return [queries[:_TRIAL] if self._row.sizes.queries and not self._joining else queries]

    def _longer(self, canary: Record, found: Seen) -> Seen:
        """The same canary along a text that goes on where the first one ended: more releases, where there is room."""
        ranks: dict[int, int] = {}
        for _ in range(_LENGTHENED if len(self._shots) == 1 else 0):
            if len(found.shares) >= getattr(self._row.mechanism, "tokens", 0):
                break
            last = len(found.shares) - 1
            ranks[last] = ranks.get(last, 0) + 1
            longer = self._both(canary, (), True, Lengthening(ranks))
            if longer.strength > found.strength:
                found, self._strongest = longer, (canary, (), Lengthening(ranks.copy()))
        return found

    def _both(self, canary: Record, queries: Sequence[Query], leads: bool, path: Policy = noiseless) -> Seen:
        """Both worlds of one canary. leads: whether the one with the canary leads, along this path."""
        first, second = ([canary], []) if leads else ([], [canary])
        leading, _ = self._world(first, path, queries)
        following, _ = self._world(second, leading.released, queries)
        return seen(leading, following) if leads else seen(following, leading)

    def _world(
        self,
        canaries: Sequence[Record],
        path: Policy | Sequence[np.ndarray],
        queries: Sequence[Query],
        slots: Sequence[int | None] = (),
    ) -> tuple[World, str]:
        """One world, and what its mechanism writes (demonstrations alone)."""
        row = self._row
        world = World(path, sampling_of(row.mechanism, self._streams), self.label, len(canaries), slots)
        execution = Execution(
            row.mechanism,
            self._public,
            self._model,
            self.calibration.knob,
            self.calibration.by_label,
            records=[*self._others, *canaries],
            sizes=row.sizes,
            ledger=Ledger(self.calibration.event, self.calibration.epsilon),
            sampling=world,
            noise=self._streams.source("noise"),
            public=self._streams.public,
            observer=world,
            embed=self._embed,
            shots=self._shots,
            queries=queries,
            reader=None if row.shots else self._reader,
        )
        with observing(world):
            made = execution.run()  # nothing is written: what a model makes of released things is no release
        return world, next(iter(made.prompt.texts), "")

    def _candidates(self) -> list[Record]:
        row = self._row
        if row.shots:
            texts = [self._world([], of_rank(rank), ())[1] for rank in exact_canaries.RANKS]
            return exact_canaries.of_texts(row.task, self.label, texts)
        if row.mechanism.reads_all:
            return exact_canaries.of_prepared(row.task, row.queries, self.label)
        if joining := self._joining:
            rows = self._embed([query.text for query in row.queries], joining.embedding)
            return exact_canaries.of_joined(row.task, row.queries, rows, joining.threshold)
        return exact_canaries.of_answers(row.task, row.queries)

    @property
    def _joining(self) -> JoiningScheme | None:
        scheme = getattr(self._row.mechanism, "scheme", None)
        return scheme if isinstance(scheme, JoiningScheme) else None

    @cached_property
    def _reader(self) -> SlotReader:
        """One for all worlds, which has read the public prompts of an answer mechanism."""
        asked, mechanism = (self._public, self._model, self._outputs), self._row.mechanism
        if not isinstance(mechanism, AnswerMechanism):
            return SlotReader(*asked, ALL_RECORDS, self._row.queries)
        reader = SlotReader(*asked, mechanism.scheme, self._row.queries, mechanism.record_tokens)
        reader.read_public()
        return reader

    def _embed(self, texts: Sequence[str], name: str) -> np.ndarray:
        return embed_texts(texts, name, self._outputs, self._model.identity.name, self._public.name)
