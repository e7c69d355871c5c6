"""When a row is refuted: the largest valid bound, the correction for several attacks, and how often it is wrong."""

import math

import numpy as np
import pytest
from scipy import stats

from dpicl.attacks.audited import audit_of, bound_at
from dpicl.attacks.exact_pairs import epsilon_of_mu
from dpicl.attacks.limits import CONFIDENCE
from tests.leaderboards.attack_factory import make_attack, make_external, rule

DELTA = 1e-5


def of(*attacks, external=(), proved=0.99):
    return audit_of(attacks, external, proved, DELTA)


def bound(audited, attack="inquiry", **more):
    return make_attack(audited=audited, attack=attack, access="black-box", **more)


def exact(audited):
    return make_attack(audited=audited, attack="exact_audit", method="exact", confidence=1.0)


EXACT = exact(1.0)
SMALL = make_attack(audited=3.0)
SMALL = SMALL.model_copy(update={"bound": SMALL.bound.model_copy(update={"delta": 1e-9})})
OTHERS = [bound(0.0, f"attack {i}") for i in range(9)]
COUNTS = [make_attack(audited=None, attack=f"count {i}") for i in range(9)]
NULLS = [make_external(0.0, attack=f"null {i}") for i in range(100)]
CLEAR, NARROW = rule(0.99, 0.01, trials=500), rule(0.6, 0.3, trials=20)
#: Case -> (our attacks, those of others, the row's proved ε, is it refuted, are there doubts).
CASES = {
    "above": ([make_attack(audited=2.1)], [], 0.99, True, False),
    "nothing found": ([make_attack(audited=0.0)], [], 0.99, False, False),
    "at the proved epsilon": ([make_attack(audited=0.99)], [], 0.99, False, False),
    "below 95%": ([make_attack(audited=5.0, confidence=0.9)], [], 0.99, False, False),
    "a smaller delta is not the row's": ([SMALL], [], 0.99, False, False),
    "below what was proved for the audited run": ([make_attack(audited=2.1, proved=2.5)], [], 0.99, False, False),
    "above what was proved for the audited run": ([make_attack(audited=0.6, proved=0.5)], [], 0.99, True, False),
    "nothing refutes infinity": ([make_attack("real_demonstrations", audited=9.0)], [], math.inf, False, False),
    "any bound refutes zero": ([make_attack("zero_shot", audited=0.1)], [], 0.0, True, False),
    "one of five needs 99%": ([bound(2.1), *OTHERS[:4]], [], 0.99, False, True),
    "one of five has 99%": ([bound(2.1, confidence=0.99), *OTHERS[:4]], [], 0.99, True, False),
    "attacks without a bound do not weaken": ([make_attack(audited=2.1), *COUNTS], [], 0.99, True, False),
    "judged again, clear": ([make_attack(audited=30.0, decision=CLEAR), *OTHERS], [], 0.99, True, False),
    "judged again, narrow": ([make_attack(audited=1.0, decision=NARROW), *OTHERS], [], 0.99, False, True),
    "trials that are not independent": ([bound(9.0, decision=CLEAR), *OTHERS], [], 0.99, False, True),
    "exact, beside sampled ones": ([EXACT, *OTHERS], [], 0.99, True, False),
    "an exact one weakens no sampled one": ([bound(2.1), exact(0.5)], [], 0.99, True, False),
    "external": ([], [make_external(2.0)], 0.99, True, False),
    "external, below the row's proved epsilon": ([], [make_external(2.0)], 2.5, False, False),
    "external, smaller delta": ([], [make_external(2.0, delta=1e-9)], 0.99, False, False),
    "external, below 95%": ([], [make_external(2.0, confidence=0.9)], 0.99, False, False),
    "external ones never weaken ours": ([make_attack(audited=2.1)], NULLS, 0.99, True, False),
    "external, one of two": ([], [make_external(2.0), NULLS[0]], 0.99, False, True),
    "external, one of two at 97.5%": ([], [make_external(2.0, confidence=0.975), NULLS[0]], 0.99, True, False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_refutes_a_row_and_what_raises_doubts(case):
    ours, external, proved, refuted, doubted = CASES[case]
    audit = of(*ours, external=external, proved=proved)
    assert (bool(audit.flag), bool(audit.doubts)) == (refuted, doubted)
    assert ours or audit.epsilon is None


def test_audited_epsilon_is_the_largest_bound_at_95_percent():
    weak, strong = make_attack(audited=0.2), make_attack(audited=0.6, access="black-box")
    bold = make_attack(audited=0.9, confidence=0.5, attack="guess")
    assert of(weak, strong, bold).epsilon == 0.6
    assert of(bold).epsilon is None
    assert of(make_attack(audited=None, attack="pii")).epsilon is None
    assert of(SMALL).epsilon is None


def test_audited_epsilon_says_of_which_kind_it_is():
    assert (of(exact(0.6), make_attack(audited=0.2)).kind, of(make_attack(audited=0.2)).kind) == ("exact", "sampled")
    assert of().kind == of(make_attack(audited=None)).kind == ""
    assert "exact" in of(EXACT).flag and "95%" not in of(EXACT, *OTHERS).flag


def test_bound_at_a_lower_confidence_is_the_one_in_the_file():
    assert bound_at(make_attack(audited=2.1, confidence=0.99), 0.95) == 2.1
    assert bound_at(make_attack(audited=2.1, confidence=0.95), 0.99) is None
    assert bound_at(make_attack(audited=None), 0.95) is None


def test_bound_at_a_higher_confidence_where_nothing_was_missed_is_exact():
    # With rates of 1 and 0 Chernoff's limits are those of Clopper and Pearson: alpha**(1/n).
    result = make_attack(audited=50.0, decision=rule(1.0, 0.0, trials=100))
    exact = math.log((0.005 ** (1 / 100) - DELTA) / (1 - 0.005 ** (1 / 100)))
    assert bound_at(result, 0.99) == pytest.approx(exact, rel=1e-6)


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
