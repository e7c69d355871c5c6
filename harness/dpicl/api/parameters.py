"""Types of the parameters of verbs, shared by programs, flags and `--config` files.

A type is what a program may give; the flags of `dpicl` give texts, which are read as the same values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

from pydantic import Field

from dpicl.api.verbs import HIDDEN as HIDDEN
from dpicl.api.verbs import Flag, make_validator
from dpicl.api.verbs import check_arguments as check_arguments
from dpicl.api.verbs import verb as verb
from dpicl.core import strict_yaml
from dpicl.core.decoding import FileFormat, delimiter_of, encoding_name
from dpicl.core.errors import UsageError, require_known
from dpicl.core.field_types import Number, Quantity, TargetDelta, TargetEpsilon, Whole
from dpicl.core.field_types import Seed as AnySeed
from dpicl.core.field_types import Shots as AnyShots
from dpicl.core.paths import DEFAULT_RESULTS, shipped_suites

if TYPE_CHECKING:
    from dpicl.data.free_texts import Form
    from dpicl.plan.suite_files import OptionChange


def as_list(value: Any) -> list[Any]:
    """The value as a list: a text, a number, a class and a mechanism are one."""
    return (
        [value]
        if isinstance(value, str | bytes) or not isinstance(value, Iterable)
        else list(value)
    )


def _divide(value: Any) -> list[Any]:
    """The values of one or a list; a text may hold several, divided by commas."""
    parts = []
    for one in as_list(value):
        parts += (
            ([part.strip() for part in one.split(",") if part.strip()] or [one])
            if isinstance(one, str)
            else [one]
        )
    return parts


def each(check: Callable[[Any], Any], divided: bool = True, least: int = 0) -> Flag:
    """One value or several. divided: whether commas divide a text."""

    def check_all(value: Any) -> list[Any]:
        values = [check(one) for one in (_divide if divided else as_list)(value)]
        if len(values) < least:
            raise ValueError("must be one or more, not an empty list")
        return values

    return Flag(check=check_all, several=True)


def _path(value: Any) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"must be a path, not {value!r:.60}")
    if "\0" in str(value):
        raise ValueError(f"must be a path, which has no null character, not {value!r:.60}")
    return Path(value)


def queries_given(value: Any) -> Path | list[str]:
    """A file, or texts."""
    if isinstance(value, str | Path):
        return _path(value)
    texts = [] if isinstance(value, Mapping) or hasattr(value, "columns") else as_list(value)
    if not all(isinstance(text, str) for text in texts) or not any(text.strip() for text in texts):
        raise ValueError("must be a file, or a list of texts")
    return texts


def _seeds(value: Any) -> list[int]:
    """A number of seeds, or a list of them."""
    if isinstance(value, Iterable):
        return [*map(make_validator(AnySeed), value)]
    return list(range(make_validator(Annotated[Quantity, Field(le=1_000_000)])(value)))


def _options(value: Any) -> dict[str, Any]:
    """A dictionary, or texts 'slots=5' or 'tang.slots=5', each value read as in a suite."""
    if isinstance(value, Mapping):
        return make_validator(dict[str, Any])(value)
    options: dict[str, Any] = {}
    for text in as_list(value):
        name, equals, written = str(text).partition("=")
        if not equals or not name.rpartition(".")[2]:
            raise ValueError(
                f"must be NAME=VALUE or MECHANISM.NAME=VALUE (a dictionary of them), not {text!r:.60}"
            )
        try:
            options[name] = strict_yaml.parse(written, Path("--option")).data
        except UsageError:
            options[name] = written
    return options


def option_changes(options: Mapping[str, Any] | None) -> list[OptionChange]:
    """Of options by name or by MECHANISM.NAME."""
    from dpicl.plan.suite_files import OptionChange

    named = [(*name.rpartition(".")[::2], value) for name, value in (options or {}).items()]
    return [OptionChange(target or None, name, value) for target, name, value in named]


def options_of(
    owner: str, options: Mapping[str, Any] | None, kind: str = "mechanism"
) -> dict[str, Any]:
    """The options of one mechanism (or other kind). Raises UsageError for one that names another."""
    changes = option_changes(options)
    require_known(kind, [target for target, _, _ in changes if target is not None], [owner])
    return {name: value for _, name, value in changes}


#: LABEL=N, as often as it is there: a comma after a number divides, and another one is part of a label.
_LABEL_NUMBER = re.compile(r"(.+?)=\s*(\d+)\s*(?:,|$)")
_LABEL_NUMBERS = re.compile(rf"(?:{_LABEL_NUMBER.pattern})+")


def _numbers(flag: str, kind: Any) -> Callable[[Any], int | dict[str, int]]:
    """A check of a number, a number by label, or texts '100' and 'billing=100'. kind: of number."""

    def check(value: Any) -> int | dict[str, int]:
        if isinstance(value, Mapping):
            return make_validator(dict[str, kind])(value)
        parts = [part for one in as_list(value) for part in _number_parts(one)]
        numbers = {label: make_validator(kind)(number) for label, number in parts}
        if len(numbers) < len(parts) or (len(numbers) > 1 and "" in numbers):
            raise UsageError(
                f"Give {flag} N once, for all labels, or {flag} LABEL=N once for each label."
            )
        return numbers.get("", numbers)

    return check


def _number_parts(value: Any) -> list[tuple[str, Any]]:
    """(label, number) of '100', 'billing=3,other=1' and 'a, b=2', whose label has a comma; '' without a label."""
    if isinstance(value, str) and _LABEL_NUMBERS.fullmatch(value):
        return [(label.strip(), number) for label, number in _LABEL_NUMBER.findall(value)]
    parts = []
    for one in _divide(value):
        label, _, number = one.rpartition("=") if isinstance(one, str) else ("", "", one)
        parts.append((label, number))
    return parts


def as_labels(value: Any) -> dict[str, str]:
    """A list of words, a dictionary, or a text 'billing,refund' or '0=billing,1=refund' -> label as a file has it ->
    label word, with single spaces in a text."""
    if isinstance(value, Mapping):
        whole = [
            written
            for written in value
            if isinstance(written, Integral) and not isinstance(written, bool)
        ]
        words = {
            str(written) if written in whole else written: word for written, word in value.items()
        }
    elif not isinstance(value, str):
        words = {word: word for word in as_list(value)}
    else:
        words = {}
        for part in value.split(","):
            written, _, word = part.partition("=") if "=" in part else (part, "", part)
            written, word = written.strip(), " ".join(word.split())
            if not written or not word or written in words:
                problem = (
                    f"'{written}' is given twice"
                    if written in words
                    else f"'{part}' lacks a label or its name"
                )
                raise ValueError(
                    f"must be like billing,refund or 0=billing,1=refund: {problem} (labels with commas or equals signs:"
                    " --labels-file)"
                )
            words[written] = word
    return make_validator(dict[str, str])(words)


def _suites() -> Iterable[str]:
    return [*shipped_suites(), *map(str, Path().glob("*.yaml"))]


Names = Annotated[str | Sequence[str], each(make_validator(str))]
SomeNames = Annotated[str | Sequence[str], each(make_validator(str), least=1)]
Count = Annotated[Quantity, Flag(metavar="N")]
Natural = Annotated[Whole, Field(ge=0, le=10**9), Flag(metavar="N")]
Shots = Annotated[AnyShots, Flag("demonstrations (default: 4)", metavar="K")]
LabelShots = Annotated[
    int | Mapping[str, int],
    Flag(
        "demonstrations (default: 4), or LABEL=K for each label that is to have some; may be repeated (or A,B)",
        metavar="K",
        check=_numbers("--shots", AnyShots),
        several=True,
    ),
]
Seed = Annotated[AnySeed, Flag("root seed (default: 0)", metavar="S")]
Seeds = Annotated[int | Sequence[int], Flag(check=_seeds)]
Epsilon = Annotated[TargetEpsilon, Flag("target epsilon", metavar="E")]
_EPSILONS = Flag("target epsilon ('inf' too); may be repeated (or 1,8)", "--epsilon", "E")
Epsilons = Annotated[
    float | Sequence[float], _EPSILONS, each(make_validator(TargetEpsilon), least=1)
]
#: Some of a board's or suite's; none: all.
SomeEpsilons = Annotated[float | Sequence[float], _EPSILONS, each(make_validator(TargetEpsilon))]
#: Those of results, which may be 0.
EpsilonsOfResults = Annotated[
    float | Sequence[float],
    _EPSILONS,
    each(make_validator(Annotated[Number, Field(ge=0, allow_inf_nan=False)])),
]
Delta = Annotated[TargetDelta, Flag("delta (default: 1e-5)", metavar="D")]
Model = Annotated[
    str, Flag("model as in a suite (default: embedded)", metavar="X", complete="models")
]
Models = Annotated[
    Names, Flag("model; may be repeated (or A,B)", "--model", "X", complete="models")
]
Task = Annotated[str, Flag("see `dpicl list tasks`", metavar="T", complete="tasks")]
Tasks = Annotated[Names, Flag("task; may be repeated (or A,B)", "--task", "T", complete="tasks")]
Rows = Annotated[
    Names,
    Flag("row or mechanism; may be repeated (or A,B)", "--mechanism", "M", complete="mechanisms"),
]
#: `given_mechanism` says what is none.
OneMechanism = Flag(
    "see `dpicl list mechanisms`",
    metavar="MECHANISM",
    complete="mechanisms",
    check=lambda mechanism: mechanism,
)
SourceName = Annotated[
    Literal["auto", "hub", "local", "synthetic"], Flag("where records come from")
]
SuiteName = Annotated[
    str | Path,
    Flag("a suite file, or the name of a shipped suite", metavar="SUITE", complete=_suites),
]
Limit = Annotated[Quantity, Flag("test records of each task", "--limit", "N")]
Options = Annotated[
    Mapping[str, Any],
    Flag(
        "option of the mechanisms that have it (or MECHANISM.K=V); may be repeated",
        "--option",
        "K=V",
        _options,
        True,
    ),
]
Paths = Annotated[
    Path | str | Sequence[Path | str], Flag(metavar="PATH"), each(_path, divided=False)
]
Plugins = Annotated[
    Paths,
    Flag(
        "Python file with a mechanism, attack or model, or folder with a task.yaml; may be repeated",
        "--plugin",
    ),
]
OnePath = Annotated[Path | str, Flag(metavar="FILE", check=_path)]
Results = Annotated[OnePath, Flag("results folder (default: results)", metavar="DIR")]
Noise = Literal["seeded", "secure"]
Labels = Annotated[
    Sequence[str] | Mapping[str, str],
    Flag(
        "label words, as billing,refund or, where a file has other labels, 0=billing,1=refund",
        metavar="LIST",
        check=as_labels,
    ),
]
TextField = Annotated[
    str, Flag("field of a file's text (default: text, or another usual name)", metavar="NAME")
]
LabelField = Annotated[
    str, Flag("field of a file's label (default: label, or another usual name)", metavar="NAME")
]
LabelsFile = Annotated[
    Path | str,
    Flag(
        "the same as a file: one a line (a tab before the better word), or JSON",
        metavar="FILE",
        check=_path,
    ),
]
NoQuoting = Annotated[bool, Flag("take quotation marks in CSV and TSV as part of the texts")]
NoHeader = Annotated[bool, Flag("the first line is a record; columns are called 1, 2, …")]
Encoding = Annotated[
    str,
    Flag(
        "of the files (default: UTF-8), such as windows-1252 or utf-16",
        metavar="NAME",
        check=encoding_name,
    ),
]
Delimiter = Annotated[
    str,
    Flag(
        "between the columns of CSV, where it is not found out: ';' or tab",
        metavar="MARK",
        check=delimiter_of,
    ),
]
SkipInvalid = Annotated[
    bool,
    Flag(
        "leave out rows that are not sound or have other labels, each for what stands in it alone"
    ),
]
SkipOtherLabels = Annotated[bool, Flag("leave out rows with other labels than --labels")]
PersonField = Annotated[
    str, Flag("field that says whose a row is: the guarantee is then for a person", metavar="NAME")
]
RowsPerPerson = Annotated[
    Quantity,
    Field(le=1000),
    Flag("most rows of each person that are used (default: 1)", metavar="K"),
]
DeclaredSizes = Annotated[
    int | Mapping[str, int],
    Flag(
        "declared private records of each class, or LABEL=N for one class; a public number; may be repeated (or A,B)",
        metavar="N",
        check=_numbers("--size", Quantity),
        several=True,
    ),
]


class RecordFile(TypedDict, total=False):
    """How a file of records is read."""

    labels: Labels
    labels_file: LabelsFile
    text_field: TextField
    label_field: LabelField
    no_quoting: NoQuoting
    no_header: NoHeader
    encoding: Encoding
    delimiter: Delimiter


class OwnFile(RecordFile, total=False):
    """A file of which rows may be left out, and whose texts may have no labels."""

    no_labels: Annotated[bool, Flag("the texts have no labels: more texts like them are released")]
    output_field: Annotated[
        str,
        Flag(
            "no labels: field of what belongs to each text, as questions and answers",
            metavar="NAME",
        ),
    ]
    dialogues: Annotated[
        bool, Flag("no labels: the text's field is a list of messages, {role, content}")
    ]
    skip_invalid: SkipInvalid
    skip_other_labels: SkipOtherLabels


def format_of(file: RecordFile) -> FileFormat:
    is_quoted, has_header = not file.get("no_quoting"), not file.get("no_header")
    return FileFormat(
        is_quoted, has_header, file.get("encoding") or "", file.get("delimiter") or ""
    )


def form_of(file: OwnFile) -> Form:
    """Whether texts have labels, and what they are where they have none. Raises UsageError for two of these."""
    if file.get("output_field") and file.get("dialogues"):
        raise UsageError(
            "--output-field is for pairs and --dialogues for messages; give one of the two."
        )
    if file.get("dialogues"):
        return "dialogues"
    if file.get("output_field"):
        return "pairs"
    return "plain" if file.get("no_labels") else "labelled"


def labels_of(options: RecordFile) -> dict[str, str]:
    """Label as a file has it -> label word; {} where none are given. Raises UsageError, DataError."""
    labels, file = options.get("labels"), options.get("labels_file")
    if labels and file is not None:
        raise UsageError("Give --labels or --labels-file, one of the two.")
    if file is None:
        return as_labels(labels or {})
    from dpicl.data.labels import read_labels  # accounting needs no records

    return read_labels(Path(file))


class OfResults(TypedDict, total=False):
    """Where results are, and which of them."""

    results: Results
    plugins: Plugins
    source: SourceName
    test_records: Limit
    model: Models


class Cells(OfResults, total=False):
    """Which cells of a suite; each stands in for the suite's own list. options: by NAME, or MECHANISM.NAME."""

    task: Tasks
    mechanism: Annotated[Rows, Flag("row of the suite, or any mechanism; may be repeated (or A,B)")]
    epsilon: SomeEpsilons
    seed: Annotated[
        int | Sequence[int],
        Flag("seed; may be repeated (or A,B)", "--seed", "S"),
        each(make_validator(AnySeed)),
    ]
    options: Options


def folder_of(options: OfResults | Cells) -> Path:
    """The results folder."""
    return Path(options.get("results") or DEFAULT_RESULTS)
