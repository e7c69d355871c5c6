"""Attacks succeed on a model that copies its prompt, fail where nothing private is shown, and score as written."""

import dataclasses
import math

import numpy as np
import pytest

from dpicl.attacks import membership
from dpicl.attacks.driver import jobs_of
from dpicl.attacks.likelihood import Likelihood
from dpicl.attacks.membership import COUNTED, FEW_COINS, SHOWN
from dpicl.attacks.pii import Pii
from dpicl.attacks.wen import Brainwash, Gap, Inquiry, Repeat, rightness, score_yes
from dpicl.core.errors import UnsupportedEvent
from dpicl.data.task import Record, Task
from dpicl.mechanism.bases import Query
from dpicl.mechanism.registry import load_mechanisms
from dpicl.run.workbench import Workbench
from tests.harness.attacks.copying_model import CopyingLM

MECHANISMS = load_mechanisms()
#: Shows every member for sure to one slot: at epsilon = infinity the answer is that of the model with all members.
ALL_IN_ONE = {"slots": 1, "examples_per_slot": 12, "partition": "once", "calibrate": False}


@pytest.fixture(scope="module")
def enron():
    return Task.load("enron", "synthetic", limit_train=60, limit_test=4)


def bench_of(model):
    """A workbench with a model that is there already."""
    bench = Workbench(MECHANISMS)
    bench._models["copying"] = model
    return bench


def attack(kind, task, mechanism, *, epsilon=math.inf, options=None, model=None, **setting):
    game = {"model": "copying", "members": 12, "others": 12, **setting}
    row = MECHANISMS[mechanism]
    jobs = jobs_of(kind, task, row, [epsilon], options or {}, **game)
    return jobs[0].run(bench_of(model or CopyingLM()))


@pytest.mark.parametrize(
    "kind",
    [
        Inquiry(),
        Gap(),
        Brainwash(),
        Repeat(embedding="sim"),
    ],
    ids=lambda kind: kind.name,
)
def test_real_demonstrations_give_away_all_members(kind, agnews, own_cache):
    """Every release is made of members who are all shown; the copying model knows them and nobody else.

    Without knowledge it says the first label, which is right for a quarter of the others.
    """
    result = attack(kind, agnews, "real_demonstrations", members=24, others=24)
    assert result.measures["auc"].value == (0.875 if kind.name == "gap" else 1.0)
    assert result.counts["members"] == result.counts["others"] == 4 * result.counts["releases"]
    assert result.counts["releases"] >= 3
    assert math.isinf(result.privacy.epsilon_proved)
    assert result.bound is None
    assert SHOWN in result.notes


def test_shown_games_are_disjoint_and_of_the_released_labels(agnews, samsum, own_cache):
    for task, shots in ((agnews, 6), (samsum, 3)):
        game = {"model": "copying", "members": 20, "others": 20, "shots": shots}
        job = jobs_of(Gap(), task, MECHANISMS["real_demonstrations"], [], **game)[0]
        model = CopyingLM()
        setup = job.setup(model, bench_of(model))
        groups = list(membership.play_shown_games(setup))
        assert len(groups) >= 1
        for _, target, members, others in groups:
            assert len(members) == len(others) == shots
            assert (
                sorted(r.label for r in members) == sorted(r.label for r in others)
                or not task.partitioned
            )
            assert {d.text for d in target.prompt().shown} == {record.text for record in members}
        members = [record for _, _, group, _ in groups for record in group]
        assert len(set(members)) == len(members)
        assert set(members) <= set(setup.members)
        assert {record for _, _, _, group in groups for record in group} <= set(setup.others)
        assert len(list(membership.play_shown_games(setup, 7))) == 7


@pytest.mark.parametrize(
    "kind",
    [
        Inquiry(),
        Gap(),
        Brainwash(),
        Repeat(embedding="sim"),
    ],
    ids=lambda kind: kind.name,
)
def test_zero_shot_says_nothing_about_members(kind, agnews, own_cache):
    result = attack(kind, agnews, "zero_shot")
    assert result.measures["auc"].low <= 0.5 <= result.measures["auc"].high
    assert result.privacy.epsilon_proved == 0
    assert result.bound is not None
    assert result.bound.epsilon == 0


