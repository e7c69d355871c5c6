"""How often `dpicl compare` cries wolf, and which drops it finds, over simulated comparisons.

    python -m benchmarks.regression_power --json
    python -m benchmarks.regression_power --setting one-cell --comparisons 600

A comparison has 10 cells of 150 documents at 1, 2, 3 or 5 seeds. An outcome is right with a probability that depends on
the document (probit; two outcomes of one document correlate at about 0.6, on both sides alike), on the seed of the
cell and on the drop that is planted in the candidate. Base and candidate draw their noise independently. What a seed
does to a whole cell, on each side: "none"; or "as measured": a standard deviation of 0, 0, 0.025, 0.04 or 0.07 of the
score, drawn for each cell. Both sets of numbers are from the 42 cells with randomness in results/classification
(agnews, dbpedia, trec; 3 seeds of 150 documents): correlation of two seeds' outcomes on a document 0.46, 0.61, 0.68 and
seeds' standard deviation 0, 0.025, 0.039 at the quartiles, 0.07 at the ninth decile. "one-cell" is a trap for a test in
which cells learn from each other: 30 cells of 100 documents, seeds move one of them by 0.2 and the others not at all.
Nothing is planted in it.

The drop is planted in 3 of the 10 cells. "False alarms" is the share of comparisons with a regression or an improvement
in any cell without one; "gate" the share that would stop a release; "found" the share of planted cells found. Other
tests run on the same comparisons where nothing is planted, with Holm's adjustment: they are why seeds are a sample too.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from benchmarks._report import machine
from dpicl.evaluation.intervals import wilson_interval
from dpicl.evaluation.statistics import holm, paired_tests
from dpicl.leaderboards.compare.verdicts import DEFAULTS

PLANTED = 3
SEEDS = (1, 2, 3, 5)
DROPS = (0.0, 0.02, 0.05, 0.1)
#: Correlation of the normal variables behind two outcomes of one document: 0.6 for the outcomes themselves.
WITHIN_DOCUMENT = 0.81


@dataclass(frozen=True)
class Setting:
    """effects: standard deviations, over seeds, of a cell's true score: one of them at random for every cell, or, where
    `in_order`, one for each. drops: what is planted."""

    effects: tuple[float, ...]
    cells: int = 10
    documents: int = 150
    in_order: bool = False
    drops: tuple[float, ...] = DROPS


SETTINGS = {
    "none": Setting((0.0,)),
    "as measured": Setting((0.0, 0.0, 0.025, 0.04, 0.07)),
    "one-cell": Setting((0.2,) + (0.0,) * 29, cells=30, documents=100, in_order=True, drops=(0.0,)),
}

Test = Callable[[Sequence[np.ndarray]], list[float]]


def draw_comparison(generator: np.random.Generator, setting: Setting, seeds: int, drop: float) -> list[np.ndarray]:
    """Differences[S, D] of every cell; the first `PLANTED` ones lose ``drop`` in truth."""
    cells, documents = [], setting.documents
    for i in range(setting.cells):
        score = generator.uniform(0.3, 0.8)
        effect = setting.effects[i] if setting.in_order else generator.choice(setting.effects)
        difficulty = generator.standard_normal((1, documents)) * WITHIN_DOCUMENT**0.5
        sides = []
        for loss in (0.0, drop if i < PLANTED else 0.0):
            true = score - loss + effect * generator.standard_normal((seeds, 1))
            luck = generator.standard_normal((seeds, documents)) * (1 - WITHIN_DOCUMENT) ** 0.5
            sides.append((difficulty + luck < special.ndtri(np.clip(true, 0.01, 0.99))).astype(float))
        cells.append(sides[1] - sides[0])
    return cells


def verdicts(cells: Sequence[np.ndarray], adjusted: list[float]) -> list[int]:
    """-1 (regression), 0 or 1 (improvement) for every cell, at the command's own alpha and smallest effect."""
    means = [float(cell.mean()) for cell in cells]
    return [
        int(np.sign(mean)) if p <= DEFAULTS.alpha and abs(mean) >= DEFAULTS.min_effect else 0
        for p, mean in zip(adjusted, means, strict=True)
    ]


def simulate(comparisons: int, setting: Setting, seeds: int, drop: float, test: Test, seed: int) -> list[int]:
    """Counts over simulated comparisons: (false alarms, stopped releases, planted cells that were found)."""
    generator = np.random.default_rng([seed, seeds, round(1000 * drop), len(setting.effects)])
    alarms = stopped = found = 0
    for _ in range(comparisons):
        cells = draw_comparison(generator, setting, seeds, drop)
        verdict = verdicts(cells, test(cells))
        planted = PLANTED if drop else 0
        alarms += any(verdict[planted:])
        stopped += -1 in verdict
        found += verdict[:planted].count(-1)
    return [alarms, stopped, found]


