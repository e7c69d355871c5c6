"""Measures how fast dpicl is, as ratios to what other code does in the same run on the same machine.

    DPICL_DATA=… python -m benchmarks.speed --out speed.json       # ten minutes on two idle cores
    python -m benchmarks.speed --compare benchmarks/speed.json speed.json
    python -m benchmarks.speed --table benchmarks/speed.json       # the table of docs/reports/performance.md

Names the measures that fell by more than `TOLERATED` and ends with exit code 1 then.

* cells: tokens a second of a release or evaluation, over transformers' own pass over `PLAIN` in the same run. A token
  that is read once and used again counts once. Classifiers of what texts carry are not part of it.
* requests: the same requests by lm-eval's `HFLM` (batches of 8, its own cache of one-token labels) and by ours, in
  float32; their log-probabilities differ by at most 1e-3.
* calibration: seconds of prv-accountant's `find_noise_multiplier` over ours, at an accuracy of .01 in epsilon; the
  noises differ by at most 2%.
* start: seconds of a command, over those of `python -c "import numpy, pydantic"`.
* busy: seconds of an evaluation beside `BUSY` processes that compute, over those without; lower is better.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import dpicl  # noqa: F401  before torch: it decides how threads wait

# isort: split
import torch
from dp_accounting import dp_event as dp
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM
from prv_accountant.dpsgd import find_noise_multiplier

from dpicl import models
from dpicl.accounting.calibration import calibrate
from dpicl.core.paths import models_folder
from dpicl.core.vocabulary import Knob
from dpicl.data.task import CONTENT_FREE, Task
from dpicl.evaluation.lm_eval_models import LanguageModelLM
from dpicl.models.transformers import TransformersLM
from dpicl.results import manifest

ROOT = Path(__file__).parents[1]
#: Prompts and their tokens in a plain pass.
PLAIN = (8, 128)
#: Processes that compute beside the evaluation.
BUSY = 6
#: A measure may fall by so much from one committed file to the next run.
TOLERATED = 0.15
SUITE = """name: speed
version: 1
source: auto
models: [embedded]
seeds: [0]
epsilons: [1]
shots: 4
test_records: {documents}
tasks: [dbpedia]
mechanisms:
  - name: {mechanism}
    options: {options}
"""
#: Cell -> mechanism, options, test records.
CELLS: dict[str, tuple[str, dict[str, Any], int]] = {
    "evaluation": ("real_demonstrations", {}, 100),
    "evaluation of 400": ("real_demonstrations", {}, 400),
    "voting": (
        "voting",
        {"slots": 10, "examples_per_slot": 4, "record_tokens": 32, "calibrate": True},
        16,
    ),
    "tang": (
        "tang",
        {"slots": 16, "examples_per_slot": 1, "tokens": 20, "top_k": 10, "record_tokens": 32},
        8,
    ),
}
CLASS_NAMES = [
    "Company", "Educational institution", "Artist", "Athlete", "Office holder",
    "Mean of transportation", "Building", "Natural place", "Village", "Animal", "Plant", "Album",
    "Film", "Written work",
]  # fmt: skip
#: Name, rate, steps, epsilon, delta: the settings of Tang et al. and of Wu et al.
CALIBRATIONS = (
    ("agnews", 20 / 30000, 100, 1.0, 1e-5),
    ("trec", 80 / 835, 15, 1.0, 1 / 835),
    ("mit_g", 80 / 2953, 80, 4.0, 1 / 2953),
    ("esa_samsum", 400 / 14732, 100, 3.0, 5e-5),
)
NOISE = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)
STARTS = {
    "list mechanisms": ["list", "mechanisms"],
    "board record": ["board", "record"],
    "board ginc": ["board", "ginc"],
}


def timed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """What a call gives, and its seconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, time.perf_counter() - start


def fastest(call: Callable[..., Any], *arguments: Any) -> float:
    """The fewest seconds of three calls."""
    return min(timed(call, *arguments)[1] for _ in range(3))


