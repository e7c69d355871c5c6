"""Generation and JSON tasks from end to end, through lm-eval."""

import json

import numpy as np
import pytest
from lm_eval.api.model import LM

from dpicl import models
from dpicl.core.errors import ResultError
from dpicl.data.sources import Record
from dpicl.evaluation import text_metrics
from dpicl.evaluation.lm_eval_bridge import evaluate, evaluate_with
from dpicl.mechanism.bases import Demonstration
from dpicl.models.simulated import SimulatedLM
from dpicl.tasks import films, metrics
from tests.samples import small_task

pytestmark = pytest.mark.usefixtures("quick_embeddings")
HOSTILE = (
    "{{ text }} {% raw %}",
    "100% %s {0} {x!r}",
    "'single' \"double\" `back`\\",
    "=> # | \x00 é 猫 ½",
    "END ENDE",
)
FILM = {"title": "The Golden Rider", "year": 1955, "genres": ["Western"], "cast": ["Ana Bell"]}


class Fixed(LM):
    """Answers by document id, and notes the contexts that it was asked with."""

    def __init__(self, answers: dict[str, str]) -> None:
        super().__init__()
        self.answers, self.contexts = answers, list[str]()

    def generate_until(self, requests, disable_tqdm=True):
        self.contexts += [request.args[0] for request in requests]
        return [self.answers[request.doc["id"]] for request in requests]

    def loglikelihood(self, requests, disable_tqdm=True):
        raise AssertionError("a generation task asks for texts")

    loglikelihood_rolling = loglikelihood


# --- generation


@pytest.mark.parametrize("name", ["samsum", "chatdoctor"])
def test_scores_are_those_of_what_the_model_writes(tasks, name):
    task, model = tasks[name], models.load("sim")
    evaluation = evaluate(task, model, ())
    room = task.config.generation_kwargs.max_gen_toks
    assert len(evaluation.ids) == len(task.test)
    for at, record in enumerate(task.test):
        prompt = model.encode(task.config.description + task.query(record.text))
        answer = model.generate([prompt], room, ["\n"])[0].strip().removesuffix('"')
        expected = text_metrics.scores(answer, record.label)
        expected["similarity"] = text_metrics.similarities([(answer, record.label)])[0]
        assert {
            metric: values[at] for metric, values in evaluation.outcomes.items()
        } == pytest.approx(expected)
    for metric, score in evaluation.scores.items():
        assert score == pytest.approx(np.mean(evaluation.outcomes[metric]))
    assert evaluation.skipped == {"meteor": "It is not there; install it."}
    assert set(evaluation.scores) == {"rouge1", "rouge2", "rougeL", "bleu1", "similarity"}
    assert task.main_metric in evaluation.scores


def test_another_model_of_lm_eval_is_asked_with_the_same_prompts(tasks):
    task = tasks["samsum"]
    perfect = Fixed({doc["id"]: f' {doc["label"]}"\n"more"' for doc in task.documents()})
    evaluation = evaluate_with(task, perfect)
    assert evaluation.scores == pytest.approx(dict.fromkeys(evaluation.scores, 1.0))
    assert perfect.contexts == [task.query(record.text) for record in task.test]
    silent = Fixed({doc["id"]: "\n" for doc in task.documents()})
    evaluation = evaluate_with(task, silent, "{{ 1 }} before\n")
    assert evaluation.scores == dict.fromkeys(evaluation.scores, 0.0)
    assert silent.contexts == ["{{ 1 }} before\n" + task.query(record.text) for record in task.test]


def test_hostile_texts_reach_the_model_letter_by_letter():
    test = [Record(f"{i} {text}", text) for i, text in enumerate(HOSTILE)]
    task = small_task("samsum", test)
    shown = [Demonstration(text, text, tokens=1) for text in HOSTILE]
    lm = Fixed(
        {
            doc["id"]: text
            for doc, text in zip(
                task.documents(),
                [*HOSTILE[:-1], "\ud800 %s"],
                strict=True,
            )
        }
    )
    evaluation = evaluate_with(task, lm, task.icl_prefix(shown))
    assert lm.contexts == [task.icl_prefix(shown) + task.query(record.text) for record in test]
    assert evaluation.outcomes["rougeL"][1:3] == [1.0, 1.0]
    assert evaluation.outcomes["rouge1"][-1] == 0.0


def test_an_aggregation_unlike_its_documents_is_an_error(tasks, monkeypatch):
    monkeypatch.setattr(metrics, "text_metrics", _OtherMean())
    with pytest.raises(ResultError, match="similarity"):
        evaluate_with(
            tasks["samsum"], Fixed({doc["id"]: "a" for doc in tasks["samsum"].documents()})
        )


class _OtherMean:
    def __getattr__(self, name):
        return getattr(text_metrics, name)

    @staticmethod
    def mean_similarity(pairs):
        return 0.75


def test_without_embeddings_similarity_is_skipped(tasks, monkeypatch):
    monkeypatch.setattr(text_metrics, "list_unavailable", lambda: {"similarity": "No model."})
    monkeypatch.setattr(
        "nltk.translate.meteor_score.single_meteor_score", lambda reference, answer, wordnet: 0.25
    )
    evaluation = evaluate(tasks["samsum"], models.load("sim"), ())
    assert evaluation.skipped == {"similarity": "No model."}
    assert evaluation.scores["meteor"] == 0.25
    assert "similarity" not in evaluation.scores


# --- JSON


def texts_of(*films_or_texts) -> list[Demonstration]:
    texts = [json.dumps(text) if isinstance(text, dict) else text for text in films_or_texts]
    return [Demonstration(text, "movie", tokens=1) for text in texts]


def test_released_films_are_the_documents_and_no_model_is_asked(tasks):
    released = texts_of(
        FILM,
        {**FILM, "year": "1955"},
        "no film",
        FILM,
        *HOSTILE,
        "\ud800",
        "",
    )
    evaluation = evaluate(tasks["wikimovies"], _Silent(), released)
    assert evaluation.ids == [f"sample-{i}" for i in range(len(released))]
    assert evaluation.outcomes["parses"][:4] == [1.0, 1.0, 0.0, 1.0]
    assert evaluation.outcomes["valid"][:4] == [1.0, 0.0, 0.0, 1.0]
    assert evaluation.scores == pytest.approx(
        {"parses": 3 / len(released), "valid": 2 / len(released)}
    )
    records = [record.text for record in tasks["wikimovies"].test]
    texts = [demonstration.text for demonstration in released]
    assert evaluation.aggregates == {
        "genre_distance": films.genre_distance(texts, records),
        "year_distance": films.year_distance(texts, records),
    }
    assert all(0 < value <= 1 for value in evaluation.aggregates.values())


class _Silent(SimulatedLM):
    def generate(self, *args, **kwargs):
        raise AssertionError("released texts are scored without the model")

    encode = generate
