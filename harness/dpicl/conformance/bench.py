"""Runs one mechanism under observation, on one small task with the hostile model.

A run here is an execution (dpicl.releasing.execution) as any other, with three differences: the private set, the
noise and the noisy releases write a transcript; the ledger refuses nothing, so that a mechanism that overspends can be
observed (the check `budget` uses the real ledger); and a script may replace the noisy values.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dpicl.accounting import dp_event as dp
from dpicl.accounting.calibration import Calibration
from dpicl.conformance.dictionary import TRIGGERS, everything, modules_of, triggers_of
from dpicl.conformance.footprint import observe
from dpicl.conformance.guard import RUN_SECONDS, attempt
from dpicl.conformance.hostile_model import HostileModel, is_marked
from dpicl.conformance.scales import ORDINARY, Scale
from dpicl.conformance.state import Checkpoint
from dpicl.conformance.transcript import (
    EVERY_SAMPLE,
    INSTRUCTION,
    STATE,
    CoupledByRecord,
    Item,
    ObservedReader,
    ObservedRecord,
    Presence,
    RecordingNoise,
    RunObserver,
    Script,
    Transcript,
    UnseededNoise,
)
from dpicl.core.errors import PluginError, UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import Streams
from dpicl.core.together import run_together
from dpicl.core.vocabulary import Partition, Query, Record, ReleasedPrompt, Sizes
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import check_prompt, plain_text
from dpicl.privacy.release_hooks import observing
from dpicl.releasing.execution import Execution
from dpicl.releasing.release import calibrate_mechanism

#: The target of most runs, and the second one, for mistakes that depend on the knob.
EPSILON, HIGH_EPSILON, DELTA = 1.0, 8.0, 1e-5
#: The longest string that the bench puts into a query.
_ASIDE = 60


@dataclass(frozen=True)
class Run:
    """How a run differs from the ordinary one.

    records: None for the bench's own. added: one record more, at ``place`` among them. presence: whether it is in each
    sample. knob: None for the calibrated one, of each label where labels have noise of their own. sampling, noise:
    seeds; public: added to that of public randomness. crowding, flood: factors, of coins and slots and of coins alone
    (`CoupledByRecord`). script: replaces the noisy values. at_once: whether shots are written at the same time, as in
    the runs of a suite. unseeded: whether the noise claims to come from the operating system's entropy.
    """

    records: Sequence[Record] | None = None
    added: Record | None = None
    place: int = 0
    knob: float | None = None
    sampling: int = 0
    noise: int = 0
    crowding: float = 1.0
    flood: float = 1.0
    script: Script | None = None
    presence: Presence = EVERY_SAMPLE
    at_once: bool = False
    unseeded: bool = False
    public: int = 0


class Bench:
    """One mechanism with its options, a task and a model. sizes, shots and queries are public and never change.

    seed: of everything that the kit chooses.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        task: Task,
        seed: int,
        scale: Scale = ORDINARY,
    ) -> None:
        self.mechanism, self.task, self.seed, self.scale = mechanism, task, seed, scale
        self.model = HostileModel(scale.words)
        #: Possible triggers in a text: see `dictionary`.
        triggers = (everything(type(mechanism)), *triggers_of(type(mechanism)), *TRIGGERS)
        self.words = [word for word in dict.fromkeys(triggers) if not is_marked(word)]
        self.shots = task.plan_shots(
            scale.shots, np.random.default_rng(seed), mechanism.shot_labels(task.public_view())
        )
        self.queries = _append_to_odd(list(task.queries()), self.words)
        self._outputs, self._calibrations = OutputCache(None), dict[float, Calibration]()
        modules = modules_of(type(mechanism))
        self._plugin = frozenset(modules)
        self.checkpoint = Checkpoint(modules, mechanism, self.model)

    @property
    def answers(self) -> bool:
        """Whether answers are released, and not demonstrations."""
        return not self.mechanism.releases_texts

    def sizes(self) -> Sizes:
        """Public sizes of a run."""
        return self.mechanism.public_sizes(self.task.keep_sizes(), self.shots, len(self.queries))

    def calibration(self, epsilon: float = EPSILON) -> Calibration:
        """To epsilon; for a mechanism with a knob."""
        if epsilon not in self._calibrations:
            calibration = calibrate_mechanism(
                self.mechanism, self.sizes(), epsilon, DELTA, cache=None
            )
            self._calibrations[epsilon] = calibration
        return self._calibrations[epsilon]

    def knob(self, epsilon: float = EPSILON) -> float:
        """The calibrated knob, the largest one where labels have noise of their own; 0 without a knob."""
        return 0.0 if self.mechanism.knob is None else self.calibration(epsilon).knob

    def label_knobs(self) -> Mapping[str, float]:
        """The knob of each label, where labels have noise of their own."""
        return {} if self.mechanism.knob is None else self.calibration().by_label

    @property
    def fixed(self) -> str | None:
        """Why a mechanism without a knob has no noise to check; None with a knob."""
        if self.mechanism.knob is not None:
            return None
        return f"epsilon is {'infinite at any target' if self.unbounded else '0: nothing is released from records'}"

    @property
    def unbounded(self) -> bool:
        """Whether epsilon is infinite at any target."""
        if self.mechanism.knob is not None:
            return False
        event = self.mechanism.events(0.0, self.sizes())
        return not isinstance(event, dp.NoOpDpEvent)

    def run(self, how: Run = Run()) -> Transcript:
        """One run. An exception of the mechanism is part of the transcript."""
        return self._observe_runs([self._prepare(how, self.mechanism)], how.at_once)[0]

    def run_at_once(self, hows: Sequence[Run]) -> list[Transcript]:
        """Several runs that take turns at the model, so that what one keeps outside itself meets the others. Each has
        an instance of the mechanism of its own, and all have one footprint."""
        return self._observe_runs(
            [self._prepare(how, copy.copy(self.mechanism)) for how in hows], True
        )

    def _observe_runs(
        self,
        runs: Sequence[tuple[Transcript, Callable[[], None]]],
        at_once: bool,
    ) -> list[Transcript]:
        transcripts, calls = [transcript for transcript, _ in runs], [call for _, call in runs]
        with observe(self._plugin, self.task.config.source.name) as footprint:
            _, error = attempt(
                lambda: run_together(calls) if at_once else [call() for call in calls], RUN_SECONDS
            )
        for transcript in transcripts:
            transcript.footprint, transcript.error = footprint, transcript.error or error
            transcript.observed_releases.sort(key=lambda observed: observed.shot)
        return transcripts

    def _prepare(
        self,
        how: Run,
        mechanism: Mechanism,
    ) -> tuple[Transcript, Callable[[], None]]:
        """A run that has not begun, and what makes it."""
        transcript = Transcript(unseeded=how.unseeded)
        records = list(self.task.train if how.records is None else how.records)
        places: dict[Partition, int] = {}
        if how.added is not None:
            labels = [record.label for record in records[: how.place]]
            places = {None: len(labels), how.added.label: labels.count(how.added.label)}
        knob, knobs = how.knob, dict[str, float]()
        if knob is None:
            knob, knobs = self.knob(), dict(self.label_knobs())
        sampling = CoupledByRecord(how.sampling, how.crowding * how.flood, how.crowding)
        source = Streams(how.noise).source("noise")
        noise = UnseededNoise(source) if how.unseeded else RecordingNoise(source)
        observer = RunObserver(transcript, places, sampling, how.presence, noise.drawn, how.script)
        observed = [
            ObservedRecord(number, record, observer) for number, record in enumerate(records)
        ]
        if how.added is not None:
            observed.insert(how.place, ObservedRecord(len(records), how.added, observer))
        execution = Execution(
            mechanism,
            self.task.public_view(),
            self.model,
            knob,
            knobs,
            records=observed,
            sizes=self.sizes(),
            sampling=sampling,
            noise=noise,
            public=Streams(self.seed + how.public).public,
            observer=observer,
            shots=self.shots,
            queries=self.queries,
            outputs=lambda: self._outputs,
            reads=partial(ObservedReader, transcript.public_prompts),
            checked=partial(_show, transcript),
            report=lambda *done: transcript.progress.append(done),
        )

        private = execution.private  # grouped by label before reads are observed

        def make() -> None:
            observer.watching = True
            with observing(observer):
                transcript.released, transcript.error = attempt(
                    lambda: _items(execution, transcript)
                )
            private.close()
            observer.watching = False

        return transcript, make


