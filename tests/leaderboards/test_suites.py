"""The suites that ship: readable, with the reference baselines of the scale, and results that can be compared."""

from pathlib import Path

import pytest

from dpicl.core.paths import shipped_suites
from dpicl.data.config import load_config
from dpicl.leaderboards.compare.reading import read_side
from dpicl.leaderboards.compare.releases import compare
from dpicl.mechanism.registry import load_mechanisms
from dpicl.plan.expand import expand
from dpicl.plan.suite_files import load_suite

RESULTS = Path(__file__).parents[2] / "results"


def test_the_suites_ship():
    assert {"quick", "open", "generation", "ginc", "record"} <= shipped_suites().keys()


@pytest.mark.parametrize("name", sorted(shipped_suites()))
def test_every_shipped_suite_has_both_ends_of_the_scale(name):
    suite = load_suite(shipped_suites()[name])
    assert suite.name == name
    assert {"zero_shot", "real_demonstrations"} <= {entry.name for entry in suite.mechanisms}


def test_the_next_suite_of_record_ranks_by_the_models_answers():
    suite = load_suite(RESULTS.parent / "leaderboards" / "next" / "record.yaml")
    cells = expand(suite, load_mechanisms())
    assert (suite.name, suite.version, len(suite.seeds)) == ("record", 2, 10)
    assert all(cell.fresh_test_records for cell in cells)
    ranked_by = {
        cell.task: cell.metric or load_config(cell.task).metadata.main_metric for cell in cells
    }
    assert not set(ranked_by.values()) & {"acc_nearest", "acc_logistic"}


def test_mechanisms_of_generation_share_one_collection():
    suite = load_suite(shipped_suites()["generation"])
    assert suite.source == "local" and suite.tasks == ["samsum", "xsum", "chatdoctor"]
    answering = [
        entry for entry in suite.mechanisms if entry.name in ("esa", "ksa", "sga", "sga_histogram")
    ]
    assert len(answering) == 4
    shared = ("slots", "examples_per_slot", "record_tokens", "sampling_seed", "partition")
    assert len({tuple(entry.options.get(name) for name in shared) for entry in answering}) == 1


#: Suite and model; `make leaderboard` leaves results of quick there.
FOLDERS = sorted(
    f"{one.parent.name}/{one.name}"
    for one in RESULTS.glob("*/[!.]*")
    if one.parent.name not in ("attacks", "quick")
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_committed_results_can_be_compared_with_themselves(folder):
    sides = [read_side(side, RESULTS / folder) for side in ("base", "candidate")]
    comparison = compare(*sides)
    assert comparison.tested and not comparison.unmatched and not comparison.regressed
    assert {cell.difference for cell in comparison.cells} == {0}
