"""Loads tasks, models and cached outputs once for a process; runs, attacks and audits share it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from dpicl import models
from dpicl.core.cell import Cell
from dpicl.core.errors import DataError, DpiclError, ModelError, PromptTooLong, UsageError
from dpicl.core.output_cache import OutputCache, outputs_folder
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import ReleasedPrompt
from dpicl.data import splits
from dpicl.data.config import load_config
from dpicl.data.task import PublicTask, Task
from dpicl.data.task_file import BY_EMBEDDING, CARRIED, Metadata
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build
from dpicl.mechanism.outputs import name_failure, skip_reason
from dpicl.mechanism.registry import find_mechanism
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import load_embeddings
from dpicl.releasing.reader import embed_texts
from dpicl.releasing.release import Phase
from dpicl.results.fingerprints import task_of

if TYPE_CHECKING:
    from dpicl.evaluation.lm_eval_bridge import Evaluation
    from dpicl.results.schema import Result

T = TypeVar("T")

#: The embedding models of `acc_nearest` and `acc_logistic`: of the board, and beside the simulated language model.
EMBEDDED, SIMULATED = "embedded", "sim"
#: Models, and sets of drawn records, that stay loaded.
_MODELS, _DRAWS = 1, 32


class OtherRelease(Exception):
    """An earlier release is not the one that would be made now; the message says why."""


class Skipped(Exception):
    """The mechanism cannot do this task; the message is its reason."""


@dataclass(frozen=True)
class LoadedCell:
    """A cell with what it runs on, loaded once."""

    cell: Cell
    mechanism: Mechanism
    task: Task
    model: LanguageModel

    @property
    def embedding(self) -> str:
        """The embedding model of `acc_nearest` and `acc_logistic`."""
        return SIMULATED if self.model.identity.name.partition(":")[0] == SIMULATED else EMBEDDED

    def can_classify(self, prompt: ReleasedPrompt) -> bool:
        """Whether classifiers are made of what was released."""
        has_texts = prompt.demonstrations or self.task.main_metric in BY_EMBEDDING
        return self.task.kind == "classification" and bool(has_texts)

    def require_scores(self) -> None:
        """Raises UsageError where what is released could not be scored, with this model's server."""
        if problem := unscored(self.mechanism, self.task.public_view(), self.model):
            raise UsageError(problem)

    def load_scorers(self, prompt: ReleasedPrompt, answers: Mapping[str, str] | None) -> None:
        """Loads what `Workbench.evaluate` needs besides: lm-eval, and the embedding model of classifiers."""
        from dpicl.evaluation import lm_eval_bridge, nearest  # noqa: F401  it takes seconds

        if answers is None and self.can_classify(prompt):
            with suppress(ModelError):  # `evaluate` says that it cannot be loaded
                load_embeddings(self.embedding)


def scoring_problem(task: PublicTask, model: LanguageModel) -> str | None:
    """Why a model's server cannot score prompts on a task, in a sentence; None where it can."""
    if model.server is None or model.server.gives("log-probabilities") or not task.chooses:
        return None
    return (
        f"A prompt is scored on {task.name} by log-probabilities of its labels, and {model.identity.name} gives texts"
        " alone; choose another task, or a server that gives them (docs/servers.md)."
    )


def unscored(mechanism: Mechanism, task: PublicTask, model: LanguageModel) -> str | None:
    """Why the main metric of what a mechanism releases cannot be had with a model's server; None where it can."""
    by_model = mechanism.kind == "demonstrations" and task.main_metric not in BY_EMBEDDING
    return scoring_problem(task, model) if by_model else None


