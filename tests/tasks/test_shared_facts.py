"""shared_facts: who holds what, and what surfaces."""

from __future__ import annotations

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
from dpicl.tasks.synthetic.grammar import Grammar

pytestmark = pytest.mark.usefixtures("new_corpora")


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.load("shared_facts")


def test_the_numbers_of_records_are_those_that_the_names_say(task):
    counts = Counter(facts.count_held(task.train, 0).values())
    assert {m: counts[m] for m in (125, 25, 5)} == shared_facts.HELD
    assert counts[0] + counts[1] == shared_facts.LONE and set(counts) == {0, 1, 5, 25, 125}
    assert len(task.train) == 125 * 3 + 25 * 4 + 5 * 10 + counts[1]
    assert sum(task.dropped.values()) == 0


def test_development_records_are_scored_by_their_own_facts(task):
    own = Task.load("shared_facts", "synthetic", development=True)
    counts = Counter(facts.count_held(own.train, own.seed).values())
    assert {m: counts[m] for m in (125, 25, 5)} == shared_facts.HELD
    assert {record.text for record in own.train}.isdisjoint(record.text for record in task.train)


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


@pytest.mark.parametrize("seed", range(4))
def test_no_test_record_holds_a_fact_and_each_fact_is_one_password(seed):
    own = Task.load("shared_facts", "synthetic", seed=seed)
    truth = facts.count_held(own.train, seed)
    assert (
        len(truth)
        == len(shared_facts.facts(seed))
        == sum(shared_facts.HELD.values()) + shared_facts.LONE
    )
    assert all(len(facts.passwords(record.text)) == 1 for record in (*own.train, *own.test))
    assert facts.count_surfaced([record.text for record in own.test], truth)[1][0] == 0
    assert all(
        there == 0
        for there, _ in facts.count_surfaced([record.text for record in own.test], truth).values()
    )
    said = [record.text for record in own.train]
    assert all(
        there == (0 if group == 0 else n)
        for group, (there, n) in facts.count_surfaced(said, truth).items()
    )


def test_nobody_in_the_notes_exists():
    """No name is a word of the corpora that use real first and family names."""
    real = {word for name in ("first", "last") for word in Grammar.read("lexicon").rules[name]}
    rules = shared_facts.GRAMMAR.rules
    made = {onset + ending for onset in rules["onset"] for ending in rules["ending"]}
    assert not made & real and not set(rules["onset"]) & real


def test_a_public_view_holds_no_fact(task):
    truth = facts.count_held(task.train, 0)
    view = task.public_view()
    said = [record.text for record in view.test] + [str(view.config), str(view.icl_prefix(()))]
    assert not any(there for there, _ in facts.count_surfaced(said, truth).values())
    assert not any(password in " ".join(said) for password in truth)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("The password is LION  -Drum!", {"lion drum"}),
        ("lion drums", set()),
        ("lion dr um", set()),
        ("drum lion", set()),
        ("sealion drum, lions drum", set()),
        ("fox rope and owl coin lamp. owl lamp: Fox rope", {"fox rope", "owl lamp"}),
        ("", set()),
    ],
)
def test_a_password_is_matched_whole_and_in_order(text, found):
    assert facts.passwords(text) == found


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
    found = evaluate(task, SimulatedLM(), [Demonstration(text, "note") for text in texts])
    assert found.scores == pytest.approx(
        {"states_125": 2 / 6, "states_1": 1 / 6, "password": 5 / 6}
    )
    assert found.aggregates == pytest.approx(
        {"surfaces_0": 1 / len(of[0]), "surfaces_1": 2 / len(of[1]), "surfaces_5": 1 / 10}
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