def _show(
    transcript: Transcript, mechanism: Mechanism, output: Any, *request: Any
) -> ReleasedPrompt:
    """The prompt as it was returned, with what is wrong with it in the transcript."""
    try:
        check_prompt(mechanism, output, *request)
    except PluginError as error:
        transcript.refused = str(error)
    return output if isinstance(output, ReleasedPrompt) else ReleasedPrompt(None, output)


def _items(execution: Execution, transcript: Transcript) -> tuple[Item, ...]:
    """What a run released. What a prepared mechanism restores of its state answers as it does."""
    mechanism, output = execution.mechanism, execution.run()
    if output.answers is None:
        items: list[Item] = []
        if output.prompt.instruction is not None:
            items.append((INSTRUCTION, plain_text(output.prompt.instruction, mechanism)))
        for shown in output.prompt.demonstrations:
            label, text = plain_text(shown.label, mechanism), plain_text(shown.text, mechanism)
            items.append((label, text, f"{shown.tokens} tokens"))
        return tuple(items)
    if output.state is None or output.restore is None:
        return tuple(output.answers.items())
    restored = replace(output, prepared=output.restore(output.state))
    if restored.answer(execution.queries) != output.answers:
        transcript.refused = "What `restore` makes of its saved state gives other answers than it."
    numbers = tuple(f"{array.shape} {array.tolist()}" for array in output.state.values())
    return (*output.answers.items(), (STATE, *output.state, *numbers))


