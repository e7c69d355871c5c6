"""Basic types that every part uses: records, knobs, sizes, demonstrations, queries. It imports only errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dpicl.core.errors import UsageError

#: A group of records that is disjoint from every other group (a label), or None where there is no partition.
Partition = str | None
#: Called with (done, total, unit) as something proceeds.
Report = Callable[[int, int, str], None]
#: What neighbouring data sets differ in, the same for every mechanism: as in files, and in words.
NEIGHBOURS: Final = "add/remove one record"
NEIGHBOURS_TEXT = "add or remove one record"

#: A model as commands name it -> as people know it.
_MODELS: Mapping[str, str] = {
    "embedded": "SmolLM2-135M-Instruct",
    "qwen2.5-coder-0.5b": "Qwen2.5-Coder-0.5B-Instruct",
    "symbol-tuned": "SmolLM2-135M, symbol-tuned",
    "ginc": "GPT-2 trained on GINC",
}


def model_name(model: str) -> str:
    """The display name of a model of a suite: 'embedded' is 'SmolLM2-135M-Instruct'; most others are their own."""
    base = model.removesuffix("-float32")
    return model if base not in _MODELS else _MODELS[base] + " (float32)" * (base != model)


def is_simulated(model: str) -> bool:
    """Whether a model of this name is the seeded fake one."""
    return model.partition(":")[0] == "sim"


def report_nothing(done: int, total: int, unit: str) -> None:
    """Reports nothing."""


@dataclass(frozen=True)
class Record:
    """One example: its text (kept out of repr) and what belongs to it: a label word, for extraction the phrase to be
    found in the text, for generation the reference output."""

    text: str = field(repr=False)
    label: str = field(repr=False)


@dataclass(frozen=True)
class Knob:
    """The one number that buys privacy: the larger it is, the more private the release.

    ``low`` and ``high`` bracket the search; ``non_private`` is the value that stands for epsilon = infinity.
    Raises UsageError for numbers that bracket nothing.
    """

    name: str
    low: float
    high: float
    non_private: float

    def __post_init__(self) -> None:
        numbers = (self.low, self.high, self.non_private)
        plain = type(self.name) is str and all(
            type(each) in (int, float) and math.isfinite(each) for each in numbers
        )
        if not plain or not 0 < self.low < self.high or self.non_private < 0:
            raise UsageError(
                "A knob has a name and finite numbers: 0 < low < high, between which the search for the noise runs, and"
                " non_private, 0 or more."
            )


@dataclass(frozen=True)
class Sizes:
    """The public numbers that an epsilon depends on.

    records: n_y, the number of private records of each partition (public constants, never counted again during a run).
    shots: how many demonstrations are released from each partition (only the partitions that are used).
    queries: Q, how many queries the release answers; None when it is unlimited.
    """

    records: Mapping[Partition, int]
    shots: Mapping[Partition, int]
    queries: int | None = None

    @classmethod
    def from_queries(cls, records: int, queries: int) -> Sizes:
        """The sizes of an answer mechanism: n records in one group, Q queries, no demonstration."""
        return cls(records={None: records}, shots={}, queries=queries)

    def select_group(self, group: Partition) -> Sizes:
        """The sizes of one group of the records, as if there were no other."""
        return Sizes({group: self.records[group]}, {group: self.shots[group]}, self.queries)


@dataclass(frozen=True)
class Demonstration:
    """One released example: public label and released text.

    tokens: how many tokens the text has. The harness counts them in what is published, whatever a mechanism says.
    """

    text: str
    label: str
    tokens: int = 0


@dataclass(frozen=True)
class ReleasedPrompt:
    """What a model reads before every query: an instruction and demonstrations, both released.

    instruction: released text that takes the place of the task's own instruction (`description` of task.yaml); None:
    the task's own stays. With an instruction there may be no demonstration.
    in_prompt: the model reads so many of the demonstrations, the first ones; the others are for classifiers that are
    made of released texts. None: all.
    """

    instruction: str | None
    demonstrations: Sequence[Demonstration] = ()
    in_prompt: int | None = None

    @property
    def shown(self) -> Sequence[Demonstration]:
        """The demonstrations that stand in the prompt."""
        return self.demonstrations[: self.in_prompt]

    @property
    def texts(self) -> list[str]:
        """Every text that was released: the instruction, if there is one, then the demonstrations."""
        instructions = [] if self.instruction is None else [self.instruction]
        return [*instructions, *(each.text for each in self.demonstrations)]


@dataclass(frozen=True)
class Query:
    """One public question. id: of its document, the same under every limit and order."""

    id: str
    text: str


@dataclass(frozen=True)
class FinalPrompt:
    """An answer that the model still has to write, greedily, from public and released things alone.

    It is post-processing, so the prompts of all queries may wait and be read together.
    """

    prompt: str
