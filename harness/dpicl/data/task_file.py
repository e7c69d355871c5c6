"""The schema of task.yaml: every key is validated, with lines, before anything runs.

Top-level keys are lm-evaluation-harness's (docs of 0.4), ours are under ``metadata``. The file is data: `!function` is
read as a name here, and lm-eval imports it when the task is evaluated. Templates hold placeholders and no code.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import jinja2
import jinja2.nodes
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from dpicl.core.decoding import FileFormat, delimiter_of, encoding_name
from dpicl.core.errors import DataError, PluginError, UsageError, unknown_name
from dpicl.core.plain_words import explanation
from dpicl.core.strict_yaml import Function, Place, parse
from dpicl.data.free_texts import Form

KINDS = ("classification", "continuation", "extraction", "generation", "json")
#: Kinds whose answers are among the words of `doc_to_choice`.
CHOOSING = ("classification", "continuation")
#: Metrics that an evaluation of the kind always computes; other kinds have those of their `metric_list`.
COMPUTED = {**dict.fromkeys(CHOOSING, ("acc", "acc_calibrated")), "extraction": ("exact_match",)}
#: Accuracy of the nearest demonstration (dpicl.evaluation.nearest), which every classification task has where
#: demonstrations are released. Where it is the main metric, zero-shot and answers have it too.
NEAREST = "acc_nearest"
#: Accuracy of a logistic classifier on the demonstrations' embeddings, wherever there is the other one.
LOGISTIC = "acc_logistic"
#: Metrics that read released texts by embedding.
BY_EMBEDDING = (NEAREST, LOGISTIC)
#: What released texts carry for classifiers that no mechanism uses, on all test records: by the worse of two, and by
#: each (dpicl.evaluation.carried). Aggregates of classification tasks whose seeds draw their own test records.
CARRIED = ("carried", "carried_wordllama", "carried_tfidf")
#: Cosine of the embeddings of an answer and its reference (dpicl.evaluation.text_metrics).
SIMILARITY = "similarity"
#: Who reads released texts that are scored themselves.
COUNTED = "counted in the texts"
#: The embedding model of these metrics, and its name for readers of boards.
READING_EMBEDDING = "embedded"
_EMBEDDING_NAMES = {READING_EMBEDDING: "MiniLM"}
#: Log-loss of the right label, where a language model reads the prompt and so has a distribution.
LOG_LOSS = "log_loss"
#: Metrics that results of answers and old results lack.
NOT_EVERYWHERE = (*BY_EMBEDDING, LOG_LOSS, *CARRIED)
#: lm-eval's keys that this project gives no meaning to; tests compare the list with lm-eval's own.
_LM_EVAL_KEYS = """
    task_alias tag dataset_path dataset_name dataset_kwargs training_split validation_split test_split fewshot_split
    process_docs doc_to_image doc_to_audio unsafe_code use_prompt fewshot_config num_fewshot repeats filter_list
    should_decontaminate doc_to_decontamination_query gen_prefix
"""
LM_EVAL_KEYS = frozenset(_LM_EVAL_KEYS.split())
#: Filters that `doc_to_text` may use: they make a text from a text and take nothing.
FILTERS = ("trim", "lower", "upper", "capitalize", "title")
_LONGEST = 20_000


def _one_line(value: str) -> str:
    if not value or value != " ".join(value.split()):
        raise ValueError("must be one line of words with single spaces")
    return value


def _dotted(value: str) -> str:
    if not all(part.isidentifier() for part in value.split(".")):
        raise ValueError("must be a dotted name that Python can import")
    return value


def _a_function(value: Any) -> Any:
    if not isinstance(value, Function):
        raise ValueError("must be `!function module.name`")
    return value


def _refuse_function(value: Any) -> Any:
    if isinstance(value, Function):
        raise ValueError("must be written out here; `!function` cannot be")
    return value


Text = Annotated[str, Field(max_length=_LONGEST), BeforeValidator(_refuse_function)]
Line = Annotated[
    str, Field(max_length=_LONGEST), BeforeValidator(_refuse_function), AfterValidator(_one_line)
]
Dotted = Annotated[str, BeforeValidator(_refuse_function), AfterValidator(_dotted)]
FunctionName = Annotated[str, BeforeValidator(_a_function)]
FilePath = Annotated[
    str,
    Field(min_length=1, max_length=4000, pattern=r"^[^\x00]*$"),
    BeforeValidator(_refuse_function),
]
Number = Annotated[int, Field(ge=1, le=10**9)]
Stops = list[Annotated[Text, Field(min_length=1)]]


def _placeholders(*allowed: str) -> AfterValidator:
    """A text in which Python's `format` fills these placeholders and nothing else."""

    def check(value: str) -> str:
        try:
            parts = list(string.Formatter().parse(value))
        except ValueError as error:
            raise ValueError(
                f"has a brace that is not a placeholder ({error}); write {{{{ and }}}} for braces"
            ) from None
        for _, name, form, conversion in parts:
            if name is not None and (name not in allowed or form or conversion):
                known = ", ".join(f"{{{one}}}" for one in allowed)
                raise ValueError(
                    f"has the placeholder {{{name[:40]}}}; here are {known}, and {{{{ }}}} for braces"
                )
        return value

    return AfterValidator(check)


