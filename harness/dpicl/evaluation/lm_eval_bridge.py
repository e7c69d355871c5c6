"""Scores demonstrations, answers and texts through lm-evaluation-harness, as `lm_eval.simple_evaluate` would.

The demonstrations are a fixed prefix (the task's `description`), with num_fewshot 0: lm-eval would draw new examples
for every document. No cache of lm-eval is used, since its keys know neither seed nor epsilon, and its seeding of the
global random generators is switched off.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any
from unittest import mock

import lm_eval
import lm_eval.api.task
import lm_eval.evaluator
import lm_eval.utils
import numpy as np
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

from dpicl.core.errors import (
    DataError,
    DpiclError,
    PluginError,
    PromptTooLong,
    ResultError,
    UsageError,
    one_line,
)
from dpicl.data.sources import function_of
from dpicl.data.task import Documents, Task, sample_documents, serving
from dpicl.data.task_file import LOG_LOSS
from dpicl.evaluation import contextual_calibration as calibration
from dpicl.evaluation import text_metrics
from dpicl.evaluation.lm_eval_models import NOT_CHOSEN, AnswersLM, LanguageModelLM
from dpicl.mechanism.generation import ended_continuations
from dpicl.models.base import LanguageModel

if TYPE_CHECKING:
    from dpicl.core.vocabulary import Demonstration, Record


@dataclass(frozen=True)
class Evaluation:
    """What became of every test record, or of every released text.

    ids: of these documents. outcomes: metric -> a number in [0, 1] for each. aggregates: numbers in [0, 1] of all
    documents together, which are no means. skipped: metric -> why it was not computed. embedding: the embedding model
    that a metric read, as dpicl.models.embeddings names it.
    """

    ids: Sequence[str]
    outcomes: Mapping[str, Sequence[float]]
    aggregates: Mapping[str, float] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    embedding: str | None = None

    @property
    def scores(self) -> dict[str, float]:
        """The mean outcome of each metric."""
        return {metric: float(np.mean(values)) for metric, values in self.outcomes.items()}

    def add_metric(self, metric: str, outcomes: Sequence[float]) -> Evaluation:
        """With one metric more."""
        return replace(self, outcomes={**self.outcomes, metric: outcomes})


def evaluate(
    task: Task,
    model: LanguageModel,
    demonstrations: Sequence[Demonstration | Record],
    instruction: str | None = None,
) -> Evaluation:
    """Scores of a model that has seen these demonstrations on the task's test records.

    instruction: one that was released, in the place of the task's own (None).

    Classification and continuation: 'acc', 'acc_calibrated' and 'log_loss'; extraction: 'exact_match'; generation: see
    dpicl.evaluation.text_metrics. On a JSON task the demonstrations themselves are scored, and no model is
    asked. Raises PromptTooLong when the demonstrations do not fit, ModelError when the model answers with numbers that
    are not finite, UsageError when a JSON task gets no text.
    """
    if task.kind == "json":
        return _evaluate_texts(task, [demonstration.text for demonstration in demonstrations])
    prefix = task.icl_prefix(demonstrations, instruction)
    try:
        evaluation = evaluate_with(
            task, LanguageModelLM(model, ended_continuations(task, model)), prefix
        )
    except PromptTooLong as error:
        raise PromptTooLong(
            f"The instruction and {len(demonstrations)} demonstrations of task {task.name} make a prefix of"
            f" {len(model.encode(prefix))} tokens, and a query does not fit with it into the {model.max_length} that"
            f" {model.identity.name} reads; lower `shots` or the mechanism's `tokens`."
        ) from error
    aggregates = (
        _aggregates(task, [task.add_continuation(each) for each in demonstrations])
        if demonstrations
        else {}
    )
    return replace(evaluation, aggregates=aggregates)


def evaluate_with(task: Task, lm: LM, prefix: str = "") -> Evaluation:
    """Scores of any model of lm-eval on the task's test records; see `evaluate`. prefix: what every query follows."""
    samples, reported = _run(task, lm, prefix, task.documents())
    if task.chooses:
        return _classification(samples, reported)
    if task.kind == "generation":
        return _generation(task, samples, reported)
    return _check(_read(samples, ["exact_match"]), reported)


