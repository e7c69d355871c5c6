"""`dpicl data`: describes records before anything runs. Exit code 1 when a run would not start."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Unpack

from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, refuse
from dpicl.core.messages import count, message
from dpicl.data.config import add_task_folder, list_tasks, load_config
from dpicl.data.counts import (
    DataCounts,
    PersonCounts,
    SplitCounts,
    count_persons,
    count_records,
    label_words,
)
from dpicl.data.persons import personal_columns
from dpicl.data.reading import FileRecords, ranges, read_records
from dpicl.data.sources import read, reading_of, resolve
from dpicl.data.tables import NO_QUOTING, SUFFIXES, Table, as_table, fields_of
from dpicl.data.task_file import SourceSpec
from dpicl.engines.progress import Stages, repeat
from dpicl.mechanism.registry import load_mechanisms
from dpicl.own.records import OwnRecords
from dpicl.scaffold.own_task import own_spec
from dpicl.tables.document import Block, text_table

#: What the fields of a record are, by the form of texts.
_FIELDS = {
    "labelled": ("text", "label"),
    "plain": ("text",),
    "pairs": ("input", "output"),
    "dialogues": ("messages",),
}
#: Labels of which a table has the numbers; JSON has all.
_SHOWN = 30


@dataclass(frozen=True)
class _Described:
    """Records of a task or of a file. fields: what it is -> the column that holds it. names: split -> its file."""

    source: str
    counts: DataCounts
    fields: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    persons: Sequence[PersonCounts] = ()


@p.verb("dpicl data train.csv --test test.csv --labels 0=billing,1=refund")
def data(
    what: Annotated[Any, p.Flag(metavar="TASK_OR_FILE")],
    *,
    source: p.SourceName = "auto",
    plugins: p.Plugins = (),
    test: Annotated[Any, p.Flag(metavar="FILE")] = None,
    person_field: p.PersonField | None = None,
    rows_per_person: p.RowsPerPerson = 1,
    **file: Unpack[p.OwnFile],
) -> Answer:
    """Counts records, labels, lengths, repeats and errors. Raises DataError for what is no table of records.

    what: a task, or a file with records (a program: also a DataFrame, a dataset, a list of dictionaries or of (text,
        label)).
    test: the test records that belong to a FILE.
    person_field: the rows of each person are counted by it (default: by every column that looks like a person).
    """
    load_mechanisms(p.as_list(plugins))  # which also makes the tasks of plugin folders known
    table = as_table(what)
    name = str(table)
    is_path = isinstance(table, Path)
    if is_path and (Path(name) / "task.yaml").is_file() and name not in list_tasks():
        add_task_folder(Path(name))
        name = Path(name).resolve().name
    if is_path and not _is_file(name):
        of_file: dict[str, object] = {"test": test, "person_field": person_field, **file}
        refuse(
            of_file, "{} is for a file of records; a task's own file says it (metadata.data.local)."
        )
        described = _describe_task(name, source)
    elif source != "auto":
        raise UsageError(f"--source is for tasks, and {table} is a file; leave it out.")
    else:
        tested = None if test is None else as_table(test)
        described = _describe_file(table, tested, file, person_field, rows_per_person)
    counts, persons = described.counts, described.persons
    document = {
        "what": name,
        "source": described.source,
        "ok": not counts.problems,
        "fields": described.fields,
        **asdict(counts),
    }
    if persons:
        document["persons"] = [asdict(each) for each in persons]
    message("These are counts of private records: for you, and not for publication.")
    blocks = [
        *_show(name, described),
        *(f"Read as {what}: field '{column}'." for what, column in described.fields.items()),
        *map(_describe_persons, persons),
    ]
    return Answer(document, blocks, 1 if counts.problems else 0)


def _describe_task(name: str, source: str) -> _Described:
    spec = load_config(name).source
    resolved = resolve(source, spec)
    return _Described(resolved, count_records(*_readings(spec, resolved), spec.labels))


def _describe_file(
    path: Table,
    test: Table | None,
    file: p.OwnFile,
    person_field: str | None,
    rows_per_person: int,
) -> _Described:
    """Raises DataError, UsageError as its parts do."""
    spec = _spec_of(path, file)
    local = spec.local
    with repeat(Stages(message).say_how_far):
        train = read_records(path, spec)
        tested = None if test is None else read_records(test, spec)
    is_labelled = local.form == "labelled"
    labels = spec.labels or (label_words(train, local.label) if is_labelled else ())
    counts = count_records(train, tested, labels)
    persons = []
    for column in [person_field] if person_field else personal_columns(train.columns, local.fields):
        of_column = local.model_copy(update={"person": column})
        with repeat(Stages(message).say_how_far):
            by_person = read_records(path, spec.model_copy(update={"local": of_column}))
        persons.append(count_persons(by_person, column, rows_per_person))
        if person_field and by_person.nobody and not local.skip_invalid:
            nobody = (
                f"{path} has {count(len(by_person.nobody), by_person.unit)} that name nobody as their '{column}'; a"
                " release needs a person for each, or leaves these out with --skip-invalid"
            )
            counts = replace(counts, problems=[*counts.problems, nobody])
    fields = dict(zip(_FIELDS[local.form], local.fields, strict=True))
    names = {"train": path.name, "test": "" if test is None else test.name}
    return _Described("local", counts, fields, names, persons)


def _spec_of(path: Table, file: p.OwnFile) -> SourceSpec:
    """What to read from a file. Raises DataError, UsageError as its parts do."""
    format, form = p.format_of(file), p.form_of(file)
    labels = p.labels_of(file)
    if form == "labelled":
        fields = fields_of(path, file.get("text_field"), file.get("label_field"), format)
        spec = own_spec(path.name, *fields, labels, format)
    else:
        names = ("text_field", "label_field", "output_field")
        fields_given: dict[str, Any] = {name: file.get(name) for name in names}
        texts = OwnRecords(labels, format=format, form=form, **fields_given)
        spec = texts.spec(path).model_copy(update={"labels": ()})
    skip = {name: bool(file.get(name)) for name in ("skip_invalid", "skip_other_labels")}
    return spec.model_copy(update={"local": spec.local.model_copy(update=skip)})


def _describe_persons(each: PersonCounts) -> str:
    nobody = ""
    if each.nobody:
        nobody = f", and {count(len(each.nobody), 'row')} name nobody ({each.unit} {ranges(each.nobody)})"
    return (
        f"Column '{each.column}', taken as whose a row is: {each.persons:,} people with {each.rows:,} rows{nobody}; the"
        f" largest number of rows of one is {each.largest:,}, and {each.above:.0%} of the people have more than"
        f" {each.most}. A release with --person-field {shlex.quote(each.column)} --rows-per-person {each.most} protects"
        f" a person and uses {each.used:,} rows."
    )


def _is_file(name: str) -> bool:
    """Whether records are named and no task."""
    path = Path(name)
    return name not in list_tasks() and (
        path.exists() or path.is_symlink() or path.suffix.lower() in SUFFIXES
    )


def _readings(spec: SourceSpec, source: str) -> tuple[FileRecords, FileRecords | None]:
    """Train and test records of a task; no test records where it names train records alone, as for a release."""
    if source == "local":
        train_alone = bool(spec.local.train) and not spec.local.test
        return reading_of(spec, "train"), None if train_alone else reading_of(spec, "test")
    place = Path(f"{source} records of {spec.name}")
    both = read(spec, source, None, None, 0)
    train, test = (
        FileRecords(
            place,
            "record",
            records,
            [*range(1, len(records) + 1)],
            {},
        )
        for records in both
    )
    return train, test


def _show(name: str, described: _Described) -> Iterator[Block | str]:
    counts, names = described.counts, described.names
    splits = [replace(each, split=names.get(each.split, each.split)) for each in counts.splits]
    columns = ["", "records", "labels", "words (5%, median, 95%, longest)", "repeated", "wrong"]
    yield text_table(columns, map(_row, splits), f"{name}, {described.source} records")
    for each in splits:
        if each.labels:
            shown = [f"{label} {number:,}" for label, number in each.labels.items()]
            more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
            yield f"{each.split}: {', '.join(shown[:_SHOWN])}{more}"
        for what, lines in each.faults.items():
            yield f"{each.split}, {each.unit} {ranges(lines, None)}: {what}"
        for what, lines in each.skipped.items():
            yield f"{each.split}, {count(len(lines), each.unit)} left out ({ranges(lines)}): {what}"
        if each.joined:
            where = f"{each.split}, {each.unit} {ranges(each.joined)}"
            yield f"{where}: a text with line ends in quotation marks; {NO_QUOTING}"
    if counts.leaks:
        train = splits[0]
        where = f"{train.split}, {train.unit} {ranges(counts.leaks)}"
        yield f"{where}: in the test records too; these are dropped from {train.split}"
    if any(each.repeated for each in splits):
        yield "Repeated records are dropped: the first of them stays."
    yield from (f"Problem: {problem}." for problem in counts.problems)


def _row(each: SplitCounts) -> list[str]:
    words = ", ".join(f"{number:,}" for number in each.words.values())
    wrong = sum(map(len, each.faults.values()))
    held = sum(1 for number in each.labels.values() if number)
    return [
        each.split,
        f"{each.records:,}",
        str(held or "-"),
        words,
        f"{len(each.repeated):,}",
        f"{wrong:,}",
    ]
