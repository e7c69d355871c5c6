"""What there is to say of records before anything runs: how many, of which label, how long, repeated, wrong.

Numbers, lines and public label words; never a word of a record. The numbers are of private records all the same: they
are for whoever may see these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpicl.core.errors import DataError
from dpicl.core.messages import count
from dpicl.core.vocabulary import Record
from dpicl.data.reading import FileRecords
from dpicl.data.splits import normalised

#: Distinct values, characters and words that no set of labels has.
_MOST_LABELS, _LONGEST_LABEL, _MOST_WORDS = 1000, 60, 8
_FEW = 20


@dataclass(frozen=True)
class SplitCounts:
    """One file, or one part of another source.

    labels: word -> records, where labels are public words. words: quantile -> words of a text. repeated: lines of
    records that an earlier one has already (letters and digits alone count); contradicting: those with another label.
    faults: what is wrong -> all lines of which it is.
    """

    split: str
    place: str
    unit: str
    records: int
    labels: Mapping[str, int]
    words: Mapping[str, int]
    repeated: Sequence[int]
    contradicting: Sequence[int]
    faults: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class DataCounts:
    """The files of a task. leaks: lines of train records that are test records too. missing: labels without a train
    record. problems: why a run would not start, in sentences."""

    splits: Sequence[SplitCounts]
    leaks: Sequence[int] = ()
    missing: Sequence[str] = ()
    problems: Sequence[str] = field(default=())

    @property
    def good(self) -> bool:
        return not self.problems


def count_records(train: FileRecords, test: FileRecords | None, labels: Sequence[str]) -> DataCounts:
    """Counts of one file, or of two. labels: the public label words; () where labels are not public words."""
    readings = {"train": train} | ({"test": test} if test is not None else {})
    splits = [_counts(split, reading, labels) for split, reading in readings.items()]
    keys = {normalised(record.text) for record in test.records} if test is not None else set()
    leaks = [n for n, each in zip(train.numbers, train.records, strict=True) if normalised(each.text) in keys]
    there = {record.label for record in train.records}
    missing = [label for label in labels if label not in there]
    problems = [
        f"{each.place} has {count(sum(map(len, each.faults.values())), each.unit)} without a sound record"
        for each in splits
        if each.faults
    ]
    problems += [f"{each.place} has no record" for each in splits if not each.records]
    if train.records and len(leaks) == len(train.records):
        problems.append(f"every train record is a test record too: {train.path} seems to be the test file")
    if missing and train.records:
        problems.append(f"{train.path} has no record of {', '.join(missing[:_FEW])}{' …' if missing[_FEW:] else ''}")
    return DataCounts(splits, leaks, missing, problems)


def _counts(split: str, reading: FileRecords, labels: Sequence[str]) -> SplitCounts:
    seen: dict[str, Record] = {}
    repeated, contradicting = [], []
    for number, record in zip(reading.numbers, reading.records, strict=True):
        first = seen.setdefault(normalised(record.text), record)
        if first is not record:
            repeated.append(number)
            if first.label != record.label:
                contradicting.append(number)
    found = Counter(record.label for record in reading.records)
    lengths = [len(record.text.split()) for record in reading.records] or [0]
    low, middle, high, most = (int(value) for value in np.quantile(lengths, [0.05, 0.5, 0.95, 1.0], method="higher"))
    return SplitCounts(
        split,
        str(reading.path),
        reading.unit,
        len(reading.records),
        {label: found[label] for label in labels},
        {"5%": low, "median": middle, "95%": high, "longest": most},
        repeated,
        contradicting,
        dict(sorted(reading.faults.items(), key=lambda each: each[1][0])),
    )


def label_words(reading: FileRecords, column: str) -> list[str]:
    """The labels of a file, most frequent first, where they look like labels: they become public.

    Raises DataError where they look like texts of records.
    """
    found = Counter(record.label for record in reading.records)
    long = max(map(len, found), default=0)
    wordy = max((len(label.split()) for label in found), default=0)
    many = len(found) > _MOST_LABELS or (len(found) > _FEW and len(found) > len(reading.records) / 2)
    if many or long > _LONGEST_LABEL or wordy > _MOST_WORDS:
        raise DataError(
            f"The field '{column}' of {reading.path} has {count(len(found), 'value')} for"
            f" {count(len(reading.records), 'record')}, the longest of {long} characters: these look like texts, not"
            " labels, and labels are public. Name the field of the labels with --label-field, or the labels with"
            " --labels."
        )
    return [label for label, _ in found.most_common()]


def file_reading(place: str, records: Sequence[Record]) -> FileRecords:
    """Records that come from no file of the user's, as a reading without faults."""
    return FileRecords(Path(place), "record", list(records), list(range(1, len(records) + 1)), {})
