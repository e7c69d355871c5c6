"""Measures how often a board's verdicts are wrong, and their power, on simulated tables.

    python -m benchmarks.rank_coverage
    python -m benchmarks.rank_coverage --tables 200 --scenes ties --rows 2 5 --seeds 20

A table has 2 to 20 rows with 3 to 20 seeds of 100 documents. An outcome is right (binary), or has a value
(normal), by the row, by what the seed does to the row, by the document's difficulty, which all rows share, and by luck;
the standard deviations are those measured on committed results: of a paired difference .078 by seed, .117 by document,
.378 of the rest. "ties": all rows are equal. "steps": a row is .03 below the one before. "half": the first half of the
rows is .1 above the other, with ties within both. "uneven": as ties, every other row with its first half of the seeds
(two at least) alone. "ceiling": rows of .99 and .96 in turn, which seeds do not move, on 400 documents. "copies": two
distinct rows, each several times. "drawn": ties, and each row's sampling of private records moves it by .04, drawn anew
for every seed. "hidden": the same draw of as many rows more is one for all seeds; a board marks such rows and leaves
them out of rank sets, and so does this scene. "kept": every second row has a hidden draw and is ranked all the same,
which is why boards do not. "rare": as ceiling, all rows .97, but every second one falls by .5 at one seed in ten,
which a board does not allow for: what a seed does is assumed to be about normal.

"error" is the share of tables with a false verdict: a row "better" that is not, or "equivalent" at a true difference of
.03 or more. At most .05 is promised. "width" is the mean number of ranks in a set, "power" the share of true
differences that were found, "equivalent" the share of pairs called so. Prints a JSON object for each setting.
"""

from __future__ import annotations

import argparse
import itertools
import json
from typing import Any

import numpy as np
from scipy import special

from dpicl.evaluation.statistics import MARGIN, rank_sets

ROWS, SEEDS, DOCUMENTS = (2, 5, 12, 20), (3, 5, 10, 20), 100
#: Of one row: of a paired difference it is larger by the root of 2.
BY_SEED, BY_DOCUMENT, REST, BY_SAMPLE = 0.078 / 2**0.5, 0.117 / 2**0.5, 0.378 / 2**0.5, 0.04
SCENES = ("ties", "steps", "half", "uneven", "ceiling", "copies", "drawn", "hidden")
#: Not run unless it is asked for.
OTHERS = ("kept", "rare")
#: Where seeds move nothing, or (rare) by FALL at a share RARE of them.
_CALM, FALL, RARE = ("ceiling", "rare"), 0.5, 0.1


def true_scores(scene: str, rows: int) -> np.ndarray:
    """float64[p]."""
    numbers = np.arange(rows)
    steps = {"steps": 0.03 * numbers, "half": 0.1 * (numbers >= (rows + 1) // 2), "copies": 0.05 * (numbers % 2)}
    if scene in _CALM:
        return {"ceiling": 0.99 - 0.03 * (numbers % 2), "rare": 0.97 - FALL * RARE * (numbers % 2)}[scene]
    return 0.6 - steps.get(scene, np.zeros(rows))


def table(generator: np.random.Generator, scene: str, rows: int, seeds: int, binary: bool) -> np.ndarray:
    """float64[S, D, p]: outcomes of one table."""
    documents = 400 if scene in _CALM else DOCUMENTS
    rows *= 2 if scene == "hidden" else 1
    moved = BY_SEED * generator.standard_normal((seeds, 1, rows))
    luck = generator.standard_normal((seeds, documents, rows))
    own = generator.standard_normal((1, documents, rows))
    shared = generator.standard_normal((1, documents, 1))
    samples = BY_SAMPLE * generator.standard_normal((seeds, 1, rows))
    if scene in _CALM:
        moved *= 0.0
    if scene in ("hidden", "kept"):
        samples[:, :, ::2] = samples[:1, :, ::2]
    if scene in ("drawn", "hidden", "kept"):
        moved += samples
    if scene == "rare":
        falls = generator.random((seeds, 1, rows)) < RARE
        moved += FALL * (RARE - falls) * (np.arange(rows) % 2)
    if scene == "copies":
        moved, luck, own = (part[:, :, np.arange(rows) % 2] for part in (moved, luck, own))
    true = true_scores(scene, rows) + moved
    if binary:
        # Of a latent normal variable: shared difficulty .6, own difficulty .05, luck the rest: .117 and .378 as above.
        latent = 0.6**0.5 * shared + 0.05**0.5 * own + 0.35**0.5 * luck
        outcomes = (latent < special.ndtri(np.clip(true, 0.001, 0.999))).astype(float)
    else:
        outcomes = true + 0.3 * shared + BY_DOCUMENT * own + REST * luck
    if scene == "uneven":
        outcomes[max(2, seeds // 2) :, :, 1::2] = np.nan
    return outcomes[:, :, 1::2] if scene == "hidden" else outcomes


def measure(scene: str, rows: int, seeds: int, binary: bool, tables: int) -> dict[str, Any]:
    """How often the verdicts of so many tables are wrong, and how much they find."""
    true = true_scores(scene, rows)
    gaps = true[:, None] - true[None, :]
    above = gaps > 1e-9
    generator = np.random.default_rng([rows, seeds, int(binary), (*SCENES, *OTHERS).index(scene)])
    wrong, width, found, same = 0, 0.0, 0.0, 0.0
    upper = np.triu(np.ones(gaps.shape, dtype=bool), 1)
    for _ in range(tables):
        sets = rank_sets(table(generator, scene, rows, seeds, binary))
        equivalent = sets.equivalent
        wrong += bool((sets.better & ~above).any() or (equivalent & (np.abs(gaps) >= MARGIN - 1e-9)).any())
        width += float((sets.high - sets.low + 1).mean())
        found += float(sets.better[above].mean()) if above.any() else 0.0
        same += float(equivalent[upper].mean())
    return {
        "scene": scene,
        "outcomes": "binary" if binary else "normal",
        "rows": rows,
        "seeds": seeds,
        "error": round(wrong / tables, 3),
        "width": round(width / tables, 2),
        "power": round(found / tables, 3) if above.any() else None,
        "equivalent": round(same / tables, 3),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=400, help="simulated tables of each setting")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--scenes", nargs="+", choices=(*SCENES, *OTHERS), default=SCENES)
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    given = parser.parse_args()
    for setting in itertools.product(given.scenes, given.rows, given.seeds, (True, False)):
        print(json.dumps(measure(*setting, given.tables)), flush=True)
