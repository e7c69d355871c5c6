"""What SGA and its histogram variant share: public answers to choose from, and the final prompt that shows some."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpicl.harness.data.task import Record
from dpicl.harness.mechanism.bases import AnswerContext, FinalPrompt, Query
from dpicl.mechanisms._final_prompts import asking

if TYPE_CHECKING:
    from dpicl.harness.data.task import PublicTask

#: Which public records: of the task's own distribution, or of another one.
KINDS = ("in", "out")


@dataclass(frozen=True)
class Wording:
    """How Joo et al. ask: for an ``answer`` to a ``question``, and what they call several of them."""

    answer: str
    question: str
    several: str

    def request(self, candidates: Sequence[str]) -> str:
        wanted, listed = f"{self.answer} for the {self.question} with the", ",\n".join(candidates)
        if len(candidates) == 1:
            return f"Generate the {wanted} reference {self.answer}: [{listed}]"
        return f"Pick the most accurate {wanted} following {self.several}: [{listed}]"


_RANKED = "ranked by their frequency from high to low"
WORDINGS = {
    "samsum": Wording("summary", "dialogue", f"summary suggestions {_RANKED}"),
    "xsum": Wording("summary", "document", f"summary suggestions {_RANKED}"),
    "chatdoctor": Wording("answer", "question", f"answer candidates {_RANKED}"),
}


@dataclass(frozen=True)
class PublicCandidates:
    """texts: K different public answers to one query, none empty; K may be 0. rows: float64[K, d], their embeddings."""

    texts: tuple[str, ...]
    rows: np.ndarray


def public_candidates(
    query: Query, context: AnswerContext, *, kind: str, slots: int, examples: int, same_slots: bool, embedding: str
) -> PublicCandidates:
    """What the model answers from slots of public records, and the answers' embeddings.

    The slots are assigned to slots by the query's own public randomness, so every cell of a suite has the same ones.

    kind: 'in' or 'out', see `Task.public_records`. same_slots: sample them once for all queries, where the private
    slots
        are, so that their examples are read once.
    """
    records = context.task.public_records(kind)
    sampling = _public_coins("" if same_slots else query.id)
    size = min(examples, len(records))
    assigned = [tuple(records[i] for i in sampling.choice(len(records), size, replace=False)) for _ in range(slots)]
    texts = tuple(dict.fromkeys(text for text in context.reader.public_texts(query, assigned) if text))
    return PublicCandidates(texts, context.reader.embed(texts, embedding))


def choosing(task: PublicTask, query: Query, candidates: Sequence[str], kind: str) -> FinalPrompt:
    """The prompt that asks for the best of the candidates, after one public example."""
    records = task.public_records(kind)
    example: Record = records[int(_public_coins(f"example of {query.id}").integers(len(records)))]
    wording = WORDINGS.get(task.name, WORDINGS["chatdoctor"])
    return asking(task, query, wording.request(candidates), (example,))


def nearest(points: np.ndarray, candidates: np.ndarray) -> np.ndarray:
    """int64[n]: for each of the n points the candidate with the least Euclidean distance; of equal ones the first."""
    distances = (candidates**2).sum(axis=1) - 2 * points @ candidates.T  # squared, less the square of the point
    indices: np.ndarray = distances.argmin(axis=1)
    return indices


def no_text(task: PublicTask, kind: str) -> str | None:
    """Why there is nothing to choose from, or None."""
    if task.kind != "generation":
        return "it aggregates texts; where the answers are few and public, voting is the same with less noise"
    if kind == "in" and not task.has_public_part:
        return "the task has no public records; set the option public: out, or add a public part to its task.yaml"
    return None


def _public_coins(name: str) -> np.random.Generator:
    return np.random.default_rng(list(hashlib.sha256(name.encode()).digest()))
