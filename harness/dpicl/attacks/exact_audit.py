"""Exact audits of a row: the epsilon that one canary demonstrates for the row's own options, sizes and noise.

No run is sampled and no confidence spent. The row is calibrated as its cells are; its mechanism runs with a canary in
every sample and without, on the same sampling and public randomness (dpicl.attacks.exact_worlds); the two clean
values of every release and the noise that it states give the losses of all samples, and these the epsilon
(dpicl.attacks.exact_pairs). The largest of many exact bounds is as valid as one, so many canaries are tried.

Who the adversary is (docs/accounting.md, exact audits, has the proofs). The neighbours are the empty set and the canary
alone, with the row's sampling rate and noise, since sizes are public constants: there is nobody else's sampling. Where
later releases follow from earlier ones, the adversary also says what was released so far, as adaptive composition
allows.

The noise itself is trusted: it is taken as the release hooks state it. Sampled audits and `dpicl check` test it.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from dpicl.accounting import accountants
from dpicl.accounting.ledger import Ledger
from dpicl.attacks import canaries
from dpicl.attacks.driver import release_of, result_of, subject_of
from dpicl.attacks.exact_groups import group_bound, group_epsilon
from dpicl.attacks.exact_pairs import exact_epsilon, label_only
from dpicl.attacks.exact_worlds import Comparison, World, compare_worlds, follow_rank, path_of
from dpicl.attacks.observers import Policy
from dpicl.attacks.results import (
    ATTAINED,
    EXACT,
    GROUP,
    AttackResult,
    Attempt,
    Estimate,
    LowerBound,
)
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Partition, Query, Record, Report
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import AnswerMechanism, Mechanism
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.privacy.release_hooks import observing
from dpicl.privacy.sampling_schemes import JoiningScheme
from dpicl.releasing.execution import ALL_RECORDS, Execution, sampling_of
from dpicl.releasing.reader import SlotReader
from dpicl.releasing.release import Declared, calibrate_mechanism, declare
from dpicl.run.pipeline import Meter, manifest_of
from dpicl.run.workbench import Workbench

#: The queries: the row's own, or every time the one of them that moves the releases most, as an adversary who chooses
#: the queries may ask.
QueryChoice = Literal["own", "chosen"]
#: Queries on which every canary of an answer mechanism is tried; the best goes on to all of them.
_TRIAL = 8
#: How often a text that ended is lengthened.
_LENGTHENED = 6
_NOISELESS = path_of({})
#: The largest number of labels for which the label-only epsilon is computed.
_MOST_LABELS = 60
#: The largest number of shares of single releases that a file holds.
_MOST_SHARES = 200


@dataclass(frozen=True)
class ExactJob:
    """A row to be audited, as one of its cells; by which queries, and with how many copies of the canary."""

    cell: Cell
    mechanism: Mechanism
    task: Task
    query_choice: QueryChoice = "own"
    copies: int = 1

    def __str__(self) -> str:
        return (
            f"exact audit of {self.cell.label} on {self.cell.task}, epsilon={self.cell.epsilon:g}"
        )

    @cached_property
    def declared(self) -> Declared:
        """The row's own labels, queries and sizes."""
        return declare(self.mechanism, self.task, self.cell.release)

    @property
    def chooses(self) -> bool:
        """Whether queries are asked, and chosen."""
        return self.query_choice == "chosen" and self.declared.sizes.queries is not None

    @property
    def attempt(self) -> Attempt:
        """Known before the model is read."""
        cell = self.cell
        settings: dict[str, Any] = {"deal": "alone", "queries": self.declared.sizes.queries}
        if self.query_choice != "own":
            settings["asked"] = self.query_choice
        if self.copies != 1:
            settings["copies"] = self.copies
        subject = subject_of(
            self.mechanism,
            self.task,
            model=cell.model,
            options=cell.options,
            plugin=cell.plugin,
            epsilon=cell.epsilon,
            delta=cell.delta,
            seed=cell.seed,
            shots=cell.shots,
            members=self.task.size,
        )
        return Attempt(EXACT if self.copies == 1 else GROUP, "white-box", settings, subject)

    @property
    def fingerprint(self) -> str:
        """Of the row's records."""
        return self.task.fingerprint

    def run(self, bench: Workbench, report: Report) -> AttackResult:
        """The result of one row that nothing speaks against (`reason_against`). Raises UsageError for worlds whose
        releases differ in more than their values."""
        model, delta = bench.model(self.cell.address), self.cell.delta
        start, meter = time.perf_counter(), Meter(model)
        runs = ExactRuns(self, model, bench.outputs())
        comparison, tried = runs.strongest(report)
        upper = runs.bounds.upper
        bound: LowerBound | None = None
        measures: dict[str, Estimate] = {}
        if self.copies == 1:
            epsilon = exact_epsilon(comparison.losses, delta, upper)
            bound = LowerBound(epsilon=epsilon, delta=delta, confidence=1.0, method="exact")
        else:
            measures = _estimate_group(runs, self.copies, delta, upper)
        # As far as privacy goes, a run costs all that was declared.
        ledger = Ledger(runs.calibration.event, runs.calibration.epsilon)
        ledger.settle()
        return result_of(
            self.attempt,
            self.mechanism,
            release_of(self.mechanism, runs.calibration, self.declared.sizes, ledger),
            manifest_of(self.task, model, plugin=self.cell.plugin),
            meter.cost({"audit": round(time.perf_counter() - start, 3)}),
            bound=bound,
            measures=measures,
            counts={
                "canaries": tried,
                "releases": len(comparison.moved),
                "samples": len(comparison.losses),
            },
            details={**_shares(comparison), "label_only": _label_only(self, comparison, upper)},
            notes=_notes(self, upper),
        )