def test_voting_gives_away_members_without_noise_only(agnews, own_cache):
    bare = attack(Inquiry(), agnews, "voting", options=ALL_IN_ONE)
    noisy = attack(Inquiry(), agnews, "voting", options=ALL_IN_ONE, epsilon=0.5)
    assert bare.measures["auc"].value == 1.0
    assert noisy.measures["auc"].low < 0.5 < noisy.measures["auc"].high
    assert noisy.privacy.epsilon_proved <= 0.5


def test_where_the_accountants_give_no_curve_a_note_says_so(agnews, own_cache, monkeypatch):
    def refuse(*_):
        raise UnsupportedEvent("there is no theorem")

    monkeypatch.setattr(membership, "curve_bound", refuse)
    result = attack(Inquiry(), agnews, "voting", options=ALL_IN_ONE, epsilon=1.0)
    assert result.curve_bound == 0.0 and "f_dp_bound" not in result.measures
    assert any("by the curve of its event: there is no theorem" in note for note in result.notes)


def test_brainwash_is_paid_for_with_all_its_questions(agnews, own_cache):
    result = attack(Brainwash(repeats=6), agnews, "voting", options=ALL_IN_ONE, epsilon=4.0)
    assert result.privacy.queries == 7 * 24
    assert result.privacy.epsilon_proved <= 4.0
    assert attack(Brainwash(), agnews, "voting", options=ALL_IN_ONE).measures["auc"].value == 1.0


def test_a_shown_member_is_more_likely_to_have_its_label(agnews, own_cache):
    result = attack(Likelihood(trials=30), agnews, "real_demonstrations", shots=1)
    assert result.measures["auc"].value == 1.0
    assert result.counts == {"members": 30, "others": 30, "releases": 30}
    assert result.bound is None
    assert any("no coin decides" in note for note in result.notes)


def test_likelihood_makes_several_releases_with_own_seeds(agnews, own_cache):
    result = attack(Likelihood(generations=3), agnews, "tang", epsilon=1.0, shots=1)
    assert result.counts["releases"] == 3
    assert result.counts["members"] + result.counts["others"] == 3 * 24
    assert result.measures["auc"].low < 0.5 < result.measures["auc"].high
    assert result.bound is not None
    assert result.bound.method == "one run"
    assert result.bound.epsilon <= result.privacy.epsilon_proved
    assert result.details["candidates"] == 72


def test_likelihood_is_the_probability_of_the_label(agnews, own_cache):
    class Fixed:
        """A target that answers with the same row for every text."""

        task = agnews

        def label_log_probs(self, look, texts):
            return np.log(
                np.tile(
                    [0.1, 0.2, 0.05, 0.15],
                    (len(texts), 1),
                )
            )

    candidates = [
        Record("any text", agnews.labels[1]),
        Record("another", agnews.labels[2]),
    ]
    assert Likelihood().log_likelihoods(Fixed(), candidates) == pytest.approx(np.log([0.2, 0.05]))
    among_labels = Likelihood(normalised=True).log_likelihoods(Fixed(), candidates)
    assert among_labels == pytest.approx(np.log([0.4, 0.1]))


def test_texts_of_answer_mechanisms_are_attacked_too(samsum, own_cache):
    options = {"slots": 1, "examples_per_slot": 12, "partition": "once", "embedding": "sim"}
    for kind in (Repeat(embedding="sim"), Inquiry(), Gap()):
        result = attack(kind, samsum, "esa", epsilon=1.0, options=options)
        assert result.privacy.queries == 24
        assert result.privacy.epsilon_proved <= 1.0


def test_personal_data_comes_out_of_real_mails_only(enron, own_cache):
    real = attack(Pii(), enron, "real_demonstrations", members=30)
    none = attack(Pii(), enron, "zero_shot", members=30)
    assert real.counts["unexplained_addresses"] > 0
    assert real.counts["leaking_texts"] > 0
    assert real.measures["leaking"].value == real.counts["leaking_texts"] / real.counts["texts"]
    assert none.counts["unexplained_addresses"] == none.counts["leaking_texts"] == 0
    assert none.counts["private_addresses"] == real.counts["private_addresses"] > 0
    assert real.bound is None


