"""How many seeds find a difference: `dpicl plan --detect`."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpicl.core.errors import UsageError
from dpicl.plan import sizing
from tests.leaderboards.factory import make_result

RESULTS = Path(__file__).parents[3] / "results"


def results(seeds: int = 12, source: str = "synthetic") -> list:
    return [
        make_result(
            name,
            score + 0.05 * (seed % step),
            seed=seed,
            documents=100,
            source=source,
        )
        for name, score, step in (("tang", 0.6, 2), ("pta", 0.5, 3))
        for seed in range(seeds)
    ]


def test_what_so_many_seeds_find_has_the_stated_power() -> None:
    """Two rows whose true difference is what 12 seeds are said to find; 400 experiments."""
    (gap,) = sizing.compute_detectable(0.1, 2, np.array([12]), 0.8)
    drawn = np.random.default_rng(0).normal(gap, 0.1, size=(12, 400))
    assert (stats.ttest_1samp(drawn, 0).pvalue <= 0.05).mean() == pytest.approx(0.8, abs=0.07)


def test_more_rows_and_seeds_do_what_they_must() -> None:
    def find(rows: int, seeds: int) -> float:
        return float(
            sizing.compute_detectable(
                0.1,
                rows,
                np.array([seeds]),
                0.8,
            )[0]
        )

    assert find(12, 20) > find(2, 20) > find(2, 40)


def test_the_fewest_seeds_that_find_it() -> None:
    (table,) = sizing.tables(results(), detect=0.05, power=0.8)
    assert table.task == "agnews"
    assert table.rows == 2
    assert table.seeds == 12
    assert table.documents == 100
    tried = np.array([table.needed - 1, table.needed])
    before, enough = sizing.compute_detectable(table.deviation, 2, tried, 0.8)
    assert enough <= 0.05 < before and table.seconds > 0
    assert sizing.tables(results(), detect=1e-6, power=0.8)[0].needed is None


def test_one_row_or_one_seed_tells_nothing() -> None:
    with pytest.raises(UsageError, match="seeds"):
        sizing.tables(results(seeds=1), detect=0.1, power=0.8)
    with pytest.raises(UsageError, match="mechanisms"):
        sizing.tables(results()[:12], detect=0.1, power=0.8)


def test_models_and_sources_have_tables_of_their_own() -> None:
    (alone,) = sizing.tables(results(), detect=0.2, power=0.8)
    later = {"documents": 100, "model": "other", "created": "2027-01-02T03:04:05+00:00"}
    other = [
        make_result(name, score, seed=seed, **later)
        for name, score in (("tang", 0.9), ("pta", 0.1))
        for seed in range(2)
    ]
    tables = sizing.tables(
        [*results(), *other, *results(source="local")],
        detect=0.2,
        power=0.8,
    )
    assert tables[0] == alone
    assert [table.source for table in tables].count("local") == 1


def test_a_size_above_one_finds_nothing(dpicl) -> None:
    words = "--detect 0.1 --seed 0,1 --epsilon 1"
    (table,) = dpicl(f"plan ginc --results {RESULTS} {words} --json").json["tables"]
    assert table["detects"] > 1
    shown = " ".join(dpicl(f"plan ginc --results {RESULTS} {words}").out.split())
    assert "none" in shown and "MDE: what the results at hand find" in shown


def test_committed_results_need_no_data_and_lose_no_task(dpicl, monkeypatch) -> None:
    """README's own command, where there are no real records."""
    monkeypatch.delenv("DPICL_DATA", raising=False)
    answer = dpicl(f"plan record --results {RESULTS} --detect 0.1 --json")
    tables = {(table["task"], table["source"]) for table in answer.json["tables"]}
    assert {("trec", "local"), ("agnews_codes", "local")} <= tables
    without = {"chatdoctor", "samsum"}
    assert not without & {task for task, _ in tables}
    assert all(task in answer.err for task in without)


def test_a_plan_agrees_with_the_board_on_committed_results(dpicl, monkeypatch) -> None:
    monkeypatch.delenv("DPICL_DATA", raising=False)
    plan, board = (
        dpicl(f"{verb} record --results {RESULTS} --json").json for verb in ("plan", "board")
    )
    tables = {
        (section["group"]["model"], table["task"]): table
        for section in board["sections"]
        for table in section["tasks"]
    }
    for one in plan["mde"]:
        detectable = tables[one["model"], one["task"]]["detectable"]
        assert detectable[f"{one['epsilon']:g}"] == pytest.approx(one["mde"])
    assert {one["task"] for one in plan["mde"]} >= {"trec", "mit_d"}
    gains = {
        (
            one["model"],
            one["task"],
            one["metric"],
        ): one["gain"]
        for one in plan["headroom"]
    }
    for (model, task), table in tables.items():
        for metric, headroom in table["headroom"].items():
            assert gains[model, task, metric] == headroom["gain"]
    assert len(plan["tuned"]["mit_d"]["rows"]["tang_small"]["settings"]) == 6
    cells = sum(plan[state] for state in ("present", "stale", "skipped", "missing"))
    shown = dpicl(f"plan record --results {RESULTS}").out
    assert shown.startswith(f"{cells:,} cells") and "local records" in shown


def test_results_of_other_settings_are_named(dpicl) -> None:
    run = dpicl(f"plan generation --results {RESULTS} --model sim --detect 0.1")
    assert (
        run.code == 2 and "results with other suite settings, model or options left out." in run.err
    )
