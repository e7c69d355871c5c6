"""One release as it was asked for from Python or the command line: checked, tried without a record, charged, made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import Concealed, ModelError, UsageError
from dpicl.core.messages import rounded_up
from dpicl.core.vocabulary import Query
from dpicl.data.config import classes
from dpicl.data.in_memory import Table
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.given import Given
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.own.budget import ChargeTo, charge, warn_of_uncounted
from dpicl.own.card import PrivacyCard, card, card_json, card_markdown
from dpicl.own.records import OwnRecords, load_own, read_public
from dpicl.own.released import PrivateRelease, try_places
from dpicl.own.state import require_readable, state_text
from dpicl.own.utility import Utility, measure
from dpicl.plan.expand import sizes_of
from dpicl.releasing.release import Charger, NewRelease, release
from dpicl.results.schema import Manifest
from dpicl.run.pipeline import manifest_of


@dataclass(frozen=True)
class ReleaseJob:
    """What was asked for, checked as far as it can be without a private record. asked: the task without records."""

    given: Given
    mechanism: Mechanism
    options: Mapping[str, Any]
    own: OwnRecords
    model: str
    config: ReleaseConfig
    sizes: dict[str, int] | None
    asked: PublicTask

    @classmethod
    def checked(
        cls,
        given: Given,
        own: OwnRecords,
        model: str,
        config: ReleaseConfig,
        size: int | Mapping[str, int] | None,
        options: Mapping[str, Any] | None,
    ) -> ReleaseJob:
        """Raises UsageError for what does not fit."""
        task = own.config()
        try:
            sizes = sizes_of(size, classes(task))
        except ValueError as error:
            raise UsageError(
                f"The declared sizes do not fit the labels: {error} (--size N or --size LABEL=N)."
            ) from None
        if config.secure and sizes is None:
            raise UsageError(
                "Say how many private records a class has, by a number that everybody may know (a round one; no count"
                " of this file, which would tell about it): --size 100, or --size LABEL=100 for each label."
            )
        if sizes is not None:
            config.require_small_delta(sum(sizes.values()))
        asked = Task.of_records(task, (), sizes or {}).public_view()
        resolved = resolve_options(given.cls, asked.name, {**given.options, **(options or {})})
        mechanism = build(given.cls, resolved)
        if reason := skip_reason(mechanism, asked):
            raise UsageError(f"{mechanism.name} cannot do this task: {reason}.")
        return cls(given, mechanism, resolved, own, model, config, sizes, asked)

    def run(
        self,
        data: Table,
        public: Table | None,
        payer: ChargeTo,
        queries: Sequence[Query] = (),
        *,
        tell: Callable[[str], None],
        out: Path | str | None,
        public_test: Table | None = None,
    ) -> PrivateRelease:
        """Loads records and model, and releases. The place of the output, and with secure noise the whole release but
        without a record, are tried before anything is charged: what fails then says why; later it costs its epsilon.

        queries: none for demonstrations and for the state of a prepared mechanism. tell: takes a line for each stage.
        public_test: public records on which the utility is measured before.
        """
        if out is not None:
            try_places(Path(out))
        tell(f"loading the records and the model {self.model}")
        task = load_own(self.own, data, self.sizes, self.config.secure, public)
        model = models.load(self.model, dtype="float32" if self.config.secure else None)
        manifest = manifest_of(task, model, self.config.secure, self.given.registered.plugin_hash)
        utility = None
        if public_test is not None:
            tell("measuring the utility on public records")
            utility = measure(self.mechanism, task, read_public(public_test, self.own), model, self.config, queries)
            tell(utility.sentence)
        if self.config.secure:
            tell("trying the release without a record")
            warn_of_uncounted()
            settings = {"noise": "seeded", "delta": self.config.accounted_delta}
            trial = self.config.model_copy(update=settings)
            rehearsal = self._released(replace(task, train=()), trial, model, manifest, None, queries, utility)
            for write in (rehearsal.text, lambda: card_markdown(rehearsal.card), lambda: card_json(rehearsal.card)):
                write()
            if rehearsal.state is not None:
                require_readable(self.mechanism, rehearsal.state)
            model.verify_unchanged()
        else:
            tell("releasing")

        def pay(new: NewRelease) -> tuple[str, ...]:
            tell(f"charging epsilon = {rounded_up(new.epsilon)} at delta = {new.delta:g}")
            names = charge(task.train, new, payer)
            tell(f"charged to {', '.join(map(repr, names)) or 'no private set'}; releasing")
            return names

        try:
            return self._released(task, self.config, model, manifest, pay, queries, utility)
        except Concealed as error:
            raise Concealed(f"{error} What it may have cost stays on the budget.") from None

    def _released(
        self,
        task: Task,
        config: ReleaseConfig,
        model: LanguageModel,
        manifest: Manifest,
        pay: Charger | None,
        queries: Sequence[Query],
        utility: Utility | None,
    ) -> PrivateRelease:
        made = release(self.mechanism, task, model, config, queries, charge=pay)
        own_card = _noting_a_change(card(self.mechanism, self.options, task, made, manifest, config, utility), model)
        state = None
        if made.more is not None and not queries:
            state = state_text(self.mechanism, made, own_card, self.own, config.seed)
        shown = own_card.model_dump(mode="json")
        return PrivateRelease(
            shown, task.public_view(), made.prompt, queries, made.answers or {}, state, made.charged_to
        )


def _noting_a_change(said: PrivacyCard, model: LanguageModel) -> PrivacyCard:
    """The card, with a note where the model is no longer the one that was loaded: what was paid for is not lost."""
    try:
        model.verify_unchanged()
    except ModelError as error:
        notes = [*said.privacy.notes, f"the model may be another one than is named here: {error}"]
        return said.model_copy(update={"privacy": said.privacy.model_copy(update={"notes": notes})})
    return said
