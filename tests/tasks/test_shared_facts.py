"""shared_facts: who holds what, and what surfaces."""

import math
from collections import Counter

import numpy as np
import pytest

from dpicl.core.cell import ReleaseConfig
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanisms.real_demonstrations import RealDemonstrations
from dpicl.mechanisms.tang import Tang
from dpicl.models.simulated import SimulatedLM
from dpicl.releasing.release import release
from dpicl.tasks import facts
from dpicl.tasks.synthetic import shared_facts

pytestmark = pytest.mark.usefixtures("new_corpora")


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.load("shared_facts")


def test_the_numbers_of_records_are_those_that_the_names_say(task):
    counts = Counter(facts.count_held(task.train, 0).values())
    assert {m: counts[m] for m in (125, 25, 5)} == shared_facts.HELD
    assert counts[0] + counts[1] == shared_facts.LONE
    assert set(counts) == {0, 1, 5, 25, 125}
    assert len(task.train) == 125 * 3 + 25 * 4 + 5 * 10 + counts[1]
    assert sum(task.dropped.values()) == 0


def test_coins_are_fair_and_of_their_own():
    """One fact held or not changes no other record, so that held and unheld facts can be compared."""
    coins = np.array(
        [
            [fact.held for fact in shared_facts.facts(seed)[-shared_facts.LONE :]]
            for seed in range(60)
        ]
    )
    assert abs(coins.mean() - 0.5) < 4 * 0.5 / math.sqrt(coins.size)
    assert np.abs(np.corrcoef(coins)[~np.eye(60, dtype=bool)]).max() < 5 / math.sqrt(
        shared_facts.LONE
    )


def test_no_test_record_holds_a_fact(task):
    truth = facts.count_held(task.train, 0)
    assert len(truth) == len(shared_facts.facts(0))
    assert all(len(facts.passwords(record.text)) == 1 for record in (*task.train, *task.test))
    in_test = facts.count_surfaced([record.text for record in task.test], truth)
    assert not any(there for there, _ in in_test.values())
    in_train = facts.count_surfaced([record.text for record in task.train], truth)
    assert all(there == (n if group else 0) for group, (there, n) in in_train.items())


def test_a_public_view_holds_no_fact(task):
    truth = facts.count_held(task.train, 0)
    view = task.public_view()
    texts = [record.text for record in view.test] + [
        str(view.config),
        str(view.icl_prefix(())),
    ]
    assert not any(there for there, _ in facts.count_surfaced(texts, truth).values())
    assert not any(password in " ".join(texts) for password in truth)


@pytest.mark.parametrize(
    ("text", "matched"),
    [
        ("The password is LION  -Drum!", {"lion drum"}),
        ("lion drums", set()),
        ("drum lion", set()),
        ("sealion drum, lions drum", set()),
        ("fox rope and owl coin lamp. owl lamp: Fox rope", {"fox rope", "owl lamp"}),
        ("", set()),
    ],
)
def test_a_password_is_matched_whole_and_in_order(text, matched):
    assert facts.passwords(text) == matched


def test_scores_say_which_facts_surface(task):
    truth = facts.count_held(task.train, 0)
    of = {m: [password for password, n in truth.items() if n == m] for m in (0, 1, 5, 25, 125)}
    texts = [
        f"It is {of[125][0]}.",
        f"{of[1][0]} / {of[1][1]}",
        of[0][0],
        "red fox",
        of[125][0],
        of[5][0],
    ]
    evaluation = evaluate(task, SimulatedLM(), [Demonstration(text, "note") for text in texts])
    assert evaluation.scores == pytest.approx(
        {"states_125": 2 / 6, "states_1": 1 / 6, "password": 5 / 6}
    )
    assert evaluation.aggregates == pytest.approx(
        {
            "surfaces_0": 1 / len(of[0]),
            "surfaces_1": 2 / len(of[1]),
            "surfaces_5": 1 / 10,
        }
        | {"surfaces_25": 0.0, "surfaces_125": 1 / 3}
    )


def test_real_records_surface_single_facts_and_noise_does_not(task):
    shown = release(
        RealDemonstrations(),
        task,
        SimulatedLM(),
        ReleaseConfig(epsilon=math.inf, delta=1e-5, shots=40),
    )
    real = evaluate(task, SimulatedLM(), shown.demonstrations)
    assert real.aggregates["surfaces_1"] > 0 and real.aggregates["surfaces_125"] == 1
    private = release(
        Tang(slots=4, examples_per_slot=1, tokens=4),
        task,
        SimulatedLM(),
        ReleaseConfig(epsilon=1.0, delta=1e-5, shots=3),
    )
    assert evaluate(task, SimulatedLM(), private.demonstrations).aggregates["surfaces_1"] == 0
