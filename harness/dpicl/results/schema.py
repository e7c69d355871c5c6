"""The schema of result files: one versioned JSON file a cell (docs/files.md).

A result holds numbers, settings and released text. It never holds private text: a demonstration's text is stored only
when its epsilon is finite, and test records appear by id.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError, model_validator

from dpicl.core import json_text
from dpicl.core.cell import Cell
from dpicl.core.errors import PluginError
from dpicl.core.field_types import Amount, Count, Positive, Share, written_if_set
from dpicl.core.printable import shorten
from dpicl.core.vocabulary import is_simulated
from dpicl.data.task_file import BY_EMBEDDING, READING_EMBEDDING, SIMILARITY, reader_of
from dpicl.results.parts import (
    ROUNDING,
    Answer,
    Cost,
    Documents,
    Manifest,
    Moment,
    Part,
    Privacy,
    Released,
    ReleaseReference,
    Score,
    SuiteReference,
)

SCHEMA_VERSION: Final = 1
#: How a file begins that `to_text` wrote.
_FIRST_VERSION = re.compile(r'\s*\{\s*"schema_version"\s*:\s*([0-9]{1,9})\b')
_WRITTEN_VERSION = re.compile(r"v?([0-9]{1,9})(?:\.[0-9.]*)?")
#: How ids of released texts begin that are scored themselves (`dpicl.data.task.sample_documents`).
_SAMPLE = "sample-"
#: What names of the shipped embedding model hold, wherever it is loaded from.
_SHIPPED_EMBEDDING = "all-minilm-l6-v2"
#: Metrics of which lower is better in files from before `Result.higher_is_better`.
_LOWER_UNSAID = frozenset({"genre_distance", "year_distance", "word_distance", "repeats"})

P = TypeVar("P", bound=BaseModel)


class Scores(Part):
    """New scores of what an earlier run released: a file of its own, that refers to the result of that run. The fields
    are those of `Result` that scoring decides; manifest and cost.seconds are of the scoring.
    """

    schema_version: Literal[1] = SCHEMA_VERSION
    scored_release: ReleaseReference
    cell_id: str
    suite: SuiteReference
    cell: Cell
    scores: dict[str, Score] = Field(min_length=1)
    main_metric: str
    documents: dict[str, Documents]
    aggregates: dict[str, Share] = {}
    skipped_metrics: dict[str, str] = {}
    higher_is_better: dict[str, bool] | None = None
    manifest: Manifest
    seconds: dict[str, Amount]
    created: Moment


class Result(Part):
    """One finished cell.

    aggregates: numbers in [0, 1] that are not means over documents. skipped_metrics: metric -> why it was not computed.
    failures: why the model gave no answer to prompts of slots -> how often; {} where it always did, missing in files
    from before it.
    higher_is_better: for every score and aggregate, as the task's file says; None in files from before it.
    released: demonstrations; instruction: one that was released, in the place of the task's own (missing without one);
    answers: of an answer mechanism or a prepared one. None of them is stored when its epsilon is infinite.
    prepared: whether the answers come from something that was released once, for any number of queries (missing: no).
    released_count: how many texts were released, the instruction among them.
    scored_release: of scores that were made anew from an earlier result's release, which is it (see `Scores`); no file
        of a result has it.
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
    instruction: str | None = written_if_set()
    released_count: Count
    answers: list[Answer] = []
    prepared: bool = written_if_set(False)
    aggregates: dict[str, Share] = {}
    skipped_metrics: dict[str, str] = {}
    failures: dict[str, Positive] | None = written_if_set()
    higher_is_better: dict[str, bool] | None = written_if_set()
    manifest: Manifest
    cost: Cost
    created: Moment
    scored_release: ReleaseReference | None = written_if_set()

    @model_validator(mode="after")
    def _require_consistent(self) -> Result:
        if self.cell.id != self.cell_id:
            raise ValueError("cell_id does not fit the cell; the file was edited")
        if (self.suite.name, self.suite.version) != (self.cell.suite, self.cell.suite_version):
            raise ValueError("suite and cell name different suites")
        if self.main_metric not in self.scores:
            raise ValueError("main_metric has no score")
        if self.higher_is_better is not None and self.higher_is_better.keys() != {
            *self.scores,
            *self.aggregates,
        }:
            raise ValueError("higher_is_better is not about its scores and aggregates")
        self._check_scores()
        self._check_privacy()
        self._check_texts()
        return self

    @property
    def kind(self) -> Literal["demonstrations", "answers", "prepared"]:
        """Of the mechanism, see `dpicl.mechanism.bases.Kind`."""
        if self.prepared:
            return "prepared"
        return "demonstrations" if self.privacy.queries is None else "answers"

    @property
    def main_score(self) -> Score:
        """That of the main metric."""
        return self.scores[self.main_metric]

    @property
    def score(self) -> float:
        """The mean of the main metric over test records, in [0, 1]."""
        return self.main_score.value

    @property
    def worth(self) -> float:
        """The score, with a minus where less is better."""
        return -self.score if self.lower_is_better(self.main_metric) else self.score

    @property
    def has_unread_instruction(self) -> bool:
        """Whether it is an instruction alone, which its main metric, a classifier on demonstrations, does not read."""
        return (
            self.instruction is not None and not self.released and self.main_metric in BY_EMBEDDING
        )

    @property
    def reading_embedding(self) -> str:
        """The embedding model of the metrics that read by embedding."""
        read = self.manifest.embedding
        classified = self.kind == "demonstrations" and not self.scores.keys().isdisjoint(
            BY_EMBEDDING
        )
        if classified and read is not None:
            return read.name
        return self._usual_embedding

    @property
    def _usual_embedding(self) -> str:
        return "sim" if is_simulated(self.manifest.model.name) else READING_EMBEDDING

    @property
    def uses_its_reader(self) -> bool:
        """Whether an option of its mechanism, whatever it is called, names the embedding model by which its main
        metric reads: the score favours it. A model that a plug-in's code names itself is in no result file."""
        if self.main_metric not in (*BY_EMBEDDING, SIMILARITY):
            return False
        names = {value for value in self.cell.options.values() if isinstance(value, str)}
        if any(_SHIPPED_EMBEDDING in name.lower() for name in names):
            names.add(READING_EMBEDDING)
        return not names.isdisjoint((self.reading_embedding, self._usual_embedding))

    @property
    def reader(self) -> str:
        """Who reads what was released, for the main metric, in words."""
        return self.reader_of(self.main_metric)

    def reader_of(self, metric: str) -> str:
        """Who reads what was released, for a metric, in words."""
        texts = all(name.startswith(_SAMPLE) for name in self.documents[self.main_metric].ids)
        return reader_of(metric, texts, self.reading_embedding)

    @property
    def texts(self) -> list[str]:
        instructions = [] if self.instruction is None else [self.instruction]
        return [
            *instructions,
            *(each.text for each in self.released),
            *(each.text for each in self.answers),
        ]

    @property
    def can_score_again(self) -> bool:
        """Whether other scores can be made of it: it holds demonstrations, or an instruction, and is no score of
        another result's release."""
        return self.kind == "demonstrations" and bool(self.texts) and self.scored_release is None

    def lower_is_better(self, metric: str) -> bool:
        """Whether a lower value of a metric is the better one; a metric that it has not counts as higher is better."""
        if self.higher_is_better is None:
            return metric in _LOWER_UNSAID
        return not self.higher_is_better.get(metric, True)

    def _check_scores(self) -> None:
        if self.documents.keys() != self.scores.keys():
            raise ValueError("scores and documents are of different metrics")
        for metric, score in self.scores.items():
            outcomes = self.documents[metric].outcomes
            if abs(score.value - math.fsum(outcomes) / len(outcomes)) > ROUNDING:
                raise ValueError(f"the score of {metric} is not the mean of its outcomes")

    def _check_privacy(self) -> None:
        privacy, cell = self.privacy, self.cell
        if (privacy.epsilon_target, privacy.delta) != (cell.epsilon, cell.delta):
            raise ValueError("privacy and cell name another epsilon or delta")
        if self.prepared and privacy.queries is not None:
            raise ValueError("it says that any number of queries is covered, and how many")
        if math.isinf(privacy.epsilon_proved) and self.texts:
            raise ValueError("it holds texts that were released without privacy")

    def _check_texts(self) -> None:
        stored = len(self.texts)
        if stored and stored != self.released_count:
            raise ValueError(f"it holds {stored} released texts and counts {self.released_count}")
        if len({answer.id for answer in self.answers}) < len(self.answers):
            raise ValueError("it has two answers for one test record")


