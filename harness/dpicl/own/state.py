"""Saves what a prepared mechanism released, so that any number of queries is answered later at no cost.

The file holds what was released and its privacy card, as JSON, so it may be published as the card may. Whoever reads it
says by themselves which options and model they mean, and they must be those of the file; the mechanism that it names is
one that is known already: nothing in a file decides what code or which model is loaded.
"""

from __future__ import annotations

import hashlib
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from dpicl.core import json_text
from dpicl.core.errors import DataError, DpiclError, PluginError, UsageError
from dpicl.core.field_types import Count, Finite
from dpicl.core.json_text import to_plain
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Query, Report, report_nothing
from dpicl.data.task import PublicTask, Task
from dpicl.mechanism.bases import Mechanism, PreparedContext, PreparedMechanism
from dpicl.mechanism.outputs import check_prepared, name_failure
from dpicl.models import incompatibility
from dpicl.models.base import LanguageModel
from dpicl.own.card import PrivacyCard
from dpicl.own.records import OwnRecords
from dpicl.own.released import PLACE
from dpicl.releasing.execution import ALL_RECORDS, answer_from
from dpicl.releasing.reader import SlotReader
from dpicl.releasing.release import Release
from dpicl.results.schema import NewerFile, Part, read_part, to_text
from dpicl.run.pipeline import embedding_of

SCHEMA_VERSION = 1
#: What is done with released demonstrations, which are no state.
OF_A_PROMPT = (
    f"A released prompt answers without this command, at no cost: put your query in the place of {PLACE} in it, and"
    " give it to a model (`dpicl release --format prompt` writes one)."
)


class Array(Part):
    """Numbers in the order of their last index."""

    shape: Annotated[list[Count], Field(max_length=8)]
    values: list[Finite]

    @model_validator(mode="after")
    def _require_fit(self) -> Array:
        if math.prod(self.shape) != len(self.values):
            raise ValueError("it holds more or fewer numbers than its shape says")
        return self

    @classmethod
    def of(cls, array: np.ndarray) -> Array:
        return cls(shape=list(array.shape), values=array.ravel().tolist())

    def array(self) -> np.ndarray:
        """float64 of that shape."""
        return np.array(self.values, dtype=np.float64).reshape(self.shape)


class StateFile(Part):
    """task: a known task's name; None for one of --labels, whose texts are called text_is. seed: of the public
    streams."""

    schema_version: Literal[1] = 1
    task: str | None
    text_is: str
    seed: Count
    card: PrivacyCard
    state: dict[str, Array]


@dataclass(frozen=True)
class SavedState:
    """A state that was read. sha256: of its file."""

    file: StateFile
    path: Path
    sha256: str

    @property
    def own(self) -> OwnRecords:
        """The public side of the records that it came from."""
        labels = {} if self.file.task else {word: word for word in self.file.card.task.labels}
        return OwnRecords(labels, self.file.task, text_is=self.file.text_is)

    @property
    def card(self) -> dict[str, Any]:
        """Of answers that follow from the state."""
        card = self.file.card.say_unchecked()
        return card.model_copy(update={"state_sha256": self.sha256}).model_dump(mode="json")


def state_text(
    mechanism: Mechanism, released: Release, card: PrivacyCard, records: OwnRecords, seed: int
) -> str:
    """The content of a state's file. Raises PluginError where a mechanism's state cannot be saved."""
    if released.state is None:
        raise PluginError(
            f"What {mechanism.name} prepares cannot be saved, since it has no `state` (docs/add-a-mechanism.md); answer"
            " your queries at once: dpicl answer."
        )
    state = {name: Array.of(array) for name, array in released.state.items()}
    file = StateFile(
        task=records.task,
        text_is=records.text_is,
        seed=seed,
        card=card,
        state=state,
    )
    return to_text(file)


def require_readable(mechanism: Mechanism, text: str) -> None:
    """Raises PluginError for the content of a state's file that `read_state` would refuse."""
    try:
        read_part(StateFile, text, SCHEMA_VERSION, "state")
    except ValueError as error:
        raise PluginError(
            f"What {mechanism.name} prepares cannot be saved: its file would be {error}."
        ) from None


