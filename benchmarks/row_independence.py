"""How far one record moves the answers of *other* slots: not at all, in any number format.

    python -m benchmarks.row_independence --json

Sixteen prompts with one record each are read twice; in between the first one's record is replaced by a longer one.
Reported for bfloat16 and float32: the largest L2 move of another prompt's next-token distribution, and of the sum over
the other prompts, beside sqrt(2), by which the replaced one may move. Reading the prompts one by one is the reference:
it costs more time. The answers agree when no other row moves, and each is what it is when it is read by itself.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch

from benchmarks._report import main, report, timed
from dpicl.harness import models
from dpicl.harness.data.task import Task
from dpicl.harness.models.base import LanguageModel

LABEL = "Village"
PROMPTS = 16


def run() -> dict[str, Any]:
    """Moves in both number formats, and what one batch saves over single prompts."""
    task = Task.load("dbpedia", "auto", limit_train=200, limit_test=1)
    records = sorted((r for r in task.train if r.label == LABEL), key=lambda r: len(r.text))
    middle = len(records) // 2
    usual, longer = records[middle : middle + PROMPTS], records[-len(records) // 4]
    moves: dict[str, dict[str, float]] = {}
    seconds = {}
    for dtype in ("bfloat16", "float32"):
        model = models.load("embedded", dtype=dtype)
        before = [model.encode(task.generation_prompt(LABEL, [record])) for record in usual]
        after = [model.encode(task.generation_prompt(LABEL, [longer])), *before[1:]]
        distributions, seconds[dtype] = timed(partial(_probabilities, model, before))
        change = (_probabilities(model, after) - distributions)[1:]
        moves[dtype] = {
            "largest_of_another_row": float(change.norm(dim=1).max()),
            "of_the_sum_of_the_others": float(change.sum(dim=0).norm()),
            "share_of_sqrt_2": float(change.sum(dim=0).norm()) / math.sqrt(2),
        }
    single, alone = timed(lambda: torch.cat([_probabilities(model, [prompt]) for prompt in before]))
    still = all(move["largest_of_another_row"] == 0 for move in moves.values())
    agreement = still and bool((single == distributions).all())
    return report("row_independence", seconds["float32"], alone, agreement, moves=moves, source=task.source)


def _probabilities(model: LanguageModel, prompts: list[list[int]]) -> torch.Tensor:
    """float64[B, V]."""
    return model.next_token_log_probs(prompts).double().exp()


if __name__ == "__main__":
    main(run)