#: Fields that a run's release decides, and scoring does not.
_RELEASED = (
    "privacy",
    "released",
    "instruction",
    "released_count",
    "answers",
    "prepared",
    "failures",
)
#: Fields of a manifest that say how the release was made.
_MADE_WITH = (
    "plugin_checked",
    "plugin_files",
    "mechanism_version",
    "mechanism_embedding",
    "server",
)


def hash_release(result: Result) -> str:
    """sha256 over what a result says of its release: what decided it, what it cost, what came out, and what made it."""
    made_with = result.manifest.model_dump(
        mode="json", include={*_MADE_WITH, "commit", "dirty", "model"}
    )
    content = [
        result.cell.release_id,
        result.model_dump(mode="json", include=set(_RELEASED)),
        made_with,
    ]
    return json_text.sha256_of(content)


def split_scores(result: Result) -> Scores:
    """The file of a result whose release is another one's."""
    fields = Scores.model_fields.keys() - {"seconds", "schema_version"}
    values = {name: getattr(result, name) for name in fields}
    return Scores(**values, seconds=result.cost.seconds)


def join_scores(scores: Scores, release: Result) -> Result:
    """The scores as a result, with what was released. Raises ValueError where the release is not the one that they
    name, or another cell's."""
    named = scores.scored_release
    if (release.cell_id, hash_release(release)) != (
        named.cell_id,
        named.sha256,
    ) or not release.can_score_again:
        raise ValueError(
            "damaged: it scores a release that is not, or no longer, in the file that it names"
        )
    same_row = (
        scores.cell.label == release.cell.label
        and scores.manifest.model.pin == release.manifest.model.pin
    )
    if scores.cell.release_id != release.cell.release_id or not same_row:
        raise ValueError(
            "damaged: it scores the release of another row, model, or of other settings"
        )
    made_with = {name: getattr(release.manifest, name) for name in _MADE_WITH}
    dirty = {"dirty": True} if release.manifest.dirty else {}
    values = {
        name: getattr(scores, name)
        for name in Scores.model_fields
        if name not in ("seconds", "manifest")
    }
    try:
        return Result(
            **values,
            **{name: getattr(release, name) for name in _RELEASED},
            manifest=scores.manifest.model_copy(update=made_with | dirty),
            cost=release.cost.model_copy(update={"seconds": scores.seconds}),
        )
    except ValidationError as error:
        raise ValueError(f"damaged: {first_problem(error)}") from None