def read_state(path: Path) -> SavedState:
    """Raises DataError for what is no state of this version."""
    try:
        text = json_text.text_of(path)
        file = read_part(StateFile, text, SCHEMA_VERSION, "state that `dpicl release` wrote")
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); --state names a file of `dpicl release`."
        ) from None
    except NewerFile as error:
        raise DataError(f"{path} was {error}.") from None
    except ValueError as error:
        raise DataError(f"{path} cannot be used as --state: {error}. {OF_A_PROMPT}") from None
    return SavedState(file, path, hashlib.sha256(text.encode()).hexdigest())


def public_task(saved: SavedState) -> PublicTask:
    """The task of a state. Raises UsageError where it is none, or not the one that the state was made for."""
    try:
        task = Task.from_records(saved.own.config(), (), {}).public_view()
    except UsageError as error:
        # an unknown task may be one of a plug-in that was not named
        if saved.file.task is not None:
            raise
        raise DataError(
            f"{saved.path} cannot be used as --state: its labels are none, or its `text_is`."
        ) from error
    if list(task.labels) != saved.file.card.task.labels:
        raise UsageError(
            f"{saved.path} was made for other labels than {task.name} has; make the release again."
        )
    return task


def require_same(saved: SavedState, mechanism: Mechanism, options: Mapping[str, Any]) -> None:
    """Raises UsageError for another mechanism, other options or another embedding model than those of the state."""
    card = saved.file.card
    if card.mechanism != mechanism.name:
        raise UsageError(
            f"{saved.path} was made by '{card.mechanism[:80]}', not by {mechanism.name}."
        )
    now = to_plain(options)
    names = sorted({*now, *card.options})
    differ = [name for name in names if now.get(name) != card.options.get(name)]
    if differ:
        if other := sorted(now.keys() ^ card.options.keys()):
            raise UsageError(
                f"{saved.path} was made by a {mechanism.name} of other options ('{other[0][:80]}')."
            )
        settings = [shlex.quote(f"{name}={card.options[name]!s:.200}") for name in differ]
        flags = " ".join(f"--option {setting}" for setting in settings)
        raise UsageError(
            f"{saved.path} was made with other options; if you trust it, say so: {flags}"
        )
    here, then = embedding_of(mechanism, None), card.manifest.embedding
    if here != then:
        model = (
            "another"
            if then is None
            else f"'{then.name[:80]}', in another version or under another name"
        )
        raise UsageError(
            f"The embedding model of {saved.path} is {model}; its answers need the same one."
        )


def answers_from(
    saved: SavedState,
    mechanism: PreparedMechanism,
    model: LanguageModel,
    queries: Sequence[Query],
    report: Report = report_nothing,
) -> dict[str, str]:
    """Query id -> answer, from what was released alone. Raises UsageError for what does not fit."""
    task, card = public_task(saved), saved.file.card
    reason = incompatibility(model.identity.name, task.name) or mechanism.unmet_needs(task, model)
    if reason:
        raise UsageError(reason)
    if mechanism.needs != "nothing" and model.identity.sha256 != card.manifest.model.sha256:
        raise UsageError(
            f"{saved.path} was made with the model '{card.manifest.model.name[:80]}'; name the same with --model."
        )
    reader = SlotReader(task, model, OutputCache(None), ALL_RECORDS, queries)
    knob = 0.0 if card.privacy.knob is None else card.privacy.knob.value
    context = PreparedContext(task, reader, knob, streams(saved.file.seed).public)
    try:
        state = {name: array.array() for name, array in saved.file.state.items()}
        prepared = check_prepared(mechanism, mechanism.restore(state, context))
    except DpiclError:
        raise
    except Exception as error:
        raise DataError(
            f"{saved.path} holds no state of {mechanism.name} on {task.name}: {type(error).__name__}: {error!s:.200}."
        ) from error
    with name_failure(mechanism):
        return answer_from(mechanism, prepared, reader, queries, report)
