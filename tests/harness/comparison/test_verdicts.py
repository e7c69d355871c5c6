"""Verdicts on planted changes of known size, and what is refused."""

import math

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.leaderboards.compare.releases import Settings, compare
from tests.harness.comparison.sides import (
    make_scored,
    ones,
    plain,
    side,
)
from tests.leaderboards.factory import change, replace_cell


def compare_both(base, candidate, settings=None, **changes):
    settings = settings or Settings()
    return compare(side(base), side(candidate, "candidate"), settings, **changes)


def copies(result):
    """The same at ten seeds, as of a row that a seed does not change."""
    return [replace_cell(result, seed=seed) for seed in range(10)]


def noisy(score: float, seed: int, documents: int = 150, **more):
    """Outcomes of documents that share their difficulty, with the seed's own luck."""
    difficulty = np.random.default_rng(0).random(documents)
    luck = np.random.default_rng([seed, round(1000 * score)]).random(documents)
    return make_scored(
        (0.7 * difficulty + 0.3 * luck < score).astype(float),
        seed=seed,
        **more,
    )


def test_the_same_results_are_identical():
    results = [noisy(0.6, seed) for seed in range(10)] + copies(
        make_scored(ones(90, 150), "zero_shot")
    )
    comparison = compare_both(results, results)
    assert [cell.verdict for cell in comparison.cells] == ["identical"] * 2
    assert [cell.test.adjusted for cell in comparison.cells] == [1.0, 1.0]
    assert not comparison.regressed
    assert not comparison.changes


def test_a_planted_loss_is_a_regression_its_mirror_a_gain():
    good = [noisy(0.7, seed) for seed in range(10)]
    bad = [noisy(0.5, seed) for seed in range(10)]
    (cell,) = compare_both(good, bad).cells
    assert cell.verdict == "regression"
    assert cell.test.low < cell.difference < cell.test.high < 0
    (mirror,) = compare_both(bad, good).cells
    assert mirror.verdict == "improvement"
    assert mirror.difference == pytest.approx(-cell.difference)
    assert mirror.test.adjusted == pytest.approx(cell.test.adjusted)


def test_holm_is_over_all_cells():
    base = [
        one
        for i in range(12)
        for one in copies(
            make_scored(
                ones(100, 150),
                epsilon=float(i + 1),
            )
        )
    ]
    candidate = [
        one
        for i in range(12)
        for one in copies(
            make_scored(
                ones(100 - 7 * (i == 0), 150),
                epsilon=float(i + 1),
            )
        )
    ]
    alone = compare_both(base[:10], candidate[:10])
    together = compare_both(base, candidate)
    assert alone.cells[0].verdict == "regression"
    assert together.cells[0].test.adjusted == pytest.approx(12 * alone.cells[0].test.p)
    assert together.cells[0].verdict == "inconclusive"
    assert together.cells[0].test.detectable > alone.cells[0].test.detectable


def test_a_change_below_the_smallest_effect_does_not_count():
    base, candidate = (copies(make_scored(ones(right, 150))) for right in (100, 94))
    (cell,) = compare_both(base, candidate, Settings(min_effect=0.05)).cells
    assert cell.test.adjusted < 0.05
    assert cell.verdict == "inconclusive"
    assert "smaller than 0.05" in cell.note
    (cell,) = compare_both(base, candidate, Settings(min_effect=0.04)).cells
    assert cell.verdict == "regression"


def test_a_gate_without_a_test_fails():
    (cell,) = compare_both(
        [make_scored([1.0])],
        [make_scored([0.0])],
    ).cells
    assert cell.verdict == "not tested" and "one document is too few" in cell.note
    good = [noisy(0.7, seed) for seed in range(9)]
    bad = [noisy(0.5, seed) for seed in range(9)]
    comparison = compare_both(good, bad)
    (cell,) = comparison.cells
    assert cell.verdict == "not tested" and "9 seeds of 10 are too few" in cell.note
    assert comparison.regressed and "GATE FAILS: 1 not tested" in str(comparison)
    assert "No cell could be tested" in str(comparison)


def test_a_row_that_no_seed_changes_is_tested_over_documents():
    """One of 150 documents is lost at every seed: over seeds that would be certain."""
    (cell,) = compare_both(
        copies(make_scored(ones(100, 150))), copies(make_scored(ones(99, 150)))
    ).cells
    assert cell.verdict == "inconclusive"
    assert cell.test.p == pytest.approx(
        stats.ttest_1samp(
            [-1] + [0] * 149,
            0,
        ).pvalue
    )


@pytest.mark.parametrize(
    ("base", "candidate", "epsilon", "flagged", "noted"),
    [
        (0.99, 1.2, 1.0, True, False),
        (0.9, 0.99, 1.0, False, False),
        (1.2, 1.2, 1.0, False, False),
        (1.2, 1.3, 1.0, True, False),
        (0.5, math.inf, 1.0, True, False),
        (0.99, 0.5, 1.0, False, True),
        (0.99, 0.985, 1.0, False, False),
        (0.5, 0.4, 1.0, False, False),  # the base was not matched either
        (0.5, 0.99, 1.0, False, False),  # less noise than before, and still below the target
        (math.inf, 8.0, math.inf, False, True),
    ],
)
def test_a_proved_epsilon_above_the_target_is_a_regression(
    base, candidate, epsilon, flagged, noted
):
    """More noise than the base had: its losses, or its gains, are not the model's alone."""
    before, after = (
        change(plain(released=(), epsilon=epsilon), "privacy.epsilon_proved", e)
        for e in (base, candidate)
    )
    comparison = compare_both([before], [after])
    (cell,) = comparison.cells
    assert (bool(cell.privacy), comparison.regressed, "noise" in cell.note) == (
        flagged,
        flagged,
        noted,
    )
    assert cell.verdict == "identical"


