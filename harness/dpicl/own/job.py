"""One release as it was asked for from Python or the command line: checked, tried without a record, charged, made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import Concealed, ModelError, UsageError
from dpicl.core.vocabulary import Query
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.given import Given
from dpicl.mechanism.options import build, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel
from dpicl.own.budget import ChargeTo, charge, warn_of_uncounted
from dpicl.own.card import PrivacyCard, card, card_json, card_markdown
from dpicl.own.records import OwnRecords, declared_sizes, load_own
from dpicl.own.released import PrivateRelease, try_places
from dpicl.own.state import require_readable, state_text
from dpicl.releasing.release import release
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
        size: Any,
        options: Mapping[str, Any] | None,
    ) -> ReleaseJob:
        """Raises UsageError for what does not fit."""
        task = own.config()
        sizes = declared_sizes(size, task)
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
        data: Path,
        public: Path | str | None,
        payer: ChargeTo,
        queries: Sequence[Query] = (),
        *,
        out: Path | str | None,
    ) -> PrivateRelease:
        """Loads records and model, and releases. The place of the output, and with secure noise the whole release but
        without a record, are tried before anything is charged: what fails then says why; later it costs its epsilon.

        queries: none for demonstrations and for the state of a prepared mechanism.
        """
        if out is not None:
            try_places(Path(out))
        task = load_own(self.own, data, self.sizes, self.config.secure, None if public is None else Path(public))
        model = models.load(self.model, dtype="float32" if self.config.secure else None)
        manifest = manifest_of(task, model, self.config.secure, self.given.registered.plugin_hash)

        def released(task: Task, config: ReleaseConfig) -> PrivateRelease:
            pay = partial(charge, task.train, to=payer)
            made = release(self.mechanism, task, model, config, queries, charge=pay)
            said = _noting_a_change(card(self.mechanism, self.options, task, made, manifest, config), model)
            state = None
            if made.more is not None and not queries:
                state = state_text(self.mechanism, made, said, self.own, config.seed)
            shown = said.model_dump(mode="json")
            return PrivateRelease(
                shown, task.public_view(), made.prompt, queries, made.answers or {}, state, made.charged_to
            )

        if self.config.secure:
            warn_of_uncounted()
            settings = {"noise": "seeded", "delta": self.config.accounted_delta}
            rehearsal = released(replace(task, train=()), self.config.model_copy(update=settings))
            for write in (rehearsal.text, lambda: card_markdown(rehearsal.card), lambda: card_json(rehearsal.card)):
                write()
            if rehearsal.state is not None:
                require_readable(self.mechanism, rehearsal.state)
            model.verify_unchanged()
        try:
            return released(task, self.config)
        except Concealed as error:
            raise Concealed(f"{error} What it may have cost stays on the budget.") from None


def _noting_a_change(said: PrivacyCard, model: LanguageModel) -> PrivacyCard:
    """The card, with a note where the model is no longer the one that was loaded: what was paid for is not lost."""
    try:
        model.verify_unchanged()
    except ModelError as error:
        notes = [*said.privacy.notes, f"the model may be another one than is named here: {error}"]
        return said.model_copy(update={"privacy": said.privacy.model_copy(update={"notes": notes})})
    return said
