"""What is written to disk: one JSON file a cell, versioned (docs/result-format.md).

A result holds numbers, settings and released text. It never holds private text: a demonstration's text is stored only
when its epsilon is finite, and test records appear by id.
"""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.cells import Cell

SCHEMA_VERSION: Final = 1
#: Stands for the fingerprint of records that are private in earnest.
WITHHELD: Final = "withheld"


class Part(BaseModel):
    """A part of a result file. Infinity is written as the text "Infinity", since JSON has no number for it."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


#: Free-form numbers of accountants and events, with infinity as a text at once: what is read is what was written.
Free = Annotated[dict[str, Any], AfterValidator(_finite)]


class SuiteReference(Part):
    """The suite that a cell came from. hash: sha256 over the settings that all its cells share."""

    name: str
    version: int | str
    hash: str


class Score(Part):
    """A metric in [0, 1] with its 95% interval (over the documents of this one cell)."""

    value: float
    low: float
    high: float


class Documents(Part):
    """One outcome a test record: ids and outcomes in the same order; no text."""

    ids: list[str]
    outcomes: list[float]


class KnobValue(Part):
    """The calibrated value of a mechanism's knob."""

    name: str
    value: float


class Privacy(Part):
    """What the release cost.

    epsilon_target: what was asked for. epsilon_claimed: by the authors' own formula for this noise, None without one.
    epsilon_proved: the accountants' upper bound for what the ledger holds. queries: None means unlimited.
    epsilon_per_query: what one answer alone costs at this noise, as many papers report it; None for demonstrations.
    """

    epsilon_target: float
    epsilon_claimed: float | None
    epsilon_proved: float
    delta: float
    knob: KnobValue | None
    neighbours: Literal["add/remove one record"] = "add/remove one record"
    queries: int | None
    epsilon_per_query: float | None = None
    mode: str
    ledger: list[Free]
    event: Free
    accountants: Free
    notes: list[str] = []


class Released(Part):
    """One released demonstration."""

    text: str
    label: str
    tokens: int


class Answer(Part):
    """One released answer. id: of the test record that was asked about."""

    id: str
    text: str


class Data(Part):
    """The records that were used. sizes: private records by label ('' where the set is not partitioned), as declared
    or else counted."""

    fingerprint: str
    source: str
    dropped: dict[str, int]
    sizes: dict[str, int]
    public_records: int = 0
    test_records: int


class Machine(Part):
    """The machine, without its name."""

    system: str
    cpu: str
    cores: int
    memory_mb: int
    gpu: str | None = None


class Model(Part):
    """What pins the model down."""

    name: str
    sha256: str | None
    revision: str | None
    parameters: int


class Manifest(Part):
    """What a reader needs to run the cell again. commit, dirty: None outside a git checkout."""

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


class Cost(Part):
    """seconds: by phase, wall clock. peak_memory_mb: of the whole process so far. Zero with secure noise (withheld)."""

    seconds: dict[str, float]
    tokens_read: int
    peak_memory_mb: float


class Result(Part):
    """One finished cell.

    aggregates: numbers in [0, 1] that are not means over documents. skipped_metrics: metric -> why it was not computed.
    released: demonstrations; answers: of an answer mechanism. Neither is stored when its epsilon is infinite.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    cell_id: str
    suite: SuiteReference
    cell: Cell
    scores: dict[str, Score] = Field(min_length=1)
    main_metric: str
    documents: dict[str, Documents]
    privacy: Privacy
    released: list[Released]
    released_count: int
    answers: list[Answer] = []
    aggregates: dict[str, float] = {}
    skipped_metrics: dict[str, str] = {}
    manifest: Manifest
    cost: Cost
    created: str

    @model_validator(mode="after")
    def _consistent(self) -> Result:
        if self.cell.id != self.cell_id:
            raise ValueError("cell_id does not fit the cell; the file was edited")
        if (self.suite.name, self.suite.version) != (self.cell.suite, self.cell.suite_version):
            raise ValueError("suite and cell name different suites")
        if self.main_metric not in self.scores:
            raise ValueError("main_metric has no score")
        if math.isinf(self.privacy.epsilon_proved) and (self.released or self.answers):
            raise ValueError("it holds texts that were released without privacy")
        return self


def to_text(result: Result) -> str:
    """The content of a result file: a line a field, and a line a list of numbers or ids."""
    return lines(json.loads(result.model_dump_json())) + "\n"


def lines(value: Any, margin: str = "") -> str:
    """JSON, indented, with lists of plain values on one line."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(key)}: {lines(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + lines(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object. Raises KeyError for a key that is given twice: readers differ in which one they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise KeyError
    return found


def from_text(text: str) -> Result:
    """Reads a result file's content. Raises ValueError, with the reason in a few words, for anything else."""
    try:
        data = json.loads(text, object_pairs_hook=_no_key_twice)
    except KeyError:
        raise ValueError("damaged: an object has one key twice") from None
    except (ValueError, RecursionError):
        raise ValueError("damaged: it is not complete JSON, or nested too deeply") from None
    if not isinstance(data, dict) or "schema_version" not in data:
        raise ValueError("foreign: it is not a result file")
    version = data["schema_version"]
    if version != SCHEMA_VERSION:
        age = "older" if isinstance(version, int) and version < SCHEMA_VERSION else "newer or unknown"
        raise ValueError(f"{age}: schema version {version}, this program writes {SCHEMA_VERSION}")
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        problem = error.errors()[0]
        place = ".".join(map(str, problem["loc"]))
        raise ValueError(f"damaged: {place + ': ' if place else ''}{problem['msg']}") from None