def replace_documents(result, edit):
    documents = {name: edit(one) for name, one in result.documents.items()}
    return change(result, "documents", documents)


def rename(documents):
    return change(documents, "ids", [f"x{name}" for name in documents.ids])


REFUSED = [
    ("test records", lambda r: replace_documents(r, rename)),
    ("records", lambda r: change(r, "manifest.data.fingerprint", "0" * 64)),
    ("task version", lambda r: replace_cell(r, task_version=2)),
    ("prompts", lambda r: change(r, "manifest.prompts_hash", "0" * 64)),
    ("source of records", lambda r: replace_cell(r, source="local")),
    ("metric", lambda r: change(r, "main_metric", "rouge1")),
    ("mechanism", lambda r: replace_cell(r, mechanism="prism")),
    ("δ", lambda r: replace_cell(r, delta=1e-6)),
    ("number of shots", lambda r: replace_cell(r, shots=8)),
    ("options", lambda r: replace_cell(r, options={"slots": 5})),
    ("number of queries", lambda r: replace_cell(r, queries=100)),
    ("records a class", lambda r: replace_cell(r, train_records=7)),
]


@pytest.mark.parametrize(
    ("condition", "change"),
    REFUSED,
    ids=[name for name, _ in REFUSED],
)
def test_results_under_other_conditions_are_refused_by_name(condition, change):
    base = plain(others={"rouge1": 0.5})
    with pytest.raises(UsageError, match=f"differ in the {condition} .* against .*leave it out"):
        compare_both([base], [change(base)])


def test_documents_in_another_order_are_the_same_documents():
    def reverse(one):
        return one.model_copy(
            update={
                "ids": one.ids[::-1],
                "outcomes": one.outcomes[::-1],
            }
        )

    base = plain()
    (cell,) = compare_both([base], [replace_documents(base, reverse)]).cells
    assert cell.verdict == "identical"


def test_the_newest_version_of_a_task_is_compared():
    def make(right, year=2027, **cell):
        return replace_cell(
            make_scored(ones(right, 40), created=f"{year}-01-02T03:04:05+00:00"),
            **{"task_version": 2, **cell},
        )

    candidate = [make(20), make(5, development=True, seed=9)]
    comparison = compare_both([make(10, 2026, task_version=1), *candidate], candidate)
    assert {(cell.key.development, cell.base) for cell in comparison.cells} == {
        (False, 0.5),
        (True, 0.125),
    }
    assert not comparison.unmatched


def test_the_same_seed_twice_and_mixed_models_are_refused():
    result = plain()
    with pytest.raises(UsageError, match=r"base holds tang on agnews.* twice .of 2026-01-02"):
        compare_both([result, result], [result])
    with pytest.raises(UsageError, match="two seeds of the base differ in the records"):
        compare_both(
            [result, plain(seed=1, fingerprint="0" * 64)],
            [result, plain(seed=1)],
        )
    mixed = [
        result,
        change(plain(seed=1), "manifest.model.sha256", "e" * 64),
    ]
    with pytest.raises(UsageError, match=r"candidate holds results of 2 weights .*as CANDIDATE"):
        compare_both([result], mixed)
    for kind, other in (
        ("suites", {"suite": "mine"}),
        ("models", {"model": "hf:a"}),
    ):
        with pytest.raises(UsageError, match=rf"base holds results of 2 {kind} .*as BASE"):
            compare_both([result, plain(seed=1, **other)], [result])
    with pytest.raises(UsageError, match=r"2 dtypes .bfloat16 and float32"):
        compare_both(
            [result, change(plain(seed=1), "manifest.dtype", "float32")],
            [result],
        )


def test_what_is_compared_is_in_the_header():
    base = plain()
    candidate = change(base, "manifest.dtype", "float32")
    candidate = change(candidate, "manifest.packages", {"torch": "3.0"})
    changed = {c.name: (c.base, c.candidate) for c in compare_both([base], [candidate]).changes}
    assert changed["dtype"] == (("bfloat16",), ("float32",))
    assert changed["torch"] == (("2.13.0",), ("3.0",))
    assert changed["dp-accounting"] == (("0.6.0",), ())
    assert "model" not in changed


def test_suites_of_other_names_are_compared():
    (cell,) = compare_both(
        [plain(suite="mine")],
        [plain(suite="yours")],
    ).cells
    assert cell.verdict == "identical"


def test_filters_choose_and_unknown_names_are_errors():
    results = [
        plain(epsilon=epsilon, task=task) for epsilon in (1.0, 8.0) for task in ("agnews", "trec")
    ]
    (cell,) = compare_both(
        results, results, epsilons=(8.0,), tasks=("trec",), mechanisms=("tang",)
    ).cells
    assert cell.key.task == "trec"
    assert cell.key.epsilon == 8.0
    with pytest.raises(UsageError, match=r"Unknown task of base .*'tric'. Did you mean 'trec'"):
        compare_both(results, results, tasks=("tric",))
    with pytest.raises(UsageError, match=r"in common .base: tang on agnews.*candidate: prism"):
        compare_both(results, [plain("prism")])
    with pytest.raises(UsageError, match="Unknown epsilon"):
        compare_both(results, results, epsilons=(2.0,))
