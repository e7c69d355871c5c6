"""Sampled audits: estimate a lower bound on epsilon from runs with and without a canary.

A canary is in the private set or not; the mechanism runs many times on both sets; a rule that was chosen on one half of
the runs says on the other half, by the released answer or text alone, which is which. Limits by betting turn that into
a lower bound on epsilon that holds at the stated confidence over samples of records and noise
(dpicl.attacks.lower_bounds). After Xia et al. 2025, whose mistakes docs/attacks-and-audits.md lists; demonstration
mechanisms are beyond them. A white-box auditor of answers sees the noisy sum behind each (dpicl.attacks.noisy_sums);
who takes its noise as stated needs no runs: dpicl.attacks.exact_audit. Beside the bound stands their estimate, which is
no bound.

Model, question, number of records: the auditor may choose all of them, and the bound is one for what was run.
`audit_canaries` has the questions and the canaries.

Both sets of a run are sampled with the same randomness, so they differ in the canary alone; runs are independent of
each other. What a model says of a sample depends on no noise: it is read once, and answers get fresh noise many times.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from dpicl.accounting.calibration import Calibration
from dpicl.accounting.ledger import Ledger
from dpicl.attacks import audit_canaries
from dpicl.attacks.audit_canaries import RANK, REPEATS, WORDS, Canary, Knowledge, Question
from dpicl.attacks.driver import release_of, result_of, subject_of
from dpicl.attacks.exact_pairs import label_only_ceiling
from dpicl.attacks.exact_worlds import follow_rank
from dpicl.attacks.lower_bounds import Learn, Score, lower_bound, runs_are_scores
from dpicl.attacks.noisy_sums import (
    NoisySums,
    estimate_by_gdp,
    learn_reference_vector,
    noisy_sums,
    reference_vector,
)
from dpicl.attacks.observers import Observation, Recording
from dpicl.attacks.results import CEILING, GDP, Access, AttackResult, Attempt, Estimate
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Record, Report, Sizes, report_nothing
from dpicl.data.task import NEUTRAL_LABEL, PublicTask, Task
from dpicl.mechanism.bases import AnswerMechanism, Mechanism, Reader
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import Execution
from dpicl.releasing.release import calibrate_mechanism
from dpicl.run.pipeline import Meter, manifest_of
from dpicl.run.workbench import Workbench

#: Default number of private records of an audit whose mechanism reads all of them.
ALL_RECORDS = 40
#: Default options of an audited mechanism: sizes that a CPU can run a hundred times.
#: T = 4 partitions of 2 examples are the published audit's.
SIZES = {"slots": 4, "examples_per_slot": 2, "record_tokens": 110, "public_slots": 8}
DEMONSTRATION_SIZES = {
    "slots": 8,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 6,
    "top_k": 10,
    "record_tokens": 32,
}
#: Draws of the noise in every run of an answer mechanism.
DRAWS = 50
#: The note of a label-only ceiling wherever it is shown.
_CEILING = (
    "the most that the winner of one vote of so many slots shows at delta, whatever they vote and"
    " however many runs"
)


@dataclass(frozen=True)
class AuditJob:
    """What is audited and how; known before the model is read: so are the subject and the id of each result.

    model: as the user named it. options: all of the mechanism's. plugin: its hash. runs: on each side, each with one
    sample of records, at least 8. records: private ones (None: as many as a sample expects, so that every record is in
    it: q = 1). access: what the auditor sees: what is released, or the noisy sum behind every answer.
    """

    mechanism: Mechanism
    task: Task
    model: str
    options: Mapping[str, Any]
    plugin: str | None = None
    question: Question = "inquiry"
    runs: int = 200
    records: int | None = None
    access: Access = "black-box"
    confidence: float = 0.95
    delta: float = 1e-5
    seed: int = 0

    @property
    def gives_answers(self) -> bool:
        """Whether answers are audited, and not texts or what was prepared."""
        return self.mechanism.kind == "answers"

    @property
    def shots(self) -> int:
        """Demonstrations that are released."""
        return 1 if self.mechanism.releases_texts else 0

    @property
    def draws(self) -> int:
        """Draws of the noise in every run: a text is written anew for each."""
        return 1 if self.mechanism.releases_texts else DRAWS

    @property
    def size(self) -> int:
        """How many private records there are: by default the expected sample, by the mechanism's options; where they
        say none, it reads all records, as prepared mechanisms and private evolution do."""
        if self.records is not None:
            return self.records
        if self.mechanism.kind == "prepared":
            return ALL_RECORDS
        size = getattr(self.mechanism, "prompts", None)
        if size is None:
            size = getattr(self.mechanism, "slots", 0) * getattr(
                self.mechanism, "examples_per_slot", 1
            )
        return int(size) or ALL_RECORDS

    def attempt_at(self, epsilon: float) -> Attempt:
        """The audit of one target epsilon."""
        settings: dict[str, Any] = {
            "runs": self.runs,
            "redraws": DRAWS,
            "confidence": self.confidence,
        }
        if self.gives_answers:
            settings |= {"question": self.question, "words": WORDS, "repeats": REPEATS}
        elif self.mechanism.releases_texts:
            settings["rank"] = RANK
        subject = subject_of(
            self.mechanism,
            self.task,
            model=self.model,
            options=self.options,
            plugin=self.plugin,
            epsilon=epsilon,
            delta=self.delta,
            seed=self.seed,
            members=self.size,
            shots=self.shots,
        )
        return Attempt("audit", self.access, settings, subject)

    def check(self) -> None:
        """Raises UsageError where there is nothing to audit."""
        mechanism, task = self.mechanism, self.task
        if mechanism.knob is None:
            raise UsageError(
                f"{mechanism.name} adds no noise whatever epsilon is, so an audit has nothing to test."
            )
        asks_the_task = not self.gives_answers or task.kind == "generation"
        reason = skip_reason(mechanism, task.public_view()) if asks_the_task else None
        if reason:
            raise UsageError(f"{mechanism.name} cannot do {task.name}: {reason}.")
        if self.access == "white-box" and not self.gives_answers:
            raise UsageError(
                f"A white-box audit by runs sees the noisy sum behind an answer, and {mechanism.name}"
                " gives no answers; audit it with --exact."
            )


@dataclass(frozen=True)
class SampledAudit:
    """An audit of one target epsilon as a job. runs: those of all epsilons, made when first needed."""

    plan: AuditJob
    epsilon: float
    runs: Callable[[], AuditRuns]

    def __str__(self) -> str:
        return "audit"

    @property
    def attempt(self) -> Attempt:
        """Known before the model is read."""
        return self.plan.attempt_at(self.epsilon)

    @property
    def fingerprint(self) -> str:
        """Of the task's records."""
        return self.plan.task.fingerprint

    def run(self, bench: Workbench, report: Report) -> AttackResult:
        """See `AuditRuns.audit`."""
        return self.runs().audit(self.epsilon, report)


