"""The parts of result files: scores, privacy, what was released, and what a cell was made with."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AliasChoices, BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from dpicl.accounting.events import check_json
from dpicl.core.errors import UnsupportedEvent
from dpicl.core.field_types import (
    Amount,
    Count,
    Delta,
    Epsilon,
    Finite,
    Share,
    written_if_set,
)
from dpicl.core.json_text import to_plain
from dpicl.core.vocabulary import NEIGHBOURS
from dpicl.models.server_settings import ServerRecord

#: Difference between a score and the mean of its outcomes that rounding explains.
ROUNDING = 1e-6
#: Rows of a ledger.
_MOST_ROWS = 5000
#: Stands for the fingerprint of private records on a privacy card.
WITHHELD = "withheld"


class Part(BaseModel):
    """A part of a result file. Infinity is written as the text "Infinity", since JSON has no number for it."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


#: Free-form numbers of accountants, with infinity as a text at once: what is read is what was written.
Free = Annotated[dict[str, Any], AfterValidator(to_plain)]


def _event(value: dict[str, Any]) -> dict[str, Any]:
    try:
        check_json(value)
    except UnsupportedEvent as error:
        raise ValueError(str(error).rstrip(".")) from None
    return value


#: The JSON of an event, which `dpicl.accounting.events.from_json` reads.
Event = Annotated[dict[str, Any], AfterValidator(_event)]


def _moment(value: str) -> str:
    if datetime.fromisoformat(value).tzinfo is None:
        raise ValueError("a time needs its zone, such as 2026-01-02T03:04:05+00:00")
    return value


Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


def _path_below(value: str) -> str:
    parts = value.split("/")
    if not value.isprintable() or len(value) > 1000 or {"", "..", "."} & {*parts}:
        raise ValueError("it is no path below a folder")
    return value


#: Of a file below a folder; it leads nowhere else.
PathBelow = Annotated[str, AfterValidator(_path_below)]


#: When a file was made: ISO 8601 with a time zone.
Moment = Annotated[str, AfterValidator(_moment)]


class SuiteReference(Part):
    """The suite that a cell came from. hash: sha256 over the settings that all its cells share."""

    name: str
    version: int | str
    hash: str


class Score(Part):
    """A metric in [0, 1] with its 95% interval (over the documents of this one cell)."""

    value: Share
    low: Share
    high: Share

    @model_validator(mode="after")
    def _require_order(self) -> Score:
        if not self.low - ROUNDING <= self.value <= self.high + ROUNDING:
            raise ValueError("the interval does not hold its score")
        return self


class Documents(Part):
    """One outcome in [0, 1] a test record: ids and outcomes in the same order; no text."""

    ids: Annotated[list[str], Field(min_length=1)]
    outcomes: list[Share]

    @model_validator(mode="after")
    def _require_one_each(self) -> Documents:
        if len(self.ids) != len(self.outcomes):
            raise ValueError(f"it has {len(self.ids)} documents and {len(self.outcomes)} outcomes")
        if len(set(self.ids)) < len(self.ids):
            raise ValueError("it has the same document twice")
        return self

    @property
    def by_id(self) -> dict[str, float]:
        """Id -> outcome."""
        return dict(zip(self.ids, self.outcomes, strict=True))


class KnobValue(Part):
    """The calibrated value of a mechanism's knob. by_label: of each label, where labels have values of their own; then
    ``value`` is the largest."""

    name: str
    value: Finite
    by_label: Annotated[dict[str, Finite], Field(max_length=_MOST_ROWS)] = written_if_set({})

    def __str__(self) -> str:
        if len(set(self.by_label.values())) < 2:
            return f"{self.name} = {self.value:g}"
        return f"{self.name} = {min(self.by_label.values()):g} to {self.value:g}, by label"

    @model_validator(mode="after")
    def _the_largest(self) -> KnobValue:
        if self.by_label and max(self.by_label.values()) != self.value:
            raise ValueError("its value is not the largest of those of its labels")
        return self


class LedgerRow(Part):
    """How often one kind of event was charged. partition: the group of records that paid; None: every record."""

    partition: str | None
    event: Event
    count: Count
    note: str


