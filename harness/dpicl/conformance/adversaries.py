"""Adversarial inputs of the kit: record sets, single records, and scripts that replace noisy releases."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np

from dpicl.conformance.hostile_model import ALIKE, CERTAIN, ENDING, INFINITE, NAN
from dpicl.conformance.transcript import Script
from dpicl.core.vocabulary import Record
from dpicl.data.task import Task
from dpicl.privacy.release_hooks import NoisyRelease

#: A word that no public text holds: it stands for what only records know.
PLANTED = "zqxjkvwq"

#: Texts of records that try to make a run fail.
HOSTILE = (
    NAN,
    INFINITE,
    ENDING,
    f"{NAN} {INFINITE}",
    "word " * 1500,
    "x" * 4200,
    "\n",
    "\n\n END\n",
    '" END"',
    "{{text}} {label} %s {0}",
    "\x00\udc80\ufeff é 中 🙂",
    " ",
    "]" * 40,
    "",
)

#: Kinds of scripts.
SCRIPTS = ("random", "ties", "whole")
#: Factors (see `CoupledByRecord`) of coins and slots, so that many records crowd into few slots, and of coins alone, so
#: that hardly a slot is empty.
CROWDED, FLOODED = 0.4, 0.4
#: Additions that repeat a record of the base, word for word.
TWINS = 3


def plant_words(records: Sequence[Record], labels: bool) -> list[Record]:
    """The records, each with a planted word of its own in the text; in the label too where these are free."""
    return [
        Record(
            f"{PLANTED}{number} {r.text} {PLANTED}{number}",
            f"{PLANTED}{number}" if labels else r.label,
        )
        for number, r in enumerate(records)
    ]


def add_marker(records: Sequence[Record], marker: str) -> list[Record]:
    """The records, each with the marker in front of its text."""
    return [dataclasses.replace(r, text=f"{marker} {r.text}") for r in records]


def copy_texts(records: Sequence[Record], texts: Sequence[str]) -> list[Record]:
    """As many records with the same labels, and these texts in turn; as they are if there is no text."""
    written = [text for text in texts if text]
    if not written:
        return list(records)
    return [
        dataclasses.replace(record, text=text)
        for record, text in zip(records, itertools.cycle(written))
    ]


def mix_hostile(records: Sequence[Record]) -> list[Record]:
    """The records, every third one with a hostile text: too long, empty, or one after which the model fails."""
    mixed = list(records)
    for place, text in zip(range(0, len(mixed), 3), itertools.cycle(HOSTILE)):
        mixed[place] = dataclasses.replace(mixed[place], text=text)
    return mixed


def other_sets(
    task: Task,
    other: Sequence[Record],
    words: Sequence[str],
) -> dict[str, list[Record]]:
    """Private sets that share nothing with the task's own; name -> records. words: possible triggers, tried one by
    one."""
    train = task.train
    return {
        "other records": list(other),
        "hostile records": copy_texts(train, HOSTILE),
        "records after which all slots agree": add_marker(train, ALIKE),
        "records after which the model ends at once": add_marker(train, ENDING),
        "records after which the model is certain": add_marker(train, CERTAIN),
        "planted words": plant_words(train, labels=not task.partitioned),
        "a single record": list(train[:1]),
        "twice as many records": [*train, *other],
        "no record": [],
        **{f"records of {text[:12]!r}": add_marker(train, text) for text in HOSTILE},
        **{f"records that say {word[:40]!r}": copy_texts(train, [word]) for word in words},
    }


def make_echoes(
    task: Task,
    queries: Sequence[str],
    released: Sequence[str],
) -> dict[str, list[Record]]:
    """Private sets of public and of released words, for a run with the same script; name -> records."""
    train = task.train
    return {
        "records that copy the released texts": copy_texts(train, released),
        "records that hold the released texts": copy_texts(
            train, [f"It says {text} and goes on." for text in released]
        ),
        "records that copy the released texts in capitals": copy_texts(
            train, [text.upper() for text in released]
        ),
        "records that copy the queries": copy_texts(train, queries),
    }


def additions(
    task: Task,
    label: str,
    base: Sequence[Record],
    echoed: Sequence[str],
    words: Sequence[str],
    number: int,
) -> list[Record]:
    """Records of one label (or, without labels, of one output), each of which makes a neighbouring set of the base.

    echoed: public or released texts, of which some are copied. words: possible triggers.
    """
    generator = np.random.default_rng((number, 1))
    ordinary = task.train[int(generator.integers(len(task.train)))]
    word = "".join(generator.choice(list("abcdefghijklmnop"), size=8))
    texts = [f"{word} {ordinary.text}", f"{CERTAIN} {word}", f"{ENDING} {word}", f"{NAN} {word}"]
    label = label or ordinary.label
    alike = [record for record in base if not task.partitioned or record.label == label]
    texts += list(dict.fromkeys(record.text for record in alike))[:TWINS]
    copied = [echoed[place] for place in generator.integers(len(echoed), size=2).tolist()]
    texts += filter(None, copied)
    texts.append(HOSTILE[number % len(HOSTILE)])
    return [Record(text, label) for text in (*texts, *words)]


def few_texts(records: Sequence[Record]) -> list[Record]:
    """The records with only three different texts, so that each occurs many times; the model is certain after most, so
    that a slot that loses one answers something else entirely."""
    first, *others = (r.text for r in records[:3])
    return copy_texts(records, [first, *(f"{CERTAIN} {text}" for text in others)])


def scripted(kind: str, seed: int) -> Script:
    """Noisy values that depend on nothing private. kind: 'random'; 'ties' (all coordinates equal, indices in order); or
    'whole' (few whole numbers, so many ties)."""

    def script(number: tuple[int, int], release: NoisyRelease) -> np.ndarray:
        generator, size = np.random.default_rng((seed, *number)), release.clean.shape
        if release.kind == "choice":
            order = np.arange(size[0]) if kind == "ties" else generator.permutation(size[0])
            return order[: release.count]
        # a private token sooner or later, and one whatever the kind
        if release.kind == "threshold":
            return np.array([1 if kind == "ties" else int(generator.integers(2))])
        if kind == "ties":
            return np.zeros(size)
        if kind == "whole":
            return generator.integers(0, 6, size=size).astype(np.float64)
        return generator.normal(0.0, max(release.scale, 1.0), size=size)

    return script