def _evaluate_texts(task: Task, texts: Sequence[str]) -> Evaluation:
    """Scores released texts: each is a document, and `metadata.aggregates` of task.yaml looks at all of them."""
    if not texts:
        raise UsageError(
            f"Task {task.name} scores released texts, and there is none; ask for at least 1 shot."
        )
    documents = sample_documents(len(texts), task.labels[0])
    released = {document["id"]: text for document, text in zip(documents, texts, strict=True)}
    samples, reported = _run(task, AnswersLM(released), "", documents)
    metrics = [each.metric for each in task.config.metric_list]
    evaluation = _check(_read(samples, metrics), reported)
    return replace(evaluation, aggregates=_aggregates(task, texts))


def _aggregates(task: Task, texts: Sequence[str]) -> dict[str, float]:
    """`metadata.aggregates` of task.yaml: numbers of all released texts together, beside the test records' texts.

    Raises PluginError for one that fails.
    """
    values = {}
    for name, place in task.config.metadata.aggregates.items():
        what = f"The aggregate {name} of task {task.name}"
        aggregate = function_of(place, what)
        try:
            with serving(task):
                values[name] = float(aggregate(texts, [record.text for record in task.test]))
        except DpiclError:
            raise
        except Exception as error:  # of somebody's task: one cell ends, and the run goes on
            problem = f"{type(error).__name__}: {one_line(error, 200)}"
            raise PluginError(
                f"{what}, {place}, fails on released texts and test records ({problem}); fix it."
            ) from error
    return values


def _run(
    task: Task,
    lm: LM,
    prefix: str,
    documents: Documents,
) -> tuple[list[Mapping[str, Any]], Mapping[str, Any]]:
    """(samples in the order of the documents, scores) as lm-eval has them."""
    with serving(task, documents), _silence():
        loaded = _as_lm_eval_task(task, prefix)
        output = lm_eval.simple_evaluate(
            model=lm,
            tasks=[loaded],
            num_fewshot=0,
            bootstrap_iters=0,
            log_samples=True,
            task_manager=_task_manager(),
            random_seed=None,
            numpy_random_seed=None,
            torch_random_seed=None,
            fewshot_random_seed=None,
        )
    samples = sorted(output["samples"][task.config.task], key=lambda sample: sample["doc_id"])
    return samples, output["results"][task.config.task]


def _read(
    samples: Sequence[Mapping[str, Any]],
    metrics: Sequence[str],
) -> Evaluation:
    """What lm-eval says of every document."""
    ids = [str(sample["doc"]["id"]) for sample in samples]
    return Evaluation(
        ids, {metric: [float(sample[metric]) for sample in samples] for metric in metrics}
    )


def _generation(
    task: Task,
    samples: Sequence[Mapping[str, Any]],
    reported: Mapping[str, Any],
) -> Evaluation:
    """The scores of every document; similarities are made for all documents at once, like lm-eval's aggregation."""
    metrics = [each.metric for each in task.config.metric_list]
    unavailable = text_metrics.list_unavailable()
    skipped = {metric: why for metric, why in unavailable.items() if metric in metrics}
    evaluation = _read(
        samples, [metric for metric in samples[0]["metrics"] if metric != "similarity"]
    )
    if "similarity" in samples[0]["metrics"]:
        near = text_metrics.similarities([tuple(sample["similarity"]) for sample in samples])
        evaluation = evaluation.add_metric("similarity", near)
    return replace(_check(evaluation, reported), skipped=skipped)


