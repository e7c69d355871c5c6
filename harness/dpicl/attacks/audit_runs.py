"""Sampled audits: estimate a lower bound on epsilon from runs with and without a canary.

A canary is in the private set or not; the mechanism runs many times on both sets; a rule that was chosen on one half of
the runs says on the other half, by the released answer or text alone, which is which. Limits by betting turn that into
a lower bound on epsilon that holds at the stated confidence over samples of records and noise
(dpicl.attacks.lower_bounds). After Xia et al. 2025, whose mistakes docs/attacks-and-audits.md lists; demonstration
mechanisms are beyond them. A white-box auditor of answers sees the noisy sum behind each (dpicl.attacks.noisy_sums);
who takes its noise as stated needs no runs: dpicl.attacks.exact_audit. Beside the bound stands their estimate, which is
none.

Model, question, number of records: the auditor may choose all of them, and the bound is one for what was run.

Both sets of a run are sampled with the same randomness, so they differ in the canary alone; runs are independent of
each other. What a model says of a sample depends on no noise: it is read once, and answers get fresh noise many times.

Answers are asked one of two questions. ``inquiry`` (Xia et al. 2025, prompts 1 to 3): is this text one of the examples?
Candidates Yes and No; for texts, two fixed answers that are far apart. ``lookup`` (ours): the canary's own input is the
query, and its output is one that nothing else suggests; a slot that shows the canary copies it. A model that cannot
tell what its prompt holds may still copy, so the second question finds more with small models. The text of such a
canary spells the example out several times: one record may hold anything.
"""

from __future__ import annotations

import difflib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np

from dpicl.accounting.calibration import Calibration
from dpicl.accounting.ledger import Ledger
from dpicl.attacks.canaries import FAR_TEXTS
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
from dpicl.attacks.views import YES, ask_yes_or_no, completions, first_words, free_text, spell_out
from dpicl.core.cell import large_delta
from dpicl.core.errors import UsageError
from dpicl.core.messages import count
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Query, Record, Report, Sizes, report_nothing
from dpicl.data.task import NEUTRAL_LABEL, PublicTask, Task
from dpicl.mechanism.bases import AnswerMechanism, Kind, Mechanism, Reader
from dpicl.mechanism.generation import label_endings
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import EmbeddingModel, load_embeddings
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import Execution
from dpicl.releasing.release import calibrate_mechanism
from dpicl.run.pipeline import Meter, manifest_of

Question = Literal["inquiry", "lookup"]

#: Private records of an audit whose mechanism reads all of them, where the command does not say otherwise.
ALL_RECORDS: Final = 40
#: Options of an audit where the command does not say otherwise: sizes that a processor can run a hundred times.
#: T = 4 partitions of 2 examples are the published audit's.
SIZES: Final = {"slots": 4, "examples_per_slot": 2, "record_tokens": 110, "public_slots": 8}
DEMONSTRATION_SIZES: Final = {
    "slots": 8,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 6,
    "top_k": 10,
    "record_tokens": 32,
}
#: Draws of the noise in every run, of answers; words of the canary that are asked about; how often a canary to be
#: copied spells out its example; rank of the public tokens that a demonstration's canary is made of.
DRAWS: Final = 50
_WORDS: Final = 12
_REPEATS: Final = 3
_RANK: Final = 9
#: The two fixed answers of the direct question, for texts.
_FOR, _AGAINST = FAR_TEXTS[0], FAR_TEXTS[1]
_ASKING: Final = (
    "Text: {text}\nIf this text is one of the examples above, answer: {yes}\nIf it is not, answer: {no}\nAnswer:"
)
#: Prompts of two private examples that the unlikely label is found with, at most.
_PROMPTS: Final = 8
#: What the winner of a vote shows is worked out for so many labels at most.
_MOST_LABELS: Final = 20
#: What is said of a label-only ceiling wherever it is shown.
_CEILING: Final = (
    "the most that the winner of one vote of so many slots shows at delta, whatever they vote and however many runs"
)


