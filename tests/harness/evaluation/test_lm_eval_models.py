"""LanguageModelLM against lm-eval's own HFLM, on the same requests; and released answers, each scored as itself."""

from typing import Any

import pytest
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from dpicl.core.errors import PromptTooLong, UsageError
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate_with
from dpicl.evaluation.lm_eval_models import AnswersLM, LanguageModelLM

PREFIX = "Article: The team won the game.\nAnswer: Sports\n\n"
QUERIES = [
    "Oil prices rose on Monday.",
    "",
    "A new chip.",
    "Shares fell as oil prices rose again after a long season.",
]
LABELS = ["World", "Sports", "Business", "Technology", "Mean of transportation", "S"]


def request(kind: str, arguments: tuple[Any, ...], index: int) -> Instance:
    return Instance(
        request_type=kind, doc={}, arguments=arguments, idx=index, metadata=("t", index, 1)
    )


def loglikelihood_requests() -> list[Instance]:
    """Every label after every query, queries taking turns; a context that ends in spaces."""
    pairs = [
        (f"{PREFIX}Article: {query}\nAnswer:", f" {label}") for label in LABELS for query in QUERIES
    ]
    pairs += [(f"{PREFIX}Answer:  ", "World")]
    return [request("loglikelihood", pair, i) for i, pair in enumerate(pairs)]


def assert_same_answers(ours: list[tuple[float, bool]], theirs: list[tuple[float, bool]]) -> None:
    assert [score for score, _ in ours] == pytest.approx(
        [score for score, _ in theirs],
        abs=1e-4,
    )
    assert [greedy for _, greedy in ours] == [greedy for _, greedy in theirs]


@pytest.fixture
def reference(tiny):
    return HFLM(pretrained=tiny.model, tokenizer=tiny.tokenizer, backend="causal", batch_size=4)


def test_log_likelihoods_equal_those_of_lm_eval(tiny, reference):
    requests = loglikelihood_requests()
    assert_same_answers(
        LanguageModelLM(tiny).loglikelihood(requests),
        reference.loglikelihood(requests, disable_tqdm=True),
    )


def test_shared_prefix_is_read_once(tiny):
    requests = [r for r in loglikelihood_requests() if r.args[0].startswith(PREFIX)]
    LanguageModelLM(tiny).loglikelihood(requests)
    every_time = sum(len(tiny.encode(r.args[0])) for r in requests)
    assert tiny.usage.tokens_read < every_time / 5


@pytest.mark.parametrize(
    "options",
    [
        {"until": ["e"], "max_gen_toks": 9},
        {"until": ["\n"], "max_gen_toks": 5},
    ],
)
def test_generated_texts_equal_those_of_lm_eval(tiny, reference, options):
    requests = [
        request("generate_until", (f"{PREFIX}Article: {query}\nAnswer:", options), i)
        for i, query in enumerate(QUERIES)
    ]
    assert LanguageModelLM(tiny).generate_until(requests) == reference.generate_until(
        requests, disable_tqdm=True
    )


def test_long_context_is_an_error_not_a_cut(tiny):
    with pytest.raises(PromptTooLong):
        LanguageModelLM(tiny).loglikelihood([request("loglikelihood", (PREFIX * 30, " World"), 0)])


@pytest.mark.parametrize(
    "options",
    [
        {"do_sample": True},
        {"temperature": 0.7},
        {"num_beams": 2},
    ],
)
def test_sampling_is_refused(tiny, options):
    with pytest.raises(UsageError, match="greedy"):
        LanguageModelLM(tiny).generate_until([request("generate_until", ("a", options), 0)])


@pytest.fixture(scope="module")
def agnews():
    return Task.load("agnews", "synthetic", limit_train=4, limit_test=8)


def test_every_answer_is_scored_as_itself(agnews):
    right = {
        query.id: record.label
        for query, record in zip(
            agnews.queries(),
            agnews.test,
            strict=True,
        )
    }
    evaluation = evaluate_with(agnews, AnswersLM(right))
    assert evaluation.scores == {"acc": 1.0, "acc_calibrated": 1.0}
    assert {*evaluation.ids} == {*right}
    same = evaluate_with(agnews, AnswersLM(dict.fromkeys(right, "Sports")))
    assert same.scores["acc"] == list(right.values()).count("Sports") / len(right)


def test_generated_answers_reach_the_metrics(agnews):
    task = Task.load("mit_g", "synthetic", limit_train=4, limit_test=6)
    answers = {
        query.id: record.label
        for query, record in zip(
            task.queries(),
            task.test,
            strict=True,
        )
    }
    answers[task.queries()[0].id] = "wrong"
    assert evaluate_with(task, AnswersLM(answers)).scores == {"exact_match": pytest.approx(5 / 6)}
