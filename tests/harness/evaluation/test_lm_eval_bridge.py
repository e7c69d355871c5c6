from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.data.sources import Record
from dpicl.data.task import CONTENT_FREE, Task, load_config
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.bases import Demonstration
from dpicl.models.simulated import SimulatedLM
from dpicl.models.transformers import TransformersLM
from tests.samples import small_task

DEMONSTRATIONS = (
    Demonstration("The team won the game.", "Sports", tokens=6),
    Demonstration("Braces {{ text }} {% raw %} {# and #} a\rreturn.", "World", tokens=6),
)


@pytest.fixture
def news():
    labels = load_config("agnews").doc_to_choice
    return small_task(
        "agnews",
        [Record(f"Story {i} about {labels[i % 4]} prices", labels[i % 4]) for i in range(12)],
    )


def label_log_probs(task: Task, model: SimulatedLM | TransformersLM, text: str) -> list[float]:
    """Log-probability of every label word after demonstrations and query, each read from its first token."""
    prompt = model.encode(task.icl_prefix(DEMONSTRATIONS) + task.query(text))
    result = []
    for label in task.labels:
        total, tokens = 0.0, list(prompt)
        for token in model.encode(" " + label):
            total += float(model.next_token_log_probs([tokens])[0, token])
            tokens.append(token)
        result.append(total)
    return result


def softmax(rows: Sequence[Sequence[float]]) -> np.ndarray:
    array = np.exp(np.array(rows) - np.max(rows, axis=1, keepdims=True))
    return array / array.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["sim", "transformers"])
def test_scores_are_those_of_the_prompts_read_one_by_one(news, kind, request):
    model = models.load("sim") if kind == "sim" else request.getfixturevalue("tiny")
    evaluation = evaluate(news, model, DEMONSTRATIONS)
    probabilities = softmax([label_log_probs(news, model, record.text) for record in news.test])
    p_cf = softmax([label_log_probs(news, model, text) for text in CONTENT_FREE]).mean(axis=0)
    gold = np.array([news.labels.index(record.label) for record in news.test])
    right = (probabilities.argmax(axis=1) == gold).astype(float)
    calibrated = ((probabilities / p_cf).argmax(axis=1) == gold).astype(float)
    assert evaluation.outcomes["acc"] == right.tolist()
    assert evaluation.outcomes["acc_calibrated"] == calibrated.tolist()
    losses = -np.log(
        np.maximum(
            probabilities[np.arange(len(gold)), gold],
            1e-3,
        )
    ) / np.log(1e3)
    expected = {
        "acc": right.mean(),
        "acc_calibrated": calibrated.mean(),
        "log_loss": losses.mean(),
    }
    assert evaluation.scores == pytest.approx(expected, abs=1e-5)


def test_global_random_numbers_and_the_terminal_are_left_alone(news, tiny, capfd):
    def read_states() -> list[str]:
        return [
            repr(np.random.get_state()),
            repr(torch.get_rng_state().tolist()),
        ]

    before = read_states()
    evaluate(replace(news, test=news.test[:2]), tiny, DEMONSTRATIONS)
    assert read_states() == before
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "it/s" not in captured.err
