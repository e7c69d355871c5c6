"""Samples as plain records (a sample can be read only while it is open), and tasks of given records."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.data.splits import Record
from dpicl.data.task import Task, load_config

GENERATION = ("samsum", "xsum", "chatdoctor")


def contents(slots):
    """The same slots with records that stay."""
    return tuple(tuple(Record(record.text, record.label) for record in slot) for slot in slots)


def small_task(name: str, test: Sequence[Record], labels: Sequence[str] = ()) -> Task:
    """A task of these test records and no others."""
    config = load_config(name)
    kind, of_classes = config.metadata.kind, tuple(config.doc_to_choice) or tuple(labels)
    return Task(
        name=name, kind=kind, labels=of_classes, partitioned=kind == "classification", source="synthetic",
        fingerprint="", dropped={}, train=(), test=tuple(test), config=config,
    )  # fmt: skip
