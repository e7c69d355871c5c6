"""Measures how often a board's verdicts are wrong with the seed effects of committed rows, and their power.

    python -m benchmarks.rank_coverage --out benchmarks/rank_coverage.json
    python -m benchmarks.rank_coverage --suite record --task mit_d --model embedded-float32 --tables 200

Rows of one task, model and epsilon with most seeds are centred: each loses its own mean, so all are equal. A table is
so many whole seeds, drawn with replacement and for all rows together. "better" is the share of tables with any false
"better"; "claims" that of tables where Holm's step-down finds any difference between a row and the next, as for planned
contrasts; "equivalent" that of tables with any false "equivalent" where every second row is raised by
the margin. At most .05 is promised; "standard_error" is that of .05. "power" is the share of a raised row's pairs that
are found to differ, by how much it was raised; "planned" the same of single contrasts. Prints a JSON object for each
number of seeds; --out writes them all.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.core.files import put_whole
from dpicl.evaluation.statistics import LEVEL, MARGIN, paired_tests, rank_sets
from dpicl.results.store import Store

#: What one row is raised by.
GAPS = (0.05, 0.1, 0.2)


def read_centred(results: Path, suite: str, model: str, task: str, epsilon: float) -> np.ndarray:
    """float64[S, p]: scores of the rows with most seeds that vary, less the mean of each row."""
    rows: dict[str, dict[int, float]] = defaultdict(dict)
    for one in Store(results, suite).load_all()[0]:
        cell = one.cell
        if (cell.task, cell.model, cell.epsilon, cell.development) == (task, model, epsilon, False):
            rows[cell.label][cell.seed] = one.scores[one.main_metric].value
    most = max(map(len, rows.values()))
    scores = np.array(
        [[row[seed] for seed in sorted(row)] for row in rows.values() if len(row) == most]
    ).T
    return np.asarray(scores - scores.mean(axis=0))[:, scores.std(axis=0) > 0]


def measure(centred: np.ndarray, seeds: int, tables: int) -> dict[str, Any]:
    """The shares of so many tables with a false verdict, and of true differences that are found."""
    generator = np.random.default_rng(seeds)
    rows = centred.shape[1]
    raised = MARGIN * (np.arange(rows) % 2)
    apart = raised[:, None] != raised
    better = claims = equivalent = 0
    power, planned = dict.fromkeys(GAPS, 0.0), dict.fromkeys(GAPS, 0.0)
    for _ in range(tables):
        scores = centred[generator.integers(len(centred), size=seeds)]
        better += bool(rank_sets(scores).better.any())
        contrasts = [*(scores[:, :-1] - scores[:, 1:]).T]
        claims += min(test.adjusted for test in paired_tests(contrasts, both=True)) <= 1 - LEVEL
        equivalent += bool((rank_sets(scores + raised).equivalent & apart).any())
        for gap in GAPS:
            first = gap * (np.arange(rows) == 0)
            power[gap] += float(rank_sets(scores + first).better[0, 1:].mean())
            planned[gap] += paired_tests([contrasts[0] + gap], both=True)[0].adjusted <= 1 - LEVEL
    shares = {"better": better, "claims": claims, "equivalent": equivalent}
    return {
        "rows": rows,
        "committed_seeds": len(centred),
        "seeds": seeds,
        "tables": tables,
        **{name: round(count / tables, 4) for name, count in shares.items()},
        "standard_error": round((0.05 * 0.95 / tables) ** 0.5, 4),
        "power": {str(gap): round(hits / tables, 3) for gap, hits in power.items()},
        "planned": {str(gap): round(hits / tables, 3) for gap, hits in planned.items()},
    }


def write_table(measured: Sequence[Mapping[str, Any]]) -> str:
    """The Markdown of docs/reports/performance.md."""
    gaps = [str(gap) for gap in GAPS]
    heads = [
        "seeds",
        "false better",
        "claims",
        "false equivalent",
        *(f"power at {gap}, all pairs; one claim" for gap in gaps),
    ]
    lines = [heads, ["---"] * len(heads)]
    for one in measured:
        power = [f"{one['power'][gap]}; {one['planned'][gap]}" for gap in gaps]
        lines.append(
            [str(one[name]) for name in ("seeds", "better", "claims", "equivalent")] + power
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--suite", default="ginc")
    parser.add_argument("--model", default="ginc")
    parser.add_argument("--task", default="ginc")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=(10, 20))
    parser.add_argument("--tables", type=int, default=2000)
    parser.add_argument("--out", type=Path, help="a file for all of it")
    arguments = parser.parse_args()
    rows = {name: getattr(arguments, name) for name in ("suite", "model", "task", "epsilon")}
    centred = read_centred(arguments.results, *rows.values())
    measured = []
    for seeds in arguments.seeds:
        measured.append({**rows, **measure(centred, seeds, arguments.tables)})
        print(json.dumps(measured[-1]), flush=True)
    if arguments.out:
        put_whole(arguments.out, json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
