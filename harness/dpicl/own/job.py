"""One release requested from Python or the command line: checked, tried without records, charged, executed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.accounting.group_privacy import of_record
from dpicl.core.cell import Options, ReleaseConfig, large_delta
from dpicl.core.errors import Concealed, UsageError
from dpicl.core.messages import count, duration, show_rounded_up
from dpicl.core.vocabulary import Demonstration, Query, Record, Report, is_simulated
from dpicl.data.concealed import conceal
from dpicl.data.splits import fingerprint
from dpicl.data.tables import Table
from dpicl.data.task import PublicTask, Task
from dpicl.engines.progress import SILENT_SECONDS, Stages, repeat
from dpicl.mechanism import checked
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.given import Given
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.own.budget import ChargeTo, charge, names_charged, warn_of_uncounted
from dpicl.own.card import NOT_COMPARED, SIMULATED, PersonUnit, PrivacyCard, card
from dpicl.own.records import LoadedRecords, OwnRecords, load_own, read_public, require_different
from dpicl.own.released import PrivateRelease, try_places
from dpicl.own.state import require_readable, state_text
from dpicl.own.texts import labels_without_text
from dpicl.own.unfinished import UnfinishedRelease, hold_unfinished
from dpicl.own.utility import Utility, measure
from dpicl.releasing.release import (
    Charger,
    NewRelease,
    Recorder,
    Release,
    expected_release,
    plan_labels,
    release,
)
from dpicl.results.schema import Manifest
from dpicl.run.pipeline import manifest_of

#: What is said of a release that is stopped after it was charged.
STAYS = "what was charged stays on the budget (`dpicl budget` shows it)"
_GOES_ON = f"{STAYS}, and the same command goes on with this release at no further cost"
#: What is said where a mechanism fails with records.
_FAILS_WITH_RECORDS = (
    "The release fails with made-up records, so nothing was charged. To see the error, run the same mechanism with"
    " --noise seeded on public records."
)
#: A rehearsal that took longer, in seconds, is not run again with made-up records to estimate the time of the release.
_SHORT = 20.0
#: How many such records a label gets at most.
_STAND_INS = 8
#: Words of each of them.
_WORDS = 60


@dataclass(frozen=True, kw_only=True)
class ReleaseJob:
    """One release as it was asked for.

    source: the mechanism. chosen: options in place of its published ones. records: what is public of the records (how
    they are read, labels, form). size: declared number of private records of each class. data: the private records.
    public: public records that the task needs, if any. public_test: public records on which the utility is measured
    before anything is charged. payer: what is charged, as far as the user said so; `charge_to` completes it. out: where
    files go; None: nowhere. tell: takes a line for each stage. allow_unchecked: whether a plug-in that has not passed
    the kit may release. measure_only: whether to stop before anything is charged. contact: whom the card names for
    questions. queries: none for demonstrations, and where a prepared mechanism releases its state.
    """

    source: Given
    chosen: Mapping[str, Any]
    records: OwnRecords
    model: str
    config: ReleaseConfig
    size: int | Mapping[str, int] | None
    data: Table
    public: Table | None
    public_test: Table | None
    payer: ChargeTo
    out: Path | None
    tell: Callable[[str], None]
    allow_unchecked: bool = False
    measure_only: bool = False
    contact: str = ""
    queries: Sequence[Query] = ()

    @cached_property
    def sizes(self) -> dict[str, int] | None:
        """Declared n of every class ('' for a task without classes); None where none is declared. Raises UsageError for
        what does not fit."""
        classes = self.records.config().classes
        if self.size is None:
            return None
        if isinstance(self.size, int):
            return dict.fromkeys(classes or [""], self.size)
        if set(self.size) != set(classes):
            need = (
                f"one number, or one for each of {', '.join(classes)}" if classes else "one number"
            )
            raise UsageError(
                f"The declared sizes do not fit the labels: give {need} (--size N or --size LABEL=N)."
            )
        return {label: self.size[label] for label in classes}

    @cached_property
    def charge_to(self) -> ChargeTo:
        """`payer` with the declared number of all records, and with whom the guarantee protects."""
        declared = sum(self.sizes.values()) if self.sizes else None
        return replace(
            self.payer,
            declared=declared or None,
            allow_large_delta=self.config.allow_large_delta,
            rows_per_person=self.rows_per_person,
            person_field=self.records.person_field,
        )

    @property
    def rows_per_person(self) -> int | None:
        """How many records of a person are used at most; None where the guarantee protects records."""
        return self.records.rows_per_person if self.records.person_field else None

    @cached_property
    def record_config(self) -> ReleaseConfig:
        """`config` with the epsilon and delta that a record must have, so that a person has those of `config`; they are
        the same where one row of each person is used. Raises UsageError for a delta of a person that is too small."""
        config, rows = self.config, self.rows_per_person or 1
        epsilon, delta = of_record(config.epsilon, config.delta, rows, config.secure)
        return config.model_copy(update={"epsilon": epsilon, "delta": delta})

    def price(self, release: NewRelease) -> NewRelease:
        """A release as it is charged: at the epsilon and delta of a person, where persons are protected."""
        what = {**release.what, "epsilon_target": self.config.epsilon}
        epsilon = release.epsilon * (self.rows_per_person or 1)
        return replace(release, epsilon=epsilon, delta=self.config.delta, what=what)

    @cached_property
    def rehearsal_config(self) -> ReleaseConfig:
        """The settings of the same release without a private record."""
        config = self.record_config
        return config.model_copy(update={"noise": "seeded", "delta": config.accounted_delta})

    @cached_property
    def task(self) -> PublicTask:
        """The task without records."""
        task = Task.from_records(self.records.config(), (), self.sizes or {})
        return task.public_view()

    @cached_property
    def options(self) -> Options:
        options = {**self.source.options, **self.chosen}
        return resolve_options(self.source.cls, self.task.name, options)

    @cached_property
    def mechanism(self) -> Mechanism:
        return build(self.source.cls, self.options)

    @cached_property
    def planned(self) -> list[Demonstration]:
        """The demonstrations that will be released, with their labels and no text yet.

        Raises UsageError for numbers of labels that do not fit.
        """
        labels = plan_labels(self.mechanism, self.task, self.config)
        return [Demonstration("", label) for label in labels]

    def check(self) -> None:
        """Raises UsageError for what does not fit, as far as that can be seen without private records, and where one
        file was given for two purposes."""
        self.records.require_one_unit()
        self.record_config  # noqa: B018  refuses a delta that is too small
        if self.config.secure and self.sizes is None:
            raise UsageError(
                "Say how many private records a class has, by a number that everybody may know (a round one; no count"
                " of this file, which would tell about it): --size 100, or --size LABEL=100 for each label."
            )
        digest = self.source.registered.plugin_hash
        releases = self.config.secure and not self.measure_only
        if digest and releases and not self.allow_unchecked and not checked.has_passed(digest):
            raise UsageError(
                f"{self.source.name} is a plug-in that has not passed `dpicl check` on this machine as it is now, so"
                " nothing shows that it adds the noise that it declares; run `dpicl check FILE` first, or give"
                " --allow-unchecked, and the card will say so in its first sentence."
            )
        if self.records.form != "labelled" and self.public_test is not None:
            raise UsageError(
                "The utility of texts without labels is not measured; leave --public-test out."
            )
        if self.measure_only and self.public_test is None:
            raise UsageError(
                "--measure-only measures utility on public records; give them with --public-test FILE."
            )
        if self.measure_only and not self.config.secure:
            raise UsageError(
                "--measure-only goes with secure noise; --noise seeded charges nothing anyway."
            )
        if self.sizes is not None:
            self.config.require_small_delta(sum(self.sizes.values()))
        reason = skip_reason(self.mechanism, self.task)
        if reason:
            raise UsageError(f"{self.mechanism.name} cannot do this task: {reason}.")
        self.planned  # noqa: B018  refuses numbers of labels that do not fit
        require_different(
            {"--data": self.data, "--public": self.public, "--public-test": self.public_test}
        )

    def run(self) -> PrivateRelease:
        """Loads records and model, and releases. Files and the budget are checked before the model is loaded.

        With secure noise the whole release is tried without a record before anything is charged. A failure then costs
        nothing and its message is shown; a later one costs its epsilon and says little. With measure_only the trial is
        what is returned: its card has the measured utility and what the release would cost.
        """
        stages = Stages(self.tell)
        run = _Run(self, stages)
        try:
            with repeat(stages.say_how_far):
                return run.make()
        except KeyboardInterrupt as stop:
            stop.add_note(run.describe_stop())
            raise


@dataclass
class _Run:
    """One job while it runs. is_paid: whether it was charged. unfinished: what is kept of it, from before the charge
    on; None where nothing is."""

    job: ReleaseJob
    stages: Stages
    is_paid: bool = False
    unfinished: UnfinishedRelease | None = None

    def make(self) -> PrivateRelease:
        """See `ReleaseJob.run`."""
        job = self.job
        secure = job.config.secure
        if job.out is not None:
            try_places(job.out)
        public_test = (
            None if job.public_test is None else read_public(job.public_test, job.records, job.tell)
        )
        loaded = load_own(job.records, job.data, job.sizes, secure, job.public, job.tell)
        if not secure or job.measure_only:
            return self._make(loaded, public_test)
        with hold_unfinished(self._made_from(loaded)) as unfinished:
            digest = job.source.registered.plugin_hash
            if digest is None or checked.has_passed(digest):
                self.unfinished = unfinished
            return self._make(loaded, public_test)

    def describe_stop(self) -> str:
        """What is said where it is stopped."""
        if not self.is_paid:
            return "nothing was charged"
        is_kept = self.unfinished is not None and self.unfinished.is_kept
        return _GOES_ON if is_kept else STAYS

    def _made_from(self, loaded: LoadedRecords) -> list[Any]:
        """All that decides what is released and who pays, as JSON."""
        job, task = self.job, loaded.task
        return [
            fingerprint(loaded.read, task.train, task.public),
            sorted(loaded.persons),
            [job.source.registered.plugin_hash, job.mechanism.name, job.options],
            [job.model, job.sizes],
            job.record_config.model_dump(),
            repr((job.records, job.charge_to)),
            [(query.id, query.text) for query in job.queries],
        ]

    def _make(self, loaded: LoadedRecords, public_test: Sequence[Record] | None) -> PrivateRelease:
        job = self.job
        secure = job.config.secure
        empty_task = replace(loaded.task, train=())
        if secure and not job.measure_only:
            self._try_charge(loaded, empty_task)
        self._tell_of_settings(is_compared=public_test is not None)
        loading = f"loading the model {job.model}"
        self.stages.begin(
            loading, f"{loading} (its first time on a machine takes a minute or more)"
        )
        model = models.load(job.model, dtype="float32" if secure else None)
        manifest = manifest_of(loaded.task, model, secure, job.source.registered.plugin_hash)
        utility = None if public_test is None else self._measure(loaded.task, public_test, model)
        releaser = _Releaser(job, model, manifest, utility, self.stages.report)
        if not secure:
            self.stages.begin("releasing")
            return releaser.release(loaded.task, job.record_config, None)

        version = hashlib.sha256(manifest.model_dump_json().encode()).hexdigest()
        expected, stage = None, "releasing"
        if not self._names_charged(version):
            rehearsal = self._rehearse(releaser, empty_task)
            if job.measure_only:
                return rehearsal
            rehearsed = self.stages.seconds
            expected = self._estimate(releaser, empty_task, rehearsed)
            stage = f"releasing ({duration(rehearsed)} without a record)"
        pay = partial(self._pay, loaded, version, stage, expected)
        try:
            released = releaser.release(loaded.task, job.record_config, pay, self.unfinished)
            return (
                released
                if self.unfinished is None
                else replace(released, finish=self.unfinished.remove)
            )
        except Concealed as error:
            raise Concealed(f"{error} What it may have cost stays on the budget.") from None

    def _names_charged(self, version: str) -> tuple[str, ...]:
        """The private sets that have paid for this release, where a run of the same version was stopped."""
        if self.unfinished is None:
            return ()
        return names_charged(self.unfinished.number_of(version))

    def _try_charge(self, loaded: LoadedRecords, empty_task: Task) -> None:
        """Raises what charging the release will raise, before anything is loaded for it."""
        job = self.job
        expected = expected_release(
            job.mechanism, empty_task, job.model, job.record_config, job.queries
        )
        price = job.price(expected)
        number = "" if self.unfinished is None else self.unfinished.charged_as
        charge(
            loaded.read,
            price,
            job.charge_to,
            persons=loaded.persons,
            number=number,
            trial=True,
        )

    def _tell_of_settings(self, is_compared: bool) -> None:
        """Says what follows from the settings alone, before anything is charged."""
        job = self.job
        charges = job.config.secure and not job.measure_only
        missing = labels_without_text(job.planned, job.task.labels if job.task.partitioned else ())
        if missing:
            job.tell(missing)
        for note in job.records.reading_notes:
            job.tell(note)
        if job.config.secure and not is_compared and job.records.form == "labelled":
            job.tell(NOT_COMPARED)
        if is_simulated(job.model) and charges:
            job.tell(f"{SIMULATED} What it releases is charged all the same.")

    def _measure(self, task: Task, public_test: Sequence[Record], model: LanguageModel) -> Utility:
        job = self.job
        self.stages.begin("measuring the utility on public records")
        report = self.stages.report
        utility = measure(
            job.mechanism,
            task,
            public_test,
            model,
            job.record_config,
            job.queries,
            job.tell,
            report,
        )
        if not job.measure_only:  # which answers with it
            job.tell(utility.sentence)
        return utility

    def _rehearse(self, releaser: _Releaser, empty_task: Task) -> PrivateRelease:
        """The release from a task without records, with files in memory alone: what fails here costs nothing."""
        self.stages.begin("trying the release without a record")
        warn_of_uncounted()
        rehearsal = releaser.release(empty_task, self.job.rehearsal_config, None)
        for write in (rehearsal.text, *rehearsal.card_files):
            write()
        if rehearsal.state is not None:
            require_readable(self.job.mechanism, rehearsal.state)
        return rehearsal

    def _estimate(self, releaser: _Releaser, empty_task: Task, rehearsed: float) -> float | None:
        """About how many seconds the release takes with the declared number of records, timed with made-up ones of
        `_WORDS` words. None where that is too short to be told, where the rehearsal was too long to be run again, and
        where records are neither classified texts nor without labels. No private record is looked at, and what fails
        with made-up records fails here, before anything is charged."""
        job, sizes = self.job, self.job.sizes
        can_stand_in = job.task.kind == "classification" or job.records.form != "labelled"
        if sizes is None or rehearsed > _SHORT or not can_stand_in:
            return None
        only_label = next((each.label for each in job.planned), "")
        records = [
            _stand_in(number, label or only_label)
            for label, size in sizes.items()
            for number in range(min(_STAND_INS, size))
        ]
        self.stages.begin(f"timing it with {count(len(records), 'made-up record')}")
        with conceal(True, _FAILS_WITH_RECORDS):  # it says as little as in the release itself
            releaser.release(replace(empty_task, train=tuple(records)), job.rehearsal_config, None)
        more = max(0.0, self.stages.seconds - rehearsed)
        seconds = rehearsed + more * sum(sizes.values()) / len(records)
        return seconds if seconds > SILENT_SECONDS else None

    def _pay(
        self,
        loaded: LoadedRecords,
        version: str,
        stage: str,
        expected: float | None,
        new: NewRelease,
    ) -> tuple[str, ...]:
        """Charges a release, unless that was done before it was stopped; returns the names of the private sets that
        paid. version: of the program and the model."""
        job = self.job
        price = job.price(new)
        self.is_paid = True
        before = self._names_charged(version)
        if before:
            self.stages.begin(
                stage,
                f"going on with the release that was stopped, charged to {', '.join(map(repr, before))} before",
            )
            return before
        self.stages.begin(
            f"charging epsilon = {show_rounded_up(price.epsilon)} at delta = {price.delta:g}"
        )
        number = "" if self.unfinished is None else self.unfinished.begin(version)
        names = charge(loaded.read, price, job.charge_to, persons=loaded.persons, number=number)
        sets = ", ".join(map(repr, names)) or "no private set"
        about = (
            ""
            if expected is None
            else f", about {duration(expected)} for the declared number of records"
        )
        self.stages.begin(stage, f"charged to {sets}; releasing{about}", expected)
        return names


@dataclass(frozen=True)
class _Releaser:
    """Releases from a task's records and writes the card. utility: None where it was not measured."""

    job: ReleaseJob
    model: LanguageModel
    manifest: Manifest
    utility: Utility | None
    report: Report

    def release(
        self,
        task: Task,
        config: ReleaseConfig,
        pay: Charger | None,
        recorder: Recorder | None = None,
    ) -> PrivateRelease:
        """pay: charges it, and is called before a record is read; None for public or no records. recorder: see
        `dpicl.releasing.release.release`."""
        job = self.job
        released = release(
            job.mechanism,
            task,
            self.model,
            config,
            job.queries,
            report=self.report,
            charge=pay,
            recorder=recorder,
        )
        about_it = self._card(task, released, config)
        state = None
        if released.more is not None and not job.queries:
            state = state_text(job.mechanism, released, about_it, job.records, config.seed)
        return PrivateRelease(
            about_it.model_dump(mode="json"),
            task.public_view(),
            released.prompt,
            job.queries,
            released.answers or {},
            state,
            released.charged_to,
            job.records.form,
        )

    def _card(self, task: Task, released: Release, config: ReleaseConfig) -> PrivacyCard:
        job = self.job
        return card(
            job.mechanism,
            job.options,
            task,
            released,
            self.manifest,
            config,
            self._unit(released),
            job.records.form,
            self._notes_of_delta(),
            utility=self.utility,
            released=self._describe(released),
            reading=job.records.reading_notes,
            contact=job.contact,
            total_epsilon=job.payer.total_epsilon,
        )

    def _notes_of_delta(self) -> list[str]:
        """What `large_delta` says of a person's delta, where that of a record is smaller."""
        job = self.job
        declared = job.charge_to.declared
        if job.record_config.delta == job.config.delta or declared is None:
            return []
        warning = large_delta(job.config.delta, declared)
        return [warning] if warning else []

    def _unit(self, released: Release) -> PersonUnit | None:
        """Whom the card is about; None for a record."""
        rows = self.job.rows_per_person
        if rows is None:
            return None
        return PersonUnit(
            rows=rows,
            epsilon=rows * released.bounds.upper,
            delta=self.job.config.delta,
            field=self.job.records.person_field or "",
        )

    def _describe(self, released: Release) -> str:
        """What was released, in words for the card; all of it is public."""
        job = self.job
        if job.queries:
            return f"answers to {count(len(job.queries), 'question')}"
        if released.more is not None:
            return "a state from which any number of questions is answered"
        texts = count(len(job.planned), "text")
        return texts if released.prompt.instruction is None else f"an instruction and {texts}"


def _stand_in(number: int, label: str) -> Record:
    """A made-up record of `_WORDS` words, unlike the others of its label."""
    words = (f"word{number}" if place == 0 else "word" for place in range(_WORDS))
    return Record(" ".join(words), label)
