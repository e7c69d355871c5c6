"""Metrics of the task shared_facts: which facts that several records share appear in what was released.

A fact surfaces in a text that holds its password: animal and thing in this order, after case and punctuation
are taken away. How many records hold a fact is counted in the private records themselves, so it is right whatever limit
a run has. This looks at private records past the ledger: it is a measurement on invented ones
(`metadata.scores_private`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from dpicl.data.task import Record, Task, find_served
from dpicl.tasks.synthetic.shared_facts import GRAMMAR, facts

#: A group of facts is named for how many records at most hold them; with all records of the task it is exactly so many.
GROUPS = (0, 1, 5, 25, 125)

_PASSWORD = re.compile(
    r"\b" + " ".join(f"({'|'.join(GRAMMAR.rules[name])})" for name in ("animal", "thing")) + r"\b"
)


def passwords(text: str) -> set[str]:
    """The passwords that a text holds, in the words of the grammar."""
    words = " ".join(re.findall(r"[a-z]+|\d+", text.lower()))
    return {" ".join(match.groups()) for match in _PASSWORD.finditer(words)}


def count_held(train: Sequence[Record], seed: int) -> dict[str, int]:
    """Password of every fact of the seed -> how many of these records hold it (0: a fact of no record)."""
    counts = Counter(password for record in train for password in passwords(record.text))
    return {fact.password: counts[fact.password] for fact in facts(seed)}


def group_of(records: int) -> int:
    """The group of a fact that so many records hold."""
    return next(most for most in GROUPS if records <= most)


def count_surfaced(texts: Iterable[str], truth: Mapping[str, int]) -> dict[int, tuple[int, int]]:
    """Group -> (how many of its facts the texts hold, how many facts it has)."""
    stated = {password for text in texts for password in passwords(text)}
    counts = {name: [0, 0] for name in GROUPS}
    for password, records in truth.items():
        count = counts[group_of(records)]
        count[0] += password in stated
        count[1] += 1
    return {name: (there, all_) for name, (there, all_) in counts.items()}


def results(doc: Mapping[str, Any], results: Sequence[str]) -> dict[str, float]:
    """lm-eval's process_results: does the text hold a password, one of 125 records, one of a single record?"""
    truth = _truth()
    stated = passwords(results[0])
    groups = {group_of(truth[password]) for password in stated if password in truth}
    return {
        "password": float(bool(stated)),
        "states_125": float(125 in groups),
        "states_1": float(1 in groups),
    }


def _share(group: int, texts: Sequence[str], records: Sequence[str]) -> float:
    """The share of the group's facts that surface in the texts; 0 where the group is empty. `records`, the texts of the
    test records, hold none of the facts."""
    there, all_ = count_surfaced(texts, _truth())[group]
    return there / all_ if all_ else 0.0


surfaces_0, surfaces_1, surfaces_5, surfaces_25, surfaces_125 = (
    partial(_share, group) for group in GROUPS
)


def _truth() -> dict[str, int]:
    """Of the task that is being evaluated; in plain lm-eval of the whole corpus of seed 0."""
    up = find_served()
    if up is None:
        return _count_default()
    return _count_held(up[0])


@lru_cache(maxsize=1)
def _count_held(task: Task) -> dict[str, int]:
    return count_held(task.train, task.seed)


@lru_cache(maxsize=1)
def _count_default() -> dict[str, int]:
    return count_held(Task.load("shared_facts", "synthetic").train, 0)