def to_text(content: Part) -> str:
    """The content of a file: a line a field, and a line a list of numbers or ids."""
    return lines(json.loads(content.model_dump_json())) + "\n"


def lines(value: Any, margin: str = "") -> str:
    """JSON, indented, with lists of plain values on one line."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = [f"{inner}{json.dumps(key)}: {lines(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(items) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + lines(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value)


def from_text(text: str) -> Result:
    """Reads a result file's content. Raises ValueError, with the reason in a few words, for anything else."""
    _require_version(text, SCHEMA_VERSION, "result file")
    return _result_of(text)


def either_from_text(text: str) -> Result | Scores:
    """Reads the content of a result file, or that of a file of scores. Raises ValueError as `from_text`."""
    content = _require_version(text, SCHEMA_VERSION, "result file")
    if "scored_release" in content and "privacy" not in content:
        return _validate(Scores, text)
    return _result_of(text)


def _result_of(text: str) -> Result:
    result = _validate(Result, text)
    if result.scored_release is not None:
        raise ValueError("damaged: it holds a release and names another one")
    return result


class NewerFile(ValueError):
    """The file of a newer version of this program: it is sound, and nothing may move it or take it for damaged."""


def require_not_newer(stated: object, version: int) -> None:
    """Raises NewerFile for a schema version that is above the one of this program, also where it is written as a
    text."""
    number: object = stated
    if isinstance(stated, str) and (parts := _WRITTEN_VERSION.fullmatch(stated)):
        number = int(parts[1])
    if isinstance(number, int | float) and number > version:
        raise NewerFile(
            f"written by a newer version of dpicl (schema version {stated!s:.40}, this one reads {version}); upgrade"
            " dpicl"
        )


def read_part(schema: type[P], text: str, version: int, what: str) -> P:
    """A file's content as its schema has it; what: the kind of file. Raises ValueError, with the reason: NewerFile for
    the file of a newer version."""
    _require_version(text, version, what)
    return _validate(schema, text)


def _require_version(text: str, version: int, what: str) -> dict[str, Any]:
    """The plain values of a file of this version. Raises ValueError as `read_part`."""
    try:
        data = json_text.loads(text)
    except ValueError as error:
        # a newer version may write what this one refuses to read
        stated_first = _FIRST_VERSION.match(text)
        require_not_newer(int(stated_first[1]) if stated_first else None, version)
        raise ValueError(f"damaged: {error}") from None
    if not isinstance(data, dict) or "schema_version" not in data:
        raise ValueError(f"foreign: it is not a {what}")
    stated = data["schema_version"]
    require_not_newer(stated, version)
    if type(stated) is not int or stated != version:
        age = "older" if type(stated) is int else "foreign"
        raise ValueError(f"{age}: schema version {stated!r:.40}, this program writes {version}")
    return data


def _validate(schema: type[P], text: str) -> P:
    try:
        return schema.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise ValueError(f"damaged: {first_problem(error)}") from None


def first_problem(error: ValidationError) -> str:
    """The first thing that a schema refused, in a few words: where, and what it should be."""
    problem = error.errors(include_input=False)[0]
    place = ".".join(map(str, problem["loc"]))[:100]
    message = problem["msg"].removeprefix("Value error, ")  # which may quote what the file holds
    return f"{place + ': ' if place else ''}{shorten(message)}"


@contextmanager
def wrap_validation_errors() -> Iterator[None]:
    """Raises PluginError for a result that fits no schema: every later run would set it aside and compute it again."""
    try:
        yield
    except ValidationError as error:
        raise not_storable_error(first_problem(error)) from error


def not_storable_error(why: str) -> PluginError:
    """The error of a result that nobody could read again."""
    return PluginError(
        f"The result cannot be stored: {why}; the mechanism, the task's metrics or the attack made what no result may"
        " hold."
    )