class Privacy(Part):
    """What the release cost.

    epsilon_target: of the calibration. epsilon_claimed: by the authors' own formula for this noise, None without one.
    epsilon_proved: the accountants' upper bound for what the ledger holds. queries: None means unlimited.
    epsilon_per_query: what one answer alone costs at this noise, as many papers report it; None for demonstrations.
    slack: epsilon_proved over the best lower bound that is known for the same event; None where there is none, and in
        files from before it.
    """

    epsilon_target: Epsilon
    epsilon_claimed: Epsilon | None
    epsilon_proved: Epsilon
    delta: Delta
    knob: KnobValue | None
    neighbours: Literal["add/remove one record"] = NEIGHBOURS
    queries: Count | None
    epsilon_per_query: Epsilon | None = None
    slack: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = written_if_set()
    mode: Literal["proved"] = "proved"
    ledger: Annotated[list[LedgerRow], Field(max_length=_MOST_ROWS)]
    event: Event
    accountants: Free
    notes: list[str] = []


class Released(Part):
    text: str
    label: str
    tokens: Count


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Answer:
    """One released answer. id: of the test record that was asked about. There are hundreds in a result, so it is no
    `Part`, which takes five times the memory."""

    id: str
    text: str


class Data(Part):
    """The records that were used. sizes: private records by label ('' where the set is not partitioned), as declared
    or else counted."""

    fingerprint: str
    source: str
    dropped: dict[str, Count]
    sizes: dict[str, Count]
    public_records: Count = 0
    test_records: Count


class Machine(Part):
    """The machine, without its name."""

    system: str
    cpu: str
    cores: Count
    memory_mb: Count
    gpu: str | None = None


class Model(Part):
    """What pins the model down, and how it read: see `ModelIdentity`; the last two are missing in old files, in which
    batch_invariant is stored as ``rows_alone``."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: str
    sha256: str | None
    revision: str | None
    parameters: Count
    batch_invariant: bool | None = Field(
        default=None,
        validation_alias=AliasChoices("rows_alone", "batch_invariant"),
        serialization_alias="rows_alone",
    )
    arithmetic: str | None = written_if_set()

    @property
    def pin(self) -> str:
        """See `ModelIdentity.pin`."""
        return self.sha256 or self.revision or ""


class Embedding(Part):
    """The public embedding model that a mechanism or a metric read besides the language model."""

    name: str
    sha256: str | None


class Manifest(Part):
    """What a reader needs to run the cell again. commit, dirty: None outside a git checkout.

    embedding: of the mechanism's option of that name, or of the metric acc_nearest; missing without one, and in files
    from before it.

    plugin_checked: whether the plug-in that the mechanism came from had passed `dpicl check`; missing without one.
    plugin_files: sha256 of a plug-in that took part -> path below its folder -> sha256 of what it read there.
    mechanism_version: of a mechanism of the package. mechanism_embedding: of its option, where a metric read another
    one. All three are missing where there is none, and in files from before them.
    server: what the model's server could do (docs/servers.md); missing for a model of the run's own process.
    """

    commit: str | None
    dirty: bool | None
    python: str
    packages: dict[str, str]
    model: Model
    data: Data
    prompts_hash: str
    dtype: str
    device: str
    machine: Machine
    plugin_checked: bool | None = written_if_set()
    plugin_files: dict[Sha256, dict[PathBelow, str]] | None = written_if_set()
    mechanism_version: Count | None = written_if_set()
    mechanism_embedding: Embedding | None = written_if_set()
    embedding: Embedding | None = written_if_set()
    server: ServerRecord | None = written_if_set()


class Cost(Part):
    """seconds: by phase, wall clock. peak_memory_mb: of the whole process so far."""

    seconds: dict[str, Amount]
    tokens_read: Count
    peak_memory_mb: Amount


class ReleaseReference(Part):
    """The result whose release is scored. cell_id: its file lies beside that of the scores. sha256: `hash_release` of
    it."""

    cell_id: Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
    sha256: Sha256
