"""The power of attacks: controls of the same settings decide whether a small number says anything."""

import json

import pytest

from dpicl.attacks.broken import BrokenAnswers, BrokenDemonstrations
from dpicl.attacks.driver import jobs_of
from dpicl.attacks.power import NO_POWER, powers
from dpicl.attacks.registry import attack_of, load_attacks
from dpicl.attacks.results import Estimate
from dpicl.core.plugins import Registered
from dpicl.data.task import Task
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render.as_json import attacks_json
from dpicl.leaderboards.render.html import attacks_page
from dpicl.run.workbench import Workbench
from tests.leaderboards.attack_factory import make_attack
from tests.leaderboards.shown import render_attacks

CHANCE = Estimate(value=0.54, low=0.43, high=0.65)
CLEAR = Estimate(value=0.88, low=0.7, high=0.97)


def make_gap(mechanism, auc, **other):
    return make_attack(
        mechanism, audited=None, attack="gap", access="black-box", measures={"auc": auc}, **other
    )


@pytest.mark.parametrize(
    ("real", "row", "hidden"),
    [
        (CHANCE, CHANCE, True),
        (CHANCE, CLEAR, False),
        (CLEAR, CHANCE, False),
        (None, CHANCE, False),
    ],
)
def test_a_number_says_nothing_where_the_control_is_guessing(real, row, hidden):
    result = make_gap("tang", row)
    others = [] if real is None else [make_gap("real_demonstrations", real)]
    power = powers([result, *others])[result.id]
    assert power.is_inconclusive(result) is hidden
    assert power.sufficient is (None if real is None else real is CLEAR)


def test_real_demonstrations_decide_before_the_broken_mechanism():
    result = make_gap("tang", CHANCE)
    power = powers(
        [result, make_gap("broken_answers", CLEAR), make_gap("real_demonstrations", CHANCE)]
    )[result.id]
    assert list(power.controls) == ["real_demonstrations", "broken_answers"]
    assert power.sufficient is False and str(power).count(NO_POWER) == 1
    assert powers([result, make_gap("broken_answers", CLEAR)])[result.id].sufficient is True


def test_a_control_of_other_settings_is_none():
    result = make_gap("tang", CHANCE)
    measured = powers(
        [result, make_gap("real_demonstrations", CHANCE, members=50), make_gap("zero_shot", CHANCE)]
    )
    assert measured[result.id].controls == {} and measured[result.id].sufficient is None
    assert powers([make_attack("tang")]) == {}  # an audit has a bound, and no measure of power


def test_boards_say_it_in_place_of_the_number():
    board = build_attacks([make_gap("tang", CHANCE), make_gap("real_demonstrations", CHANCE)])
    assert "power (auc, 0.5 by guessing)" in render_attacks(board, color=False).replace(
        "Power", "power"
    )
    (row,) = (
        one for one in attacks_json(board)["attacks"] if one["subject"]["mechanism"] == "tang"
    )
    assert row["power"]["sufficient"] is False
    assert row["power"]["controls"]["real_demonstrations"]["low"] == 0.43
    page = attacks_page(board)
    assert page.count(NO_POWER) == 3  # of the control, its row, and the mechanism's
    assert page.count("0.54 [0.43, 0.65]") == 1  # the control's own number
    assert NO_POWER in render_attacks(board, color=False)


@pytest.mark.parametrize("attack", ["inquiry", "gap", "brainwash", "repeat"])
def test_attacks_on_answers_find_members_of_the_broken_mechanism(attack):
    options = {"embedding": "sim"} if attack == "repeat" else {}
    registry = {cls.name: Registered(cls, "") for cls in (BrokenAnswers, BrokenDemonstrations)}
    kind, task = (
        attack_of(load_attacks()[attack].cls, options),
        Task.load("agnews", "synthetic", limit_train=40),
    )
    mechanism = registry["broken_answers"]
    game = {"model": "sim", "members": 12, "others": 12}
    (job,) = jobs_of(kind, task, mechanism, (), **game)
    result = job.run(Workbench(registry))
    assert result.measures["auc"].low > 0.5
    assert json.loads(result.model_dump_json())["privacy"]["epsilon_proved"] == "Infinity"
