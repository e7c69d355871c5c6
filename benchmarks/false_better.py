"""Measures how often a board calls one of several equal rows better, with the seed effects of committed rows.

    python -m benchmarks.false_better --suite ginc --task ginc --epsilon 1

Rows that release texts and have most seeds are centred: each loses its own mean, so all are equal. A table draws as
many seeds as a setting says and all test records, both with replacement and for all rows together. "error" is the share
of tables in which a board's rank sets call any row better; .05 is promised. Prints a JSON object for each number of
seeds.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path

import numpy as np

from dpicl.evaluation.statistics import rank_sets
from dpicl.results.store import Store


def read_centred(results: Path, suite: str, task: str, epsilon: float) -> np.ndarray:
    """float64[S, D, p]: outcomes of the rows with most seeds, less the mean of each row."""
    rows: dict[str, dict[int, list[float]]] = defaultdict(dict)
    for one in Store(results, suite).load_all()[0]:
        cell = one.cell
        if (cell.task, cell.epsilon) == (task, epsilon) and not cell.development and one.kind == "demonstrations":
            by_id = one.documents[one.main_metric].by_id
            rows[cell.label][cell.seed] = [by_id[name] for name in sorted(by_id)]
    most = max(map(len, rows.values()))
    whole = [row for row in rows.values() if len(row) == most]
    outcomes = np.array([[row[seed] for seed in sorted(row)] for row in whole]).transpose(1, 2, 0)
    return np.asarray(outcomes - outcomes.mean(axis=(0, 1)))


def measure(outcomes: np.ndarray, seeds: int, tables: int) -> dict[str, float]:
    """The share of so many tables with a false "better"."""
    generator = np.random.default_rng(seeds)
    wrong = 0
    for _ in range(tables):
        drawn = generator.integers(outcomes.shape[0], size=seeds)
        records = generator.integers(outcomes.shape[1], size=outcomes.shape[1])
        wrong += bool(rank_sets(outcomes[drawn][:, records]).better.any())
    error = wrong / tables
    return {"seeds": seeds, "tables": tables, "error": error, "standard_error": (error * (1 - error) / tables) ** 0.5}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--suite", default="ginc")
    parser.add_argument("--task", default="ginc")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=(3, 5, 10, 20))
    parser.add_argument("--tables", type=int, default=1000)
    arguments = parser.parse_args()
    outcomes = read_centred(arguments.results, arguments.suite, arguments.task, arguments.epsilon)
    print(json.dumps({"rows": outcomes.shape[2], "committed_seeds": outcomes.shape[0]}))
    for seeds in arguments.seeds:
        print(json.dumps(measure(outcomes, seeds, arguments.tables)), flush=True)


if __name__ == "__main__":
    main()