def set_up(
    cls: type[Mechanism],
    task: str,
    options: Mapping[str, Any],
    seed: int,
    scale: Scale = ORDINARY,
) -> Bench:
    """A bench whose groups are large enough for the mechanism's sample. Raises UsageError where no group is."""
    task = scale.task or task
    mechanism = build(cls, scale.options(cls, task, options))
    for corpus in scale.corpora(task, seed):
        if mechanism.knob_per_label and corpus.partitioned and not scale.unequal:
            # Sizes that differ by a tenth of the records of a class: so do the knobs.
            sizes = corpus.group_sizes
            unequal = {
                label: sizes[label] + number * (sizes[label] // 10)
                for number, label in enumerate(sizes)
            }
            corpus = dataclasses.replace(corpus, declared=unequal)
        bench = Bench(mechanism, corpus, seed, scale)
        try:
            if mechanism.knob is not None:
                mechanism.events(mechanism.knob.high, bench.sizes())
            return bench
        except UsageError as error:
            refused = error
    raise UsageError(f"{cls.name} does not fit the bench of {task}: {refused}") from refused


def _append_to_odd(queries: list[Query], words: Sequence[str]) -> list[Query]:
    """The queries, every other one with some of the words appended; the last one asks what the first one did."""
    short = [word for word in words if len(word) <= _ASIDE and word.isprintable()]
    half = len(queries) // 2
    changed = list(queries)
    for number in range(1, len(queries), 2):
        words_of_query = short[number // 2 :: half]
        text = " ".join([queries[number].text, *words_of_query])
        changed[number] = dataclasses.replace(queries[number], text=text)
    changed[-1] = dataclasses.replace(queries[-1], text=queries[0].text)
    return changed


def other_corpus(bench: Bench) -> tuple[Record, ...]:
    """As many records of the same task from another synthetic corpus."""
    size = len(bench.task.train)
    corpora = bench.scale.corpora(bench.task.name, bench.seed + 1)
    return next(corpus.train for corpus in corpora if len(corpus.train) >= size)
