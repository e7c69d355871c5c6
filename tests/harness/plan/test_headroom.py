"""Headroom: what real demonstrations gain over public ones, by seed and test record."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpicl.plan.headroom import headrooms, measure_headroom
from dpicl.results.schema import Documents
from tests.leaderboards.factory import make_result

METRIC = "acc_calibrated"


def results(name, by_seed, development=False, label=None, options=None, **given):
    """One result a seed, with these outcomes."""
    found = []
    for seed, outcomes in by_seed.items():
        one = make_result(
            name,
            epsilon=0.0,
            seed=seed,
            label=label,
            options=options,
            documents=len(outcomes),
            **given,
        )
        ids = [f"d{number}" for number in range(len(outcomes))]
        documents = {
            **one.documents,
            METRIC: Documents(ids=ids, outcomes=list(map(float, outcomes))),
        }
        cell = one.cell.model_copy(update={"development": development})
        found.append(one.model_copy(update={"documents": documents, "cell": cell}))
    return found


def test_headroom_is_the_paired_difference():
    generator = np.random.default_rng(0)
    public, real = generator.random((2, 5, 40)) < np.array([0.3, 0.6])[:, None, None]
    rows = results("public_demonstrations", dict(enumerate(public)))
    rows += results("real_demonstrations", dict(enumerate(real)))
    found = measure_headroom(rows)[METRIC]
    assert found.gain == pytest.approx(real.mean() - public.mean())
    assert (found.seeds, found.documents, found.development) == ((0, 1, 2, 3, 4), 40, False)
    differences = real.astype(float) - public
    by_seed, by_record = differences.mean(axis=1), differences.mean(axis=0)
    rest = ((differences - by_seed[:, None] - by_record + differences.mean()) ** 2).sum() / (4 * 39)
    error = np.sqrt(by_seed.var(ddof=1) / 5 + (by_record.var(ddof=1) - rest / 5) / 40)
    assert (
        1.96 < (found.high - found.gain) / error < 1.3 * stats.t.ppf(0.975, 4)
    )  # the seeds' variance is not known
    assert found.rewards and 0 < found.low < found.gain < found.high
    rows += results("zero_shot", {seed: real[seed] for seed in range(5)})
    (other,) = measure_headroom(rows)[METRIC].others
    assert (other.over, other.gain, other.low, other.high) == ("zero_shot", 0, 0, 0)
    fewer = results("public_records", {0: real[0]})  # not at every seed
    assert measure_headroom(rows + fewer)[METRIC].others == (other,)
    nothing = measure_headroom(
        [
            *results("public_demonstrations", dict(enumerate(public))),
            *results("real_demonstrations", dict(enumerate(public))),
        ]
    )
    assert nothing[METRIC].gain == 0 and not nothing[METRIC].rewards


def test_development_seeds_and_matched_length_come_first():
    public, real = {7: [0, 0, 1, 1]}, {7: [1, 1, 1, 1]}
    rows = results("public_demonstrations", {0: [1, 1, 1, 1]}) + results(
        "real_demonstrations", {0: [1, 1, 1, 1]}
    )
    assert measure_headroom(rows)[METRIC].gain == 0
    rows += results("public_demonstrations", public, development=True)
    assert measure_headroom(rows)[METRIC].development is False  # one end of it alone
    rows += results("real_demonstrations", real, development=True)
    found = measure_headroom(rows)[METRIC]
    assert (found.development, found.gain, found.seeds) == (True, 0.5, (7,))
    cut = {"label": "real_matched", "options": {"matched_tokens": 12}}
    rows += results("real_demonstrations", {7: [1, 0, 1, 1]}, development=True, **cut)
    found = measure_headroom(rows)[METRIC]
    assert (found.real_row, found.gain) == ("real_matched", 0.25)


def test_without_a_common_seed_there_is_no_headroom():
    public, real = (
        results("public_demonstrations", {0: [0, 1]}),
        results("real_demonstrations", {1: [1, 1]}),
    )
    assert measure_headroom([*public, *real]) == {}
    both = [*public, *results("real_demonstrations", {0: [1, 1]})]
    other = [
        one
        for name in ("public_demonstrations", "real_demonstrations")
        for one in results(name, {0: [1, 1]}, task="trec")
    ]
    found = [(one.task, one.gain) for one in headrooms([*both, *other]) if one.metric == METRIC]
    assert found == [("agnews", 0.5), ("trec", 0.0)]


def test_where_texts_are_scored_zero_shot_is_the_public_end():
    ends = [
        results(name, {0: texts}, task="shared_facts")
        for name, texts in (("zero_shot", [0, 0]), ("real_demonstrations", [1, 0]))
    ]
    found = measure_headroom([*ends[0], *ends[1]])[METRIC]
    assert (found.public_row, found.gain) == ("zero_shot", 0.5)