def _classification(
    samples: Sequence[Mapping[str, Any]],
    reported: Mapping[str, Any],
) -> Evaluation:
    """The outcome of every real document, raw and calibrated by the content-free ones."""
    blank = [sample["acc"]["log_probs"] for sample in samples if sample["doc"]["content_free"]]
    real = [sample for sample in samples if not sample["doc"]["content_free"]]
    log_probs = [sample["acc"]["log_probs"] for sample in real]
    gold = np.array([sample["doc"]["gold"] for sample in real])
    p_cf = calibration.content_free_probabilities(blank)
    predicted = {
        "acc": calibration.predictions(log_probs),
        "acc_calibrated": calibration.predictions(log_probs, p_cf),
    }
    hits = {metric: labels == gold for metric, labels in predicted.items()}
    outcomes = {metric: hit.astype(float).tolist() for metric, hit in hits.items()}
    ids = [str(sample["doc"]["id"]) for sample in real]
    evaluation = _check(Evaluation(ids, outcomes), reported)
    if (np.asarray(log_probs) == NOT_CHOSEN).any():  # an answer has no distribution
        return evaluation
    return evaluation.add_metric(LOG_LOSS, calibration.log_losses(log_probs, gold).tolist())


def _check(evaluation: Evaluation, reported: Mapping[str, Any]) -> Evaluation:
    """Raises ResultError when lm-eval's own aggregation says something else than the mean outcome."""
    for metric, score in evaluation.scores.items():
        theirs = float(reported[f"{metric},none"])
        if abs(theirs - score) > 1e-9:
            raise ResultError(
                f"lm-eval reports {metric} = {theirs} where the documents give {score}; check the aggregation of the"
                " task's metrics."
            )
    return evaluation


def _as_lm_eval_task(task: Task, prefix: str) -> Any:
    """lm-eval's own object for tasks/<name>/task.yaml, with our documents (`serving`) and this prefix."""
    file = task.config.path
    try:
        if file is None:
            loaded = lm_eval.api.task.ConfigurableTask(config=_make_config(task))
        else:
            loaded = _task_manager().load([str(file)])["tasks"][task.config.task]
        loaded.set_config("description", _literal(prefix))
        loaded.set_config("repeats", 1)  # answers are greedy, so another one would be the same
    except DpiclError:
        raise
    except Exception as error:  # whatever lm-eval, and the functions that the file names, raise
        raise DataError(
            f"lm-eval cannot load task.yaml of task {task.name} ({type(error).__name__}: {error}); correct the keys and"
            " functions that it names."
        ) from error
    return loaded


def _make_config(task: Task) -> dict[str, Any]:
    """lm-eval's configuration of a classification that has no file (`dpicl release --labels`)."""
    config = task.config.model_dump(exclude_unset=True)
    for place in (config, *config["metric_list"]):
        for key in {"custom_dataset", "process_results", "aggregation"} & place.keys():
            place[key] = function_of(place[key], "The classification")
    return {**config, "test_split": "test", "num_fewshot": 0, "metadata": {"name": task.name}}


def _literal(text: str) -> str:
    """A Jinja template that renders to the text: lm-eval renders `description`, and released text may hold '{{'."""
    return text.replace("{", "{{ '{' }}").replace("\r", "{{ '\\r' }}")


@cache
def _task_manager() -> TaskManager:
    return TaskManager(include_defaults=False)


@contextmanager
def _silence() -> Iterator[None]:
    """Without lm-eval's progress bars, notes, and its survey of the machine (a second per call, nowhere used) and of
    the current folder's repository (git complains on stderr where there is none); a template is compiled once."""
    logger = logging.getLogger("lm_eval")
    level = logger.level
    with (
        mock.patch.object(
            lm_eval.api.task,
            "tqdm",
            partial(lm_eval.api.task.tqdm, disable=True),
        ),
        mock.patch.object(
            lm_eval.utils.env,
            "from_string",
            cache(lm_eval.utils.env.from_string),
        ),
        mock.patch.object(lm_eval.evaluator, "add_env_info"),
        mock.patch.object(lm_eval.evaluator, "get_git_commit_hash", return_value=None),
    ):
        logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            logger.setLevel(level)
