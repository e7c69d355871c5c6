"""The task ginc: its language against enumeration, its records, prompts, distinguishable texts and mechanisms."""

import dataclasses
import itertools

import numpy as np
import pytest

from dpicl import models
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import PluginError, UsageError
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import NEUTRAL_LABEL, Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanism.registry import load_mechanisms
from dpicl.mechanisms.voting import Voting
from dpicl.models import ginc_corpus
from dpicl.models.ginc_corpus import HMM, VOCABULARY, language
from dpicl.models.simulated import SimulatedLM
from dpicl.releasing.release import release
from dpicl.tasks import sequences
from dpicl.tasks.synthetic import ginc

pytestmark = pytest.mark.usefixtures("new_corpora")

MECHANISMS = load_mechanisms()


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.load("ginc", limit_train=60, limit_test=6)


def tiny(seed: int) -> HMM:
    """Four states, three symbols, some moves that never happen."""
    generator = np.random.default_rng(seed)
    moves = generator.random((4, 4)) * (generator.random((4, 4)) < 0.6) + np.eye(4) * 0.1
    start = generator.random(4) * np.array([1, 1, 1, 0])
    return HMM(
        start / start.sum(), moves / moves.sum(axis=1, keepdims=True), np.array([0, 1, 2, 1])
    )


def sum_paths(hmm: HMM, symbols: tuple[int, ...]) -> float:
    """p(symbols), path by path."""
    total = 0.0
    for path in itertools.product(
        range(len(hmm.start)),
        repeat=len(symbols),
    ):
        if all(hmm.emission[state] == symbol for state, symbol in zip(path, symbols, strict=True)):
            total += hmm.start[path[0]] * np.prod(
                [hmm.transition[a, b] for a, b in itertools.pairwise(path)]
            )
    return float(total)


@pytest.mark.parametrize("seed", range(2))
def test_the_forward_algorithm_is_the_sum_over_all_hidden_paths(seed):
    hmm, whole = tiny(seed), 0.0
    for symbols in itertools.product(range(3), repeat=4):
        p = sum_paths(hmm, symbols)
        assert np.exp(hmm.log_likelihood(symbols)) == pytest.approx(p, rel=1e-12, abs=1e-300)
        whole += p
        if p:
            expected = [sum_paths(hmm, (*symbols, following)) / p for following in range(3)]
            assert hmm.next_symbol(symbols, 3) == pytest.approx(expected, rel=1e-9)
        else:
            with pytest.raises(ValueError):
                hmm.next_symbol(symbols, 3)
    assert whole == pytest.approx(1.0)
    assert hmm.log_likelihood(()) == 0.0


def test_records_end_in_the_most_likely_next_symbol(task):
    concept = language().concepts[ginc.CONCEPT]
    words = language().words
    starts = set(concept.emission[ginc.START :: ginc_corpus.PROPERTIES].tolist())
    for part in (task.train, task.test):
        for record in part[:6]:
            symbols = language().symbols(record.text)
            assert (len(symbols), 0 in symbols) == (9, False)
            assert symbols[0] in starts
            assert words[concept.next_symbol(symbols, VOCABULARY).argmax()] == record.label
    again = Task.load("ginc", limit_train=60, limit_test=6)
    assert again.fingerprint == task.fingerprint
    assert Task.load("ginc", limit_train=60, limit_test=6, seed=1).fingerprint != task.fingerprint


def test_the_task_file_says_what_the_language_says(task):
    assert task.labels == language().said
    *public, rest = task.config.description.split(" / ")
    assert rest == ""
    assert [len(language().symbols(text)) for text in public] == [ginc.LENGTH] * 2
    assert task.generation_prompt(NEUTRAL_LABEL, []) == task.config.description
    assert not any(np.isfinite(sequences.log_likelihoods(text)).any() for text in public)
    assert all(len(language().symbols(blank)) == ginc.LENGTH - 1 for blank in task.content_free)
    assert [each["text"] for each in task.documents()[:3]] == list(task.content_free)


def test_only_texts_of_the_concept_are_distinguishable(task):
    queries = [record.text for record in task.test]
    concept = language().concepts[ginc.CONCEPT]
    other = language().text(language().concepts[1].sample(10, np.random.default_rng(0)).tolist())
    assert not np.isfinite(concept.log_likelihood(language().symbols(other)))
    assert sequences.measure_distinguishable([other, "", "no words of it"], queries) == 0.0
    real = [f"{record.text} {record.label}" for record in task.train]
    assert 0.3 < sequences.measure_distinguishable(real, queries) < 1.0
    short = [text[:8] for text in real]
    assert sequences.measure_distinguishable(short, queries) < sequences.measure_distinguishable(
        real, queries
    )


@pytest.mark.parametrize("name", ["tang", "real_demonstrations", "zero_shot"])
def test_demonstration_mechanisms_release_on_it_and_are_scored(task, name):
    cls = MECHANISMS[name].cls
    options = {"slots": 2, "tokens": 3} if name == "tang" else {}
    config = ReleaseConfig(epsilon=float("inf") if name == "real_demonstrations" else 8, delta=1e-5)
    outcome = release(cls(**options), task, SimulatedLM(), config)
    evaluation = evaluate(task, SimulatedLM(), outcome.demonstrations)
    assert set(evaluation.scores) == {"acc", "acc_calibrated", "log_loss"}
    assert set(evaluation.aggregates) == (set() if name == "zero_shot" else {"distinguishable"})
    if name == "real_demonstrations":
        assert {each.label for each in outcome.demonstrations} <= set(task.labels)
    elif name != "zero_shot":
        assert {each.label for each in outcome.demonstrations} == {NEUTRAL_LABEL}


@pytest.mark.slow
def test_a_repeated_symbol_says_no_more_than_nothing():
    """With the trained model, which takes minutes to train; every symbol that records have."""
    whole = Task.load("ginc", limit_test=100)
    model = models.load("ginc", device="cpu")

    def score(texts: list[str]) -> float:
        return evaluate(
            whole, model, [Demonstration(text, NEUTRAL_LABEL, tokens=10) for text in texts]
        ).scores["acc"]

    nothing = score([])
    repeated = [score([" ".join([word] * 10)] * 4) for word in language().said]
    real = [
        evaluate(
            whole,
            model,
            whole.train[4 * i : 4 * i + 4],
        ).scores["acc"]
        for i in range(6)
    ]
    assert np.mean(repeated) < nothing < np.mean(real) - 0.2
    assert max(repeated) < np.mean(real)


def test_only_its_own_model_reads_it(task):
    model = SimulatedLM()
    model.identity = type(model.identity)(**{**model.identity.__dict__, "name": "embedded"})
    with pytest.raises(UsageError, match="ginc"):
        release(Voting(), task, model, ReleaseConfig(epsilon=8, delta=1e-5))


def test_a_number_of_all_texts_that_fails_ends_one_cell(task):
    failing = dataclasses.replace(
        task,
        config=task.config.change(aggregates={"x": "os.getcwd"}),
    )
    with pytest.raises(
        PluginError, match=r"aggregate x of task ginc, os.getcwd, fails .*TypeError"
    ):
        evaluate(failing, SimulatedLM(), task.train[:1])
