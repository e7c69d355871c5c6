"""One cell, from its records to its result.

load -> calibrate -> release -> evaluate -> result (docs/design.md, "the way of one cell"). The release, and the epsilon
that is proved for it, are made in dpicl.harness.run.releasing.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dpicl.harness.mechanism.bases import Demonstration, Mechanism
from dpicl.harness.mechanism.outputs import named_failure
from dpicl.harness.mechanism.registry import Registered, find_mechanism
from dpicl.harness.run import manifest
from dpicl.harness.run.expand import Cell, build
from dpicl.harness.run.fingerprints import task_of
from dpicl.harness.run.output_cache import OutputCache, outputs_folder
from dpicl.harness.run.releasing import Releaser, Terms
from dpicl.harness.run.results import Cost, Result, SuiteReference
from dpicl.harness.run.write_up import manifest_of, write_up

if TYPE_CHECKING:
    from dpicl.harness.data.task import Task
    from dpicl.harness.evaluation.lm_eval_bridge import Evaluation
    from dpicl.harness.models.base import LanguageModel

Report = Callable[[int, int, str], None]


class Skipped(Exception):
    """The mechanism cannot do this task; the message is its reason."""


@dataclass
class Workbench:
    """The tasks and models of one process, loaded once and kept while they are in use.

    mechanisms: the registry. keep_tasks, keep_models: how many stay loaded; the one not used for longest goes first.
    reveal: whether secure noise may come with an infinite epsilon.
    """

    mechanisms: Mapping[str, Registered]
    keep_tasks: int = 4
    keep_models: int = 1
    reveal: bool = False
    _tasks: OrderedDict[Any, Task] = field(default_factory=OrderedDict, repr=False)
    _models: OrderedDict[Any, LanguageModel] = field(default_factory=OrderedDict, repr=False)
    _zero_shot: dict[Any, Evaluation] = field(default_factory=dict, repr=False)
    _outputs: OutputCache | None = field(default=None, repr=False)

    def mechanism(self, cell: Cell) -> Mechanism:
        return build(find_mechanism(cell.mechanism, dict(self.mechanisms)), cell.options)

    def task(self, cell: Cell) -> Task:
        return _kept(self._tasks, _task_key(cell), self.keep_tasks, lambda: task_of(cell))

    def model(self, cell: Cell) -> LanguageModel:
        from dpicl.harness import models

        dtype = "float32" if cell.secure else None
        return _kept(self._models, (cell.model, dtype), self.keep_models, lambda: models.load(cell.model, dtype=dtype))

    def outputs(self) -> OutputCache:
        """What slots answered in earlier cells."""
        if self._outputs is None:
            self._outputs = OutputCache(outputs_folder())
        return self._outputs

    def evaluate(self, cell: Cell, demonstrations: Sequence[Demonstration]) -> Evaluation:
        """Scores the demonstrations on the cell's task; without any, every seed has the same answer: read once."""
        from dpicl.harness.evaluation import lm_eval_bridge

        key = (*_task_key(cell), cell.model)
        if not demonstrations and key in self._zero_shot:
            return self._zero_shot[key]
        evaluation = lm_eval_bridge.evaluate(self.task(cell), self.model(cell), demonstrations)
        if not demonstrations:
            self._zero_shot[key] = evaluation
        return evaluation

    def evaluate_answers(self, cell: Cell, answers: Mapping[str, str]) -> Evaluation:
        """Scores released answers through lm-eval, which asks for one answer a document."""
        from dpicl.harness.evaluation import lm_eval_bridge
        from dpicl.harness.evaluation.mechanism_lm import MechanismLM

        lm = MechanismLM(lambda name, queries: {query.id: answers[query.id] for query in queries})
        return lm_eval_bridge.evaluate_with(self.task(cell), lm)


def _task_key(cell: Cell) -> tuple[Any, ...]:
    sizes = None if cell.sizes is None else tuple(cell.sizes.items())
    return cell.task, cell.source, cell.train_records, cell.test_records, cell.secure, sizes


def _kept(cache: OrderedDict[Any, Any], key: Any, most: int, load: Callable[[], Any]) -> Any:
    if key in cache:
        cache.move_to_end(key)
        return cache[key]
    while len(cache) >= most:
        cache.popitem(last=False)  # before loading: two models need not fit into memory at once
    cache[key] = load()
    return cache[key]


class _Clock:
    """Wall-clock seconds of each phase."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - start, 3)


def run_cell(cell: Cell, suite: SuiteReference, bench: Workbench, report: Report = lambda *_: None) -> Result:
    """Runs one cell.

    report: called with (done, total, unit) as the release proceeds.
    Raises Skipped when the mechanism cannot do the task, and DpiclError for what a user can mend; BudgetExceeded when
    the ledger proves more than the target, in which case there is no result.
    """
    clock = _Clock()
    mechanism = bench.mechanism(cell)
    with clock.phase("load"):
        task = bench.task(cell)
        if reason := named_failure(mechanism, lambda: mechanism.skip(task.public_view())):
            raise Skipped(reason)
        model = bench.model(cell)
    made_with = manifest_of(task, model, cell.secure, cell.plugin)  # before a mechanism gets hold of the model
    tokens_before = model.usage.tokens_read
    terms = Terms(cell.epsilon, cell.delta, cell.seed, cell.noise, cell.mode, cell.shots, cell.queries, bench.reveal)
    release = Releaser(model, bench.outputs, report, clock.phase).release(mechanism, task, terms)
    with clock.phase("evaluate"):
        report(0, 1, "evaluation")
        if release.answers is None:
            evaluation = bench.evaluate(cell, release.demonstrations)
        else:
            evaluation = bench.evaluate_answers(cell, release.answers)
    cost = Cost(
        seconds=clock.seconds,
        tokens_read=model.usage.tokens_read - tokens_before,
        peak_memory_mb=manifest.peak_memory_mb(),
    )
    return write_up(cell, suite, mechanism, task, made_with, release, evaluation, cost)
