"""Cells of one process share its model and its outputs: each gives what it gives alone, and nothing is done twice."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.engines.local import Inline
from dpicl.engines.worker import Job
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite_files import load_suite
from dpicl.results.schema import Result, SuiteReference
from dpicl.results.store import Store
from tests.harness.local_suite import synthetic_suite
from tests.harness.mortal import MAY_DIFFER

MIXED = (
    "{name: zero_shot}",
    "{name: real_demonstrations}",
    "{name: tang, options: {slots: 3, examples_per_slot: 1, tokens: 4, top_k: 10}}",
    "{name: prism, options: {prompts: 4, tokens: 3}}",
    "{name: voting, options: {slots: 4, examples_per_slot: 2}}",
)


@pytest.fixture(scope="module")
def folder(tiny_folder: Path) -> Path:
    if not models.load(f"hf:{tiny_folder}").identity.batch_invariant:
        pytest.skip("this machine rounds rows differently beside others")
    return tiny_folder


class Runs:
    """Runs cells of one suite in this process, each time with an output cache and results of its own."""

    def __init__(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *rows: str, **settings: str
    ) -> None:
        self._folder, self._patch, self._count = tmp_path, monkeypatch, 0
        self._suite = load_suite(
            synthetic_suite(tmp_path, *rows, epsilon="4", shots="3", **settings)
        )
        self.cells = expand(self._suite, load_mechanisms())

    def __call__(self, cells: Sequence[Cell]) -> dict[str, Result]:
        """The results of these cells, by id."""
        self._count += 1
        folder = self._folder / str(self._count)
        self._patch.setattr("dpicl.run.workbench.outputs_folder", lambda: folder / "outputs")
        store = Store(folder, self._suite.name)
        store.prepare()
        reference = SuiteReference(
            name=self._suite.name, version=self._suite.version, hash=self._suite.hash
        )
        Inline().run(cells, Job(reference, store.results), lambda event: None)
        return {result.cell_id: result for result in store.load_all()[0]}


@pytest.fixture
def runs(own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    return lambda *rows, **settings: Runs(tmp_path, monkeypatch, *rows, **settings)


def content(result: Result) -> dict[str, Any]:
    """All that a result says, without when it was made and what it took."""
    return json.loads(result.model_dump_json(exclude=MAY_DIFFER))


def test_a_cell_gives_the_same_alone_and_among_seven_others(runs: Any, folder: Path) -> None:
    run = runs(*MIXED, models=f"[hf:{folder}]", seeds="[0, 1]")
    assert len(run.cells) >= 8
    private = [
        cell
        for cell in run.cells
        if cell.seed == 1 and cell.mechanism not in ("zero_shot", "real_demonstrations")
    ]
    assert len(private) == 3
    among = run(run.cells)
    assert len(among) == len(run.cells)
    for cell in private:
        (alone,) = run([cell]).values()
        assert content(alone) == content(among[cell.id])
        assert alone.released == among[cell.id].released


def test_a_model_is_loaded_and_the_zero_shot_score_found_once(
    runs: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpicl.evaluation import lm_eval_bridge

    loads = list[Any]()
    scored = list[Any]()
    load = models.load
    evaluate = lm_eval_bridge.evaluate

    def note_load(*words, **more):
        loads.append(words)
        return load(*words, **more)

    def note_evaluation(*words, **more):
        scored.append(words)
        return evaluate(*words, **more)

    monkeypatch.setattr(models, "load", note_load)
    monkeypatch.setattr(lm_eval_bridge, "evaluate", note_evaluation)
    run = runs("zero_shot", models=f"[hf:{folder}]", seeds="[0, 1, 2, 3]")
    results = run(run.cells)
    assert len(results) == len(run.cells) > 1
    assert len(loads) == 1
    assert len(scored) == 1
