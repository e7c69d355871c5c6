"""How large the runs of a bench are, with which options and on which records.

The ordinary scale is small and fast. The others have what mistakes need that begin late or with many: the mechanism's
own sizes and published ones, many slots, records, labels, queries or tokens, and sums near the limits of small numbers.
Where the mechanism's own code names larger numbers or other tasks, sizes go beyond these, and these tasks are used too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpicl.conformance.adversaries import add_marker, mix_hostile
from dpicl.conformance.dictionary import constants, whole_numbers
from dpicl.conformance.hostile_model import ALIKE
from dpicl.core.vocabulary import Partition, Record
from dpicl.data.config import list_tasks
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import option_types, resolve_options

#: Sizes of the ordinary scale, where nobody sets them and the class's own are larger: checks do not depend on them.
SMALL: Mapping[str, Any] = {
    "slots": 5,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 6,
    "candidates": 5,
    "instructions": 2,
    "public_slots": 5,
    "words": 3,
    "rounds": 2,
    "retries": 2,
    "variations": 1,
    "embedding": "sim",
}
#: What the other scales keep small: it takes time, or models.
BRIEF: Mapping[str, Any] = {"tokens": 2, "instructions": 1, "rounds": 2, "embedding": "sim"}
#: Private records a class, the first number that fits the mechanism's sample; without classes, `CLASSES` times as many.
GROUPS, CLASSES = (30, 120, 300, 480, 720, 960, 1920), 4
#: Tokens of a written answer.
ANSWER_TOKENS = 8
#: A corpus has so many records a class; larger classes repeat them with a number behind the text.
_DIFFERENT = 480
#: Invented words of the large vocabulary: with four tokens each it is larger than that of GPT-2 (50,257).
MANY_WORDS = 12_600
#: Sums around which small numbers lose ones or overflow: 8 bits, bfloat16, float16.
_LIMITS = (257, 255, 127)
#: The task with the most classes.
_MANY_LABELS = "dbpedia"
#: Size -> the largest number of the mechanism's own code that it goes beyond.
_FARTHEST = {
    "queries": 150,
    "shots": 16,
    "tokens": 150,
    "slots": 300,
    "prompts": 300,
    "examples_per_slot": 5,
    "records": 4000,
}
#: How many tasks that the code names are used.
_MOST_TASKS = 6


@dataclass(frozen=True)
class Scale:
    """title: in words, after "With"; '' for the ordinary scale. most: options are cut to these values where the
    mechanism's own and published ones are larger. least: options that are at least so large, where the mechanism has
    them.

    groups: private records a class, the first that fits. labels: the first so many of the task's, None for all.
    unequal: whether one class, of which a text is released, is ten times as large. least_records: of all classes.
    words: that the model has besides its own. limits: whether most slots say the same, of as many records as small
    numbers can just count. task: used in place of the one that is checked.
    """

    title: str = ""
    task: str | None = None
    queries: int = 12
    shots: int = 2
    most: Mapping[str, Any] = field(default_factory=lambda: SMALL)
    least: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[int] = GROUPS
    labels: int | None = None
    unequal: bool = False
    least_records: int = 0
    words: int = 0
    limits: bool = False

    def options(self, cls: type[Mechanism], task: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """The chosen options, and values of this scale for the rest."""
        types, usual = option_types(cls), resolve_options(cls, task, dict(chosen))
        sizes: dict[str, Any] = {}
        for name in types.keys() - chosen.keys():
            value, most, least = usual.get(name), self.most.get(name), self.least.get(name)
            is_small = isinstance(value, int) and isinstance(most, int) and value <= most
            if type(value) is type(most) and not is_small:
                value = most
            if type(value) is int and least is not None:
                value = max(value, least)
            if value != usual.get(name):
                sizes[name] = value
        return resolve_options(cls, task, {**sizes, **chosen})

    def corpora(self, task: str, seed: int) -> Iterator[Task]:
        """The task with synthetic records and short answers, for larger and larger classes."""
        partitioned = Task.read_public(task).partitioned
        for group in self.groups:
            corpus = _load(task, min(group, _DIFFERENT), self.queries, seed)
            if partitioned and self.labels:
                corpus = _keep_labels(corpus, corpus.labels[: self.labels])
            labels: Sequence[Partition] = corpus.labels if partitioned else (None,)
            size = group if partitioned else group * CLASSES
            sizes = dict.fromkeys(labels, size)
            missing = self.least_records - size * len(labels)
            shots = corpus.plan_shots(self.shots, np.random.default_rng(seed))
            largest = shots[0] if partitioned else None
            sizes[largest] += max(0, missing, 9 * size if self.unequal and partitioned else 0)
            train = tuple(
                record for label, size in sizes.items() for record in _fill(corpus, label, size)
            )
            if self.limits:
                train = tuple(add_marker(train, ALIKE))
            yield replace(corpus, train=train, declared=sizes if self.title else None)

    def bases(self, records: Sequence[Record]) -> list[list[Record]] | None:
        """The sets that neighbours are made of, in turn; None for those of the ordinary scale."""
        if self.limits:
            return [*(list(records[:limit]) for limit in _LIMITS), list(records)]
        return [list(records), mix_hostile(records)] if self.unequal else None


ORDINARY = Scale()


def scales(cls: type[Mechanism], task: str, fixed: Mapping[str, Any]) -> list[Scale]:
    """All but the ordinary one."""
    names, numbers = option_types(cls).keys() - fixed.keys(), whole_numbers(cls)

    def beyond(name: str, least: int) -> int:
        return 1 + max([least - 1, *(number for number in numbers if number <= _FARTHEST[name])])

    kind = Task.read_public(task)
    two_labels = 2 if kind.partitioned else None
    own_slots = getattr(cls, "slot_per_record", False)
    slots = {name: beyond(name, 66) for name in ("slots", "prompts")}
    many = {**slots, "examples_per_slot": beyond("examples_per_slot", 4)}
    chosen = [
        Scale(
            "many queries, demonstrations and records",
            queries=beyond("queries", 72),
            shots=beyond("shots", 9),
            least_records=beyond("records", 2000),
        ),
        Scale(
            "its own sizes, many slots and records",
            task=_MANY_LABELS if kind.name == "agnews" else None,
            queries=3,
            shots=5 if kind.partitioned else 2,
            most=BRIEF,
            least=many,
            unequal=True,
            least_records=beyond("records", 2000),
        ),
        _near_limits(own_slots, two_labels),
    ]
    if not cls.releases_texts and not own_slots:
        chosen.append(_at_limit(two_labels))
    if "tokens" in names:
        long = {"tokens": beyond("tokens", 72)}
        chosen.append(Scale("long texts", queries=4, shots=1, least=long))
    if cls.releases_texts:
        few = {**SMALL, "tokens": 3}
        chosen.append(
            Scale(
                f"{4 * MANY_WORDS} tokens more in the vocabulary",
                words=MANY_WORDS,
                shots=1,
                most=few,
            )
        )
    tasks = [name for name in constants(cls) if name != task and name in list_tasks()]
    chosen += [
        Scale(f"the sizes of {name}", task=name, queries=4, most=BRIEF)
        for name in tasks[:_MOST_TASKS]
    ]
    return chosen


def _near_limits(own_slots: bool, labels: int | None) -> Scale:
    """Every record is in every sample (q = 1 for the smallest groups), and most slots agree: either each record has its
    own slot, or 600 records leave about 259 of 300 slots with one at least."""
    least = (
        {"slots": 256, "examples_per_slot": 1}
        if own_slots
        else {"slots": 300, "examples_per_slot": 2}
    )
    return Scale(
        "two classes of unequal size, and sums above 256" if labels else "sums above 256",
        queries=4,
        most={**SMALL, **BRIEF, **least},
        least={**least, "prompts": 256},
        groups=(64, 128, 150, 256, 300, 600, 1200),
        labels=labels,
        limits=True,
    )


def _at_limit(labels: int | None) -> Scale:
    """128 slots that share 1,600 records, so that none is empty, and all agree: the first sum that 8 bits with a sign
    cannot hold."""
    slots = {"slots": 128, "examples_per_slot": 12}
    return Scale(
        "sums of 128",
        queries=3,
        most={**SMALL, **BRIEF, **slots},
        least=slots,
        groups=(1600,),
        labels=labels,
        limits=True,
    )


def _keep_labels(task: Task, labels: Sequence[str]) -> Task:
    """The task with these classes alone."""
    config = task.config.model_copy(update={"doc_to_choice": list(labels)})
    train, test, public = (
        tuple(record for record in part if record.label in labels)
        for part in (task.train, task.test, task.public)
    )
    return replace(task, labels=tuple(labels), config=config, train=train, test=test, public=public)


def _fill(task: Task, label: Partition, size: int) -> list[Record]:
    """So many records of a class (None: of the task)."""
    records = [record for record in task.train if label in (None, record.label)]
    repeated = itertools.islice(itertools.cycle(records), len(records), max(size, len(records)))
    more = [
        replace(record, text=f"{record.text} {number}") for number, record in enumerate(repeated)
    ]
    return [*records, *more][:size]


def _load(name: str, group: int, queries: int, seed: int) -> Task:
    """Synthetic records, short answers. group: private records a class."""
    public = Task.read_public(name)
    task = _corpus(
        name, group if public.partitioned else group * CLASSES, queries, seed, public.version
    )
    config, writing = task.config, task.config.generation_kwargs
    if writing.max_gen_toks:
        short = writing.model_copy(update={"max_gen_toks": ANSWER_TOKENS})
        config = config.model_copy(update={"generation_kwargs": short})
    train, test, public_part = (
        tuple(map(dataclasses.replace, part)) for part in (task.train, task.test, task.public)
    )
    return replace(task, config=config, train=train, test=test, public=public_part)


@lru_cache(maxsize=32)
def _corpus(name: str, limit: int, queries: int, seed: int, version: int | str) -> Task:
    """Loaded once for all settings of a mechanism, which may do to their copies of the records what they like."""
    return Task.load(name, "synthetic", limit_train=limit, limit_test=queries, seed=seed)
