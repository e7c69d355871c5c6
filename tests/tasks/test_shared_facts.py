"""shared_facts: who holds what, what surfaces, and whether it surfaces more often than epsilon allows."""

from __future__ import annotations

import json
import math
import re
from collections import Counter

import numpy as np
import pytest

from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import UsageError
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.mechanisms.real_demonstrations import RealDemonstrations
from dpicl.mechanisms.tang import Tang
from dpicl.models.simulated import SimulatedLM
from dpicl.releasing.release import release
from dpicl.run.pipeline import run_cell
from dpicl.run.workbench import Workbench
from dpicl.tasks import facts, facts_bound
from dpicl.tasks.synthetic import shared_facts
from dpicl.tasks.synthetic.grammar import Grammar
from tests.harness.test_pipeline import MECHANISMS, SUITE, make_cell

pytestmark = pytest.mark.usefixtures("new_corpora")


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.load("shared_facts")


def test_the_numbers_of_records_are_those_that_the_names_say(task):
    counts = Counter(facts.held(task.train, 0).values())
    assert {m: counts[m] for m in (125, 25, 5)} == shared_facts.HELD
    assert counts[0] + counts[1] == shared_facts.LONE and set(counts) == {0, 1, 5, 25, 125}
    assert len(task.train) == 125 * 3 + 25 * 4 + 5 * 10 + counts[1]
    assert sum(task.dropped.values()) == 0


def test_development_records_are_scored_by_their_own_facts(task):
    own = Task.load("shared_facts", "synthetic", development=True)
    counts = Counter(facts.held(own.train, own.seed).values())
    assert {m: counts[m] for m in (125, 25, 5)} == shared_facts.HELD
    assert {record.text for record in own.train}.isdisjoint(record.text for record in task.train)


def test_coins_are_fair_and_of_their_own():
    """One fact held or not changes no other record: the proof rests on it."""
    coins = np.array([[fact.held for fact in shared_facts.facts(seed)[-shared_facts.LONE :]] for seed in range(60)])
    assert abs(coins.mean() - 0.5) < 4 * 0.5 / math.sqrt(coins.size)
    assert np.abs(np.corrcoef(coins)[~np.eye(60, dtype=bool)]).max() < 5 / math.sqrt(shared_facts.LONE)


@pytest.mark.parametrize("seed", range(4))
def test_no_test_record_holds_a_fact_and_each_fact_is_one_password(seed):
    own = Task.load("shared_facts", "synthetic", seed=seed)
    truth = facts.held(own.train, seed)
    assert len(truth) == len(shared_facts.facts(seed)) == sum(shared_facts.HELD.values()) + shared_facts.LONE
    assert all(len(facts.passwords(record.text)) == 1 for record in (*own.train, *own.test))
    assert facts.surfaced([record.text for record in own.test], truth)[1][0] == 0
    assert all(there == 0 for there, _ in facts.surfaced([record.text for record in own.test], truth).values())
    said = [record.text for record in own.train]
    assert all(there == (0 if group == 0 else n) for group, (there, n) in facts.surfaced(said, truth).items())


def test_nobody_in_the_notes_exists():
    """No name is a word of the corpora that use real first and family names."""
    real = {word for name in ("first", "last") for word in Grammar.read("lexicon").rules[name]}
    rules = shared_facts.GRAMMAR.rules
    made = {onset + ending for onset in rules["onset"] for ending in rules["ending"]}
    assert not made & real and not set(rules["onset"]) & real


def test_a_public_view_holds_no_fact(task):
    truth = facts.held(task.train, 0)
    view = task.public_view()
    said = [record.text for record in view.test] + [str(view.config), str(view.icl_prefix(()))]
    assert not any(there for there, _ in facts.surfaced(said, truth).values())
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
    truth = facts.held(task.train, 0)
    of = {m: [password for password, n in truth.items() if n == m] for m in (0, 1, 5, 25, 125)}
    texts = [f"It is {of[125][0]}.", f"{of[1][0]} / {of[1][1]}", of[0][0], "red fox", of[125][0], of[5][0]]
    found = evaluate(task, SimulatedLM(), [Demonstration(text, "note") for text in texts])
    assert found.scores == pytest.approx({"states_125": 2 / 6, "states_1": 1 / 6, "password": 5 / 6})
    assert found.aggregates == pytest.approx(
        {"surfaces_0": 1 / len(of[0]), "surfaces_1": 2 / len(of[1]), "surfaces_5": 1 / 10}
        | {"surfaces_25": 0.0, "surfaces_125": 1 / 3}
    )


