"""How often rank sets leave out a true rank, and how large they are, over simulated tables.

    python -m benchmarks.rank_coverage --json
    python -m benchmarks.rank_coverage --tables 200 --scenes ties --rows 2 5 --seeds 20

A table has 2, 5, 12 or 20 rows with 3, 5 or 20 seeds of 100 documents. An outcome is right (binary), or has a value
(normal), by the row, by what the seed does to the row, by the document's difficulty, which all rows share, and by luck;
the standard deviations are those measured on committed results: of a paired difference .078 by seed, .117 by document,
.378 of the rest. "ties": all rows are equal. "steps": a row is .03 below the one before. "half": the first half of the
rows is .1 above the other, with ties within both. "uneven": as ties, every other row with its first half of the seeds
(two at least) alone. "error" is the share of tables in which a significant difference is wrong, or a true rank is
outside its set: at most .05 is promised. "width" is the mean number of ranks in a set, "power" the share of true
differences that were found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import special

from benchmarks._report import machine
from dpicl.leaderboards.model.rank_sets import rank_sets

ROWS, SEEDS, DOCUMENTS = (2, 5, 12, 20), (3, 5, 20), 100
#: Of one row: of a paired difference it is larger by the root of 2.
BY_SEED, BY_DOCUMENT, REST = 0.078 / 2**0.5, 0.117 / 2**0.5, 0.378 / 2**0.5
SCENES = ("ties", "steps", "half", "uneven")


def true_scores(scene: str, rows: int) -> np.ndarray:
    """float64[p]."""
    steps = {"steps": 0.03 * np.arange(rows), "half": 0.1 * (np.arange(rows) >= (rows + 1) // 2)}
    return 0.6 - steps.get(scene, np.zeros(rows))


def table(generator: np.random.Generator, scene: str, rows: int, seeds: int, binary: bool) -> np.ndarray:
    """float64[S, D, p]: outcomes of one table."""
    true = true_scores(scene, rows) + BY_SEED * generator.standard_normal((seeds, 1, rows))
    luck = generator.standard_normal((seeds, DOCUMENTS, rows))
    own = generator.standard_normal((1, DOCUMENTS, rows))
    shared = generator.standard_normal((1, DOCUMENTS, 1))
    if binary:
        # Of a latent normal variable: shared difficulty .6, own difficulty .05, luck the rest: .117 and .378 as above.
        latent = 0.6**0.5 * shared + 0.05**0.5 * own + 0.35**0.5 * luck
        outcomes = (latent < special.ndtri(np.clip(true, 0.001, 0.999))).astype(float)
    else:
        outcomes = true + 0.3 * shared + BY_DOCUMENT * own + REST * luck
    if scene == "uneven":
        outcomes[max(2, seeds // 2) :, :, 1::2] = np.nan
    return outcomes


def measured(scene: str, rows: int, seeds: int, binary: bool, tables: int) -> dict[str, Any]:
    """One line of the table in docs."""
    true = true_scores(scene, rows)
    above = true[:, None] > true[None, :] + 1e-9
    best, worst = 1 + above.sum(axis=0), rows - above.sum(axis=1)
    generator = np.random.default_rng([rows, seeds, int(binary), SCENES.index(scene)])
    wrong, width, found = 0, 0.0, 0.0
    for number in range(tables):
        sets = rank_sets([table(generator, scene, rows, seeds, binary)], draws=1_000, seed=number)
        wrong += bool((sets.better & ~above).any() or (sets.low > best).any() or (sets.high < worst).any())
        width += float((sets.high - sets.low + 1).mean())
        found += float(sets.better[above].mean()) if above.any() else 0.0
    return {
        "scene": scene,
        "outcomes": "binary" if binary else "normal",
        "rows": rows,
        "seeds": seeds,
        "error": round(wrong / tables, 3),
        "width": round(width / tables, 2),
        "power": round(found / tables, 3) if above.any() else None,
    }


def run(tables: int, scenes: list[str], rows: list[int], of_seeds: list[int]) -> Iterator[dict[str, Any]]:
    for binary in (True, False):
        for scene in scenes:
            for number in rows:
                for seeds in of_seeds:
                    yield measured(scene, number, seeds, binary, tables)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=400, help="simulated tables of each setting")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    arguments = parser.parse_args()
    start, lines = time.perf_counter(), []
    for line in run(arguments.tables, arguments.scenes, arguments.rows, arguments.seeds):
        lines.append(line)
        if not arguments.json:
            print("  ".join(f"{name} {value}" for name, value in line.items()), flush=True)
    if arguments.json:
        seconds = round(time.perf_counter() - start, 1)
        print(json.dumps({"tables": arguments.tables, "seconds": seconds, "machine": machine(), "lines": lines}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