def sampled_audits(
    plan: AuditJob, epsilons: Iterable[float], bench: Workbench
) -> list[SampledAudit]:
    """One job for each epsilon, with the same canary."""

    @cache
    def runs() -> AuditRuns:
        return AuditRuns(plan, bench.model(plan.model), bench.outputs())

    return [SampledAudit(plan, epsilon, runs) for epsilon in epsilons]


@dataclass(frozen=True)
class Observed:
    """What the runs on one side released: texts, by run and draw of the noise, and the noisy sums
    behind them, where there is one behind each."""

    texts: list[list[str]] = field(repr=False)
    sums: NoisySums | None = None


#: What an auditor sees of every run with the canary, and without, [n, m, ...], and how it is scored.
Views = tuple[np.ndarray, np.ndarray, Learn]


class AuditRuns:
    """One answer, demonstration or preparation from ``job.runs`` samples on each side. The size of the private set
    is public, so the sampling rate is the same on both sides.

    knowledge: the private records, and one that is not among them, which the canary is made of. Raises UsageError where
    the task has too few records.
    """

    def __init__(
        self, job: AuditJob, model: LanguageModel, outputs: OutputCache | None = None
    ) -> None:
        self.job, self._outputs = job, outputs or OutputCache(None)
        task = job.task
        one_label = job.shots and task.partitioned and job.mechanism.by_label
        candidates = [
            record for record in task.train if not one_label or record.label == self.label
        ]
        private, other = hold_out(candidates, job.size, streams(job.seed).stream("audit:records"))
        self.knowledge = Knowledge(job.mechanism, task, model, private, other)
        self._canary: Canary | None = None
        self._reader: Reader | None = None

    @property
    def label(self) -> str:
        """Of the one demonstration that is audited: the first one."""
        return self.job.task.labels[0] if self.job.task.labels else NEUTRAL_LABEL

    @cached_property
    def sizes(self) -> Sizes:
        """Of one query, or of one demonstration; of a prepared mechanism all groups with records, and the other's."""
        mechanism, task, private = self.job.mechanism, self.job.task, self.knowledge.private
        if mechanism.kind == "prepared":
            by_label = task.partitioned and mechanism.by_label
            records = [*private, self.knowledge.other]
            return Sizes(Counter(record.label if by_label else None for record in records), {})
        declared = {self.label if task.partitioned else None: len(private)}
        return mechanism.public_sizes(
            replace(task, declared=declared).keep_sizes(), (self.label,), 1
        )

    def canary(self, knob: float) -> Canary:
        """One for all epsilons; knob: of the first."""
        if self._canary is None:
            self._canary = self._choose_canary(knob)
        return self._canary

    def _choose_canary(self, knob: float) -> Canary:
        if self.job.gives_answers:
            return audit_canaries.choose_asked(self.knowledge, self.job.question)
        if not self.job.mechanism.releases_texts:
            return audit_canaries.choose_contradiction(self.knowledge)
        task, private = self.job.task.public_view(), self.knowledge.private

        def write(rank: int) -> str:
            execution = self.execute(task, private, knob, self.job.runs, "no noise")
            with observing(Recording(follow_rank(rank))):
                return "\n".join(execution.run().prompt.texts)

        return audit_canaries.choose_copied(self.knowledge, self.label, write)

    def audit(self, epsilon: float, report: Report = report_nothing) -> AttackResult:
        """The result at one target epsilon; its privacy is what one run charged. Raises BudgetExceeded when any run
        spends more than was calibrated for, and UsageError for a mechanism that makes no noisy release."""
        start, meter, job = time.perf_counter(), Meter(self.knowledge.model), self.job
        calibration = calibrate_mechanism(job.mechanism, self.sizes, epsilon, job.delta)
        canary = self.canary(calibration.knob)
        first = self.execution(False, calibration, 0)
        self._run_first(first)
        inside = self._observe(True, calibration, report)
        outside = self._observe(False, calibration, report)
        see = self._see_sums if job.access == "white-box" else self._see_texts
        members, others, learn = see(inside, outside)
        warning = large_delta(job.delta, len(self.knowledge.private))
        return result_of(
            job.attempt_at(epsilon),
            job.mechanism,
            release_of(job.mechanism, calibration, self.sizes, first.ledger),
            manifest_of(job.task, self.knowledge.model),
            meter.cost({"audit": round(time.perf_counter() - start, 3)}),
            bound=lower_bound(members, others, job.delta, job.confidence, job.seed, learn),
            measures=self._measure(inside.sums, outside.sums),
            counts=_count_moved(inside.sums, outside.sums),
            notes=[canary.note, warning] if warning else [canary.note],
        )

    def _run_first(self, execution: Execution) -> None:
        """One run, whose ledger and reader count for all. Raises UsageError where it makes no release to look at."""
        recording = Recording()
        with observing(recording):
            output = execution.run()
        if not output.releases:
            raise UsageError(
                f"{self.job.mechanism.name} makes no noisy release, so there is nothing to audit."
            )
        if self.job.access == "white-box":
            self._require_sums(noisy_sums([[recording.observed_releases]]))
        self._reader = output.reader

    def _see_texts(self, inside: Observed, outside: Observed) -> Views:
        """By black box: a number for every text."""
        runs = [*inside.texts, *outside.texts]
        texts = list(dict.fromkeys(text for run in runs for text in run))
        score = None if self._canary is None else self._canary.score
        numbers: Sequence[float] = range(len(texts)) if score is None else score(texts)
        number_of = dict(zip(texts, numbers, strict=True))
        views = np.array([[number_of[text] for text in run] for run in runs])
        learn = _frequencies if score is None else runs_are_scores
        return views[: self.job.runs], views[self.job.runs :], learn

    def _see_sums(self, inside: Observed, outside: Observed) -> Views:
        """By white box: noisy sums [n, m, d]. Raises UsageError where there are none."""
        members, others = self._require_sums(inside.sums), self._require_sums(outside.sums)
        return members.noisy, others.noisy, learn_reference_vector

    def _require_sums(self, sums: NoisySums | None) -> NoisySums:
        if sums is None:
            raise UsageError(
                f"{self.job.mechanism.name} does not answer from one noisy sum, which a white-box"
                " audit by runs looks at; audit it with --exact."
            )
        return sums

    def _measure(
        self,
        inside: NoisySums | None,
        outside: NoisySums | None,
    ) -> dict[str, Estimate]:
        """The published estimate, and what the winner of a vote can show at most; each where it is
        defined. The reference vector of the estimate is that of all runs."""
        if inside is None or outside is None or inside.scale == 0:
            return {}
        delta, seed = self.job.delta, self.job.seed
        if self.job.access == "white-box":
            direction = reference_vector(inside.clean, outside.clean)
            trials = inside.trials_along(direction), outside.trials_along(direction)
            return {GDP: estimate_by_gdp(*trials, delta, seed)}
        mechanism, canary = self.job.mechanism, self._canary
        if canary is None or not isinstance(mechanism, AnswerMechanism):
            return {}
        labels = canary.labels_of_votes(inside)
        if not labels:
            return {}
        winner = labels.index(canary.answer)
        trials = inside.trials_won_by(winner), outside.trials_won_by(winner)
        adds_ballot = mechanism.scheme.own_slots
        ceiling = label_only_ceiling(inside.scale, mechanism.slots, len(labels), adds_ballot, delta)
        return {
            GDP: estimate_by_gdp(*trials, delta, seed),
            CEILING: Estimate(value=ceiling, note=_CEILING),
        }

    def execution(
        self,
        present: bool,
        calibration: Calibration,
        run: int,
        draw: int = 0,
    ) -> Execution:
        """The mechanism on the records of one side, sampled as in every execution of this run. draw: of the noise."""
        canary = self.canary(calibration.knob)
        records = [*self.knowledge.private, *([canary.record] if present else [])]
        source = f"audit:{int(present)}:{run}:{draw}"
        execution = self.execute(canary.task, records, calibration.knob, run, source)
        ledger = Ledger(calibration.event, calibration.epsilon)
        return replace(execution, queries=canary.queries, reader=self._reader, ledger=ledger)

    def execute(
        self,
        task: PublicTask,
        records: Sequence[Record],
        knob: float,
        run: int,
        source: str,
    ) -> Execution:
        """The mechanism on these records, with the sampling of a run and a source of noise."""
        randomness = streams(self.job.seed)
        return Execution(
            self.job.mechanism,
            task,
            self.knowledge.model,
            knob,
            records=records,
            sizes=self.sizes,
            sampling=CoupledSampling(self.job.seed, run),
            noise=randomness.source(source),
            public=randomness.public,
            shots=(self.label,),
            outputs=lambda: self._outputs,
        )

    def _observe(self, present: bool, calibration: Calibration, report: Report) -> Observed:
        """What every run on one side releases, at every draw of the noise."""
        texts: list[list[str]] = []
        releases: list[list[list[Observation]]] = []
        side = "with" if present else "without"
        for run in range(self.job.runs):
            texts.append([])
            releases.append([])
            for draw in range(self.job.draws):
                text, observations = self._observe_draw(
                    self.execution(present, calibration, run, draw)
                )
                texts[run].append(text)
                releases[run].append(observations)
            report(run + 1, self.job.runs, f"runs {side} the canary")
        return Observed(texts, noisy_sums(releases))

    def _observe_draw(self, execution: Execution) -> tuple[str, list[Observation]]:
        """(the text, the noisy releases behind an answer; none of a text: they are many)."""
        recording = Recording()
        with observing(recording) if self.job.gives_answers else nullcontext():
            output = execution.run()
        texts = output.prompt.texts if output.answers is None else output.answers.values()
        return "\n".join(texts), recording.observed_releases