@dataclass
class Workbench:
    """The tasks and models of one process, loaded once and kept while they are in use.

    mechanisms: the registry. keep_tasks: how many of them stay loaded; the one not used for longest goes first.
    """

    mechanisms: Mapping[str, Registered[Mechanism]]
    keep_tasks: int = 8
    _tasks: OrderedDict[Any, Task] = field(default_factory=OrderedDict, repr=False)
    _drawn: OrderedDict[Any, Task] = field(default_factory=OrderedDict, repr=False)
    _models: OrderedDict[Any, LanguageModel] = field(default_factory=OrderedDict, repr=False)
    _failed: dict[Any, DpiclError] = field(default_factory=dict, repr=False)
    _zero_shot: dict[Any, Evaluation] = field(default_factory=dict, repr=False)

    def mechanism(self, cell: Cell) -> Mechanism:
        return build(find_mechanism(cell.mechanism, self.mechanisms), cell.options)

    def task(self, cell: Cell) -> Task:
        """The task of a cell, with the private records and the test records that its seed draws."""
        if cell.private_share is None and not cell.fresh_test_records and cell.metric is None:
            return self.whole_task(cell)
        draw = (cell.private_share, cell.fresh_test_records, cell.seed, cell.metric)
        key = (_task_key(cell, load_config(cell.task).metadata), draw)
        return self._keep(self._drawn, key, _DRAWS, lambda: draw_task(self.whole_task(cell), cell))

    def whole_task(self, cell: Cell) -> Task:
        """The task of a cell with all records from which its seed draws."""
        key = _task_key(cell, load_config(cell.task).metadata)
        return self._keep(self._tasks, key, self.keep_tasks, lambda: task_of(cell))

    def require_same_private_records(self, cell: Cell, scored: Result) -> None:
        """Raises OtherRelease where a result's release was made from other private or public records than a cell has:
        the records changed, or generated train records depend on how many test records there are."""
        here, there = self.whole_task(cell), self.whole_task(scored.cell)
        changed = there.fingerprint != scored.manifest.data.fingerprint
        if changed or splits.fingerprint(here.train, (), here.public) != splits.fingerprint(
            there.train, (), there.public
        ):
            raise OtherRelease("its earlier release was made from other private or public records")

    def model(self, name: str) -> LanguageModel:
        return self._keep(self._models, name, _MODELS, lambda: models.load(name))

    def _keep(self, cache: OrderedDict[Any, T], key: Any, most: int, load: Callable[[], T]) -> T:
        """What is loaded. What could not be loaded once is not tried again for every cell."""
        if key in self._failed:
            failed = self._failed[key]
            raise type(failed)(str(failed))
        if key in cache:
            cache.move_to_end(key)
            return cache[key]
        while len(cache) >= most:
            cache.popitem(last=False)  # before loading: two models need not fit into memory at once
        try:
            cache[key] = load()
        except (ModelError, DataError) as error:
            self._failed[key] = error
            raise
        return cache[key]

    @cached_property
    def _outputs(self) -> OutputCache:
        return OutputCache(outputs_folder())

    def outputs(self) -> OutputCache:
        return self._outputs

    def load_cell(self, cell: Cell) -> LoadedCell:
        """Raises Skipped, before the model is loaded, where the mechanism does not do the task."""
        mechanism, task = self.mechanism(cell), self.task(cell)
        with name_failure(mechanism):
            reason = skip_reason(mechanism, task.public_view())
        if reason:
            raise Skipped(reason)
        return LoadedCell(cell, mechanism, task, self.model(cell.address))

    def evaluate(
        self,
        loaded: LoadedCell,
        prompt: ReleasedPrompt,
        answers: Mapping[str, str] | None,
        phase: Phase = lambda _: nullcontext(),
    ) -> Evaluation:
        """Scores what was released on the cell's task, through lm-eval.

        answers: lm-eval asks for one a document. None: the prompt is scored; where nothing was released, every seed has
        the same score, which is found once. phase: opened around 'evaluate', and 'classify' by what texts carry.
        """
        if answers is not None:
            from dpicl.evaluation.nearest import evaluate_answers

            with phase("evaluate"):
                return evaluate_answers(loaded.task, answers)
        if prompt.texts:
            return self._evaluate(loaded, prompt, phase)
        cell = loaded.cell
        metadata = loaded.task.config.metadata
        private = metadata.scores_private and cell.private_share is not None
        # scored on records that its seed draws
        drawn = cell.seed if private or cell.fresh_test_records else None
        key = (*_task_key(cell, metadata), cell.model, drawn, cell.metric)
        if key not in self._zero_shot:
            self._zero_shot[key] = self._evaluate(loaded, prompt, phase)
        return self._zero_shot[key]

    def _evaluate(self, loaded: LoadedCell, prompt: ReleasedPrompt, phase: Phase) -> Evaluation:
        """Scores of the language model after the prompt, and of classifiers made of all demonstrations on
        classification tasks."""
        with phase("evaluate"):
            evaluation = self._ask_model(loaded, prompt)
        if not loaded.can_classify(prompt):
            return evaluation
        with phase("classify"):
            return self._classify(evaluation, loaded, prompt)

    def _ask_model(self, loaded: LoadedCell, prompt: ReleasedPrompt) -> Evaluation:
        """Scores of the language model. Where a classifier's is the task's main metric, a prompt that does not fit the
        model is the reason why these are skipped."""
        from dpicl.evaluation import lm_eval_bridge, nearest

        task, model = loaded.task, loaded.model
        by_embedding = task.main_metric in BY_EMBEDDING
        problem = scoring_problem(task.public_view(), model)
        if by_embedding and problem:
            return nearest.skip_model(task, problem)
        try:
            return lm_eval_bridge.evaluate(
                task, model, prompt.shown, instruction=prompt.instruction
            )
        except PromptTooLong as error:
            if not by_embedding:
                raise
            return nearest.skip_model(task, str(error))

    def _classify(
        self, evaluation: Evaluation, loaded: LoadedCell, prompt: ReleasedPrompt
    ) -> Evaluation:
        """The evaluation with the scores of classifiers that are made of the demonstrations."""
        from dpicl.evaluation import nearest

        task, model, name = loaded.task, loaded.model, loaded.embedding

        def embed(texts: Sequence[str]) -> np.ndarray:
            return embed_texts(texts, name, self.outputs(), model.identity.name, task.name)

        try:
            classified = nearest.classify(task, prompt.demonstrations, embed)
        except ModelError as error:
            if task.main_metric in BY_EMBEDDING:
                raise
            evaluation = replace(
                evaluation,
                skipped={**evaluation.skipped, **dict.fromkeys(BY_EMBEDDING, str(error))},
            )
            return self._add_carried(evaluation, loaded, prompt)
        for metric, answers in classified.items():
            evaluation = nearest.add_accuracy(
                evaluation, metric, nearest.evaluate_answers(task, answers)
            )
        return self._add_carried(replace(evaluation, embedding=name), loaded, prompt)

    def _add_carried(
        self, evaluation: Evaluation, loaded: LoadedCell, prompt: ReleasedPrompt
    ) -> Evaluation:
        """With what the texts carry, tested on all records from which the seeds draw theirs; as it is where all seeds
        have the same."""
        from dpicl.evaluation import carried

        if not loaded.cell.fresh_test_records:
            return evaluation
        test, scores = self.whole_task(loaded.cell).test, dict[str, float]()
        try:
            for reader in carried.INDEPENDENT:
                outcomes = carried.carried_by(
                    reader, prompt.demonstrations, test, loaded.task.labels
                )
                scores[reader] = float(outcomes.mean())
        except ModelError as error:
            return replace(
                evaluation, skipped={**evaluation.skipped, **dict.fromkeys(CARRIED, str(error))}
            )
        by_reader = {f"{CARRIED[0]}_{reader}": score for reader, score in scores.items()}
        worse = scores[carried.choose_worse(scores)]
        return replace(
            evaluation, aggregates={**evaluation.aggregates, CARRIED[0]: worse, **by_reader}
        )


def _task_key(cell: Cell, metadata: Metadata) -> tuple[Any, ...]:
    codes = cell.seed if metadata.codes else None  # a map for each seed
    limits = (cell.train_records, cell.test_records, cell.development, cell.fresh_test_records)
    return cell.task, cell.source, limits, codes


def draw_task(whole: Task, cell: Cell) -> Task:
    """The task with the records that the seed of a cell draws, private ones, test records, both or none; and with its
    main metric."""
    drawn = whole if cell.private_share is None else whole.draw(cell.private_share, cell.seed)
    if cell.fresh_test_records and cell.test_records is not None:
        drawn = drawn.draw_test_records(cell.test_records, cell.seed)
    return drawn if cell.metric is None else drawn.rank_by(cell.metric)
