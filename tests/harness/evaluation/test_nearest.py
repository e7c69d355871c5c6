"""`acc_nearest`: a query gets the label of the nearest released demonstration; a metric of classification tasks."""

from dataclasses import replace

import numpy as np
import pytest

from dpicl.core.errors import ModelError, PluginError
from dpicl.core.vocabulary import Demonstration, ReleasedPrompt
from dpicl.data.task import TASKS, load_config
from dpicl.data.task_file import BY_EMBEDDING, LOG_LOSS, LOGISTIC, NEAREST, read_task_file
from dpicl.evaluation.contextual_calibration import log_losses
from dpicl.evaluation.nearest import CLASSIFIERS, classify, evaluate_answers
from dpicl.leaderboards.model.comparability import REFERENCE, list_differing
from dpicl.models import embeddings
from dpicl.releasing import reader
from dpicl.results.schema import from_text, to_text
from dpicl.run import workbench
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from tests.harness.run.test_pipeline import MECHANISMS, SUITE, make_cell

TEXT = (TASKS / "agnews" / "task.yaml").read_text("utf-8")
OTHER = TEXT.replace("main_metric: acc_logistic", "main_metric: acc_nearest")


@pytest.fixture
def read_by_embedding(agnews):
    return replace(agnews, config=agnews.config.change(main_metric=NEAREST))


def embed_plainly(texts):
    """Length and first letter, so that a reader sees which one is nearest."""
    rows = np.array(
        [
            [
                len(text),
                10.0 * text.startswith("x"),
            ]
            for text in texts
        ]
    ).reshape(len(texts), 2)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(
        rows,
        lengths,
        where=rows.any(axis=1, keepdims=True),
        out=rows * 0,
    )


def test_the_nearest_with_text_wins_and_of_equal_ones_the_first(agnews):
    shown = [
        Demonstration(" \n", "Business"),
        Demonstration("plain", "Sports"),
        Demonstration("other", "World"),
        Demonstration("x", "Technology"),
    ]
    assert set(classify(agnews, shown, embed_plainly)[NEAREST].values()) == {"Sports"}
    assert set(classify(agnews, shown[2:], embed_plainly)[NEAREST].values()) == {"World"}
    for metric in BY_EMBEDDING:
        assert set(classify(agnews, shown[3:], embed_plainly)[metric].values()) == {"Technology"}
        for none in ([], shown[:1]):
            assert set(classify(agnews, none, embed_plainly)[metric].values()) == {agnews.labels[0]}


def test_its_scores_are_those_of_the_answers_by_hand(own_cache):
    bench = Workbench(MECHANISMS)
    cell = make_cell("public_demonstrations", shots=4)
    result = run_cell(cell, SUITE, bench)
    task, sim = bench.task(cell), embeddings.load_embeddings("sim")
    shown = sim.encode([each.text for each in result.released])
    labels = [
        result.released[at].label
        for at in (sim.encode([r.text for r in task.test]) @ shown.T).argmax(axis=1)
    ]
    by_hand = [
        float(label == record.label) for label, record in zip(labels, task.test, strict=True)
    ]
    assert result.documents[NEAREST].outcomes == by_hand
    assert 0 < result.scores[NEAREST].value == np.mean(by_hand)
    assert result.documents[NEAREST].ids == result.documents["acc"].ids
    assert (
        result.main_metric == LOGISTIC
        and result.higher_is_better
        and result.higher_is_better[NEAREST]
    )
    assert result.manifest.embedding.name == "sim" and from_text(to_text(result)) == result


def test_many_texts_are_told_apart_where_the_nearest_one_errs():
    randomness = np.random.default_rng(0)
    centres = {
        "Sports": np.array([1.0, 0.0, 0.0]),
        "World": np.array([0.0, 1.0, 0.0]),
    }
    labels = ["Sports", "World"] * 150
    rows = np.array([centres[label] for label in labels]) + randomness.normal(0, 0.6, (300, 3))
    shown, queries = rows[:200], rows[200:]
    right = {
        name: np.mean(np.array(each(queries, shown, labels[:200])) == labels[200:])
        for name, each in CLASSIFIERS.items()
    }
    assert right[LOGISTIC] > 0.85 and right[LOGISTIC] > right[NEAREST]
    few = np.eye(2)
    assert CLASSIFIERS[LOGISTIC](few, few, ["World", "Sports"]) == ["World", "Sports"]


