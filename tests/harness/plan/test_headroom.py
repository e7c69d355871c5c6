"""Headroom: what real demonstrations gain over public ones, by seed and test record."""

import numpy as np
import pytest
from scipy import stats

from dpicl.plan.headroom import headrooms, measure_headroom
from tests.leaderboards.factory import make_result, replace_cell, with_outcomes

METRIC = "acc_calibrated"


PUBLIC, REAL = "public_demonstrations", "real_demonstrations"


def results(name, by_seed, development=False, **settings):
    """One result a seed, with these outcomes."""
    rows = []
    for seed, outcomes in by_seed.items():
        one = make_result(name, epsilon=0.0, seed=seed, documents=len(outcomes), **settings)
        rows.append(replace_cell(with_outcomes(one, outcomes), development=development))
    return rows


def both_ends(public, real, **settings):
    return results(PUBLIC, public, **settings) + results(REAL, real, **settings)


def test_headroom_is_the_paired_difference():
    generator = np.random.default_rng(0)
    public, real = generator.random((2, 5, 40)) < np.array([0.3, 0.6])[:, None, None]
    rows = both_ends(dict(enumerate(public)), dict(enumerate(real)))
    headroom = measure_headroom(rows)[METRIC]
    assert headroom.gain == pytest.approx(real.mean() - public.mean())
    assert headroom.seeds == (0, 1, 2, 3, 4)
    assert headroom.documents == 40
    assert not headroom.development
    differences = real.astype(float) - public
    by_seed = differences.mean(axis=1)
    by_record = differences.mean(axis=0)
    rest = ((differences - by_seed[:, None] - by_record + differences.mean()) ** 2).sum() / (4 * 39)
    error = np.sqrt(by_seed.var(ddof=1) / 5 + (by_record.var(ddof=1) - rest / 5) / 40)
    half = (headroom.high - headroom.gain) / error
    assert 1.96 < half < 1.3 * stats.t.ppf(0.975, 4)  # the seeds' variance is not known
    assert headroom.rewards and 0 < headroom.low < headroom.gain < headroom.high
    rows += results("zero_shot", dict(enumerate(real)))
    rows += results("public_records", {0: real[0]})  # not at every seed
    (other,) = measure_headroom(rows)[METRIC].others
    assert other.over == "zero_shot"
    assert other.gain == 0
    assert other.low == 0
    assert other.high == 0
    nothing = both_ends(dict(enumerate(public)), dict(enumerate(public)))
    assert measure_headroom(nothing)[METRIC].gain == 0
    assert not measure_headroom(nothing)[METRIC].rewards


def test_development_seeds_and_matched_length_come_first():
    rows = both_ends(
        {0: [1, 1, 1, 1]},
        {0: [1, 1, 1, 1]},
    )
    assert measure_headroom(rows)[METRIC].gain == 0
    rows += results(PUBLIC, {7: [0, 0, 1, 1]}, development=True)
    assert measure_headroom(rows)[METRIC].development is False  # one end of it alone
    rows += results(REAL, {7: [1, 1, 1, 1]}, development=True)
    headroom = measure_headroom(rows)[METRIC]
    assert headroom.development is True
    assert headroom.gain == 0.5
    assert headroom.seeds == (7,)
    cut = {"label": "real_matched", "options": {"matched_tokens": 12}}
    rows += results(
        REAL,
        {7: [1, 0, 1, 1]},
        development=True,
        **cut,
    )
    headroom = measure_headroom(rows)[METRIC]
    assert headroom.real_row == "real_matched"
    assert headroom.gain == 0.25


def test_without_a_common_seed_there_is_no_headroom():
    assert (
        measure_headroom(
            both_ends(
                {0: [0, 1]},
                {1: [1, 1]},
            )
        )
        == {}
    )
    both = both_ends({0: [0, 1]}, {0: [1, 1]})
    other = both_ends(
        {0: [1, 1]},
        {0: [1, 1]},
        task="trec",
    )
    gains = [(one.task, one.gain) for one in headrooms([*both, *other]) if one.metric == METRIC]
    assert gains == [("agnews", 0.5), ("trec", 0.0)]


def test_where_texts_are_scored_zero_shot_is_the_public_end():
    ends = results("zero_shot", {0: [0, 0]}, task="shared_facts")
    ends += results(REAL, {0: [1, 0]}, task="shared_facts")
    headroom = measure_headroom(ends)[METRIC]
    assert headroom.public_row == "zero_shot"
    assert headroom.gain == 0.5
