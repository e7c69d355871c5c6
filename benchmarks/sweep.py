"""Writes a finished sweep of 10,000 cells of the simulated model, on which `plan` and `board` can be timed.

python -m benchmarks.sweep FOLDER few    # 200 rows of 50 seeds; `many`: 2,000 of 5; `one`: of one task and epsilon
time dpicl board FOLDER/sweep.yaml --results FOLDER/results --no-submissions --html FOLDER/site
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import yaml

from dpicl.data.task import Task
from dpicl.plan.selection import select
from tests.leaderboards.factory import make_result

#: Shape -> tasks, epsilons and number of seeds.
SHAPES: dict[str, tuple[list[str], list[float], int]] = {
    "few": (["agnews", "trec"], [0.5, 1, 2, 4, 8], 50),
    "many": (["agnews", "trec"], [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8], 5),
    "one": (["agnews"], [1], 5),
}
ENDS = {"zero_shot": 0.3, "real_demonstrations": 0.8}


def write(folder: Path, shape: str, cells: int = 10_000) -> None:
    """sweep.yaml and results/. cells: besides the reference baselines."""
    tasks, epsilons, seeds = SHAPES[shape]
    rows = range(cells // len(tasks) // len(epsilons) // seeds)
    mechanisms = [
        *ENDS,
        *({"name": "tang", "label": f"tang-{at}", "options": {"slots": 2 + at}} for at in rows),
    ]
    suite = {
        "name": "sweep",
        "version": 1,
        "source": "synthetic",
        "models": ["sim"],
        "seeds": list(range(seeds)),
    }
    suite |= {
        "tasks": tasks,
        "epsilons": epsilons,
        "test_records": 100,
        "train_records": 100,
        "mechanisms": mechanisms,
    }
    folder.mkdir(parents=True)
    file = folder / "sweep.yaml"
    file.write_text(yaml.safe_dump(suite), encoding="utf-8")
    selection = select(str(file), folder / "results")
    records = {name: Task.load(name, "synthetic", 100, 100).fingerprint for name in tasks}
    for cell in selection.cells:
        score = ENDS.get(cell.mechanism, random.Random(cell.label).uniform(0.35, 0.75))
        score += random.Random(cell.id).uniform(-0.05, 0.05)
        result = make_result(
            cell.mechanism,
            score,
            documents=100,
            epsilon=cell.epsilon,
            fingerprint=records[cell.task],
        )
        of_sweep = {"suite": selection.reference, "cell": cell, "cell_id": cell.id}
        selection.store.write(result.model_copy(update=of_sweep))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("shape", choices=SHAPES)
    arguments = parser.parse_args()
    write(arguments.folder, arguments.shape)