@dataclass(frozen=True)
class Way:
    """How one kind of mechanism is audited. canary: of a knob. settings: of an attempt, by its question. shots: texts
    that it releases. draws: of the noise in every run. own_task: whether it is asked the task as it is. all_groups:
    whether it reads all groups of records."""

    canary: Callable[[AuditRuns, float], Canary]
    settings: Callable[[Question], dict[str, Any]]
    shots: int = 0
    draws: int = DRAWS
    own_task: bool = True
    all_groups: bool = False


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
    def size(self) -> int:
        """How many private records there are: by default the expected sample, by the mechanism's options; where they
        say none, it reads all records, as prepared mechanisms and private evolution do."""
        if self.records is not None:
            return self.records
        if self.way.all_groups:
            return ALL_RECORDS
        size = getattr(self.mechanism, "prompts", None)
        if size is None:
            size = getattr(self.mechanism, "slots", 0) * getattr(self.mechanism, "examples_per_slot", 1)
        return int(size) or ALL_RECORDS

    @property
    def way(self) -> Way:
        """How its kind of mechanism is audited."""
        return _WAYS[self.mechanism.kind or "demonstrations"]

    def attempt_at(self, epsilon: float) -> Attempt:
        """The audit of one target epsilon."""
        settings = {"runs": self.runs, "redraws": DRAWS, "confidence": self.confidence}
        rest = {name: getattr(self, name) for name in ("model", "options", "plugin", "delta", "seed")}
        rest |= {"members": self.size, "shots": self.way.shots, "epsilon": epsilon}
        settings |= self.way.settings(self.question)
        return Attempt("audit", self.access, settings, subject_of(self.mechanism, self.task, **rest))

    def check(self) -> None:
        """Raises UsageError where there is nothing to audit."""
        mechanism, task = self.mechanism, self.task
        if mechanism.knob is None:
            raise UsageError(f"{mechanism.name} adds no noise whatever epsilon is, so an audit has nothing to test.")
        if (self.way.own_task or task.kind == "generation") and (reason := skip_reason(mechanism, task.public_view())):
            raise UsageError(f"{mechanism.name} cannot do {task.name}: {reason}.")
        if self.access == "white-box" and mechanism.kind != "answers":
            raise UsageError(
                f"A white-box audit by runs sees the noisy sum behind an answer, and {mechanism.name}"
                " gives no answers; audit it with --exact."
            )


@dataclass(frozen=True)
class Canary:
    """record: what is inserted. task: with the audit's question. queries: the one about this record, or none.

    score: what each of several released texts says for membership; None: how much more often it comes with the canary,
    which is learned. answer: the label that speaks for membership, where answers are labels. note: what a reader of a
    result must know.
    """

    record: Record = field(repr=False)
    task: PublicTask = field(repr=False)
    note: str
    queries: tuple[Query, ...] = field(default=(), repr=False)
    score: Callable[[Sequence[str]], Sequence[float]] | None = field(default=None, repr=False)
    answer: str = ""

    def labels_of_votes(self, sums: NoisySums) -> Sequence[str]:
        """The labels that the coordinates of a sum count, one of which speaks for membership; none
        where it is no such vote."""
        labels = self.task.labels
        votes = sums.clean.shape[1] == len(labels) <= _MOST_LABELS
        return labels if votes and self.answer in labels else ()


@dataclass(frozen=True)
class Observed:
    """What the runs on one side released: texts, by run and draw of the noise, and the noisy sums
    behind them, where there is one behind each."""

    texts: list[list[str]] = field(repr=False)
    sums: NoisySums | None = None


#: What an auditor sees of every run with the canary, and without, [n, m, ...], and how it is scored.
Seen = tuple[np.ndarray, np.ndarray, Learn]


