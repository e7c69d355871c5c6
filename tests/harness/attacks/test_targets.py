"""What an attacker queries, who is in by a fair coin, and what is public about a private set of random size."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpicl.attacks.driver import assign
from dpicl.attacks.targets import Target
from dpicl.attacks.views import ask_yes_or_no, free_text, replace_records
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.mechanism.bases import Query
from dpicl.mechanism.registry import load_mechanisms

MECHANISMS = load_mechanisms()


def make_target(mechanism, task, sim, records=12, *, epsilon=math.inf, sizes=None, **options):
    config = ReleaseConfig(epsilon=epsilon, delta=1e-5, shots=2)
    private = replace_records(task, task.train[:records], sizes)
    return Target(MECHANISMS[mechanism].cls(**options), private, sim, config)


def test_demonstrations_are_released_once(agnews, sim, own_cache):
    target = make_target("real_demonstrations", agnews, sim, None)
    first = target.prompt().shown
    target.label_log_probs(lambda task: task, ["some text"])
    target.answers(ask_yes_or_no, [Query("0", "some text")])
    assert target.prompt().shown == first
    assert len(target.releases) == 1
    assert not target.answers_queries


def test_an_answer_mechanism_is_asked_once_and_pays_for_all(agnews, sim, own_cache):
    target = make_target("voting", agnews, sim, epsilon=2.0, slots=2, examples_per_slot=2)
    answers = target.answers(
        ask_yes_or_no,
        [Query(str(i), f"text {i}") for i in range(5)],
    )
    assert set(answers) == set("01234")
    assert set(answers.values()) <= {"Yes", "No"}
    assert target.releases[0].sizes.queries == 5
    assert target.releases[0].bounds.upper <= 2.0
    with pytest.raises(UsageError, match="asked once"):
        target.answers(ask_yes_or_no, [Query("9", "again")])
    with pytest.raises(UsageError, match="releases no demonstrations"):
        target.prompt()


def test_an_answer_mechanism_refuses_what_it_cannot_answer(agnews, sim, own_cache):
    target = make_target("voting", agnews, sim, slots=2, examples_per_slot=2)
    with pytest.raises(UsageError, match="too many"):
        target.answers(free_text, [Query("0", "say something")])
    assert target.releases == []


def test_label_log_probs_follow_the_released_examples(agnews, sim, own_cache):
    target = make_target("real_demonstrations", agnews, sim, None)
    texts = ["first text", "another one"]
    rows = target.label_log_probs(lambda task: task, texts)
    assert rows.shape == (2, 4)
    for row, text in zip(rows, texts, strict=True):
        prompt = sim.encode(agnews.icl_prefix(target.prompt().shown) + agnews.query(text))
        whole = [sim.encode(" " + label) for label in agnews.labels]
        direct = sim.score([(prompt, whole)])[0]
        assert row == pytest.approx(direct)


def test_a_view_changes_the_question_and_not_the_examples(agnews):
    view = ask_yes_or_no(agnews)
    examples = agnews.train[:2]
    assert view.icl_prefix(examples) == agnews.icl_prefix(examples)
    assert view.query("hello") != agnews.query("hello")
    assert view.labels == ("Yes", "No")
    assert not view.partitioned
    assert agnews.labels == ("World", "Sports", "Business", "Technology")


def test_the_noise_of_a_target_follows_the_published_sizes(agnews, sim, own_cache):
    sizes = dict.fromkeys(agnews.labels, 10)
    knobs = set()
    for count in (30, 31, 60):
        target = make_target(
            "tang", agnews, sim, count, epsilon=1.0, sizes=sizes, slots=2, tokens=3
        )
        target.prompt()
        knobs.add(target.releases[0].calibration.knob)
    assert len(knobs) == 1


def test_a_game_is_disjoint_and_of_the_released_labels(agnews):
    game = assign(agnews, 10, 10, 2, seed=4)
    shots = agnews.plan_shots(2, streams(4).stream("shots"))
    assert not set(game["members"]) & set(game["others"])
    assert len(game["members"]) + len(game["others"]) == len(game["canaries"]) == 20
    assert {record.label for record in game["canaries"]} == set(shots)
    assert dict(game["sizes"]) == dict.fromkeys(shots, 5)
    assert game == assign(agnews, 10, 10, 2, seed=4)
    assert game != assign(agnews, 10, 10, 2, seed=5)


@pytest.mark.parametrize(
    ("members", "others", "sure_in", "sure_out"),
    [
        (20, 8, 12, 0),
        (8, 20, 0, 12),
        (10, 0, 10, 0),
    ],
)
def test_a_surplus_is_in_or_out_for_sure(samsum, members, others, sure_in, sure_out):
    game = assign(samsum, members, others, 1, seed=0)
    assert len(set(game["members"]) - game["canaries"]) == sure_in
    assert len(set(game["others"]) - game["canaries"]) == sure_out
    assert len(game["canaries"]) == 2 * min(members, others)
    assert dict(game["sizes"]) == {None: members}


def test_coins_are_fair_and_independent(samsum):
    """200 samples of 60 records: every record's share, and the spread of the number of members, are binomial (1e-4)."""
    task = replace(samsum, train=samsum.train[:60])
    games = [assign(task, 30, 30, 1, seed) for seed in range(200)]
    counts = Counter(record for game in games for record in game["members"])
    statistic = sum((counts[record] - 100) ** 2 / 50 for record in task.train)
    assert stats.chi2.isf(1 - 5e-5, 60) < statistic < stats.chi2.isf(5e-5, 60)
    sizes = np.array([len(game["members"]) for game in games])
    assert (
        stats.chi2.isf(1 - 5e-5, 200) < ((sizes - 30) ** 2 / 15).sum() < stats.chi2.isf(5e-5, 200)
    )


@pytest.mark.parametrize(
    ("members", "others", "shots", "message"),
    [(100, 100, 2, "lower --members"), (1, 5, 4, "raise --members")],
)
def test_games_that_do_not_fit_are_refused(agnews, members, others, shots, message):
    with pytest.raises(UsageError, match=message):
        assign(agnews, members, others, shots, 0)
