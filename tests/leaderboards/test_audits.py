"""When a row is refuted: the largest valid bound, and the correction for several attacks."""

import math

import pytest

from dpicl.attacks.audited import audit_of
from dpicl.attacks.results import F_DP, Estimate
from tests.leaderboards.attack_factory import make_attack
from tests.leaderboards.factory import change


def bound(audited, attack="inquiry", **more):
    return make_attack(audited=audited, attack=attack, access="black-box", **more)


def make_exact_audit(audited):
    return make_attack(audited=audited, attack="exact_audit", method="exact", confidence=1.0)


EXACT = make_exact_audit(1.0)
SMALL = make_attack(audited=3.0)
SMALL = change(SMALL, "bound.delta", 1e-9)
OTHERS = [bound(0.0, f"attack {i}") for i in range(9)]
COUNTS = [make_attack(audited=None, attack=f"count {i}") for i in range(9)]
ESTIMATE = {F_DP: Estimate(value=2.1)}
CURVE = change(bound(0.5), "measures", ESTIMATE)
#: Case -> (attacks, is the row refuted, are there doubts).
CASES = {
    "above": ([make_attack(audited=2.1)], True, False),
    "nothing found": ([make_attack(audited=0.0)], False, False),
    "at the proved epsilon": ([make_attack(audited=0.99)], False, False),
    "below 95%": ([make_attack(audited=5.0, confidence=0.9)], False, False),
    "a smaller delta is not the row's": ([SMALL], False, False),
    "below what was proved for the audited run": (
        [make_attack(audited=2.1, proved=2.5)],
        False,
        False,
    ),
    "above what was proved for the audited run": (
        [make_attack(audited=0.6, proved=0.5)],
        True,
        False,
    ),
    "nothing refutes infinity": (
        [make_attack("real_demonstrations", audited=9.0, proved=math.inf)],
        False,
        False,
    ),
    "any bound refutes zero": ([make_attack("zero_shot", audited=0.1)], True, False),
    "one of five needs 99%": ([bound(2.1), *OTHERS[:4]], False, True),
    "one of five has 99%": ([bound(2.1, confidence=0.99), *OTHERS[:4]], True, False),
    "run again at the confidence that settles it": (
        [bound(2.1), bound(2.1, confidence=0.975), OTHERS[0]],
        True,
        False,
    ),
    "run again, and settled the other way": (
        [bound(2.1), bound(0.5, confidence=0.975), OTHERS[0]],
        False,
        False,
    ),
    "the curve of its event needs 97.5%, as one of two": ([CURVE], False, True),
    "attacks without a bound do not weaken": ([make_attack(audited=2.1), *COUNTS], True, False),
    "exact, beside sampled ones": ([EXACT, *OTHERS], True, False),
    "an exact one weakens no sampled one": ([bound(2.1), make_exact_audit(0.5)], True, False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_refutes_a_row_and_what_raises_doubts(case):
    attacks, refuted, doubted = CASES[case]
    audit = audit_of(attacks)
    assert (bool(audit.flag), bool(audit.doubts)) == (refuted, doubted)


def test_audited_epsilon_is_the_largest_bound_at_95_percent():
    weak, strong = make_attack(audited=0.2), make_attack(audited=0.6, access="black-box")
    bold = make_attack(audited=0.9, confidence=0.5, attack="guess")
    assert audit_of([weak, strong, bold]).epsilon == 0.6
    assert audit_of([bold]).epsilon is None
    assert audit_of([make_attack(audited=None, attack="pii")]).epsilon is None
    assert audit_of([SMALL]).epsilon is None


def test_audited_epsilon_says_of_which_kind_it_is():
    sampled, none = make_attack(audited=0.2), make_attack(audited=None)
    kinds = [
        audit_of(attacks).kind
        for attacks in ([make_exact_audit(0.6), sampled], [sampled], [], [none])
    ]
    assert kinds == ["exact", "sampled", "", ""]
    assert "exact" in audit_of([EXACT]).flag and "95%" not in audit_of([EXACT, *OTHERS]).flag