def test_real_records_surface_single_facts_and_noise_does_not(task):
    shown = release(RealDemonstrations(), task, SimulatedLM(), ReleaseConfig(epsilon=math.inf, delta=1e-5, shots=40))
    real = evaluate(task, SimulatedLM(), shown.demonstrations)
    assert real.aggregates["surfaces_1"] > 0 and real.aggregates["surfaces_125"] == 1
    private = release(
        Tang(slots=4, examples_per_slot=1, tokens=4),
        task,
        SimulatedLM(),
        ReleaseConfig(epsilon=1.0, delta=1e-5, shots=3),
    )
    assert evaluate(task, SimulatedLM(), private.demonstrations).aggregates["surfaces_1"] == 0


# --- the bound ---------------------------------------------------------------------------------------------------


def counts(one: int, none: int, n: int = 100) -> dict[int, tuple[int, int]]:
    return {0: (none, n), 1: (one, n), 5: (0, 20), 25: (0, 8), 125: (4, 4)}


def test_facts_of_one_record_that_surface_like_others_violate_nothing():
    for epsilon in (0.1, 1.0, 8.0):
        assert not facts_bound.reading(counts(3, 3), epsilon, 1e-5).violated
        assert not facts_bound.reading(counts(1, 0), epsilon, 1e-5).violated


def test_a_release_that_copies_records_violates_every_small_epsilon():
    found = facts_bound.reading(counts(60, 0), 1.0, 1e-5)
    assert found.violated and found.epsilon_lower > 2
    assert facts_bound.reading(counts(60, 0), math.inf, 1e-5).violated is False
    assert not facts_bound.reading(counts(60, 0), 1.0, 1e-5, whole=False).curve[1].violated
    assert found.onset == 1 and facts_bound.reading(counts(1, 0), 1.0, 1e-5).onset == 125


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_best_release_that_epsilon_allows_is_refuted_at_most_once_in_twenty(epsilon):
    """Randomised response on every fact: held ones surface with e^epsilon times the odds that unheld ones have."""
    draws, wrong, near = np.random.default_rng(0), 0, 0
    keep = math.exp(epsilon) / (1 + math.exp(epsilon))
    for _ in range(300):
        coins = draws.random(200) < 0.5
        there = draws.random(200) < np.where(coins, keep, 1 - keep)
        one, none = int((there & coins).sum()), int((there & ~coins).sum())
        own = {**counts(0, 0), 0: (none, int((~coins).sum())), 1: (one, int(coins.sum()))}
        wrong += facts_bound.reading(own, epsilon, 0.0).violated
        near += facts_bound.reading(own, epsilon / 8, 0.0).violated
    assert wrong <= 300 * 0.05 + 4 * math.sqrt(300 * 0.05 * 0.95)
    assert near > 150  # it is no test that never refutes


def test_the_allowed_rate_is_group_privacy_applied_step_by_step():
    for epsilon, delta, k in ((0.1, 1e-5, 10), (0.0, 1e-3, 4), (0.3, 0.0, 2)):
        rate = 0.01
        for _ in range(k):
            rate = math.exp(epsilon) * rate + delta
        assert facts_bound._allowed(0.01, epsilon, delta, k) == pytest.approx(rate)
    assert facts_bound._allowed(0.01, 8.0, 1e-5, 250) == 1.0
    assert facts_bound._allowed(0.0, math.inf, 1e-5, 1) == 1.0


def test_the_command_reads_results(own_cache, tmp_path, capsys):
    from dpicl.results.schema import to_text

    bench = Workbench(MECHANISMS)
    cell = make_cell("real_demonstrations", task="shared_facts", shots=30, train_records=None, test_records=None)
    file = tmp_path / "result.json"
    file.write_text(to_text(run_cell(cell, SUITE, bench)))
    assert facts_bound.main([str(file)]) == 0  # an infinite epsilon allows everything
    assert re.search(r"125: [1-3]/3", capsys.readouterr().out)
    damaged = tmp_path / "damaged.json"
    content = json.loads(file.read_text())
    for without in ("aggregates", "higher_is_better"):
        del content[without]["surfaces_0"]
    damaged.write_text(json.dumps(content))
    for wrong, said in (
        (damaged, "lacks surfaces_0"),
        (tmp_path, "not a regular file"),
        (tmp_path / "none", "none is no"),
    ):
        assert facts_bound.main([str(wrong)]) == 2 and said in capsys.readouterr().err
    content = json.loads(file.read_text())
    content["cell"]["label"] = "\x1b[31mred"
    file.write_text(json.dumps(content))
    assert facts_bound.main([str(file)]) == 0 and "\x1b" not in capsys.readouterr().out
    assert facts_bound.main([]) == 2
    other = make_cell("zero_shot", test_records=2, train_records=2)
    with pytest.raises(UsageError, match="agnews"):
        facts_bound.of_result(run_cell(other, SUITE, bench))
