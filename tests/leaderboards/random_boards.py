"""Small boards drawn at random, with everything that makes a sentence false: missing ends, odd seeds, lower scores."""

from __future__ import annotations

import math
import random
from typing import Any

from dpicl.results.schema import Result
from tests.leaderboards.factory import make_result

#: (task, main metric)
TASKS = (
    ("agnews", "acc_calibrated"),
    ("trec", "acc_calibrated"),
    ("samsum", "rougeL"),
    ("enron", "word_distance"),
)
_SCORES = [i / 20 for i in range(21)]


def random_results(seed: int) -> list[Result]:
    """Results of one section; equal seeds give equal boards."""
    coin = random.Random(seed)
    tasks = coin.sample(TASKS, coin.randint(1, 3))
    seeds = list(range(coin.choice([1, 2, 3])))
    results = []
    for task, metric in tasks:
        shared: dict[str, Any] = {"task": task, "metric": metric}
        for end in ("zero_shot", "real_demonstrations"):
            seeds_of_end = (
                []
                if coin.random() < 0.1
                else seeds + list(range(len(seeds), len(seeds) + coin.choice([0, 0, 2])))
            )
            results += [
                make_result(end, coin.choice(_SCORES), seed=one, **shared) for one in seeds_of_end
            ]
        for label in coin.sample(["tang", "pta", "voting", "mine", "control"], coin.randint(1, 4)):
            results += _row(coin, label, seeds, shared)
    return results


def _row(coin: random.Random, label: str, seeds: list[int], shared: dict[str, Any]) -> list[Result]:
    settings: dict[str, Any] = {
        "dtype": coin.choice(["bfloat16", "float16", "float32"]),
        "queries": 20 if label == "voting" else None,
        "plugin": "e" * 64 if label == "mine" else None,
    }
    results = []
    for epsilon in (
        [0.0] if label == "control" else coin.choice([[1.0], [1.0, 8.0], [1.0, math.inf]])
    ):
        proved = epsilon * coin.choice([0.99, 0.99, 0.99, 1.2])
        run = coin.sample(seeds, coin.randint(1, len(seeds)))
        results += [
            make_result(
                label,
                coin.choice(_SCORES),
                epsilon=epsilon,
                seed=seed,
                proved=proved,
                **settings,
                **shared,
            )
            for seed in run
        ]
    return results
