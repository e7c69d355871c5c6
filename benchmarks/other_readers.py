"""Reads committed released texts with classifiers that no mechanism uses, beside MiniLM's, by which boards read them.

    pip install --no-deps wordllama==0.4.0.post1
    DPICL_DATA=… python -m benchmarks.other_readers --task dbpedia_codes

static: the nearest demonstration by the mean of WordLlama's static word vectors (256 dimensions, in the package).
TF-IDF: a logistic regression on TF-IDF weights. All classifiers are fitted on the demonstrations that a cell released,
and read all test records. Texts of real demonstrations are in no result file: they are drawn again from the records.
MiniLM's scores on the test records of the cells must be the committed ones, else the run stops. Prints the mean score
of each row by each reader, then the differences of the first row to the others, each with its own 95% interval over
seeds.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dpicl.core.vocabulary import Demonstration
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.evaluation.intervals import seeds_interval
from dpicl.evaluation.nearest import CLASSIFIERS, logistic, predict_nearest
from dpicl.mechanism.registry import load_mechanisms
from dpicl.models.embeddings import load_embeddings
from dpicl.models.static_vectors import load_static_vectors
from dpicl.releasing.release import release
from dpicl.results.schema import Result
from dpicl.results.store import Store
from dpicl.run.workbench import Workbench

ROWS = (
    "private_evolution",
    "pta_small",
    "prism_small",
    "invisible_ink_small",
    "tang_small",
    "real_demonstrations",
)
#: (texts of test records, of demonstrations, labels of these) -> a label for each test record.
Reader = Callable[[Sequence[str], Sequence[str], Sequence[str]], list[str]]


def make_static_reader() -> Reader:
    """The nearest demonstration by the mean vector of a text's tokens."""
    vectors = load_static_vectors()
    return lambda queries, shown, labels: predict_nearest(
        vectors.encode(queries), vectors.encode(shown), labels
    )


def read_by_tfidf(queries: Sequence[str], shown: Sequence[str], labels: Sequence[str]) -> list[str]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    weights = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    known = weights.fit_transform(shown).toarray()
    return logistic(weights.transform(queries).toarray(), known, labels)


def make_minilm_reader(metric: str) -> Reader:
    """The classifier of a metric of committed results."""
    points: dict[str, np.ndarray] = {}

    def embed(texts: Sequence[str]) -> np.ndarray:
        new = sorted({text for text in texts if text not in points}, key=len)
        points.update(zip(new, load_embeddings("embedded").encode(new), strict=True))
        return np.array([points[text] for text in texts])

    return lambda queries, shown, labels: CLASSIFIERS[metric](embed(queries), embed(shown), labels)


def find_demonstrations(result: Result, bench: Workbench) -> Sequence[Demonstration]:
    """What a cell released: as its file has it, or drawn again where nothing is private."""
    if result.released:
        return [Demonstration(one.text, one.label) for one in result.released]
    loaded = bench.load_cell(result.cell)
    return release(
        loaded.mechanism, loaded.task, loaded.model, result.cell.release
    ).prompt.demonstrations


def read(demonstrations: Sequence[Demonstration], reader: Reader, task: Task) -> list[float]:
    """Whether the reader is right on each test record, in the order of their ids."""
    demonstrations = [one for one in demonstrations if one.text.strip()]
    queries = sorted(task.queries(), key=lambda query: query.id)
    labels = reader(
        [query.text for query in queries],
        [one.text for one in demonstrations],
        [one.label for one in demonstrations],
    )
    truth = {document["id"]: document["label"] for document in task.documents()}
    return [float(label == truth[query.id]) for query, label in zip(queries, labels, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--task", default="dbpedia_codes")
    parser.add_argument("--model", default="embedded-float32")
    parser.add_argument("--row", action="append", help=f"default: {', '.join(ROWS)}")
    arguments = parser.parse_args()
    bench = Workbench(load_mechanisms())
    metric = load_config(arguments.task).metadata.main_metric
    minilm = make_minilm_reader(metric)
    readers = {"MiniLM": minilm, "static": make_static_reader(), "TF-IDF": read_by_tfidf}
    results, _ = Store(arguments.results, "record").load_all()
    scores: dict[str, dict[str, np.ndarray]] = {}
    for row in arguments.row or ROWS:
        cells = {
            one.cell.seed: one
            for one in results
            if (one.cell.task, one.cell.model, one.cell.label)
            == (arguments.task, arguments.model, row)
            and one.cell.epsilon in (0, 1, np.inf)
            and not one.cell.development
        }
        if not cells:
            raise SystemExit(
                f"There is no row {row} of {arguments.task} at epsilon 0, 1 or infinity; name another."
            )
        ordered = [cells[seed] for seed in sorted(cells)]
        shown = [find_demonstrations(one, bench) for one in ordered]
        for one, demonstrations in zip(ordered, shown, strict=True):
            again = read(demonstrations, minilm, bench.task(one.cell))
            if not np.isclose(np.mean(again), one.scores[metric].value):
                raise SystemExit(
                    f"MiniLM's score of {row} is not the committed one; the records at hand differ."
                )
        whole = [bench.task(one.cell.model_copy(update={"test_records": None})) for one in ordered]
        scores[row] = {
            name: np.array(
                [read(scored, reader, task) for scored, task in zip(shown, whole, strict=True)]
            )
            for name, reader in readers.items()
        }
        means = {name: round(float(scored.mean()), 3) for name, scored in scores[row].items()}
        sizes = {"seeds": len(ordered), "records": len(whole[0].test)}
        print(json.dumps({"task": arguments.task, "row": row, **sizes, **means}), flush=True)
    first, *others = scores
    for other in others:
        for name in readers:
            seeds = min(len(scores[first][name]), len(scores[other][name]))
            difference = (scores[first][name][:seeds] - scores[other][name][:seeds]).mean(axis=1)
            interval = [round(end, 3) for end in seeds_interval(difference)]
            wins = int((difference > 0).sum())
            value = round(float(difference.mean()), 3)
            print(json.dumps({"reader": name, "difference": f"{first} − {other}", "value": value,
                              "interval": interval, "seeds_above": wins, "of": seeds}))  # fmt: skip


if __name__ == "__main__":
    main()