def plain_rate(model: TransformersLM, seconds: float = 5.0) -> float:
    """The best rate of transformers' own forward pass, in tokens a second."""
    random = torch.Generator().manual_seed(0)
    tokens = torch.randint(model.vocab_size, PLAIN, generator=random).to(model.device)
    best, end = 0.0, time.perf_counter() + seconds
    with torch.inference_mode():
        while time.perf_counter() < end:
            start = time.perf_counter()
            model.model(tokens, use_cache=False, logits_to_keep=1)
            best = max(best, tokens.numel() / (time.perf_counter() - start))
    return best


def measure_cells(rounds: int) -> dict[str, float]:
    model = models.load("embedded")
    assert isinstance(model, TransformersLM)
    rates: dict[str, list[float]] = {name: [] for name in CELLS}
    plain = [plain_rate(model)]
    for _ in range(rounds):
        for name in CELLS:
            rates[name].append(_run_cell(name))
            plain.append(plain_rate(model))
    best = max(plain)
    measures = {f"cells: {name}": statistics.median(each) / best for name, each in rates.items()}
    return {**measures, "plain tokens a second": best}


def _run_cell(name: str) -> float:
    """Tokens a second of the release and the evaluation of a cell, in a process of its own."""
    mechanism, options, documents = CELLS[name]
    with tempfile.TemporaryDirectory() as folder:
        suite, cache = Path(folder) / "speed.yaml", Path(folder) / "cache"
        suite.write_text(
            SUITE.format(mechanism=mechanism, options=json.dumps(options), documents=documents)
        )
        cache.mkdir()
        (cache / "models").symlink_to(models_folder())  # no output is known, and the weights are
        results = Path(folder) / "results"
        words = ["run", str(suite), "--results", str(results), "--engine", "inline"]
        run_dpicl(words, DPICL_CACHE=str(cache))
        paths = [path for path in results.rglob("*.json") if mechanism in path.parts]
        cost = json.loads(paths[0].read_text())["cost"]
    return cost["tokens_read"] / (cost["seconds"]["release"] + cost["seconds"]["evaluate"])


def run_dpicl(words: list[str], **settings: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}/harness", **settings}
    command = [sys.executable, "-m", "dpicl", *words]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)


def measure_requests() -> dict[str, float]:
    logging.getLogger("lm_eval").setLevel(logging.ERROR)
    model = models.load("embedded", dtype="float32")
    assert isinstance(model, TransformersLM)
    task = Task.load("dbpedia", "auto", limit_train=4, limit_test=12)
    ours = LanguageModelLM(model)
    theirs = HFLM(pretrained=model.model, tokenizer=model.tokenizer, backend="causal", batch_size=8)
    measures = {}
    for name, labels, records in (("labels", task.labels, 12), ("names", CLASS_NAMES, 4)):
        for side in (ours, theirs):
            side.loglikelihood(_requests(task, labels[:2], 1), disable_tqdm=True)
        requests = _requests(task, labels, records)
        our_answers, our_seconds = timed(ours.loglikelihood, requests, True)
        their_answers, their_seconds = timed(theirs.loglikelihood, requests, True)
        pairs = zip(our_answers, their_answers, strict=True)
        if any(abs(mine[0] - other[0]) > 1e-3 or mine[1] != other[1] for mine, other in pairs):
            raise SystemExit(f"The log-probabilities of {name} differ from HFLM's.")
        measures[f"requests: {name}"] = their_seconds / our_seconds
    return measures


def _requests(task: Task, labels: Any, records: int) -> list[Instance]:
    """Every label after every query, content-free inputs first."""
    prefix = task.icl_prefix(task.train[:4])
    texts = [*CONTENT_FREE, *(record.text for record in task.test[:records])]
    pairs = [(prefix + task.query(text), f" {label}") for text in texts for label in labels]
    return [
        Instance("loglikelihood", {}, pair, number, metadata=("dbpedia", number, 1))
        for number, pair in enumerate(pairs)
    ]


def measure_calibration() -> dict[str, float]:
    measures = {}
    for name, rate, steps, epsilon, delta in CALIBRATIONS:
        our_noise, our_seconds = timed(_calibrate, rate, steps, epsilon, delta)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search = partial(find_noise_multiplier, eps_error=0.01)
            their_noise, their_seconds = timed(search, rate, steps, epsilon, delta)
        if our_noise > 1.02 * their_noise:
            raise SystemExit(f"The noise of {name} is more than 2% above prv-accountant's.")
        measures[f"calibration: {name}"] = their_seconds / our_seconds
    return measures


