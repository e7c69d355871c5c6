"""The suites that ship: readable, and with both ends of the scale."""

import pytest

from harness.paths import shipped_suites
from harness.suite import load_suite


def test_the_two_suites_ship():
    assert {"quick", "classification"} <= shipped_suites().keys()


@pytest.mark.parametrize("name", sorted(shipped_suites()))
def test_every_shipped_suite_has_both_ends_of_the_scale(name):
    suite = load_suite(shipped_suites()[name])
    assert suite.name == name
    assert {"zero_shot", "real_demonstrations"} <= {entry.name for entry in suite.mechanisms}
    assert suite.mode == "proved"


def test_classification_compares_mechanisms_with_both_ends_and_the_public_control_on_real_records():
    suite = load_suite(shipped_suites()["classification"])
    assert suite.source == "local"
    assert suite.tasks == ["dbpedia", "agnews", "trec"]
    assert [entry.name for entry in suite.mechanisms] == [
        "zero_shot",
        "real_demonstrations",
        "public_demonstrations",
        "tang",
        "pta",
        "prism",
    ]
    assert (suite.epsilons, suite.seeds, suite.delta) == ([1.0, 8.0], [0, 1, 2], 1e-5)