class AuditRuns:
    """One answer, demonstration or preparation from ``job.runs`` samples on each side. The size of the private set
    is public, so the sampling rate is the same on both sides.

    private: the private set. other: a record that is not in it, and that the canary is made of. Raises UsageError where
    the task has too few records.
    """

    def __init__(self, job: AuditJob, model: LanguageModel, outputs: OutputCache | None = None) -> None:
        self.job, self.model, self._outputs = job, model, outputs or OutputCache(None)
        task, mechanism = job.task, job.mechanism
        grouped = task.partitioned and mechanism.by_label and job.way.shots
        candidates = [record for record in task.train if not grouped or record.label == self.label]
        self.private, self.other = hold_out(candidates, job.size, streams(job.seed).stream("audit:records"))
        self._canary: Canary | None = None
        self._reader: Reader | None = None

    @property
    def label(self) -> str:
        """Of the one demonstration that is audited: the first one."""
        return self.job.task.labels[0] if self.job.task.labels else NEUTRAL_LABEL

    @cached_property
    def sizes(self) -> Sizes:
        """Of one query, or of one demonstration; of a prepared mechanism all groups with records, and the other's."""
        mechanism, task = self.job.mechanism, self.job.task
        if self.job.way.all_groups:
            grouped = task.partitioned and mechanism.by_label
            return Sizes(Counter(each.label if grouped else None for each in (*self.private, self.other)), {})
        declared = {self.label if task.partitioned else None: len(self.private)}
        return mechanism.public_sizes(replace(task, declared=declared).keep_sizes(), (self.label,), 1)

    @property
    def embeddings(self) -> EmbeddingModel:
        """The mechanism's, for tasks of texts."""
        return load_embeddings(getattr(self.job.mechanism, "embedding", "embedded"))

    def canary(self, knob: float) -> Canary:
        """One for all epsilons; knob: of the first."""
        if self._canary is None:
            self._canary = self.job.way.canary(self, knob)
        return self._canary

    def audit(self, epsilon: float, report: Report = report_nothing) -> AttackResult:
        """The result at one target epsilon; its privacy is what one run charged. Raises BudgetExceeded when any run
        spends more than was calibrated for, and UsageError for a mechanism that makes no noisy release."""
        start, meter, job = time.perf_counter(), Meter(self.model), self.job
        calibration = calibrate_mechanism(job.mechanism, self.sizes, epsilon, job.delta)
        canary = self.canary(calibration.knob)
        execution = self.execution(False, calibration, 0)
        recording = Recording()
        with observing(recording):
            first = execution.run()
        if not first.releases:
            raise UsageError(f"{job.mechanism.name} makes no noisy release, so there is nothing to audit.")
        if job.access == "white-box":
            self._require_sums(noisy_sums([[recording.observed_releases]]))
        self._reader = first.reader
        inside, outside = (self._observe(side, calibration, report) for side in (True, False))
        see = self._see_sums if job.access == "white-box" else self._see_texts
        members, others, learn = see(inside, outside)
        return result_of(
            job.attempt_at(epsilon),
            job.mechanism,
            release_of(job.mechanism, calibration, self.sizes, execution.ledger),
            manifest_of(job.task, self.model),
            meter.cost({"audit": round(time.perf_counter() - start, 3)}),
            bound=lower_bound(members, others, job.delta, job.confidence, job.seed, learn),
            measures=self._measure(inside.sums, outside.sums),
            counts=_count_moved(inside.sums, outside.sums),
            notes=[canary.note, *filter(None, [large_delta(job.delta, len(self.private))])],
        )

    def _see_texts(self, inside: Observed, outside: Observed) -> Seen:
        """By black box: a number for every text."""
        runs = [*inside.texts, *outside.texts]
        texts = list(dict.fromkeys(text for run in runs for text in run))
        score = None if self._canary is None else self._canary.score
        values = dict(zip(texts, range(len(texts)) if score is None else score(texts), strict=True))
        seen = np.array([[values[text] for text in run] for run in runs])
        learn = _frequencies if score is None else runs_are_scores
        return seen[: self.job.runs], seen[self.job.runs :], learn

    def _see_sums(self, inside: Observed, outside: Observed) -> Seen:
        """By white box: noisy sums [n, m, d]. Raises UsageError where there are none."""
        members, others = (self._require_sums(side.sums) for side in (inside, outside))
        return members.noisy, others.noisy, learn_reference_vector

    def _require_sums(self, sums: NoisySums | None) -> NoisySums:
        if sums is None:
            raise UsageError(
                f"{self.job.mechanism.name} does not answer from one noisy sum, which a white-box"
                " audit by runs looks at; audit it with --exact."
            )
        return sums

    def _measure(self, inside: NoisySums | None, outside: NoisySums | None) -> dict[str, Estimate]:
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
        own_slots = mechanism.scheme.own_slots
        most = label_only_ceiling(inside.scale, mechanism.slots, len(labels), own_slots, delta)
        return {
            GDP: estimate_by_gdp(*trials, delta, seed),
            CEILING: Estimate(value=most, note=_CEILING),
        }

    def execution(self, present: bool, calibration: Calibration, run: int, draw: int = 0) -> Execution:
        """The mechanism on the records of one side, sampled as in every execution of this run. draw: of the noise."""
        canary = self.canary(calibration.knob)
        records = [*self.private, *([canary.record] if present else [])]
        given = self.execute(canary.task, records, calibration.knob, run, f"audit:{int(present)}:{run}:{draw}")
        ledger = Ledger(calibration.event, calibration.epsilon)
        return replace(given, queries=canary.queries, reader=self._reader, ledger=ledger)

    def execute(self, task: PublicTask, records: Sequence[Record], knob: float, run: int, source: str) -> Execution:
        """The mechanism on these records, with the sampling of a run and a source of noise."""
        randomness = streams(self.job.seed)
        return Execution(
            self.job.mechanism,
            task,
            self.model,
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
        texts, releases = list[list[str]](), list[list[list[Observation]]]()
        for run in range(self.job.runs):
            draws = range(self.job.way.draws)
            seen = [self._observe_draw(self.execution(present, calibration, run, draw)) for draw in draws]
            texts.append([text for text, _ in seen])
            releases.append([observed for _, observed in seen])
            report(run + 1, self.job.runs, f"runs {'with' if present else 'without'} the canary")
        return Observed(texts, noisy_sums(releases))

    def _observe_draw(self, execution: Execution) -> tuple[str, list[Observation]]:
        """(the text, the noisy releases behind an answer; none of a text: they are many)."""
        recording = Recording()
        answers = self.job.mechanism.kind == "answers"
        with observing(recording) if answers else nullcontext():
            made = execution.run()
        texts = made.prompt.texts if made.answers is None else made.answers.values()
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


def hold_out(train: Sequence[Record], count: int, sampling: np.random.Generator) -> tuple[list[Record], Record]:
    """(``count`` private records, one more that is not among them), by public randomness. Raises UsageError for too
    few."""
    if len(train) <= count:
        raise UsageError(f"The task has {len(train)} train records and the audit needs {count + 1}; lower --records.")
    order = sampling.permutation(len(train))
    return [train[at] for at in order[:count].tolist()], train[int(order[count])]


def _frequencies(members: np.ndarray, others: np.ndarray) -> Score:
    """Runs are numbers of texts [n, m]. The score of a text is how much more often it came with the canary."""
    number = 1 + max(int(members.max()), int(others.max()))
    inside, outside = (np.bincount(runs.ravel(), minlength=number) / runs.size for runs in (members, others))
    more = inside - outside
    return lambda runs: np.where(runs < number, more[np.minimum(runs, number - 1)], 0.0)


def choose_asked_canary(runs: AuditRuns) -> Canary:
    """Of answers to one question (Q = 1). Raises UsageError for tasks without inputs to ask about, and where the
    mechanism cannot answer the question."""
    task, mechanism, question = runs.job.task, runs.job.mechanism, runs.job.question
    assert isinstance(mechanism, AnswerMechanism)
    shown, seen, record, ends = first_words(runs.other.text, _WORDS), task, runs.other, None
    text = shown
    if question == "inquiry" and task.kind == "generation":
        seen, ends = free_text(task), (_FOR, _AGAINST)
        text = _ASKING.format(text=shown, yes=_FOR, no=_AGAINST)
    elif question == "inquiry":
        seen = ask_yes_or_no(task)
    else:
        if task.chooses:
            output = _unlikely_label(runs, shown)
        elif task.kind == "generation":
            output, _ = ends = _far_text(runs, shown)
        else:
            raise UsageError(
                f"The question lookup needs records with a label or an output; ask {task.name} by inquiry."
            )
        # Shown as one example, the text ends with that output itself.
        record = Record(spell_out(task, shown, output, _REPEATS - 1), output)
    if reason := skip_reason(mechanism, seen):
        raise UsageError(f"{mechanism.name} cannot answer the audit's question: {reason}.")
    size = len(runs.private)
    note = f"one query, question {question}, {count(size, 'record')}, {mechanism.scheme.describe(size)}"
    score = None if ends is None else _measure_nearness(runs.embeddings, *ends)
    answer = "" if ends is not None else YES if question == "inquiry" else record.label
    return Canary(record, seen.public_view(), note, (Query("audit", text),), score, answer)


def _measure_nearness(
    embeddings: EmbeddingModel, member: str, non_member: str
) -> Callable[[Sequence[str]], Sequence[float]]:
    """How much nearer texts are to the first end than to the other one."""

    def score(texts: Sequence[str]) -> list[float]:
        rows = embeddings.encode([*texts, member, non_member])
        distances = np.linalg.norm(rows[:-2, None] - rows[None, -2:], axis=2)
        near: list[float] = (distances[:, 1] - distances[:, 0]).tolist()
        return near

    return score


def _unlikely_label(runs: AuditRuns, shown: str) -> str:
    """The label that the model finds least likely for a text after other private examples (the auditor knows all
    records but the canary)."""
    task, model, private = runs.job.task, runs.model, runs.private
    query, endings = task.query(shown), label_endings(task, model)
    pairs = [private[at : at + 2] for at in range(0, min(len(private), 2 * _PROMPTS), 2)]
    scores = np.array(model.score([(model.encode(task.icl_prefix(pair) + query), endings) for pair in pairs]))
    return task.labels[int(np.argmin(scores.mean(axis=0)))]


def _far_text(runs: AuditRuns, shown: str) -> tuple[str, str]:
    """The fixed text that is farthest from the model's answer without examples, and that answer."""
    task = runs.job.task
    own = completions(task, runs.model, [task.icl_prefix(()) + task.query(shown)])[0] or task.name
    rows = runs.embeddings.encode([own, *FAR_TEXTS])
    return FAR_TEXTS[int(np.argmin(rows[1:] @ rows[0]))], own


def _contradiction(runs: AuditRuns) -> Canary:
    """Of what is prepared: the other record with the label that follows its own in the task's order, which says of its
    text what no other record says. Its own text is the query."""
    text, label, labels = runs.other.text, runs.other.label, runs.job.task.labels
    if labels:
        label = labels[((labels.index(label) if label in labels else 0) + 1) % len(labels)]
    note = f"one preparation from {count(len(runs.private), 'record')}, every one of which may be in it"
    return Canary(Record(text, label), runs.job.task.public_view(), note, (Query("canary", text),))


def _choose_copied(runs: AuditRuns, knob: float) -> Canary:
    """Of one demonstration: a text that the mechanism could release but hardly would, of the public tokens of a rank.
    What is looked for is how much of its tokens stands in the released text, in one piece: 0 to 1."""
    task, encode = runs.job.task.public_view(), runs.model.encode

    def write(rank: int) -> str:
        with observing(Recording(follow_rank(rank))):
            made = runs.execute(task, runs.private, knob, runs.job.runs, "no noise").run()
        return "\n".join(made.prompt.texts)

    text = next(filter(str.strip, map(write, range(_RANK, -1, -1))), "N/A")

    def score(texts: Sequence[str]) -> list[float]:
        ours = encode(text)
        matchers = (difflib.SequenceMatcher(None, ours, encode(each), autojunk=False) for each in texts)
        return [matcher.find_longest_match().size / max(1, len(ours)) for matcher in matchers]

    note = f"one demonstration of the first label, {count(len(runs.private), 'record')}"
    return Canary(Record(text, runs.label), task, note, score=score)


_WAYS: Final[dict[Kind, Way]] = {
    "demonstrations": Way(_choose_copied, lambda question: {"rank": _RANK}, shots=1, draws=1),
    "answers": Way(
        lambda runs, knob: choose_asked_canary(runs),
        lambda question: {"question": question, "words": _WORDS, "repeats": _REPEATS},
        own_task=False,
    ),
    "prepared": Way(lambda runs, knob: _contradiction(runs), lambda question: {}, all_groups=True),
}
