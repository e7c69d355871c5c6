"""One release requested from Python or the command line: checked, tried without records, charged, executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.accounting.group_privacy import of_record
from dpicl.core.cell import Options, ReleaseConfig, large_delta
from dpicl.core.errors import Concealed, UsageError
from dpicl.core.messages import count, duration, show_rounded_up
from dpicl.core.vocabulary import Demonstration, Query, is_simulated
from dpicl.data.free_texts import describe_form
from dpicl.data.tables import Table
from dpicl.data.task import PublicTask, Task
from dpicl.engines.progress import Stages, repeat
from dpicl.mechanism import checked
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.given import Given
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.own.budget import ChargeTo, charge, warn_of_uncounted
from dpicl.own.card import NOT_COMPARED, SIMULATED, AboutRelease, PersonUnit, PrivacyCard, card
from dpicl.own.records import OwnRecords, load_own, read_public, require_different
from dpicl.own.released import PrivateRelease, try_places
from dpicl.own.state import require_readable, state_text
from dpicl.own.texts import labels_without_text
from dpicl.own.utility import Utility, measure
from dpicl.releasing.release import Charger, NewRelease, Release, expected_release, plan_labels, release
from dpicl.run.pipeline import manifest_of

#: What is said where a release is stopped that was charged.
STAYS = "what was charged stays on the budget (`dpicl budget` shows it)"


@dataclass(frozen=True, kw_only=True)
class ReleaseJob:
    """What was asked for.

    given: the mechanism; chosen: options over its published ones. size: declared private records of each class. data:
    the private records; public: some that a task needs; public_test: some on which the utility is measured before.
    tell: takes a line for each stage. allow_unchecked: whether a plug-in may release that has not passed the kit.
    measure_only: whether to stop before anything is charged. contact: who is to be asked, for the card. queries: none
    for demonstrations and for the state of a prepared mechanism.
    """

    given: Given
    chosen: Mapping[str, Any]
    own: OwnRecords
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
        classes = self.own.config().classes
        if self.size is None:
            return None
        if isinstance(self.size, int):
            return dict.fromkeys(classes or [""], self.size)
        if set(self.size) != set(classes):
            need = f"one number, or one for each of {', '.join(classes)}" if classes else "one number"
            raise UsageError(f"The declared sizes do not fit the labels: give {need} (--size N or --size LABEL=N).")
        return {label: self.size[label] for label in classes}

    @cached_property
    def payer_of_all(self) -> ChargeTo:
        """Who is charged, with the declared number of all records and whom the guarantee is for."""
        declared = sum(self.sizes.values()) if self.sizes else None
        return replace(
            self.payer,
            declared=declared or None,
            allow_large_delta=self.config.allow_large_delta,
            rows_per_person=self.rows_per_person,
            person_field=self.own.person_field,
        )

    @property
    def rows_per_person(self) -> int | None:
        """Of whom at most so many records are used; None where the guarantee is for a record."""
        return self.own.rows_per_person if self.own.person_field else None

    @cached_property
    def record_config(self) -> ReleaseConfig:
        """What a record is promised, so that a person has what `config` says: the same where one row of each is used.
        Raises UsageError for a delta of a person that is too small."""
        config, rows = self.config, self.rows_per_person or 1
        epsilon, delta = of_record(config.epsilon, config.delta, rows, config.secure)
        return config.model_copy(update={"epsilon": epsilon, "delta": delta})

    def price(self, release: NewRelease) -> NewRelease:
        """A release as it is charged: at the epsilon and delta of whom it protects."""
        what = {**release.what, "epsilon_target": self.config.epsilon}
        epsilon = release.epsilon * (self.rows_per_person or 1)
        return replace(release, epsilon=epsilon, delta=self.config.delta, what=what)

    @cached_property
    def task(self) -> PublicTask:
        """The task without records."""
        return Task.from_records(self.own.config(), (), self.sizes or {}).public_view()

    @cached_property
    def options(self) -> Options:
        return resolve_options(self.given.cls, self.task.name, {**self.given.options, **self.chosen})

    @cached_property
    def mechanism(self) -> Mechanism:
        return build(self.given.cls, self.options)

    @cached_property
    def planned(self) -> list[Demonstration]:
        """The demonstrations without their texts. Raises UsageError for numbers of labels that do not fit."""
        return [Demonstration("", label) for label in plan_labels(self.mechanism, self.task, self.config)]

    def check(self) -> None:
        """Raises UsageError for what does not fit, as far as it can be seen without a private record, and for inputs
        that are one."""
        self.own.require_one_unit()
        self.record_config  # noqa: B018  refuses a delta that is too small
        if self.config.secure and self.sizes is None:
            raise UsageError(
                "Say how many private records a class has, by a number that everybody may know (a round one; no count"
                " of this file, which would tell about it): --size 100, or --size LABEL=100 for each label."
            )
        digest = self.given.registered.plugin_hash
        releases = self.config.secure and not self.measure_only
        if digest and releases and not self.allow_unchecked and not checked.has_passed(digest):
            raise UsageError(
                f"{self.given.name} is a plug-in that has not passed `dpicl check` on this machine as it is now, so"
                " nothing shows that it adds the noise that it declares; run `dpicl check FILE` first, or give"
                " --allow-unchecked, and the card will say so in its first sentence."
            )
        if self.own.form != "labelled" and self.public_test is not None:
            raise UsageError("The utility of texts without labels is not measured; leave --public-test out.")
        if self.measure_only and self.public_test is None:
            raise UsageError("--measure-only measures utility on public records; give them with --public-test FILE.")
        if self.measure_only and not self.config.secure:
            raise UsageError("--measure-only goes with secure noise; --noise seeded charges nothing anyway.")
        if self.sizes is not None:
            self.config.require_small_delta(sum(self.sizes.values()))
        if reason := skip_reason(self.mechanism, self.task):
            raise UsageError(f"{self.mechanism.name} cannot do this task: {reason}.")
        self.planned  # noqa: B018  refuses numbers of labels that do not fit
        require_different({"--data": self.data, "--public": self.public, "--public-test": self.public_test})

    def run(self) -> PrivateRelease:
        """Loads records and model, and releases. Files and the budget are checked before the model is loaded. With
        secure noise the whole release is tried without a record before anything is charged: what fails then says why;
        later it costs its epsilon. With measure_only that trial is what is returned: on its card are the measured
        utility and what the release would cost."""
        paid: list[NewRelease] = []
        try:
            stages = Stages(self.tell)
            with repeat(stages.say_how_far):
                return self._make(paid, stages)
        except KeyboardInterrupt as stop:
            stop.add_note(STAYS if paid else "nothing was charged")
            raise

    def _warn_of_delta(self, written: PrivacyCard) -> PrivacyCard:
        """The card with what `large_delta` says of a person's delta, where that of a record is smaller."""
        declared = self.payer_of_all.declared
        if self.record_config.delta == self.config.delta or declared is None:
            return written
        warning = large_delta(self.config.delta, declared)
        notes = [*written.privacy.notes, warning] if warning else written.privacy.notes
        return written.model_copy(update={"privacy": written.privacy.model_copy(update={"notes": notes})})

    def _unit(self, made: Release) -> PersonUnit | None:
        """Whom the card is about; None for a record."""
        if self.rows_per_person is None:
            return None
        rows, delta = self.rows_per_person, self.config.delta
        return PersonUnit(rows=rows, epsilon=rows * made.bounds.upper, delta=delta, field=self.own.person_field or "")

    def _about(self, made: Release) -> AboutRelease:
        """What the card says besides settings and proofs; all of it is public."""
        if self.queries:
            released = f"answers to {count(len(self.queries), 'question')}"
        elif made.more is not None:
            released = "a state from which any number of questions is answered"
        else:
            texts = count(len(self.planned), "text")
            released = f"an instruction and {texts}" if made.prompt.instruction is not None else texts
        return AboutRelease(released, self.own.reading_notes, self.contact, self.payer.total_epsilon)

    def _make(self, paid: list[NewRelease], stages: Stages) -> PrivateRelease:
        """paid: gets what is charged, before it is."""
        secure = self.config.secure
        utility: Utility | None = None
        if self.out is not None:
            try_places(self.out)
        known = None if self.public_test is None else read_public(self.public_test, self.own, self.tell)
        loaded = load_own(self.own, self.data, self.sizes, secure, self.public, self.tell)
        task, config_of_record = loaded.task, self.record_config
        without = replace(task, train=())
        if secure and not self.measure_only:
            expected = expected_release(self.mechanism, without, self.model, config_of_record, self.queries)
            charge(loaded.read, self.price(expected), self.payer_of_all, persons=loaded.persons, trial=True)
        if missing := labels_without_text(self.planned, self.task.labels if self.task.partitioned else ()):
            self.tell(missing)
        for note in self.own.reading_notes:
            self.tell(note)
        if secure and known is None and self.own.form == "labelled":
            self.tell(NOT_COMPARED)
        if is_simulated(self.model) and secure and not self.measure_only:
            self.tell(f"{SIMULATED} What it releases is charged all the same.")
        loading = f"loading the model {self.model}"
        stages.begin(loading, f"{loading} (its first time on a machine takes a minute or more)")
        model = models.load(self.model, dtype="float32" if secure else None)
        manifest = manifest_of(task, model, secure, self.given.registered.plugin_hash)
        if known is not None:
            stages.begin("measuring the utility on public records")
            utility = measure(
                self.mechanism, task, known, model, config_of_record, self.queries, self.tell, stages.report
            )
            if not self.measure_only:  # which answers with it
                self.tell(utility.sentence)

        def release_once(own: Task, config: ReleaseConfig, pay: Charger | None) -> PrivateRelease:
            made = release(self.mechanism, own, model, config, self.queries, report=stages.report, charge=pay)
            unit, about = self._unit(made), self._about(made)
            said = card(self.mechanism, self.options, own, made, manifest, config, utility, unit, about)
            said = self._warn_of_delta(said)
            state = None
            if made.more is not None and not self.queries:
                state = state_text(self.mechanism, made, said, self.own, config.seed)
            if wrong := describe_form([each.text for each in made.demonstrations], self.own.form):
                said = said.model_copy(update={"texts": [*said.texts, *wrong]})
            shown, view, answers = said.model_dump(mode="json"), own.public_view(), made.answers or {}
            return PrivateRelease(
                shown, view, made.prompt, self.queries, answers, state, made.charged_to, self.own.form
            )

        rehearsed = ""

        def pay(new: NewRelease) -> tuple[str, ...]:
            price = self.price(new)
            stages.begin(f"charging epsilon = {show_rounded_up(price.epsilon)} at delta = {price.delta:g}")
            paid.append(price)
            names = charge(loaded.read, price, self.payer_of_all, persons=loaded.persons)
            sets = ", ".join(map(repr, names)) or "no private set"
            stages.begin(f"releasing ({rehearsed} without a record)", f"charged to {sets}; releasing")
            return names

        if secure:
            stages.begin("trying the release without a record")
            warn_of_uncounted()
            settings = {"noise": "seeded", "delta": config_of_record.accounted_delta}
            rehearsal = release_once(without, config_of_record.model_copy(update=settings), None)
            for write in (rehearsal.text, *rehearsal.card_files):
                write()
            rehearsed = duration(stages.seconds)
            if rehearsal.state is not None:
                require_readable(self.mechanism, rehearsal.state)
            if self.measure_only:
                return rehearsal
        else:
            stages.begin("releasing")
        try:
            return release_once(task, config_of_record, pay)
        except Concealed as error:
            raise Concealed(f"{error} What it may have cost stays on the budget.") from None
