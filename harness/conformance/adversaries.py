"""What the kit puts in a mechanism's way: record sets, single records, and scripts for what leaves the doors."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from harness.conformance.hostile_model import CERTAIN, ENDING, INFINITE, NAN
from harness.conformance.transcript import Script, Shape
from harness.record_sets import Record
from harness.task import Task

#: A word that no public text holds: it stands for what only records know.
PLANTED = "zqxjkvwq"

#: Texts of records that try to make a run fail.
HOSTILE = (
    NAN,
    INFINITE,
    ENDING,
    f"{NAN} {INFINITE}",
    "word " * 3000,
    "\n",
    "\n\n END\n",
    '" END"',
    "{{text}} {label} %s {0}",
    "\x00\udc80\ufeff é 中 🙂",
    " ",
    "]" * 40,
)


def planted(records: Sequence[Record], labels: bool) -> list[Record]:
    """The records, each with a planted word of its own in the text; in the label too where these are free."""
    return [
        Record(f"{PLANTED}{number} {r.text} {PLANTED}{number}", f"{PLANTED}{number}" if labels else r.label)
        for number, r in enumerate(records)
    ]


def holding(records: Sequence[Record], marker: str) -> list[Record]:
    """The records, each with the marker in front of its text."""
    return [dataclasses.replace(r, text=f"{marker} {r.text}") for r in records]


def hostile(records: Sequence[Record]) -> list[Record]:
    """As many records with the same labels, and hostile texts in turn."""
    return [dataclasses.replace(r, text=HOSTILE[number % len(HOSTILE)]) for number, r in enumerate(records)]


def other_sets(task: Task, other: Sequence[Record]) -> dict[str, list[Record]]:
    """Private sets that share nothing with the task's own; name -> records."""
    return {
        "other records": list(other),
        "records after which the model ends at once": holding(task.train, ENDING),
        "records after which the model is certain": holding(task.train, CERTAIN),
        "planted words": planted(task.train, labels=not task.partitioned),
        "a single record": list(task.train[:1]),
        "no record": [],
    }


def additions(task: Task, label: str, generator: np.random.Generator) -> list[Record]:
    """Records of one label that a neighbouring set has more."""
    ordinary = task.train[int(generator.integers(len(task.train)))]
    word = "".join(generator.choice(list("abcdefghijklmnop"), size=8))
    texts = [f"{word} {ordinary.text}", f"{CERTAIN} {word}", f"{ENDING} {word}", f"{NAN} {word}"]
    return [Record(text, label if task.partitioned else ordinary.label) for text in texts]


def scripted(kind: str, seed: int) -> Script:
    """Releases that depend on nothing private. kind: 'random'; 'ties' (all coordinates equal, indices in order); or
    'whole' (few whole numbers, so many ties)."""

    def script(number: int, shape: Shape) -> np.ndarray:
        generator = np.random.default_rng((seed, number))
        if shape.kind == "choice":
            order = np.arange(shape.shape[0]) if kind == "ties" else generator.permutation(shape.shape[0])
            return order[: shape.count]
        if kind == "ties":
            return np.zeros(shape.shape)
        if kind == "whole":
            return generator.integers(0, 6, size=shape.shape).astype(np.float64)
        return generator.normal(0.0, max(shape.scale, 1.0), size=shape.shape)

    return script
