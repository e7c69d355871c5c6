"""Describes records before anything runs: counts by label, lengths, duplicates, errors.

Numbers, lines and public label words; never a word of a record. The numbers are of private records all the same: they
are for whoever may see these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpicl.core.errors import DataError
from dpicl.core.messages import count
from dpicl.data.reading import FileRecords
from dpicl.data.splits import normalise

#: Distinct values, characters and words that no set of labels has.
_MOST_LABELS, _LONGEST_LABEL, _MOST_WORDS = 1000, 60, 8
_FEW = 20


@dataclass(frozen=True)
class SplitCounts:
    """One file, or one part of another source.

    labels: word -> records, where labels are public words. words: quantile -> words of a text. repeated: lines of
    records that an earlier one has already (letters and digits alone count). faults: what is wrong -> all lines of
    which it is. skipped: the same of lines that are left out. joined: lines of records with line ends in quotation
    marks.
    """

    split: str
    unit: str
    records: int
    labels: Mapping[str, int]
    words: Mapping[str, int]
    repeated: Sequence[int]
    faults: Mapping[str, Sequence[int]]
    skipped: Mapping[str, Sequence[int]]
    joined: Sequence[int]


@dataclass(frozen=True)
class DataCounts:
    """The files of a task. leaks: lines of train records that are test records too. problems: why a run would not
    start, in sentences."""

    splits: Sequence[SplitCounts]
    leaks: Sequence[int]
    problems: Sequence[str]


def count_records(
    train: FileRecords, test: FileRecords | None, labels: Sequence[str]
) -> DataCounts:
    """Counts of one file, or of two. labels: the public label words; () where labels are not public words."""
    readings = {"train": train} | ({"test": test} if test is not None else {})
    splits = [_counts(split, reading, labels) for split, reading in readings.items()]
    keys = {normalise(record.text) for record in test.records} if test is not None else set()
    leaks = [
        n
        for n, each in zip(train.numbers, train.records, strict=True)
        if normalise(each.text) in keys
    ]
    problems = []
    for reading in readings.values():
        if wrong := sum(map(len, reading.faults.values())):
            problems.append(
                f"{reading.path} has {count(wrong, reading.unit)} without a sound record"
            )
        if not reading.records:
            problems.append(f"{reading.path} has no record")
    if train.records and len(leaks) == len(train.records):
        problems.append(
            f"every train record is a test record too: {train.path} seems to be the test file"
        )
    missing = [label for label, number in splits[0].labels.items() if not number]
    if missing and train.records:
        problems.append(
            f"{train.path} has no record of {', '.join(missing[:_FEW])}{' …' if missing[_FEW:] else ''}"
        )
    return DataCounts(splits, leaks, problems)


def _counts(split: str, reading: FileRecords, labels: Sequence[str]) -> SplitCounts:
    keys: set[str] = set()
    repeated = []
    for number, record in zip(reading.numbers, reading.records, strict=True):
        if (key := normalise(record.text)) in keys:
            repeated.append(number)
        keys.add(key)
    counted = Counter(record.label for record in reading.records)
    lengths = [len(record.text.split()) for record in reading.records] or [0]
    quantiles = np.quantile(lengths, [0.05, 0.5, 0.95, 1.0], method="higher")
    words = dict(
        zip(
            ("5%", "median", "95%", "longest"),
            map(int, quantiles),
            strict=True,
        )
    )
    of_labels = {label: counted[label] for label in labels}
    return SplitCounts(
        split=split,
        unit=reading.unit,
        records=len(reading.records),
        labels=of_labels,
        words=words,
        repeated=repeated,
        faults=reading.faults,
        skipped=reading.skipped,
        joined=reading.joined,
    )


@dataclass(frozen=True)
class PersonCounts:
    """Rows of each person, by one column. rows: with a person. nobody: lines of the others. largest: rows of one
    person. above: share of persons with more than ``most`` rows. used: rows that are used where at most ``most``
    are. unit: what lines are called."""

    column: str
    persons: int
    rows: int
    nobody: Sequence[int]
    largest: int
    most: int
    above: float
    used: int
    unit: str


def count_persons(reading: FileRecords, column: str, most: int) -> PersonCounts:
    """Of a file that was read with that column as the person's."""
    texts: dict[str, set[str]] = {}
    for person, record in zip(reading.persons, reading.records, strict=True):
        texts.setdefault(person, set()).add(normalise(record.text))
    numbers = Counter(reading.persons)
    above = sum(number > most for number in numbers.values())
    return PersonCounts(
        column=column,
        persons=len(numbers),
        rows=len(reading.persons),
        nobody=reading.nobody,
        largest=max(numbers.values(), default=0),
        most=most,
        above=above / len(numbers) if numbers else 0.0,
        used=sum(min(most, len(rows)) for rows in texts.values()),
        unit=reading.unit,
    )


def label_words(reading: FileRecords, column: str) -> list[str]:
    """The labels of a file, most frequent first, where they look like labels: they become public.

    Raises DataError where they look like texts of records.
    """
    counted = Counter(record.label for record in reading.records)
    long = max(map(len, counted), default=0)
    wordy = max((len(label.split()) for label in counted), default=0)
    many = len(counted) > _MOST_LABELS or (
        len(counted) > _FEW and len(counted) > len(reading.records) / 2
    )
    if many or long > _LONGEST_LABEL or wordy > _MOST_WORDS:
        raise DataError(
            f"The field '{column}' of {reading.path} has {count(len(counted), 'value')} for"
            f" {count(len(reading.records), 'record')}, the longest of {long} characters: these look like texts, not"
            " labels, and labels are public. Name the field of the labels with --label-field, or the labels with"
            " --labels."
        )
    return [label for label, _ in counted.most_common()]
