"""Measures which models read labels that they have never seen: headroom of their own answers on tasks of codes.

    DPICL_DATA=… python -m benchmarks.instruments --out benchmarks/instruments.json
    DPICL_DATA=… python -m benchmarks.instruments --model qwen2.5-coder-0.5b-float32 --task trec_codes

Headroom is the accuracy after sixteen real demonstrations less that of the best control without records: zero-shot,
codewords as their own texts, and the model's own texts, likeliest and sampled. Seeds and test records are development
ones, which no row of a suite is scored on. Intervals are 95%, Student's over seeds, of differences paired by seed. The
best control is the one with the largest mean over these seeds. A model is an instrument of a task where headroom is at
least .2 and its interval excludes 0.

Since every map from classes to codewords is equally likely whatever a control shows, the expected accuracy of each is
exactly 1/k of k codewords. "over_chance" is the accuracy after real demonstrations less that: the same difference
without the luck of the best of a few controls.

Finished cells stay in --results, and the same command goes on from there; --finished reads them and runs nothing. A
control that lacks seeds is "unfinished" and counts for nothing. Prints a JSON object for each model, task and metric;
--out keeps what an earlier run with these settings measured of other models and tasks.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpicl.api.evaluate import run_selection
from dpicl.core.files import put_whole
from dpicl.data.config import load_config
from dpicl.evaluation.intervals import seeds_interval
from dpicl.plan.selection import Selection, selection_of
from dpicl.plan.suite_files import suite_of_program
from dpicl.results.schema import Result

MODELS = ("embedded-float32", "symbol-tuned-float32", "qwen2.5-coder-0.5b-float32")
TASKS = ("agnews_codes", "trec_codes", "dbpedia_codes")
METRICS = ("acc", "acc_calibrated")
REAL = "real_demonstrations"
#: Texts of the model have the length that rows of suite record release on these tasks.
ROWS = (
    {"name": REAL},
    {"name": "zero_shot"},
    {"name": "repeated_label"},
    {
        "name": "public_demonstrations",
        "label": "public_greedy",
        "options": {"tokens": 20, "greedy": True},
    },
    {"name": "public_demonstrations", "options": {"tokens": 20}},
)
SETTINGS = {
    "shots": 16,
    "test_records": 60,
    "task_test_records": {"trec_codes": 100},  # whose texts are short
    "private_share": 0.8,
    "seeds": [100, 101, 102, 103, 104],
}
#: The headroom of an instrument.
ENOUGH = 0.2

#: Row -> seed -> score.
Scores = Mapping[str, Mapping[int, float]]


def select(models: Sequence[str], tasks: Sequence[str], source: str, folder: Path) -> Selection:
    """All rows, on development records."""
    suite = suite_of_program(
        source=source, models=models, tasks=tasks, epsilons=[1], mechanisms=[*ROWS], **SETTINGS
    )
    return selection_of(suite.use_development_records(), folder)


def scores_of(results: Sequence[Result], metric: str) -> Scores:
    scores: dict[str, dict[int, float]] = defaultdict(dict)
    for result in results:
        scores[result.cell.label][result.cell.seed] = result.scores[metric].value
    return scores


def measure(scores: Scores, chance: float) -> dict[str, Any]:
    """The headroom of real demonstrations, and all means. Rows that lack a seed of theirs are left out."""
    seeds = sorted(scores[REAL])
    whole = [row for row, by_seed in scores.items() if by_seed.keys() >= {*seeds}]
    rows = {row: np.array([scores[row][seed] for seed in seeds]) for row in whole}
    best = max((row for row in rows if row != REAL), key=lambda row: rows[row].mean(), default=None)
    return {
        "seeds": seeds,
        "scores": {row: round(float(values.mean()), 4) for row, values in rows.items()},
        "unfinished": sorted(labels_of(ROWS) - rows.keys()),
        "best_control": best,
        "headroom": None if best is None else describe(rows[REAL] - rows[best]),
        "over_chance": describe(rows[REAL] - chance),
    }


def labels_of(rows: Sequence[Mapping[str, Any]]) -> set[str]:
    return {row.get("label", row["name"]) for row in rows}


def describe(gains: np.ndarray) -> dict[str, Any]:
    """Mean and interval of gains[S] of seeds, and whether they are enough for an instrument."""
    low, high = seeds_interval(gains)
    enough = bool(gains.mean() >= ENOUGH and low > 0)
    return {
        "gain": round(float(gains.mean()), 4),
        "low": round(low, 4),
        "high": round(high, 4),
        "enough": enough,
    }


def add_to(file: Path, document: dict[str, Any]) -> dict[str, Any]:
    """The document, with what the file has of other models, tasks and metrics, if its settings are the same."""
    measured = {identify(entry): entry for entry in document["measured"]}
    if file.exists():
        earlier = json.loads(file.read_text())
        if {**earlier, "measured": None} != {**document, "measured": None}:
            raise SystemExit(f"{file} has other settings; choose another file for --out.")
        measured = {identify(entry): entry for entry in earlier["measured"]} | measured
    return {**document, "measured": [measured[key] for key in sorted(measured)]}


def identify(entry: Mapping[str, Any]) -> tuple[str, str, str]:
    return entry["model"], entry["task"], entry["metric"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", action="append", help=f"default: {', '.join(MODELS)}")
    parser.add_argument("--task", action="append", help=f"default: {', '.join(TASKS)}")
    parser.add_argument("--source", default="local")
    parser.add_argument("--results", type=Path, default=Path("build/instruments"))
    parser.add_argument("--finished", action="store_true", help="read finished cells alone")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    selection = select(
        arguments.model or MODELS, arguments.task or TASKS, arguments.source, arguments.results
    )
    if not arguments.finished:
        run_selection(selection, "inline", None, True)
    tables: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in filter(None, map(selection.store.read, selection.cells)):
        tables[result.cell.model, result.cell.task].append(result)
    measured = []
    for (model, task), scores in tables.items():
        if REAL not in {result.cell.label for result in scores}:
            continue
        for metric in METRICS:
            records = len(scores[0].documents[metric].ids)
            report = {"model": model, "task": task, "metric": metric, "records": records}
            report |= measure(scores_of(scores, metric), 1 / len(load_config(task).classes))
            measured.append(report)
            print(json.dumps(report), flush=True)
    if arguments.out:
        document = {"source": arguments.source, **SETTINGS, "enough": ENOUGH, "measured": measured}
        document = add_to(arguments.out, document)
        put_whole(arguments.out, json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    main()