def test_rows_without_demonstrations_lack_the_metric(own_cache):
    bench = Workbench(MECHANISMS)
    result = run_cell(make_cell("zero_shot"), SUITE, bench)
    first = np.mean([record.label == "World" for record in bench.task(make_cell("zero_shot")).test])
    assert [result.scores[name].value for name in BY_EMBEDDING] == [
        first,
        first,
    ]  # one is the main metric of the task
    voted = run_cell(
        make_cell("voting", options={"slots": 4, "examples_per_slot": 1}), SUITE, bench
    )
    assert set(voted.scores) == {"acc", "acc_calibrated", LOGISTIC}
    assert "classify" not in voted.cost.seconds
    new = run_cell(make_cell("public_demonstrations"), SUITE, bench)
    assert {"evaluate", "classify"} < {*new.cost.seconds}
    parts = ("scores", "documents", "higher_is_better")
    old = new.model_copy(
        update={
            part: {k: v for k, v in getattr(new, part).items() if k not in (NEAREST, LOG_LOSS)}
            for part in parts
        }
    )
    assert {NEAREST, LOG_LOSS} < {*new.scores} and not list_differing(new, old, REFERENCE)


def test_where_the_embedding_reads_every_row_has_the_main_metric(
    own_cache, read_by_embedding, monkeypatch
):
    bench, task = Workbench(MECHANISMS), read_by_embedding
    monkeypatch.setattr(bench, "task", lambda cell: task)
    answers = {
        query.id: record.label
        for query, record in zip(
            task.queries(),
            task.test,
            strict=True,
        )
    }
    right = evaluate_answers(task, answers)
    assert right.scores == {"acc": 1.0, "acc_calibrated": 1.0, NEAREST: 1.0}
    nothing = bench.evaluate(
        bench.load_cell(make_cell("zero_shot")), ReleasedPrompt("Only an instruction.\n"), None
    )
    first = np.mean([record.label == task.labels[0] for record in task.test])
    assert nothing.scores[NEAREST] == first


def test_test_records_are_embedded_once(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    embedded, encode = list[str](), embeddings.SimulatedEmbeddings.encode_alone

    def note_texts(self, texts):
        embedded.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(embeddings.SimulatedEmbeddings, "encode_alone", note_texts)
    cells = [make_cell("public_demonstrations", seed=seed) for seed in (0, 1)]
    for cell in cells:
        run_cell(cell, SUITE, Workbench(MECHANISMS))
    tests = {record.text for record in Workbench(MECHANISMS).task(cells[0]).test}
    assert len(tests) == 10 and sum(text in tests for text in embedded) == 10


def test_without_the_embedding_model_the_metric_is_skipped(own_cache, monkeypatch):
    def fail(*words):
        raise ModelError("There is no embedding model; install one.")

    monkeypatch.setattr(workbench, "embed_texts", fail)
    assert workbench.embed_texts is not reader.embed_texts
    cell = make_cell("public_demonstrations", task="dbpedia", train_records=20)
    result = run_cell(cell, SUITE, Workbench(MECHANISMS))
    assert not {*BY_EMBEDDING} & {*result.scores}
    assert set(result.skipped_metrics) == {*BY_EMBEDDING}


def test_the_main_metric_of_a_task_says_who_reads():
    for metric in BY_EMBEDDING:
        read = read_task_file(OTHER.replace(NEAREST, metric), "task.yaml", "agnews", built_in=False)
        assert read.metadata.main_metric == metric and read.higher_is_better[metric]
    assert (
        load_config("agnews").higher_is_better[NEAREST]
        and NEAREST not in load_config("samsum").higher_is_better
    )
    with pytest.raises(PluginError, match="exact_match"):
        read_task_file(OTHER.replace(NEAREST, "exact_match"), "task.yaml", "agnews", built_in=False)


def test_log_loss_is_that_of_the_right_label_and_not_of_answers(own_cache, agnews):
    losses = log_losses(
        np.log(
            [
                [0.1, 0.9],
                [1.0, 1e-9],
                [1e-9, 1.0],
            ]
        ),
        np.array([0, 0, 0]),
    )
    assert losses == pytest.approx([1 / 3, 0, 1], abs=1e-6)
    result = run_cell(make_cell("public_demonstrations", shots=4), SUITE, Workbench(MECHANISMS))
    assert result.lower_is_better(LOG_LOSS) and 0 < result.scores[LOG_LOSS].value < 1
    assert (
        LOG_LOSS
        not in evaluate_answers(
            agnews, dict.fromkeys((q.id for q in agnews.queries()), "World")
        ).scores
    )