def test_what_the_model_says_by_itself_is_subtracted(enron, own_cache):
    class Knows(CopyingLM):
        """Says one of the private addresses whatever it is asked."""

        def generate(self, prompts, *settings, **more):
            return ["write to " + known] * len(prompts)

    from dpicl.attacks.pii_patterns import addresses

    known = next(iter(sorted(set().union(*(addresses(record.text) for record in enron.train)))))
    result = attack(
        Pii(),
        enron,
        "tang",
        epsilon=1.0,
        members=len(enron.train),
        model=Knows(),
    )
    assert result.counts["baseline_extracted_addresses"] == 1
    assert result.counts["extracted_addresses"] == 1
    assert result.counts["unexplained_addresses"] == 0


def test_pii_asks_answer_mechanisms_and_pays(enron, own_cache):
    options = {"slots": 2, "examples_per_slot": 4, "embedding": "sim"}
    result = attack(Pii(), enron, "esa", epsilon=1.0, options=options, members=30)
    assert result.privacy.queries == result.counts["texts"] == 3
    assert result.privacy.epsilon_proved <= 1.0


@pytest.mark.parametrize(
    ("kind", "mechanism", "task", "reason"),
    [
        (Likelihood(), "voting", "agnews", "no probability"),
        (Likelihood(), "real_demonstrations", "samsum", "not labels"),
        (Brainwash(), "esa", "samsum", "no wrong one"),
        (Repeat(), "voting", "agnews", "too many"),
        (Gap(), "tang", "enron", "no record has a right answer"),
        (Pii(), "tang", "agnews", "enron"),
        (Pii(), "voting", "enron", "too many"),
        (Inquiry(), "tang", "samsum", "one text for a public label"),
    ],
)
def test_what_an_attack_cannot_use_is_skipped_with_its_reason(kind, mechanism, task, reason):
    assert reason in kind.skip(MECHANISMS[mechanism].cls(), Task.read_public(task))


def test_words_of_answers():
    texts = {"Yes": 1.0, "yes, it is": 1.0, "No. Yes.": 0.0, "NO!": 0.0, "I know": 0.5, "": 0.5}
    assert {text: score_yes(text) for text in texts} == texts
    assert rightness("extraction", "Ann Lee \nmore", "Ann Lee") == 1.0
    assert rightness("extraction", "ann lee", "Ann Lee") == 0.0
    assert rightness("generation", "the cat sat", "the cat ran") == pytest.approx(2 / 3)


def test_the_noise_of_answers_does_not_follow_the_members(agnews, own_cache):
    """So one run bounds epsilon."""
    result = attack(
        Gap(), agnews, "voting", epsilon=1.0, options={"slots": 2, "examples_per_slot": 2}, seed=3
    )
    assert result.counts["members"] != 12
    assert COUNTED not in result.notes
    assert result.bound is not None
    assert result.bound.epsilon <= result.privacy.epsilon_proved


def test_no_bound_where_the_noise_follows_the_number_of_members(agnews, own_cache):
    """The released sizes say what the noise was calibrated to."""
    game = {"model": "copying", "members": 12, "others": 12, "seed": 3}
    job = jobs_of(
        Gap(), agnews, MECHANISMS["voting"], [1.0], {"slots": 2, "examples_per_slot": 2}, **game
    )[0]
    setup = job.setup(CopyingLM(), bench_of(CopyingLM()))
    counted = setup.make_target(setup.members)
    counted.answers(lambda task: task, [Query("0", "a text")])
    assert len(setup.members) != 12 and membership.is_calibrated_to_members(setup, counted)


def test_no_bound_without_coins(agnews, own_cache):
    """All members are in for sure where there is no other to draw."""
    game = {"model": "copying", "members": 16, "others": 16, "seed": 3}
    job = jobs_of(Gap(), agnews, MECHANISMS["zero_shot"], [], **game)[0]
    setup = job.setup(CopyingLM(), bench_of(CopyingLM()))
    sure = dataclasses.replace(setup, canaries=frozenset())
    finding = membership.membership_finding(sure, lambda target, candidates: range(len(candidates)))
    assert finding.bound is None
    assert FEW_COINS in finding.notes
