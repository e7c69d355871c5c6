"""Results as a run would write them, with the numbers that a test asks for."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from dpicl.core.cell import Cell
from dpicl.core.paths import find_suite
from dpicl.mechanism.options import resolve_options
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.suite_files import load_suite
from dpicl.results.parts import Data, KnobValue, LedgerRow, Machine, Model
from dpicl.results.schema import (
    Answer,
    Cost,
    Documents,
    Manifest,
    Privacy,
    Released,
    Result,
    Score,
    SuiteReference,
)
from dpicl.results.store import Store

FIXED = {"zero_shot": 0.0, "real_demonstrations": math.inf}


def outcomes(score: float, documents: int) -> list[float]:
    """Zeros and ones whose mean is the score, to the next document."""
    right = round(score * documents)
    return [1.0] * right + [0.0] * (documents - right)


Thing = TypeVar("Thing", bound=BaseModel)


def change(thing: Thing, path: str, value: object) -> Thing:
    """A copy with another value at a path, such as 'manifest.model.name'."""
    name, _, below = path.partition(".")
    if below:
        value = change(getattr(thing, name), below, value)
    return thing.model_copy(update={name: value})


def make_result(
    mechanism: str = "tang",
    score: float = 0.6,
    *,
    task: str = "agnews",
    epsilon: float = 1.0,
    seed: int = 0,
    label: str | None = None,
    model: str = "embedded",
    source: str = "synthetic",
    delta: float = 1e-5,
    suite: str = "quick",
    suite_hash: str = "a" * 64,
    options: dict[str, Any] | None = None,
    proved: float | None = None,
    claimed: float | None = None,
    released: Sequence[tuple[str, str]] = (("a released text", "World"),),
    fingerprint: str = "f" * 64,
    documents: int = 20,
    metric: str = "acc_calibrated",
    others: Mapping[str, float] | None = None,
    aggregates: Mapping[str, float] | None = None,
    skipped: Mapping[str, str] | None = None,
    answers: Sequence[tuple[str, str]] = (),
    queries: int | None = None,
    per_query: float | None = None,
    created: str = "2026-01-02T03:04:05+00:00",
    dtype: str = "bfloat16",
    batch_invariant: bool | None = True,
    plugin: str | None = None,
) -> Result:
    """One result; zero_shot and real_demonstrations get their own epsilon whatever is asked.

    metric, others: the main metric and further ones. queries, per_query, answers: of an answer mechanism.
    """
    epsilon = FIXED.get(mechanism, epsilon)
    cell = Cell(
        suite=suite,
        suite_version=1,
        task=task,
        task_version=1,
        source=source,
        mechanism=mechanism,
        label=label or mechanism,
        options=options or {},
        model=model,
        epsilon=epsilon,
        delta=delta,
        seed=seed,
        shots=4,
        test_records=documents,
        train_records=1000,
        noise="seeded",
        mode="proved",
        plugin=plugin,
    )
    values = {
        name: outcomes(one, documents) for name, one in {metric: score, **(others or {})}.items()
    }
    proved = epsilon * 0.99 if proved is None else proved
    texts = (
        [Released(text=text, label=name, tokens=7) for text, name in released]
        if math.isfinite(proved)
        else []
    )
    if mechanism == "public_demonstrations":  # drawn anew for every seed
        texts = [one.model_copy(update={"text": f"{one.text} {seed}"}) for one in texts]
    if mechanism == "zero_shot" or queries is not None:
        texts = []
    withheld = mechanism != "zero_shot" and math.isinf(proved)
    return Result(
        cell_id=cell.id,
        suite=SuiteReference(name=suite, version=1, hash=suite_hash),
        cell=cell,
        scores={name: _score(outcomes_of_metric) for name, outcomes_of_metric in values.items()},
        main_metric=metric,
        documents={
            name: Documents(
                ids=[f"test-{i:04d}" for i in range(documents)], outcomes=outcomes_of_metric
            )
            for name, outcomes_of_metric in values.items()
        },
        privacy=_privacy(cell, proved, claimed, queries, per_query),
        released=texts,
        released_count=4 if withheld else len(answers) or len(texts),
        answers=[] if withheld else [Answer(id=name, text=text) for name, text in answers],
        aggregates=dict(aggregates or {}),
        skipped_metrics=dict(skipped or {}),
        manifest=_manifest(source, fingerprint, documents, dtype, batch_invariant),
        cost=Cost(
            seconds={"release": 12.0, "evaluate": 3.0}, tokens_read=12345, peak_memory_mb=1500.0
        ),
        created=created,
    )


def _score(values: Sequence[float]) -> Score:
    mean = sum(values) / len(values)
    return Score(value=mean, low=max(mean - 0.1, 0), high=min(mean + 0.1, 1))


def _privacy(
    cell: Cell, proved: float, claimed: float | None, queries: int | None, per_query: float | None
) -> Privacy:
    private = cell.mechanism not in FIXED
    return Privacy(
        epsilon_target=cell.epsilon,
        epsilon_claimed=claimed,
        epsilon_proved=proved,
        delta=cell.delta,
        knob=KnobValue(name="noise_multiplier", value=0.75) if private else None,
        queries=queries,
        epsilon_per_query=per_query,
        ledger=[LedgerRow(partition="World", event=_EVENT, count=25, note="tokens")]
        if private
        else [],
        event=_EVENT if private else {"event": "none"},
        accountants={"exact": proved},
    )


_EVENT = {"event": "poisson", "rate": 0.02, "of": {"event": "gaussian", "noise_multiplier": 0.75}}


def _manifest(
    source: str, fingerprint: str, documents: int, dtype: str, batch_invariant: bool | None
) -> Manifest:
    return Manifest(
        commit="0123456789abcdef",
        dirty=False,
        python="3.11.7",
        packages={"torch": "2.13.0", "dp-accounting": "0.6.0"},
        model=Model(
            name="SmolLM2-135M-Instruct",
            sha256="c" * 64,
            revision=None,
            parameters=134515008,
            batch_invariant=batch_invariant,
        ),
        data=Data(
            fingerprint=fingerprint,
            source=source,
            dropped={"duplicates": 3},
            sizes={"World": 1000, "Sports": 1000},
            test_records=documents,
        ),
        prompts_hash="d" * 64,
        dtype=dtype,
        device="cpu",
        machine=Machine(system="Linux", cpu="a processor", cores=2, memory_mb=8000),
    )


def ends(
    task: str = "agnews", zero_shot: float = 0.4, real_data: float = 0.8, seed: int = 0, **more: Any
) -> list[Result]:
    """The reference baselines of the scale for one task and seed."""
    return [
        make_result("zero_shot", zero_shot, task=task, seed=seed, **more),
        make_result("real_demonstrations", real_data, task=task, seed=seed, **more),
    ]


def with_outcomes(
    result: Result,
    outcomes: Iterable[float],
    metric: str | None = None,
    ids: Sequence[str] | None = None,
) -> Result:
    """The result with other outcomes of its documents, and the score that follows from them."""
    metric = metric or result.main_metric
    values = [float(value) for value in outcomes]
    documents = Documents(ids=ids or result.documents[metric].ids, outcomes=values)
    result = change(result, "documents", {**result.documents, metric: documents})
    return change(result, "scores", {**result.scores, metric: _score(values)})


def replace_cell(result: Result, **changes: Any) -> Result:
    """The result of another cell: its id fits, so the file is a sound one."""
    cell = result.cell.model_copy(update=changes)
    return result.model_copy(update={"cell": cell, "cell_id": cell.id})


def repeat(results: Iterable[Result], seeds: int = 10) -> list[Result]:
    """Every result at so many seeds, in place of its own: two seeds err on as many documents more and fewer, so that
    rows vary apart from each other around the same mean."""
    repeated = []
    for one in results:
        name = f"{one.cell.task} {one.cell.label} {one.cell.epsilon}"
        number = len(one.documents[one.main_metric].ids)
        for seed in range(seeds):
            step = random.Random(f"{name} {seed // 2}").choice((1, 2, -1, -2)) * (-1) ** seed
            values = outcomes(one.scores[one.main_metric].value + step / number, number)
            again = with_outcomes(replace_cell(one, seed=seed), values[:number])
            if again.cell.mechanism == "public_demonstrations":  # drawn anew for every seed
                texts = [change(text, "text", f"{text.text} {seed}") for text in one.released]
                again = change(again, "released", texts)
            repeated.append(again)
    return repeated


def write_shipped(folder: Path, results: Iterable[Result]) -> None:
    """Write results into a results folder as if the shipped suite of their name had made them, records and all."""
    for result in results:
        suite = load_suite(find_suite(result.cell.suite))
        reference = result.suite.model_copy(update={"hash": suite.hash, "version": suite.version})
        counts = {
            name: getattr(suite, name)
            for name in ("test_records", "train_records", "private_share")
        }
        result = replace_cell(result, suite_version=suite.version, task_version=2, **counts)
        Store(folder, suite.name).write(change(result, "suite", reference))


def shipped_options(mechanism: str) -> dict[str, Any]:
    """All options of a mechanism of the shipped suite quick."""
    options = next(
        entry.options
        for entry in load_suite(find_suite("quick")).mechanisms
        if entry.name == mechanism
    )
    return resolve_options(load_mechanisms()[mechanism].cls, "agnews", options)


def invert_metric(result: Result) -> Result:
    """The same result told by the opposite metric: every number is 1 minus what it was, and lower is better for higher
    is better."""
    data = result.model_dump()
    data["scores"] = {
        name: Score(value=1 - one.value, low=1 - one.high, high=1 - one.low)
        for name, one in result.scores.items()
    }
    data["documents"] = {
        name: Documents(ids=one.ids, outcomes=[1 - value for value in one.outcomes])
        for name, one in result.documents.items()
    }
    data["higher_is_better"] = {
        name: result.lower_is_better(name) for name in (*result.scores, *result.aggregates)
    }
    return Result(**data)
