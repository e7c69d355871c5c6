"""How what an attack found is written."""

import pytest

from dpicl.harness.attacks.results import Estimate
from dpicl.leaderboards.model.attacks import (
    against_row,
    differing_options,
    estimate_text,
    measure_name,
    options_text,
    rates_text,
    trials_text,
)
from dpicl.leaderboards.model.text import bound_text, confidence_text
from tests.leaderboards.attack_factory import make_attack, rule


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("auc", "AUC"),
        ("tpr_at_fpr_0.01", "TPR at 1% FPR"),
        ("tpr_at_fpr_0.001", "TPR at 0.1% FPR"),
        ("advantage", "advantage"),
        ("rouge_overlap", "ROUGE overlap"),
    ],
)
def test_measures_have_the_names_of_the_field(name, shown):
    assert measure_name(name) == shown


def test_estimates_with_and_without_interval():
    assert estimate_text(Estimate(value=0.612, low=0.4, high=0.75)) == "0.61 [0.40, 0.75]"
    assert estimate_text(Estimate(value=0.612)) == "0.61"
    assert estimate_text(Estimate(value=-0.001, low=-0.2, high=0.2)) == "0.00 [-0.20, 0.20]"
    assert estimate_text(None) == "–"


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.0, "0"), (0.0004, "0"), (0.9999, "0.999"), (2.1, "2.1"), (float("inf"), "∞"), (None, "–")],
)
def test_a_lower_bound_is_rounded_down(epsilon, shown):
    assert bound_text(epsilon) == shown


@pytest.mark.parametrize(
    ("confidence", "shown"), [(0.95, "95%"), (0.975, "97.5%"), (1 - 0.05 / 3, "98.3%"), (0.9999, "99.9%")]
)
def test_a_confidence_is_never_rounded_up(confidence, shown):
    assert confidence_text(confidence) == shown


def test_trials_are_runs_or_canaries():
    assert trials_text(make_attack(decision=rule(0.9, 0.1, trials=1500))) == "1,500 + 1,500"
    assert trials_text(make_attack(method="one run", details={"candidates": 64})) == "64 canaries"
    assert trials_text(make_attack()) == "–"
    assert trials_text(make_attack(audited=None, details={"candidates": 64})) == "–"
    assert rates_text(make_attack(decision=rule(0.9, 0.1))) == "0.900 (≥ 0.900), 0.100 (≤ 0.100)"


def test_only_options_that_differ_are_named_and_a_missing_one_has_its_default():
    assert differing_options({"slots": 4}, {"slots": 4, "tokens": 50}, {"tokens": 50}) == {}
    assert differing_options({"slots": 4, "tokens": 8}, {"slots": 10}, {"tokens": 50}) == {
        "slots": (4, 10),
        "tokens": (8, 50),
    }
    attack = make_attack(options={"slots": 4}, members=8, queries=1)
    assert against_row(attack, {}, {}) == "8 records, 1 query, slots = 4 (row: its default)"
    assert options_text({}) == "defaults"
