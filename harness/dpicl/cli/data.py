"""`dpicl data`: what there is to say of records before anything runs. Exit code 1 when a run would not start."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.core.errors import DataError, UsageError
from dpicl.core.messages import message
from dpicl.data import sources as data_sources
from dpicl.data.config import add_task_folder, check_source, list_tasks, load_config, source_spec
from dpicl.data.counts import DataCounts, SplitCounts, count_records, file_reading, label_words
from dpicl.data.reading import FileRecords, ranges, read_records
from dpicl.data.tables import SUFFIXES, fields_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.scaffold.own_task import own_spec
from dpicl.tables.document import Block, text_table

_PRIVATE = "These are counts of private records: for you, and not for publication."
#: Labels of which a table has the numbers; JSON has all.
_SHOWN = 30
_SEED = 0


@p.verb("dpicl data train.csv --test test.csv --labels 0=billing,1=refund")
def data(
    what: Annotated[str | Path, p.Flag(metavar="TASK_OR_FILE")],
    *,
    source: p.SourceName = "auto",
    plugins: p.Plugins = (),
    text_field: p.TextField | None = None,
    label_field: p.LabelField | None = None,
    labels: p.Labels | None = None,
    test: p.OnePath | None = None,
) -> Answer:
    """Counts records, labels, lengths, repeats and errors. Raises DataError for what is no table of records.

    what: a task, or a file or folder with records.
    test: the test records that belong to a FILE.
    """
    load_mechanisms(p.as_list(plugins))  # which also makes the tasks of plugin folders known
    name = str(what)
    if (Path(name) / "task.yaml").is_file() and name not in list_tasks():
        add_task_folder(Path(name))
        name = Path(name).resolve().name
    if _is_file(name):
        path = Path(name)
        if source != "auto":
            raise UsageError(f"--source is for tasks, and {path} is a file; leave it out.")
        fields = fields_of(path, text_field, label_field)
        spec = own_spec(path.name, *fields, p.as_labels(labels or {}))
        train = read_records(path, spec)
        counted = None if test is None else read_records(Path(test), spec, "test")
        counts = count_records(train, counted, spec.labels or label_words(train, fields[1]))
        source = "local"
    else:
        given = {"--test": test, "--labels": labels, "--text-field": text_field, "--label-field": label_field}
        if wrong := [flag for flag, value in given.items() if value is not None]:
            raise UsageError(f"{wrong[0]} is for a file of records; a task's own file says it (metadata.data.local).")
        found, counts = task_counts(name, source)
        source = found  # type: ignore[assignment]
    document = {"what": name, "source": source, "ok": counts.good, **asdict(counts)}
    return Answer(document, _shown(name, source, counts), 0 if counts.good else 1)


def _is_file(name: str) -> bool:
    """Whether records are named and no task."""
    path = Path(name)
    return name not in list_tasks() and (path.exists() or path.is_symlink() or path.suffix.lower() in SUFFIXES)


def task_counts(name: str, wanted: str = "auto") -> tuple[str, DataCounts]:
    """(source, counts of its records). Raises DataError for a source that is not there, or is no table."""
    spec = source_spec(load_config(name))
    source = data_sources.resolve(wanted, spec)
    check_source(spec, source)
    readings: list[FileRecords | None]
    if source == "local":
        readings = [data_sources.reading_of(spec, "train"), _test_reading(spec)]
    else:
        place = f"{source} records of {name}"
        readings = [file_reading(place, each) for each in data_sources.read(spec, source, None, None, _SEED)]
    train, test = readings
    assert train is not None
    return source, count_records(train, test, spec.labels)


def _test_reading(spec: data_sources.SourceSpec) -> FileRecords | None:
    """None where the task names train records alone, as for a release."""
    if "train" in spec.local and "test" not in spec.local:
        return None
    return data_sources.reading_of(spec, "test")


def summary(name: str) -> str:
    """The local records of a task in a few words. Raises DataError as `task_counts`, and for what a run refuses."""
    _, counts = task_counts(name, "local")
    if not counts.good:
        raise DataError(f"{counts.problems[0]}; `dpicl data {name}` says more.")
    numbers = ", ".join(f"{each.records:,} {each.split}" for each in counts.splits)
    repeated = sum(len(each.repeated) for each in counts.splits)
    dropped = f", {repeated:,} repeated, {len(counts.leaks):,} in both" if repeated or counts.leaks else ""
    return f"local records: {numbers}{dropped}"


def _shown(name: str, source: str, counts: DataCounts) -> Iterator[Block | str]:
    columns = ["", "records", "labels", "words (5%, median, 95%, longest)", "repeated", "wrong"]
    yield text_table(columns, map(_row, counts.splits), f"{name}, {source} records")
    for each in counts.splits:
        if each.labels:
            yield f"{each.split}: {_labels(each)}"
        for what, lines in each.faults.items():
            yield f"{each.split}, {each.unit} {ranges(lines, None)}: {what}"
        if each.contradicting:
            yield f"{each.split}, {each.unit} {ranges(each.contradicting)}: repeated with another label"
    if counts.leaks:
        unit = counts.splits[0].unit
        yield f"train, {unit} {ranges(counts.leaks)}: in the test records too; these are dropped from train"
    if any(each.repeated for each in counts.splits):
        yield "Repeated records are dropped: the first of them stays."
    yield from (f"Problem: {problem}." for problem in counts.problems)
    message(_PRIVATE)


def _labels(each: SplitCounts) -> str:
    shown = [f"{label} {number:,}" for label, number in each.labels.items()]
    return ", ".join(shown[:_SHOWN]) + (f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else "")


def _row(each: SplitCounts) -> list[str]:
    words = ", ".join(f"{number:,}" for number in each.words.values())
    wrong = sum(map(len, each.faults.values()))
    held = sum(1 for number in each.labels.values() if number)
    return [each.split, f"{each.records:,}", str(held or "-"), words, f"{len(each.repeated):,}", f"{wrong:,}"]
