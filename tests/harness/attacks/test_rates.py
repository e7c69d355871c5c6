import math

import numpy as np
import pytest
from scipy import stats

from dpicl.attacks.rates import advantage, auc, tpr_at_fpr

REPETITIONS = 400
#: Misses in 400 repetitions that a 95% interval exceeds with probability 0.1%: 35.
MOST_MISSES = int(stats.binom.ppf(0.999, REPETITIONS, 0.05))


def test_auc_interval_of_newcombe_solves_its_equation():
    """At an AUC of 1 the other interval is a point; the lower end a obeys 1 - a = z sqrt(V(a)), V as printed."""
    a = auc(np.arange(50) + 100, np.arange(50)).low
    variance = a * (1 - a) / 2500 * (1 + 49 * ((1 - a) / (2 - a) + a / (1 + a)))
    assert 1 - a == pytest.approx(1.959964 * math.sqrt(variance), rel=1e-5)


@pytest.mark.parametrize(
    ("truth", "draw"),
    [
        (
            float(stats.norm.cdf(2 / math.sqrt(2))),
            lambda g: g.normal(
                [[2.0], [0.0]],
                1.0,
                size=(2, 50),
            ),
        ),
        (
            0.7,
            lambda g: np.stack(
                [
                    np.where(g.random(50) < 0.7, 5.0, -5.0),
                    g.normal(size=50),
                ]
            ),
        ),
        (
            0.65,
            lambda g: (g.random((2, 50)) < [[0.7], [0.4]]).astype(float),
        ),
    ],
    ids=["good", "two_kinds_of_members", "yes_or_no"],
)
def test_auc_interval_covers(truth, draw):
    estimates = [auc(*draw(np.random.default_rng([2, r]))) for r in range(REPETITIONS)]
    assert sum(not e.low <= truth <= e.high for e in estimates) <= MOST_MISSES


def test_tpr_at_a_resolvable_fpr():
    """Of 200 non-members, 1% lets two pass."""
    rate = tpr_at_fpr(
        np.r_[np.full(30, 197.5), np.zeros(70)],
        np.arange(200),
        0.01,
    )
    interval = stats.binomtest(30, 100).proportion_ci(0.95, method="exact")
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.3, interval.low, interval.high))
    assert rate.note == ""


def test_tpr_at_an_unresolvable_fpr_has_no_false_positive():
    rate = tpr_at_fpr(
        np.r_[50, 49, 60, 10],
        np.arange(50),
        0.001,
    )
    assert rate.value == 0.5  # 49 ties with a non-member and is on its side
    high = stats.binomtest(0, 50).proportion_ci(0.95, method="exact").high
    assert rate.note == f"at no false positive among 50: FPR below {high:.2g}"


def test_advantage_is_judged_on_candidates_that_did_not_choose():
    half = advantage(
        [1.0] * 200,
        [0.0] * 100 + [1.0] * 100,
        seed=3,
    )
    assert half.value == pytest.approx(0.5, abs=0.1)
    assert half.low < half.value < half.high
    reversed_scores = advantage([0.0] * 200, [1.0] * 200)
    assert reversed_scores.value == 1.0
    assert 0.9 < reversed_scores.low < reversed_scores.high == 1.0


def test_advantage_interval_is_newcombes_published_example():
    """Newcombe (1998, table II, contrast a), method 10: 56/70 - 48/80 = 0.2, interval 0.0524 to 0.3339.

    The choosing half repeats the judging half's direction, so that only the latter's counts enter.
    """
    members = np.repeat([1.0, 0.0], [112, 28])
    others = np.repeat([1.0, 0.0], [96, 64])
    for seed in range(2000):
        order_in, order_out = (np.random.default_rng(seed).permutation(n) for n in (140, 160))
        if members[order_in[70:]].sum() == 56 and others[order_out[80:]].sum() == 48:
            break
    interval = advantage(members, others, seed=seed)
    assert (interval.value, interval.low, interval.high) == pytest.approx(
        (0.2, 0.0524, 0.3339), abs=5e-5
    )


def test_advantage_of_a_useless_attack_covers_zero():
    estimates = []
    for repetition in range(REPETITIONS):
        scores = np.random.default_rng([5, repetition]).normal(size=(2, 50))
        estimates.append(advantage(scores[0], scores[1], seed=repetition))
    assert sum(not e.low <= 0 <= e.high for e in estimates) <= MOST_MISSES
    assert (
        abs(np.mean([e.value for e in estimates])) < 0.03
    )  # chosen and evaluated on all, the mean would be 0.15
