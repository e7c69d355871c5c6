"""When a row is refuted: the largest valid bound, the correction for several attacks, and how often it is wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from dpicl.harness.attacks.trade_offs import epsilon_of_mu
from dpicl.leaderboards.model.audits import CONFIDENCE, audit_of, bound_at
from tests.leaderboards.attack_factory import make_attack, make_external, rule

DELTA = 1e-5


def of(*attacks, external=(), proved=0.99):
    return audit_of(attacks, external, proved, DELTA)


def test_audited_epsilon_is_the_largest_bound_at_95_percent():
    weak, strong = make_attack(audited=0.2), make_attack(audited=0.6, access="black-box")
    bold = make_attack(audited=0.9, confidence=0.5, attack="guess")
    assert of(weak, strong, bold).epsilon == 0.6
    assert of(bold).epsilon is None
    assert of(make_attack(audited=None, attack="pii")).epsilon is None


def test_a_bound_at_a_smaller_delta_is_not_the_rows():
    small = make_attack(audited=3.0)
    small = small.model_copy(update={"bound": small.bound.model_copy(update={"delta": 1e-9})})
    assert of(small).epsilon is None
    assert not of(small).flag


def test_one_attack_above_the_proved_epsilon_at_95_percent_refutes_the_row():
    audit = of(make_attack(audited=2.1, confidence=0.95))
    assert audit.flag == "audited ε 2.1 exceeds proved ε 0.99: white-box audit, 95%"
    assert audit.doubts == ()


@pytest.mark.parametrize("audited", [0.0, 0.98, 0.99])
def test_bounds_up_to_the_proved_epsilon_refute_nothing(audited):
    assert not of(make_attack(audited=audited)).flag


def test_confidence_below_95_percent_refutes_nothing():
    audit = of(make_attack(audited=5.0, confidence=0.9))
    assert (audit.flag, audit.doubts) == ("", ())


def test_ours_are_compared_with_what_was_proved_for_the_audited_run():
    assert not of(make_attack(audited=2.1, proved=2.5), proved=0.99).flag
    assert of(make_attack(audited=0.6, proved=0.5), proved=0.99).flag


def test_nothing_refutes_an_infinite_epsilon_and_any_bound_refutes_zero():
    assert not of(make_attack("real_demonstrations", audited=9.0), proved=math.inf).flag
    assert of(make_attack("zero_shot", audited=0.1), proved=0.0).flag


def test_of_several_attacks_one_needs_more_confidence_than_its_own_95_percent():
    others = [make_attack(audited=0.0, attack=f"attack {i}", access="black-box") for i in range(4)]
    found = make_attack(audited=2.1, attack="inquiry", access="black-box")
    audit = of(found, *others)
    assert audit.flag == ""
    (doubt,) = audit.doubts
    assert doubt.endswith("one of 5 attacks, and 95% over all of them takes 99%, which it does not reach")
    sure = make_attack(audited=2.1, attack="inquiry", access="black-box", confidence=0.99)
    assert of(sure, *others).flag


def test_attacks_without_a_bound_do_not_weaken_the_others():
    counts = [make_attack(audited=None, attack=f"count {i}") for i in range(9)]
    assert of(make_attack(audited=2.1), *counts).flag


def test_an_audit_is_judged_again_at_the_corrected_confidence():
    others = [make_attack(audited=0.0, attack=f"attack {i}", access="black-box") for i in range(9)]
    clear = make_attack(audited=30.0, decision=rule(0.99, 0.01, trials=500))
    audit = of(clear, *others)
    assert audit.flag.startswith("audited ε 30 exceeds proved ε 0.99: white-box audit, 95%; one of 10 attacks")
    assert "99.5%, at which it is" in audit.flag
    narrow = make_attack(audited=1.0, decision=rule(0.6, 0.3, trials=20))
    assert not of(narrow, *others).flag
    assert of(narrow, *others).doubts


def test_the_trials_of_other_attacks_are_not_taken_as_independent():
    others = [make_attack(audited=0.0, attack=f"attack {i}", access="black-box") for i in range(9)]
    inquiry = make_attack(audited=9.0, attack="inquiry", decision=rule(0.99, 0.01, trials=500))
    assert not of(inquiry, *others).flag


def test_bound_at_a_lower_confidence_is_the_one_in_the_file():
    assert bound_at(make_attack(audited=2.1, confidence=0.99), 0.95) == 2.1
    assert bound_at(make_attack(audited=2.1, confidence=0.95), 0.99) is None
    assert bound_at(make_attack(audited=None), 0.95) is None


def test_bound_at_a_higher_confidence_where_nothing_was_missed_is_exact():
    # With rates of 1 and 0 Chernoff's limits are those of Clopper and Pearson: alpha**(1/n).
    result = make_attack(audited=50.0, decision=rule(1.0, 0.0, trials=100))
    alpha = 0.005
    limit = stats.norm.ppf(alpha ** (1 / 100)) - stats.norm.ppf(1 - alpha ** (1 / 100))
    assert bound_at(result, 0.99) == pytest.approx(epsilon_of_mu(limit, DELTA), rel=1e-6)
    rates = make_attack(audited=50.0, method="rates", decision=rule(1.0, 0.0, trials=100))
    exact = math.log((alpha ** (1 / 100) - DELTA) / (1 - alpha ** (1 / 100)))
    assert bound_at(rates, 0.99) == pytest.approx(exact, rel=1e-6)


def test_bound_at_a_higher_confidence_never_exceeds_the_stated_one():
    result = make_attack(audited=0.3, decision=rule(1.0, 0.0, trials=10_000))
    assert bound_at(result, 0.99) == 0.3


def test_the_judged_again_bound_holds_at_its_confidence():
    """Coins of a mechanism that is exactly 1-GDP: the bound may exceed epsilon(1) in 10% of runs at most."""
    generator = np.random.default_rng(0)
    truth, trials, repetitions = epsilon_of_mu(1.0, DELTA), 60, 400
    tpr, fpr = stats.norm.cdf(0.5), stats.norm.cdf(-0.5)
    wrong = 0
    for hits, misses in zip(
        generator.binomial(trials, tpr, repetitions), generator.binomial(trials, fpr, repetitions), strict=True
    ):
        found = make_attack(audited=99.0, confidence=0.5, decision=rule(hits / trials, misses / trials, trials))
        wrong += bound_at(found, 0.9) > truth
    assert wrong <= stats.binom.ppf(0.9999, repetitions, 0.1)


def test_a_sound_row_with_many_attacks_is_flagged_in_5_percent_of_cases_at_most():
    """Every attack is as wrong as a 95% bound may be; without the correction ten of them flag 40% of the rows."""
    generator = np.random.default_rng(1)
    attacks, repetitions = 10, 300
    flagged = plain = 0
    for _ in range(repetitions):
        wrong = generator.random(attacks) < 1 - CONFIDENCE
        results = [
            make_attack(audited=2.0 if bad else 0.1, attack=f"attack {i}", access="black-box")
            for i, bad in enumerate(wrong)
        ]
        flagged += bool(of(*results).flag)
        plain += bool(wrong.any())
    assert plain > 0.3 * repetitions
    assert flagged <= stats.binom.ppf(0.9999, repetitions, 0.05)


def test_external_bounds_are_compared_with_the_rows_own_proved_epsilon():
    audit = of(external=[make_external(2.0)], proved=0.99)
    assert audit.flag.startswith(
        "audited ε 2 exceeds proved ε 0.99: black-box shadow models by A. Author and B. Author"
    )
    assert audit.epsilon is None
    assert not of(external=[make_external(2.0)], proved=2.5).flag


def test_an_external_bound_at_a_smaller_delta_or_a_lower_confidence_refutes_nothing():
    assert not of(external=[make_external(2.0, delta=1e-9)]).flag
    assert not of(external=[make_external(2.0, confidence=0.9)]).flag


def test_external_evaluations_never_weaken_ours():
    many = [make_external(0.0, attack=f"null {i}") for i in range(100)]
    assert of(make_attack(audited=2.1), external=many).flag


def test_several_external_evaluations_are_corrected_among_themselves():
    null = make_external(0.0, attack="null")
    assert not of(external=[make_external(2.0), null]).flag
    assert of(external=[make_external(2.0), null]).doubts
    assert of(external=[make_external(2.0, confidence=0.975), null]).flag