def _calibrate(rate: float, steps: int, epsilon: float, delta: float) -> float:
    def events(noise: float) -> dp.DpEvent:
        sampled = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
        return dp.SelfComposedDpEvent(sampled, steps)

    return calibrate(events, NOISE, epsilon, delta, cache=None).knob


def measure_starts() -> dict[str, float]:
    base = fastest(subprocess.run, [sys.executable, "-c", "import numpy, pydantic"])
    measures = {}
    for name, words in STARTS.items():
        seconds = fastest(run_dpicl, words)
        measures[f"start: {name}"] = seconds / base
        measures[f"seconds of {name}"] = seconds
    return measures


def measure_busy() -> dict[str, float]:
    """Seconds of an evaluation of 20 records beside busy processes, over those without."""
    model = models.load("embedded")
    task = Task.load("dbpedia", "auto", limit_train=4, limit_test=20)
    lm, requests = LanguageModelLM(model), _requests(task, task.labels, 20)
    lm.loglikelihood(requests, disable_tqdm=True)
    _, idle = timed(lm.loglikelihood, requests, True)
    with busy_processes():
        _, busy = timed(lm.loglikelihood, requests, True)
    return {"busy: evaluation": busy / idle, "seconds of a busy evaluation": busy}


@contextmanager
def busy_processes() -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_spin, daemon=True) for _ in range(BUSY)]
    for process in processes:
        process.start()
    time.sleep(2)
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _spin() -> None:
    while True:
        sum(range(10_000))


def measure(rounds: int) -> dict[str, Any]:
    """Every measure, and what it was measured on."""
    measures: dict[str, float] = {}
    parts = (measure_starts, measure_calibration, measure_requests, measure_busy)
    for part in parts:
        measures |= part()
    measures |= measure_cells(rounds)
    commit, changed = manifest.commit()
    return {
        "commit": commit,
        "dirty": changed,
        "machine": manifest.machine().model_dump(),
        "packages": dict(manifest.package_versions()),
        "threads": torch.get_num_threads(),
        "dtype": models.load("embedded").identity.dtype,
        "measures": {name: float(f"{value:.3g}") for name, value in measures.items()},
    }


def fallen(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """A line for each ratio that became worse by more than `TOLERATED`; seconds and rates are of one machine."""
    lines = []
    for name, old in before["measures"].items():
        new = now["measures"].get(name)
        is_cost = name.startswith(("start", "busy"))
        if ":" not in name or (
            new is not None and (new / old if is_cost else old / new) <= 1 + TOLERATED
        ):
            continue
        lines.append(f"{name}: {old:g} -> {'gone' if new is None else format(new, 'g')}")
    return lines


def table(report: dict[str, Any]) -> str:
    """The measures as a Markdown table."""
    machine = report["machine"]
    rows = [f"| {name} | {value:g} |" for name, value in report["measures"].items()]
    about = (
        f"{machine['cpu']}, {machine['cores']} cores, {report['threads']} threads, {report['dtype']},"
        f" torch {report['packages']['torch']}, commit {str(report['commit'])[:8]}"
    )
    return "\n".join([f"| {about} | |", "|---|---|", *rows])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write what was measured")
    parser.add_argument(
        "--rounds", type=int, default=2, metavar="N", help="how often each cell runs"
    )
    parser.add_argument("--compare", type=Path, metavar="FILE", help="an earlier report")
    parser.add_argument("--table", type=Path, metavar="FILE", help="print a report as a table")
    parser.add_argument(
        "report", type=Path, nargs="?", help="compare this one, and measure nothing"
    )
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.table.read_text())))
        return 0
    report = (
        json.loads(arguments.report.read_text()) if arguments.report else measure(arguments.rounds)
    )
    if arguments.out:
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    lines = fallen(json.loads(arguments.compare.read_text()), report) if arguments.compare else []
    for line in lines:
        print(f"fell by more than {TOLERATED:.0%}: {line}")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