def _count_moved(inside: NoisySums | None, outside: NoisySums | None) -> dict[str, int]:
    """In how many runs the canary changed the clean sum."""
    if inside is None or outside is None or inside.clean.shape != outside.clean.shape:
        return {}
    moved = (inside.clean != outside.clean).any(axis=1)
    return {"runs": len(moved), "moved": int(moved.sum())}


class CoupledSampling:
    """Sampling randomness that the records of a set keep when one more record stands at its end.

    Each call has a generator of its own, so a longer call begins with the values of a shorter one: two neighbouring
    sets that are sampled with it differ in one slot alone. Every run has a seed of its own, and is independent.
    """

    def __init__(self, *seed: int) -> None:
        self._seed, self._calls = seed, 0

    def uniform(self, size: int) -> np.ndarray:
        """float64[size] in [0, 1)."""
        self._calls += 1
        return np.random.default_rng((*self._seed, self._calls)).random(size)


def hold_out(
    train: Sequence[Record],
    count: int,
    sampling: np.random.Generator,
) -> tuple[list[Record], Record]:
    """(``count`` private records, one more that is not among them), by public randomness. Raises UsageError for too
    few."""
    if len(train) <= count:
        raise UsageError(
            f"The task has {len(train)} train records and the audit needs {count + 1}; lower --records."
        )
    order = sampling.permutation(len(train)).tolist()
    return [train[place] for place in order[:count]], train[order[count]]


def _frequencies(members: np.ndarray, others: np.ndarray) -> Score:
    """Runs are numbers of texts [n, m]. The score of a text is how much more often it came with the canary."""
    texts = 1 + max(int(members.max()), int(others.max()))

    def count_shares(runs: np.ndarray) -> np.ndarray:
        return np.bincount(runs.ravel(), minlength=texts) / runs.size

    excess = count_shares(members) - count_shares(others)

    def score(runs: np.ndarray) -> np.ndarray:
        known = np.minimum(runs, texts - 1)
        return np.where(runs < texts, excess[known], 0.0)

    return score