class ExactRuns:
    """The mechanism of a row in pairs of worlds. Raises UsageError as `calibrate_mechanism` does.

    label: the group of the canary: the one that loses most; None where all records are one.
    """

    def __init__(self, job: ExactJob, model: LanguageModel, outputs: OutputCache) -> None:
        cell = job.cell
        self._job, self._mechanism = job, job.mechanism
        self._model, self._outputs = model, outputs
        self._public, self._streams = job.task.public_view(), streams(cell.seed)
        self.calibration = calibrate_mechanism(
            job.mechanism, job.declared.sizes, cell.epsilon, cell.delta
        )
        self.bounds = accountants.epsilon(self.calibration.event, job.cell.delta)
        self.label: Partition = self.bounds.accountants.get("worst_groups", [None])[0]
        self._shots = tuple(label for label in job.declared.shots if self.label in (None, label))
        self._strongest: tuple[Record, Sequence[Query], Policy]

    def strongest(self, report: Report) -> tuple[Comparison, int]:
        """(what the strongest canary shows, how many were tried). report: of the runs of the mechanism, first of none;
        a text that ends early has a few more."""
        tried, trials = self._canaries(), self._trials()
        leading = (True, False) if self._mechanism.reads_all else (True,)
        pairs = [*itertools.product(tried, trials, leading)]
        total = 2 * len(pairs)
        if self._all_queries(trials[0]) != trials[0]:
            total += 2
        unit = "runs of the mechanism"
        report(0, total, unit)
        comparisons: list[Comparison] = []
        for canary, queries, leads in pairs:
            comparisons.append(self._run_both_worlds(canary, queries, leads))
            report(2 * len(comparisons), total, unit)
        strengths = [comparison.strength for comparison in comparisons]
        place = strengths.index(max(strengths))
        (canary, queries, _), best = pairs[place], comparisons[place]
        if not best.moved:
            raise UsageError(
                f"{self._mechanism.name} makes no noisy release, so there is nothing to audit."
            )
        all_queries = self._all_queries(queries)
        if all_queries != queries:
            best = self._run_both_worlds(canary, all_queries)
            report(total, total, unit)
        self._strongest = canary, all_queries, _NOISELESS
        return self._lengthen(canary, best), len(tried)

    def _all_queries(self, queries: Sequence[Query]) -> Sequence[Query]:
        """What is asked after a trial with these queries."""
        declared = self._job.declared
        if not self._job.chooses:
            return declared.queries
        return [*queries] * (declared.sizes.queries or 1)

    def group(self, copies: int) -> list[World]:
        """Worlds with 0, 1, ..., ``copies`` copies of the canary that `strongest` found in every sample, along the path
        of one."""
        canary, queries, path = self._strongest
        single, _ = self._world([canary], path, queries)
        absent, _ = self._world([], single.repeat_path, queries)
        worlds = [absent, single]
        for number in range(2, copies + 1):
            world, _ = self._world([canary] * number, single.repeat_path, queries, single)
            worlds.append(world)
        return worlds

    def _trials(self) -> list[Sequence[Query]]:
        """The lists of queries on which every canary is tried."""
        queries = self._job.declared.queries
        if self._job.chooses:
            return [[query] for query in queries[:_TRIAL]]
        drawn_by_chance = self._job.declared.sizes.queries and not self._joining
        return [queries[:_TRIAL] if drawn_by_chance else queries]

    def _lengthen(self, canary: Record, best: Comparison) -> Comparison:
        """The same canary along a text that goes on where the first one ended: more releases, where there is room."""
        ranks: Mapping[int, int] = {}
        for _ in range(_LENGTHENED if len(self._shots) == 1 else 0):
            if len(best.moved) >= getattr(self._mechanism, "tokens", 0):
                break
            last = len(best.moved) - 1
            ranks = {**ranks, last: ranks.get(last, 0) + 1}
            path = path_of(ranks)
            longer = self._run_both_worlds(canary, (), path=path)
            if longer.strength > best.strength:
                best, self._strongest = longer, (canary, (), path)
        return best

    def _run_both_worlds(
        self,
        canary: Record,
        queries: Sequence[Query],
        leads: bool = True,
        path: Policy = _NOISELESS,
    ) -> Comparison:
        """Both worlds of one canary. leads: whether the one with the canary leads, along this path."""
        first, second = ([canary], []) if leads else ([], [canary])
        leading, _ = self._world(first, path, queries)
        following, _ = self._world(second, leading.repeat_path, queries)
        return compare_worlds(leading, following) if leads else compare_worlds(following, leading)

    def _world(
        self,
        canary: Sequence[Record],
        path: Policy,
        queries: Sequence[Query],
        single: World | None = None,
    ) -> tuple[World, str]:
        """One world, and what its mechanism writes (demonstrations alone). canary: its copies."""
        job = self._job
        sampling = sampling_of(self._mechanism, self._streams)
        world = World(
            path, randomness=sampling, group=self.label, copies=len(canary), single=single
        )
        execution = Execution(
            job.mechanism,
            self._public,
            self._model,
            self.calibration.knob,
            self.calibration.by_label,
            records=list(canary),
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
            # nothing is written: what a model makes of released things is no release
            output = execution.run()
        return world, next(iter(output.prompt.texts), "")

    def _canaries(self) -> list[Record]:
        job = self._job
        if job.declared.shots:
            texts = [self._world([], follow_rank(rank), ())[1] for rank in canaries.RANKS]
            return canaries.hostile_texts(job.task, self.label, texts)
        if job.mechanism.reads_all:
            return canaries.hostile_prepared(job.task, job.declared.queries, self.label)
        joining = self._joining
        if joining:
            rows = self._reader.embed(
                [query.text for query in job.declared.queries], joining.embedding
            )
            return canaries.hostile_joiners(job.task, job.declared.queries, rows, joining.threshold)
        return canaries.hostile_answers(job.task, job.declared.queries)

    @property
    def _joining(self) -> JoiningScheme | None:
        scheme = getattr(self._mechanism, "scheme", None)
        return scheme if isinstance(scheme, JoiningScheme) else None

    @cached_property
    def _reader(self) -> SlotReader:
        """One for all worlds, which has read the public prompts of an answer mechanism."""
        mechanism, queries = self._mechanism, self._job.declared.queries
        if not isinstance(mechanism, AnswerMechanism):
            return SlotReader(self._public, self._model, self._outputs, ALL_RECORDS, queries)
        scheme, tokens = mechanism.scheme, mechanism.record_tokens
        reader = SlotReader(self._public, self._model, self._outputs, scheme, queries, tokens)
        reader.read_public()
        return reader


def reason_against(
    mechanism: Mechanism,
    task: PublicTask,
    epsilon: float,
    query_choice: QueryChoice,
) -> str | None:
    """Why an exact audit says nothing about a row, or None."""
    if mechanism.knob is None:
        return "it adds no noise whatever epsilon is"
    if query_choice == "chosen" and mechanism.query_budget(1) is None:
        return "it pays for no query, so none can be chosen (--queries chosen)"
    if not 0 < epsilon < math.inf:
        return "without noise its epsilon is infinite"
    return skip_reason(mechanism, task)


def _estimate_group(
    runs: ExactRuns,
    copies: int,
    delta: float,
    upper: float,
) -> dict[str, Estimate]:
    """What so many copies show, and what group privacy proves for them; it is refuted where the first is larger."""
    proved = group_bound(runs.calibration.event, delta, copies)
    worlds = runs.group(copies)
    shown = group_epsilon(worlds, delta, min(proved, 2 * copies * upper))
    with suppress(OverflowError):  # a finer grid shows more, where its cells are not too many
        shown = max(shown, group_epsilon(worlds, delta, 1.1 * shown))
    measures = {"group_epsilon": Estimate(value=shown, note=f"{copies} copies: {ATTAINED}")}
    if math.isfinite(proved):
        measures["group_bound"] = Estimate(
            value=proved, note=f"proved for groups of {copies} by group privacy"
        )
    return measures


def _shares(comparison: Comparison) -> dict[str, Any]:
    """How much of the stated bounds the canary moved the releases: in all, and one by one."""
    shares = np.array(comparison.shares)
    return {
        "releases": Counter(moved.present.kind for moved in comparison.moved),
        "share_of_bound": {
            "mean": float(shares.mean()),
            "root_mean_square": float(np.sqrt((shares**2).mean())),
            "least": float(shares.min()),
            "most": float(shares.max()),
        },
        "shares": [round(float(share), 4) for share in shares[:_MOST_SHARES]],
    }


def _label_only(job: ExactJob, comparison: Comparison, upper: float) -> float | None:
    """The same epsilon where of every sum the winner alone is seen; None where a sum is no vote on labels, and where
    several releases share one coin."""
    labels, releases = len(job.task.labels), comparison.moved
    answers = job.declared.sizes.queries is not None
    if not answers or not 1 < labels <= _MOST_LABELS:
        return None
    if any(
        moved.present.kind != "gaussian" or moved.present.clean.size != labels for moved in releases
    ):
        return None
    if len(comparison.losses) < len(releases) and any(moved.rate < 1 for moved in releases):
        return None
    losses = [label_only(moved.rate, moved.present, moved.absent) for moved in releases]
    return exact_epsilon(losses, job.cell.delta, upper)


def _notes(job: ExactJob, upper: float) -> list[str]:
    notes = [
        "exact: no sampling error; neighbours: no record, and the canary alone, at the row's sampling rate and noise",
        f"{ATTAINED}; sampled audits and `dpicl check` test the noise",
    ]
    if job.query_choice == "chosen":
        notes.append(
            "one query is asked every time, which an adversary chose; the proof holds for any queries"
        )
    if job.declared.shots:
        notes.append(
            "along one sequence of released tokens, which the adversary of adaptive composition may choose"
        )
    copies = job.copies
    if copies > 1:
        delta = job.cell.delta * math.expm1(copies * upper) / math.expm1(upper)
        epsilon = f"{copies} epsilon = {copies * upper:.3g}"
        notes.append(f"group privacy for {copies} records: {epsilon}, at delta = {delta:.2g}")
    return notes
