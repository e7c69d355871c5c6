"""How often `dpicl compare` gives a false alarm, and which drops it finds, over simulated comparisons.

    python -m benchmarks.regression_power --json
    python -m benchmarks.regression_power --settings one-cell --comparisons 600

A comparison has 10 cells of 150 documents at 1, 2, 3 or 5 seeds. An outcome is right with a probability that depends on
the document (probit; two outcomes of one document correlate at about 0.6, on both sides alike), on the seed of the
cell and on the drop that is planted in the candidate. Base and candidate draw their noise independently. What a seed
does to a whole cell, on each side: "none"; or "as measured": a standard deviation of 0, 0, 0.025, 0.04 or 0.07 of the
score, drawn for each cell, as in the 42 cells with randomness in results/classification. "one-cell" is a trap for a
test in which cells learn from each other: seeds move one of its 30 cells by 0.2 and the others not at all.

The drop is planted in 3 of the 10 cells. "false_alarms" is the share of comparisons with a regression or an improvement
in any cell without one; "gate" the share that would stop a release; "found" the share of planted cells found.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from benchmarks._report import main, table
from dpicl.evaluation.intervals import wilson_interval
from dpicl.evaluation.statistics import paired_tests
from dpicl.leaderboards.compare.releases import DEFAULTS

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


def adjusted_p_values(cells: Sequence[np.ndarray]) -> list[float]:
    """As `dpicl compare` has them."""
    return [test.adjusted for test in paired_tests(cells)]


def simulate(
    comparisons: int,
    setting: Setting,
    seeds: int,
    drop: float,
    test: Callable[[Sequence[np.ndarray]], list[float]] = adjusted_p_values,
    seed: int = 0,
) -> tuple[int, int, int]:
    """Counts over simulated comparisons: (false alarms, stopped releases, planted cells that were found)."""
    generator = np.random.default_rng([seed, seeds, round(1000 * drop), len(setting.effects)])
    alarms = stopped = found = 0
    planted = PLANTED if drop else 0
    for _ in range(comparisons):
        cells = draw_comparison(generator, setting, seeds, drop)
        means = [float(cell.mean()) for cell in cells]
        verdict = [
            int(np.sign(mean)) if p <= DEFAULTS.alpha and abs(mean) >= DEFAULTS.min_effect else 0
            for p, mean in zip(test(cells), means, strict=True)
        ]
        alarms += any(verdict[planted:])
        stopped += -1 in verdict
        found += verdict[:planted].count(-1)
    return alarms, stopped, found


def run(comparisons: int, settings: Sequence[str], seeds: Sequence[int], seed: int) -> dict[str, Any]:
    """Every share with its 95% Wilson interval."""
    rows = []
    for name in settings:
        for number in seeds:
            for drop in SETTINGS[name].drops:
                alarms, stopped, found = simulate(comparisons, SETTINGS[name], number, drop, seed=seed)
                row = {"seed_effect": name, "seeds": number, "drop": drop, "false_alarms": _share(alarms, comparisons)}
                if drop:
                    row |= {"gate": _share(stopped, comparisons), "found": _share(found, comparisons * PLANTED)}
                rows.append(row)
    return {"name": "regression_power", "comparisons": comparisons, "seed": seed, "rows": rows}


def _share(count: int, of: int) -> list[float]:
    """[share, low, high]."""
    return [round(value, 4) for value in (count / of, *wilson_interval(count, of))]


if __name__ == "__main__":
    sys.exit(
        main(
            run,
            __doc__,
            lambda result: table(result["rows"]),
            comparisons={"type": int, "default": 200, "help": "simulated comparisons a setting (200)"},
            settings={"nargs": "+", "choices": tuple(SETTINGS), "default": list(SETTINGS)},
            seeds={"type": int, "nargs": "+", "choices": SEEDS, "default": list(SEEDS)},
            seed={"type": int, "default": 0},
        )
    )
