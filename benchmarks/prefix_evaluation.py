"""`LanguageModelLM` against lm-eval's own `HFLM`: DBPedia, 4 demonstrations, 14 labels, float32, the same requests.

    python -m benchmarks.prefix_evaluation --json

Two sets of labels: the task's words (three of them have several tokens), and DBPedia's own class names (seven have).
The sides agree when every log-probability differs by at most 1e-3 and every greedy flag is equal. HFLM runs in batches
of 8, with its own cache of one-token labels.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from benchmarks._report import main, of_settings, report, timed
from dpicl import models
from dpicl.data.task import CONTENT_FREE, Task
from dpicl.evaluation.language_model_lm import LanguageModelLM
from dpicl.models.transformers import TransformersLM

TOLERANCE = 1e-3
SHOTS = 4
BATCH_SIZE = 8
_NAMES = """Company, Educational institution, Artist, Athlete, Office holder, Mean of transportation, Building,
Natural place, Village, Animal, Plant, Album, Film, Written work"""
CLASS_NAMES = tuple(" ".join(name.split()) for name in _NAMES.split(","))


def run(device: str = "cpu", documents: int = 12) -> dict[str, Any]:
    """Scores the same requests with both models, one after the other."""
    model = models.load("embedded", device=device, dtype="float32")
    assert isinstance(model, TransformersLM)
    task = Task.load("dbpedia", "auto", limit_train=SHOTS, limit_test=documents)
    rows = [
        _setting("task labels", model, task, task.labels, documents),
        _setting("class names", model, task, CLASS_NAMES, max(1, documents // 3)),
    ]
    about = {"device": device, "dtype": "float32", "shots": SHOTS, "source": task.source}
    return of_settings("prefix_evaluation", rows, **about)


def _setting(name: str, model: TransformersLM, task: Task, labels: Sequence[str], documents: int) -> dict[str, Any]:
    requests = _requests(task, labels, documents)
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    ours = LanguageModelLM(model)
    theirs = HFLM(pretrained=model.model, tokenizer=model.tokenizer, backend="causal", batch_size=BATCH_SIZE)
    for side in (ours, theirs):
        side.loglikelihood(_requests(task, labels[:2], 1), disable_tqdm=True)  # warm-up
    our_answers, our_seconds = timed(lambda: ours.loglikelihood(requests, disable_tqdm=True))
    their_answers, their_seconds = timed(lambda: theirs.loglikelihood(requests, disable_tqdm=True))
    differences = [abs(a - b) for (a, _), (b, _) in zip(our_answers, their_answers, strict=True)]
    same_flags = [a for _, a in our_answers] == [b for _, b in their_answers]
    return report(
        name,
        our_seconds,
        their_seconds,
        max(differences) <= TOLERANCE and same_flags,
        largest_difference=max(differences),
        requests=len(requests),
        prompts=len(requests) // len(labels),
        labels_of_several_tokens=sum(len(model.encode(f" {label}")) > 1 for label in labels),
        prefix_tokens=len(model.encode(task.icl_prefix(task.train[:SHOTS]))),
    )


def _requests(task: Task, labels: Sequence[str], documents: int) -> list[Instance]:
    """The requests of an evaluation: every label after every query, content-free inputs first."""
    prefix = task.icl_prefix(task.train[:SHOTS])
    texts = [*CONTENT_FREE, *(record.text for record in task.test[:documents])]
    pairs = [(prefix + task.query(text), f" {label}") for text in texts for label in labels]
    return [Instance("loglikelihood", {}, pair, i, metadata=("dbpedia", i, 1)) for i, pair in enumerate(pairs)]


if __name__ == "__main__":
    sys.exit(main(run, __doc__))
