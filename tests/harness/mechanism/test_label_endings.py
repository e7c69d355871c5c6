"""Labels that begin other labels are scored with what ends them; labels that are one to a tokenizer are refused."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest

from dpicl import models
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.vocabulary import Query
from dpicl.data.config import list_tasks
from dpicl.data.task import PublicTask, Record, Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.generation import ended_continuations, label_endings
from dpicl.models.base import ChatPrompt, ModelIdentity, Tokens, Usage
from dpicl.models.rereading import RereadingModel
from dpicl.own.records import make_config
from dpicl.privacy.sampling_schemes import SamplingScheme
from dpicl.releasing.reader import SlotReader


class Answers(RereadingModel):
    """Reads bytes, and is nearly sure that a query is answered with these words and the end of a line."""

    def __init__(self, words: str, lower: bool = False) -> None:
        self.identity = ModelIdentity(
            "answers", None, None, "float32", "cpu", 0, batch_invariant=True
        )
        self.vocab_size = 257
        self.max_length = 4096
        self.eos_token_id = 256
        self.usage = Usage()
        self._answer, self._lower = f" {words}\n".encode(), lower

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        text = str(prompt)
        return list((text.lower() if self._lower else text).encode())

    def decode(self, tokens: Tokens) -> str:
        return bytes(tokens).decode()

    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        ending = bytes(prompt).rpartition(b"Category:")[2]
        expected = (
            self._answer[len(ending)]
            if self._answer.startswith(ending) and ending != self._answer
            else 256
        )
        weights = np.full(self.vocab_size, 0.001)
        weights[expected] = 1.0
        return np.log(weights / weights.sum())


def task_of(*labels: str) -> Task:
    task = Task.from_records(
        make_config(labels, "ticket"),
        [],
        dict.fromkeys(labels, 10),
    )
    return replace(task, test=tuple(Record(f"a ticket about {label}", label) for label in labels))


@pytest.mark.parametrize("answer", ["1", "10", "100"])
def test_a_label_that_begins_with_another_one_can_win(answer):
    task, model = task_of("1", "10", "2", "100"), Answers(answer)
    reader = SlotReader(
        task.public_view(), model, OutputCache(None), SamplingScheme(1, 1, "per_query"), ()
    )
    (row,) = reader.label_scores(
        Query("1", "a ticket"),
        [(Record("one", "2"),)],
        calibrated=False,
    )
    assert task.labels[row.argmax()] == answer
    outcomes = evaluate(task, model, []).outcomes["acc"]
    assert [label for label, right in zip(task.labels, outcomes, strict=True) if right] == [answer]


def test_only_label_sets_with_such_a_pair_get_an_end():
    model = models.load("sim")
    assert ended_continuations(task_of("11", "10"), model) == {}
    plain = [model.encode(f" {label}") for label in ("11", "10")]
    assert label_endings(task_of("11", "10"), model) == plain
    end = model.encode("\n")
    ended = [[*model.encode(f" {label}"), *end] for label in ("1", "10", "2")]
    assert label_endings(task_of("1", "10", "2"), model) == ended
    assert ended_continuations(task_of("1", "10"), model) == {
        " 1": ended[0],
        " 10": ended[1],
    }


def test_labels_that_a_tokenizer_makes_one_are_refused():
    task = task_of("IT", "it", "law")
    model = Answers("law", lower=True)
    for score in (label_endings, lambda task, model: evaluate(task, model, [])):
        with pytest.raises(
            UsageError, match=r"cannot tell the labels '(IT|it)' and '(IT|it)' apart"
        ):
            score(task, model)


def test_no_label_of_a_built_in_task_begins_another_one():
    """So their scores, and with them committed results, have no end in them: tokens spell a text."""
    for name in list_tasks():
        task = PublicTask.read_public(name)
        if task.chooses:
            assert not [
                pair for pair in permutations(task.labels, 2) if pair[1].startswith(pair[0])
            ], name