def ours(cells: Sequence[np.ndarray]) -> list[float]:
    """Adjusted p-values as `dpicl compare` has them."""
    return [test.adjusted for test in paired_tests(cells)]


def _documents_alone(cells: Sequence[np.ndarray]) -> list[float]:
    return holm([float(np.nan_to_num(stats.ttest_1samp(cell.mean(axis=0), 0.0).pvalue, nan=1.0)) for cell in cells])


def _mcnemar(cells: Sequence[np.ndarray]) -> list[float]:
    """Of the first seed alone."""
    counts = [(int((cell[0] < 0).sum()), int((cell[0] != 0).sum())) for cell in cells]
    return holm([float(stats.binomtest(lost, changed).pvalue) if changed else 1.0 for lost, changed in counts])


#: Tests that were not chosen.
OTHERS: dict[str, Test] = {
    "t over documents alone": _documents_alone,
    "McNemar": _mcnemar,
}


def run(
    comparisons: int = 200,
    seed: int = 0,
    settings: Sequence[str] = tuple(SETTINGS),
    numbers_of_seeds: Sequence[int] = SEEDS,
    drops: Sequence[float] = DROPS,
    others: bool = True,
) -> dict[str, Any]:
    """Every share with its 95% Wilson interval. others: whether the tests that were not chosen are run too."""
    start = time.perf_counter()
    rows = []
    for name in settings:
        for seeds in numbers_of_seeds:
            for drop in (drop for drop in SETTINGS[name].drops if drop in drops):
                counts = simulate(comparisons, SETTINGS[name], seeds, drop, ours, seed)
                rows.append(_row("default", name, seeds, drop, counts, comparisons))
            for test, own in OTHERS.items() if others else ():
                if seeds == 1 or test != "McNemar":
                    counts = simulate(comparisons, SETTINGS[name], seeds, 0.0, own, seed)
                    rows.append(_row(test, name, seeds, 0.0, counts, comparisons))
    return {
        "name": "regression_power",
        "comparisons": comparisons,
        "seed": seed,
        "rows": rows,
        "seconds": round(time.perf_counter() - start, 1),
        "machine": machine(),
    }


def _row(test: str, effect: str, seeds: int, drop: float, counts: list[int], comparisons: int) -> dict[str, Any]:
    alarms, stopped, found = counts
    row = {
        "test": test,
        "seed_effect": effect,
        "seeds": seeds,
        "drop": drop,
        "false_alarms": _share(alarms, comparisons),
    }
    if drop:
        row |= {"gate": _share(stopped, comparisons), "found": _share(found, comparisons * PLANTED)}
    return row


def _share(count: int, of: int) -> list[float]:
    """[share, low, high]."""
    return [round(value, 4) for value in (count / of, *wilson_interval(count, of))]


def _text(row: dict[str, Any]) -> str:
    shares = [
        f"{name} {'{:.3f} [{:.3f}, {:.3f}]'.format(*row[name])}"
        for name in ("false_alarms", "gate", "found")
        if name in row
    ]
    setting = f"seed effect {row['seed_effect']}, {row['seeds']} seeds, drop {row['drop']}"
    return f"{row['test']}, {setting}: {', '.join(shares)}"


def main() -> int:
    """Runs the simulation and prints it: one JSON document with --json, else a line a setting."""
    parser = argparse.ArgumentParser(description="False alarms and power of dpicl compare.")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--comparisons", type=int, default=200, help="simulated comparisons a setting (200)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--setting", action="append", choices=tuple(SETTINGS), help="may be repeated; default: all")
    parser.add_argument("--seeds", action="append", type=int, choices=SEEDS, help="may be repeated; default: all")
    parser.add_argument("--drop", action="append", type=float, choices=DROPS, help="may be repeated; default: all")
    parser.add_argument("--default-only", action="store_true", help="leave out the tests that were not chosen")
    given = parser.parse_args()
    lists = given.setting or tuple(SETTINGS), given.seeds or SEEDS, given.drop or DROPS
    result = run(given.comparisons, given.seed, *lists, others=not given.default_only)
    print(json.dumps(result, indent=1) if given.json else "\n".join(map(_text, result["rows"])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
