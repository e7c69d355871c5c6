"""A prepared mechanism everywhere: its release, its cells, targets of attacks, audits, the gate's recount."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dpicl
from dpicl import models
from dpicl.attacks.audit_runs import AuditJob, AuditRuns
from dpicl.attacks.membership import explain_no_answer
from dpicl.attacks.targets import Target
from dpicl.attacks.views import ask_yes_or_no
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import Concealed, PluginError, UsageError
from dpicl.core.vocabulary import FinalPrompt, Query
from dpicl.leaderboards.gate.ledgers import events_of, explain_unpaid
from dpicl.leaderboards.model.marks import BY_EMBEDDINGS, CHANGED_CODE, OWN_READER, marks_of
from dpicl.mechanism.registry import load_mechanisms
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids
from dpicl.releasing.release import release
from dpicl.results.schema import from_text, to_text
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from tests.harness.run.test_pipeline import SUITE, make_cell

SIM = EmbeddingCentroids(embedding="sim")
CONFIG = ReleaseConfig(epsilon=1.0, delta=1e-5)
MECHANISMS = load_mechanisms()


@dataclass(frozen=True)
class Keeps(EmbeddingCentroids):
    """Answers with a record of a sample that it kept."""

    name = "keeps"
    embedding: str = "sim"

    def prepare(self, private, context):
        super().prepare(private, context)
        slots = (
            private.poisson_slots(
                60, None, partition="World", releases=self._releases(context.knob)
            )
            .draw()
            .slots
        )

        class Reads:
            def answer(self, query: Query) -> str:
                return slots[0][0].text

        return Reads()


class TwoForOne(Keeps):
    """Declares the second sample of one class that it draws."""

    name = "two_for_one"

    def events(self, knob, sizes):
        one = self._releases(knob)
        return dpicl.parallel(
            {label: dpicl.compose([one] * (1 + (label == "World"))) for label in sizes.records}
        )


@pytest.mark.parametrize("noise", ["seeded", "secure"])
def test_no_record_can_be_read_after_the_preparation(own_cache, agnews, noise):
    task = replace(agnews, declared=dict.fromkeys(agnews.labels, 60))
    with pytest.raises(PluginError if noise == "seeded" else Concealed) as caught:
        release(
            TwoForOne(),
            task,
            models.load("sim"),
            CONFIG.model_copy(update={"noise": noise}),
            charge=lambda new: ("records",),
        )
    assert agnews.train[0].text not in str(caught.value)


class Prompts(EmbeddingCentroids):
    """Lets the model write the answer."""

    name = "prompts"

    def prepare(self, private, context):
        state = super().prepare(private, context)

        class Asks:
            def answer(self, query: Query) -> FinalPrompt:
                return FinalPrompt(context.task.icl_prefix(()) + state.answer(query))

        return Asks()


class Silent(EmbeddingCentroids):
    """Draws no noise."""

    name = "silent"

    def prepare(self, private, context):
        class World:
            def answer(self, query: Query) -> str:
                return "World"

        return World()


class Odd(EmbeddingCentroids):
    name = "odd"

    def prepare(self, private, context):
        return "no answers"


def test_answers_may_be_written_by_the_model_and_need_noise(agnews):
    model = models.load("sim")
    outcome = release(Prompts(embedding="sim"), agnews, model, CONFIG)
    assert set(outcome.answers) == {query.id for query in agnews.queries()}
    assert all(isinstance(text, str) for text in outcome.answers.values())
    for wrong in (Silent(embedding="sim"), Odd(embedding="sim")):
        with pytest.raises(PluginError):
            release(wrong, agnews, model, CONFIG)


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [
        ({}, 2.0),
        ({"head": "logistic", "steps": 2}, math.inf),
    ],
)
def test_a_cell_says_what_it_is_and_its_ledger_adds_up(own_cache, options, epsilon):
    cell = make_cell(
        "embedding_centroids", epsilon=epsilon, options={"embedding": "sim", **options}
    )
    result = run_cell(cell, SUITE, Workbench(MECHANISMS))
    assert result.kind == "prepared"
    assert result.privacy.queries is None
    assert result.privacy.epsilon_per_query is None
    assert len(result.answers) == (10 if epsilon == 2 else 0) and result.released_count == 10
    assert set(result.scores) == {"acc", "acc_calibrated", "acc_logistic"}
    assert result.manifest.embedding.name == "sim"
    assert from_text(to_text(result)) == result
    assert {*marks_of([result])} - {CHANGED_CODE} == {BY_EMBEDDINGS, OWN_READER}
    assert not explain_unpaid(result) and events_of([result], ()) == [result.privacy.event]
    with pytest.raises(ValueError, match="number of queries"):
        type(result).model_validate(
            {
                **result.model_dump(),
                "privacy": {
                    **result.privacy.model_dump(),
                    "queries": 10,
                },
            }
        )


def test_a_result_cannot_say_that_it_was_prepared(own_cache):
    cell = make_cell("voting", options={"slots": 4, "examples_per_slot": 1})
    result = run_cell(cell, SUITE, Workbench(MECHANISMS))
    privacy = result.privacy.model_copy(update={"queries": None})
    with pytest.raises(UsageError):
        events_of([result.model_copy(update={"prepared": True, "privacy": privacy})], ())


def test_attackers_ask_one_release_any_number_of_times(agnews):
    target = Target(SIM, agnews, models.load("sim"), CONFIG)
    queries = [Query(f"{n}", query.text) for n, query in enumerate(agnews.queries())]
    first = target.answers(lambda task: task, queries)
    assert target.answers(lambda task: task, queries[::-1]) == first
    assert len(target.releases) == 1
    assert (
        explain_no_answer(SIM, agnews, ask_yes_or_no(agnews))
        and explain_no_answer(SIM, agnews) is None
    )
    with pytest.raises(UsageError):
        target.prompt()


def test_the_python_interface_takes_one(own_cache):
    evaluation = dpicl.evaluate(
        SIM,
        task="agnews",
        model="sim",
        source="synthetic",
        epsilon=1,
        test_records=6,
        train_records=40,
        progress=False,
    )
    assert evaluation.to_frame().queries.isna().all()
    assert np.isfinite(evaluation.to_frame().score).all()
    with pytest.raises(UsageError):
        dpicl.calibrate(SIM, task="agnews", epsilon=1, queries=5)
    assert {row["name"]: row["kind"] for row in dpicl.list_mechanisms()}[
        "embedding_centroids"
    ] == "prepared"


def test_an_audit_asks_about_the_canary(agnews):
    job = AuditJob(SIM, agnews, "sim", {}, runs=8, records=12)
    job.check()
    result = AuditRuns(job, models.load("sim")).audit(8.0)
    assert (
        result.bound.epsilon <= result.privacy.epsilon_proved and "question" not in result.settings
    )