def list_template_fields(value: str) -> list[str] | None:
    """The fields that a template of Jinja names, in their order; None where it holds more than fields and `FILTERS`.

    The template is not rendered: lm-eval does it, with everything that Jinja can call. Raises ValueError, the end of a
    sentence, for what is no template.
    """
    try:
        template = jinja2.Environment().parse(value)
    except (jinja2.TemplateError, RecursionError, ValueError) as error:
        raise ValueError(f"is not a valid template ({str(error)[:80]})") from None
    fields: dict[str, None] = {}
    for node in template.find_all(jinja2.nodes.Node):
        if isinstance(node, jinja2.nodes.Name):
            fields[node.name] = None
        elif isinstance(node, jinja2.nodes.Filter):
            if node.name not in FILTERS or node.args or node.kwargs:
                return None
        elif not isinstance(node, jinja2.nodes.Output | jinja2.nodes.TemplateData):
            return None
    return list(fields)


def _template_of_text(value: str) -> str:
    if list_template_fields(value) not in ([], ["text"]):
        raise ValueError(
            f"may hold {{{{text}}}} and the filters {', '.join(FILTERS)}, nothing else"
        )
    return value


class _Keys(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Completion(_Keys):
    instruction: Text
    example: Annotated[Text, _placeholders("label", "text")]
    separator: Text
    open: Annotated[Text, _placeholders("label")]


class Chat(_Keys):
    example: Annotated[Text, _placeholders("label", "text")]
    separator: Text
    public: Annotated[Text, _placeholders("label")]
    public_prefix: Annotated[Text, _placeholders("label")]
    private: Annotated[Text, _placeholders("label", "examples")]
    private_prefix: Annotated[Text, _placeholders("label")]


class Prompts(_Keys):
    stop: Annotated[Stops, Field(min_length=1)]
    completion: Completion | None = None
    chat: Chat | None = None


class LocalKeys(_Keys):
    """Local records, or why there are none.

    text, label: the fields of a record; labels: label as written there -> label word (label words themselves are always
    accepted). labelled: whether label is a field; else it is what all records are called, and a record is its text
    alone: with output, the field of what belongs to a text, or the messages of a dialogue (dialogues). Or reader: a
    function from a record to its text, with `label` the constant label. train, test: files or folders, from the task's
    folder; without them they are those under $DPICL_DATA. quoting, header, encoding, delimiter: see `FileFormat`.
    person: the field that names whose record it is. skip_invalid: whether rows that are wrong are left out, each for
    what stands in it alone; skip_other_labels: those whose label is none of the task's.
    """

    missing: Text = ""
    text: Text = ""
    label: Text = ""
    labels: dict[str, str] = {}
    labelled: bool = True
    output: Text = ""
    dialogues: bool = False
    reader: Dotted = ""
    train: FilePath = ""
    test: FilePath = ""
    quoting: bool = True
    header: bool = True
    encoding: Text = ""
    delimiter: Text = ""
    person: Text = ""
    skip_invalid: bool = False
    skip_other_labels: bool = False

    @field_validator("encoding")
    @classmethod
    def _require_encoding(cls, value: str) -> str:
        return encoding_name(value) if value else value

    @field_validator("delimiter")
    @classmethod
    def _require_delimiter(cls, value: str) -> str:
        return delimiter_of(value) if value else value

    @model_validator(mode="after")
    def _require_whole(self) -> LocalKeys:
        if not self.missing and (not self.label or bool(self.text) is bool(self.reader)):
            raise ValueError(
                "needs `text` and `label`, or `reader` and `label`, or `missing: REASON`"
            )
        if self.reader:
            _one_line(self.label)
        if self.test and not self.train:
            raise ValueError(
                "names `test` and no `train`; name both, or put both under $DPICL_DATA"
            )
        return self

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of text and label, or of what there is without labels; () where a reader makes the text of a
        record."""
        if self.reader:
            return ()
        if self.labelled:
            return (self.text, self.label)
        return (self.text, self.output) if self.output else (self.text,)

    @property
    def form(self) -> Form:
        if self.labelled:
            return "labelled"
        return "dialogues" if self.dialogues else "pairs" if self.output else "plain"

    @property
    def format(self) -> FileFormat:
        return FileFormat(self.quoting, self.header, self.encoding, self.delimiter)

    @property
    def columns(self) -> tuple[str, ...]:
        """The fields that are read, with that of the person; () for all, where a reader makes the text."""
        return (*self.fields, self.person) if self.fields and self.person else self.fields


class _Source(_Keys):
    """One source of records, or why there is none."""

    missing: Text = ""
    needed: ClassVar[tuple[str, ...]]

    @model_validator(mode="after")
    def _require_whole(self) -> Self:
        if not self.missing and not all(getattr(self, name) for name in self.needed):
            names = [f"`{name}`" for name in self.needed]
            raise ValueError(f"needs {', '.join(names[:-1])} and {names[-1]}, or `missing: REASON`")
        return self


class Hub(_Source):
    """A data set of the hub: its columns, and the label word of each class id where it has ids."""

    needed = ("path", "text", "label")
    path: Text = ""
    name: Text | None = None
    revision: Text = ""
    splits: Annotated[dict[Literal["train", "test"], Text], Field(min_length=2)] = {
        "train": "train",
        "test": "test",
    }
    text: Text = ""
    label: Text = ""
    labels: list[str] = []


class Synthetic(_Source):
    """The module of a corpus, and default numbers of records (a class; in all without classes)."""

    needed = ("module", "train", "test")
    module: Dotted = ""
    train: Number = 0
    test: Number = 0


class Other(_Keys):
    task: Line
    source: Literal["hub", "local", "synthetic"] | None = None


class DataKeys(_Keys):
    """public: source -> how many train records are public; empty where none is. max_words: how many words are kept; the
    cut looks at that record alone. line_separator: what takes the place of line breaks in a text."""

    local: LocalKeys
    hub: Hub
    synthetic: Synthetic
    public: dict[Literal["hub", "local", "synthetic"], Number] = {}
    max_words: dict[Literal["text", "label"], Number] = {}
    line_separator: Text = " "
    out_of_distribution: Other | None = None

    @model_validator(mode="after")
    def _require_public_everywhere(self) -> DataKeys:
        there = {name for name in ("local", "hub", "synthetic") if not getattr(self, name).missing}
        if self.public and there - set(self.public):
            raise ValueError(f"`public` lacks {', '.join(sorted(there - set(self.public)))}")
        return self


_OWN = "The records are a file of the user's own."


class SourceSpec(DataKeys):
    """What a task.yaml, or a user with records of their own, says of them. labels: label words in public order; empty
    for tasks without classes."""

    name: str
    labels: tuple[str, ...]
    hub: Hub = Hub(missing=_OWN)
    synthetic: Synthetic = Synthetic(missing=_OWN)


class Metadata(_Keys):
    version: int | str
    name: str
    kind: str
    main_metric: Text
    prompts: Prompts
    data: DataKeys | None = None
    codes: Line | None = None
    restricted: bool = False
    scores_private: bool = False
    content_free: Annotated[list[Text], Field(max_length=100)] = []
    aggregates: dict[str, Dotted] = {}
    lower_is_better: list[Text] = []


class _MoreKeys(BaseModel):
    """lm-eval takes further keys: for the metric's own function, for the model."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)


class Metric(_MoreKeys):
    metric: Text
    aggregation: str
    higher_is_better: bool


class Generation(_MoreKeys):
    until: Stops = []
    max_gen_toks: Annotated[int, Field(ge=1, le=100_000)] = 0


class TaskFile(_Keys):
    """task.yaml without lm-eval's further keys (`LM_EVAL_KEYS`). generation_kwargs: max_gen_toks is 0 where nothing is
    written."""

    task: str
    custom_dataset: FunctionName
    output_type: Literal["multiple_choice", "generate_until"]
    description: Text
    doc_to_text: Annotated[Text, AfterValidator(_template_of_text)]
    doc_to_target: Literal["gold", "label"]
    doc_to_choice: Annotated[list[Line], Field(min_length=2, max_length=1000)] = []
    target_delimiter: Text = " "
    fewshot_delimiter: Text = "\n\n"
    generation_kwargs: Generation = Generation()
    process_results: FunctionName
    metric_list: Annotated[list[Metric], Field(min_length=1, max_length=100)]
    metadata: Metadata
    _path: Path | None = None
    _keywords: tuple[str, ...] = ()
    _base: TaskFile | None = None

    def place(
        self,
        path: Path | None,
        keywords: tuple[str, ...] = (),
        base: TaskFile | None = None,
    ) -> TaskFile:
        """The file at its place. keywords: of keywords.txt there. base: the task whose records a task of codes has."""
        copy = self.model_copy()
        copy._path, copy._keywords, copy._base = path, keywords, base
        return copy

    def change(self, **metadata: Any) -> TaskFile:
        """The file with these keys of its metadata."""
        return self.model_copy(update={"metadata": self.metadata.model_copy(update=metadata)})

    @property
    def path(self) -> Path | None:
        """Where the file is; None for a task without one."""
        return self._path

    @property
    def data(self) -> DataKeys:
        """What it says of records; a task of codes has the records of another one."""
        data = (self._base or self).metadata.data
        if data is None:
            raise DataError(
                f"Task {self.metadata.name} has the records of another task; load it by its name."
            )
        return data

    @property
    def source(self) -> SourceSpec:
        """Where its records come from; of a task of codes by the name and with the label words that they are kept
        with."""
        config, local = self._base or self, self.data.local
        if local.train and config._path:
            files = {"train": local.train, "test": local.test}
            there = {
                split: str(config._path.parent / Path(file).expanduser())
                for split, file in files.items()
                if file
            }
            local = local.model_copy(update=there)
        return SourceSpec(
            name=config.metadata.name,
            labels=config.classes,
            **{**dict(self.data), "local": local},
        )

    @property
    def classes(self) -> tuple[str, ...]:
        """The public labels whose records are groups of their own; () where all records are one group."""
        return tuple(self.doc_to_choice) if self.metadata.kind == "classification" else ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The public words that go with records: label words, the symbols that may follow a text (continuation),
        keywords, or the one label of a JSON task; () where the output of a record is text of its own (generation)."""
        return (
            (self.data.local.label,)
            if self.metadata.kind == "json"
            else (*self.doc_to_choice, *self._keywords)
        )

    @property
    def main_metrics(self) -> tuple[str, ...]:
        """The metrics by which rows can be ranked."""
        kind = self.metadata.kind
        computed = COMPUTED.get(kind, tuple(metric.metric for metric in self.metric_list))
        return (*computed, *BY_EMBEDDING) if kind == "classification" else computed

    @property
    def higher_is_better(self) -> dict[str, bool]:
        """Metric or aggregate -> whether a higher value is the better one."""
        metrics = {metric.metric: metric.higher_is_better for metric in self.metric_list}
        metrics |= dict.fromkeys((*BY_EMBEDDING, *CARRIED), True) if self.classes else {}
        metrics |= {LOG_LOSS: False} if self.metadata.kind in CHOOSING else {}
        return metrics | {
            name: name not in self.metadata.lower_is_better for name in self.metadata.aggregates
        }


def reader_of(metric: str, texts: bool = False, embedding: str = READING_EMBEDDING) -> str:
    """Who reads what was released, for a metric; one that is not known here scores the model's answers.

    texts: whether released texts are scored themselves, as on JSON tasks. embedding: the model that embeds them.
    """
    model = _EMBEDDING_NAMES.get(embedding, embedding)
    if metric in BY_EMBEDDING:
        return f"read by a classifier on the texts ({model})"
    if metric == SIMILARITY:
        return f"answered by the model, compared by {model}"
    return COUNTED if texts else "answered by the model"


def read_task_file(text: str, place: str, name: str, built_in: bool) -> TaskFile:
    """The file; place: what messages call it. Raises DataError (built in) or PluginError, with a line."""
    refused = DataError if built_in else PluginError
    try:
        document = parse(text, Path(place), functions=True)
    except UsageError as error:
        raise refused(f"A task file cannot be read: {error}") from error
    if not isinstance(document.data, dict):
        raise refused(str(document.error((), "a task is a set of keys; see docs/add-a-task.md.")))
    try:
        keys = {key: value for key, value in document.data.items() if key not in LM_EVAL_KEYS}
        task_file = TaskFile.model_validate(keys)
    except ValidationError as error:
        where, message = explanation(error, TaskFile)
        raise refused(f"{document.error(where, message)} See docs/add-a-task.md.") from None
    for where, message in _contradictions(task_file, name):
        raise refused(str(document.error(where, message)))
    return task_file


def _contradictions(file: TaskFile, name: str) -> Iterator[tuple[Place, str]]:
    """Where keys do not fit each other, and how. Whoever goes on after the first may see what only follows from it."""
    if file.metadata.name != name or file.task != f"dpicl_{name}":
        message = f"the file in the folder {name} must say `task: dpicl_{name}` and, under `metadata`, `name: {name}`."
        yield ("task",), message
    if file.metadata.kind not in KINDS:
        yield ("metadata", "kind"), str(unknown_name("kind of task", file.metadata.kind, KINDS))
    yield from _contradictions_of_kind(file)
    yield from _contradictions_of_metrics(file)
    yield from _contradictions_of_data(file)


def _contradictions_of_kind(file: TaskFile) -> Iterator[tuple[Place, str]]:
    """What a kind of task needs and what it excludes: labels, prompts, how it is asked."""
    kind = file.metadata.kind
    chooses = kind in CHOOSING
    labels = file.doc_to_choice
    if chooses is not bool(labels):
        message = f"a task of the kind {' or '.join(CHOOSING)}, and no other, has doc_to_choice."
        yield ("doc_to_choice",), message
    if file.metadata.content_free and not chooses:
        message = f"answers of the kind {kind} are not calibrated; leave it out."
        yield ("metadata", "content_free"), message
    if len(set(labels)) < len(labels):
        yield ("doc_to_choice",), "a label word is given twice; keep one."
    expected = ("multiple_choice", "gold") if chooses else ("generate_until", "label")
    if (file.output_type, file.doc_to_target) != expected:
        message = f"the kind {kind} has output_type {expected[0]} and doc_to_target {expected[1]}."
        yield ("output_type",), message
    if not chooses and not file.generation_kwargs.max_gen_toks:
        yield (), "generation_kwargs with max_gen_toks is missing: how much may be written."
    prompts = file.metadata.prompts
    if kind != "generation" and None in (prompts.completion, prompts.chat):
        message = f"the kind {kind} needs prompts in both styles, completion and chat."
        yield ("metadata", "prompts"), message


def _contradictions_of_metrics(file: TaskFile) -> Iterator[tuple[Place, str]]:
    """Metrics that are missing, named twice, or computed elsewhere."""
    kind = file.metadata.kind
    aggregates = file.metadata.aggregates
    metrics = [metric.metric for metric in file.metric_list]
    computed = COMPUTED.get(kind, ())
    lacking = [metric for metric in computed if metric not in metrics]
    if lacking:
        yield ("metric_list",), f"the kind {kind} computes {', '.join(lacking)}; list it."
    main_metric = file.metadata.main_metric
    if main_metric not in file.main_metrics:
        message = str(unknown_name("metric of this task", main_metric, file.main_metrics))
        yield ("metadata", "main_metric"), message
    for number, metric in enumerate(file.metric_list):
        if metric.metric in metrics[:number] or metric.metric in aggregates:
            message = f"the metric '{metric.metric[:40]}' is named twice; keep one."
            yield ("metric_list", number, "metric"), message
        if metric.metric in computed and not metric.higher_is_better:
            message = f"the harness computes {metric.metric}, of which higher is better."
            yield ("metric_list", number, "higher_is_better"), message
    unsupported = [name for name in NOT_EVERYWHERE if name in (*metrics, *aggregates)]
    if kind in CHOOSING and unsupported:
        message = f"the harness computes {unsupported[0]} itself; leave it out of metric_list and aggregates."
        yield ("metadata",), message
    for stranger in sorted(set(file.metadata.lower_is_better) - set(aggregates)):
        message = (
            f"'{stranger[:40]}' is none of `aggregates`; metrics of metric_list say it there, by"
            " higher_is_better."
        )
        yield ("metadata", "lower_is_better"), message


def _contradictions_of_data(file: TaskFile) -> Iterator[tuple[Place, str]]:
    """Records that are named twice or nowhere, and labels that the task lacks."""
    kind = file.metadata.kind
    data = file.metadata.data
    codes = file.metadata.codes
    if (data is None) is (codes is None):
        message = "a task has `data`, or `codes` with the name of the task whose records it has."
        yield ("metadata",), message
    if codes is not None and kind != "classification":
        message = "codewords take the place of labels, so the kind is classification."
        yield ("metadata", "codes"), message
    if data is None:
        return
    for source, words in (("local", list(data.local.labels.values())), ("hub", data.hub.labels)):
        for stranger in sorted(set(words) - set(file.doc_to_choice)):
            message = f"'{stranger[:40]}' is none of doc_to_choice."
            yield ("metadata", "data", source, "labels"), message
    if kind == "json" and not data.local.label:
        message = "a json task says under `label` what its records are called."
        yield ("metadata", "data", "local"), message
