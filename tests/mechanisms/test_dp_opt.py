"""DP-OPT: what a record moves, that every try and the holdout are charged, and what the student is shown."""

import numpy as np
import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.events import BoundedRangeDpEvent, EpsilonDeltaDpEvent, compose, flatten
from dpicl.accounting.published import dp_opt_epsilon
from dpicl.conformance.bench import set_up
from dpicl.conformance.checking import QUICK, CheckEvidence
from dpicl.conformance.checks.neighbours import sensitivity
from dpicl.core.errors import ModelError, PromptTooLong
from dpicl.core.seeds import Streams
from dpicl.core.vocabulary import Sizes
from dpicl.data.task import Task
from dpicl.mechanism.bases import Context
from dpicl.mechanisms.dp_opt import WISHES, DPOpt, MetaPrompts, Student
from dpicl.models.simulated import SimulatedLM
from dpicl.privacy.limited_domain import LimitedDomain
from tests.samples import noisy_releases, private_set

SMALL = DPOpt(slots=8, instructions=2, tokens=6, retries=2, least=2)


@pytest.fixture(scope="module")
def task():
    return Task.load("agnews", "synthetic", limit_train=10, limit_test=5)


def release(task, mechanism=SMALL, records=None, knob=0.2, seed=0, model=None):
    """(prompt, ledger, noisy releases)."""
    private, ledger, public = private_set(
        list(task.train if records is None else records), {None: 40}, seed
    )
    context = Context(
        task.public_view(),
        model or SimulatedLM(),
        ("World",),
        knob,
        public,
    )
    with noisy_releases() as releases:
        prompt = mechanism.release(private, context)
    return prompt, ledger, releases


def test_every_try_and_the_holdout_are_charged_at_their_rates(task):
    mechanism = DPOpt(slots=8, instructions=3, tokens=6, retries=2, holdout=20)
    event = mechanism.events(0.5, Sizes({None: 40}, {None: 4}))
    choice = BoundedRangeDpEvent(2.0)
    token = dp.PoissonSampledDpEvent(
        0.2, compose([choice, EpsilonDeltaDpEvent(0.0, mechanism.failure)])
    )
    assert flatten(event) == {
        token: 3 * (6 + 2),
        dp.PoissonSampledDpEvent(0.5, choice): 1,
    }
    _, ledger, _ = release(task, mechanism, knob=0.5)
    assert compose([ledger.event()]) == compose([event])


def test_failures_are_charged_where_nothing_is_released(task):
    """No record, no vote: every try fails, the task's own instruction stays."""
    prompt, ledger, releases = release(task, records=[], knob=0.0)
    assert prompt.instruction == task.config.description and not prompt.demonstrations
    assert len(releases) == SMALL.instructions * (SMALL.retries + 1) + 1
    assert compose([ledger.event()]) == compose(
        [
            SMALL.events(
                0.0,
                Sizes({None: 40}, {None: 1}),
            )
        ]
    )


def test_the_student_is_shown_as_right_or_wrong(task):
    streams, model = Streams(0), SimulatedLM()
    student = Student(
        Context(
            task.public_view(),
            model,
            ("World",),
            1.0,
            streams.public,
        ),
        None,
    )
    records = list(task.train[:6])
    answers = student.answers(task.config.description, records)
    slow = []
    for record in records:
        prompt = model.encode(task.icl_prefix(()) + task.query(record.text))
        rows = model.score(
            [
                (
                    prompt,
                    [model.encode(" " + label) for label in task.labels],
                )
            ]
        )
        slow.append(task.labels[int(np.argmax(rows[0]))])
    assert answers == slow
    for record, prompt, answer in zip(
        records, MetaPrompts(student, WISHES[0], 6).of(records), answers, strict=True
    ):
        shown = model.decode(prompt)
        assert record.text in shown and f" {record.label}" in shown and WISHES[0] in shown
        assert ("The right answer is" in shown) == (answer != record.label)


def test_a_bad_public_prompt_is_one_clear_error(task):
    short = SimulatedLM()
    short.max_length = 60
    with pytest.raises(PromptTooLong):
        release(task, model=short)
    with pytest.raises(ModelError):
        release(task, model=SimulatedLM(broken=float("nan")))


def test_the_published_epsilon_is_that_of_all_tries():
    sizes = Sizes({None: 66676}, {None: 4})
    mechanism = DPOpt(slots=1025, instructions=8, tokens=20, retries=5, failure=5e-7)
    claimed = mechanism.paper_epsilon(1 / 1.8, sizes, 2.0373e-6)
    assert claimed == pytest.approx(dp_opt_epsilon(1.8, 5e-7, 1025 / 66676, 200, 2.0373e-6))
    assert claimed == pytest.approx(3.38, abs=0.01)
    assert (
        mechanism.paper_epsilon(1 / 1.8, sizes, 1e-9)
        == mechanism.paper_epsilon(0.0, sizes, 1e-5)
        == float("inf")
    )


def test_the_kit_refutes_failures_that_are_not_paid(monkeypatch):
    """delta0 far above what is charged: what is chosen would often be impossible without the record."""
    scores = LimitedDomain.scores

    def choose_carelessly(self, counts):
        careless = scores(self, counts)
        careless[-1] -= self.temperature * 16
        return careless

    monkeypatch.setattr(LimitedDomain, "scores", choose_carelessly)
    evidence = CheckEvidence(set_up(DPOpt, "agnews", {}, seed=0), QUICK)
    verdict = sensitivity(evidence)
    assert verdict.status == "failed" and "delta" in verdict.why
