"""Helpers of mechanisms that answer in texts: KSA and SGA ask the model again in public, and SGA chooses among public
answers.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpicl.core.errors import unknown_name
from dpicl.data.task import Record
from dpicl.mechanism.bases import AnswerContext, AnswerMechanism, FinalPrompt, Query
from dpicl.mechanism.generation import check_positive
from dpicl.models.embeddings import check_embedding_name
from dpicl.privacy.private_set import Sample

if TYPE_CHECKING:
    from dpicl.data.task import PublicTask

#: Which public records: of the task's own distribution, or of another one.
KINDS = ("in", "out")


def write_request(
    task: PublicTask,
    query: Query,
    request: str,
    examples: Sequence[Record] = (),
) -> FinalPrompt:
    """The task's prompt for a query, with a request of one or more lines ahead of its last line, the cue.

    examples: public records that are shown first.
    """
    body, _, cue = task.query(query.text).rpartition("\n")
    lines = [part for part in (body, request, cue) if part]
    return FinalPrompt(task.icl_prefix(examples) + "\n".join(lines))


@dataclass(frozen=True)
class Wording:
    """How Joo et al. ask: for an ``answer`` to a ``question``, and what they call several of them."""

    answer: str
    question: str
    several: str

    def request(self, candidates: Sequence[str]) -> str:
        request, listed = f"{self.answer} for the {self.question} with the", ",\n".join(candidates)
        if len(candidates) == 1:
            return f"Generate the {request} reference {self.answer}: [{listed}]"
        return f"Pick the most accurate {request} following {self.several}: [{listed}]"


_RANKED = "ranked by their frequency from high to low"
WORDINGS = {
    "samsum": Wording("summary", "dialogue", f"summary suggestions {_RANKED}"),
    "xsum": Wording("summary", "document", f"summary suggestions {_RANKED}"),
    "chatdoctor": Wording("answer", "question", f"answer candidates {_RANKED}"),
}


@dataclass(frozen=True)
class PublicChoice(AnswerMechanism):
    """Answers with the best of a few public texts; a subclass ranks them (`rank`) and says what its options are."""

    needs = "texts"

    public: str = "in"
    public_slots: int = 20
    top: int = 3
    embedding: str = "embedded"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_embedding_name(self.embedding)
        check_positive(public_slots=self.public_slots, top=self.top)
        self.require_at_most(public_slots=10_000)
        if self.public not in KINDS:
            raise unknown_name("kind of public records", self.public, KINDS)

    @abstractmethod
    def rank(
        self,
        private: np.ndarray,
        public: np.ndarray,
        knob: float,
        sample: Sample,
    ) -> list[int]:
        """Indices of public candidates, the best first, released from the sample.

        private: float64[M, d], the embedding of each slot's answer (zeros where it is empty). public: float64[K, d].
        """

    def skip(self, task: PublicTask) -> str | None:
        if task.kind != "generation":
            return "it aggregates texts; where the answers are few and public, voting is the same with less noise"
        if self.public == "in" and not task.has_public_part:
            return "the task has no public records; set the option public: out, or add a public part to its task.yaml"
        return None

    def answer(self, query: Query, sample: Sample, context: AnswerContext) -> str | FinalPrompt:
        candidates, reader = self.candidates(query, context), context.reader
        if not candidates:
            return ""
        public = reader.embed(candidates, self.embedding)
        private = reader.embed(reader.texts(query, sample.slots), self.embedding)
        ranked = self.rank(private, public, context.knob, sample)
        return self._write_choice(
            context.task,
            query,
            [candidates[at] for at in ranked[: self.top]],
        )

    def candidates(self, query: Query, context: AnswerContext) -> list[str]:
        """What the model answers from slots of public records: different texts, none empty, maybe none at all.

        The query's own public randomness assigns records to slots, so every cell of a suite has the same candidates.
        Where the private slots are the same for all queries, the public ones are too: their examples are read once.
        """
        records = context.task.public_records(self.public)
        slots = _draw_slots(
            records,
            "" if self.scheme.single else query.id,
            self.public_slots,
            self.examples_per_slot,
        )
        return list(
            dict.fromkeys(text for text in context.reader.public_texts(query, slots) if text)
        )

    def _write_choice(
        self, task: PublicTask, query: Query, candidates: Sequence[str]
    ) -> FinalPrompt:
        """The prompt that asks for the best of the candidates, after one public example."""
        records = task.public_records(self.public)
        example: Record = records[
            int(_public_randomness(f"example of {query.id}").integers(len(records)))
        ]
        wording = WORDINGS.get(task.name, WORDINGS["chatdoctor"])
        return write_request(task, query, wording.request(candidates), (example,))


def public_slots(
    mechanism: AnswerMechanism,
    query: Query,
    records: Sequence[Record],
) -> list[tuple[Record, ...]]:
    """The mechanism's M slots of N public records each, in the place of private ones: by the query's own public
    randomness, or the same for all queries where its slots are."""
    name = "slots" if mechanism.scheme.single else f"slots of {query.id}"
    return _draw_slots(records, name, mechanism.slots, mechanism.examples_per_slot)


def find_nearest(points: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """int64[n]: for each of the n points the candidate with the least Euclidean distance; of equal ones the first.

    Points are looked at one by one: their number may be private, and a product of matrices is rounded by it.
    """
    squares = (candidates**2).sum(axis=1)
    # less the square of the point
    nearest = [int((squares - 2 * point @ candidates.T).argmin()) for point in points]
    return np.array(nearest, dtype=np.int64)


def _draw_slots(
    records: Sequence[Record],
    name: str,
    slots: int,
    size: int,
) -> list[tuple[Record, ...]]:
    """So many slots of different records (all of them, where there are fewer), by the randomness of that name."""
    randomness, size = _public_randomness(name), min(size, len(records))
    chosen = [
        randomness.choice(
            len(records),
            size,
            replace=False,
        )
        for _ in range(slots)
    ]
    return [tuple(records[i] for i in slot) for slot in chosen]


def _public_randomness(name: str) -> np.random.Generator:
    return np.random.default_rng(list(hashlib.sha256(name.encode()).digest()))
