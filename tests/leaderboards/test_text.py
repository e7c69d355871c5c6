"""How numbers, strange texts and what an attack found are shown."""

import math
from types import SimpleNamespace

import pytest

from dpicl.attacks.table import measure_name, trials_text
from dpicl.core.messages import bound_text, confidence_text, epsilon_text, names_text, queries_words
from dpicl.leaderboards.model.text import metric_name, seeds_text
from dpicl.leaderboards.render.row_view import command, describe
from dpicl.tables.document import Column
from tests.leaderboards.attack_factory import make_attack, rule

#: What shows it -> value -> text. An upper bound is rounded up, a lower bound and a confidence are rounded down.
SHOWN = {
    epsilon_text: {
        0.0: "0",
        1.0: "1",
        0.9991: "1",
        0.98: "0.98",
        7.9201: "7.921",
        math.inf: "∞",
        None: "–",
    }
    | {1e308: "1e+308", 5e-324: "0", 1e13: "1e+13"},
    bound_text: {
        0.0: "0",
        0.0004: "0",
        0.9999: "0.999",
        2.1: "2.1",
        math.inf: "∞",
        None: "–",
        1e308: "1e+308",
    },
    confidence_text: {0.95: "95%", 0.975: "97.5%", 1 - 0.05 / 3: "98.3%", 0.9999: "99.9%"},
    queries_words: {None: "any number of queries", 1: "1 query", 1500: "1,500 queries"},
    seeds_text: {(2, 0, 1, 5): "0–2, 5", (3,): "3"},
    names_text: {(): "", ("a",): "a", ("a", "b"): "a and b", ("a", "b", "c"): "a, b and c"},
    metric_name: {"rougeL": "ROUGE-L", "my_own": "my_own"},
    measure_name: {"auc": "AUC", "tpr_at_fpr_0.001": "TPR at 0.1% FPR", "advantage": "advantage"},
}


@pytest.mark.parametrize("show", SHOWN, ids=lambda show: show.__name__)
def test_a_value_has_its_text(show):
    assert {value: show(value) for value in SHOWN[show]} == SHOWN[show]


def test_trials_are_runs_or_canaries():
    assert trials_text(make_attack(decision=rule(0.9, 0.1, trials=1500))) == "1,500 + 1,500"
    assert trials_text(make_attack(method="one run", details={"candidates": 64})) == "64 canaries"
    assert trials_text(make_attack()) == "–"
    assert trials_text(make_attack(audited=None, details={"candidates": 64})) == "–"


def test_every_event_of_the_ledger_has_words():
    event = {
        "event": "poisson",
        "rate": 0.064,
        "of": {"event": "repeat", "count": 30, "of": {"event": "zcdp", "rho": 0.01}},
    }
    assert describe(event) == "Poisson sample, rate 0.064, of [30 × [zero-concentrated, ρ = 0.01]]"
    assert describe({"event": "non_private"}) == "records shown as they are"
    assert describe({"event": "from the future"}) == '{"event": "from the future"}'


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("server:https://example.org/?tokenizer=x", "server:URL"),
        ("server:box", "server:box"),
        ("hf:a/b", "hf:a/b"),
    ],
)
def test_the_command_of_a_row_holds_no_address_of_its_results(model, shown):
    cell = SimpleNamespace(label="tang", task="agnews", model=model, epsilon=1.0, test_records=None)
    row = SimpleNamespace(results=[SimpleNamespace(cell=cell)], submission=None, is_baseline=False)
    words = command(SimpleNamespace(asked="quick", source="hub"), row)
    assert f"--model {shown} --source" in words and "example.org" not in words


def test_a_column_follows_a_path_to_a_value_or_to_none():
    claim = SimpleNamespace(name="a", test=SimpleNamespace(mean=0.5))
    assert Column("mean", "difference", "test.mean").value(claim) == 0.5
    assert Column("name", "claim").value(claim) == "a"
    claim.test = None
    assert Column("mean", "difference", "test.mean").value(claim) is None
    with pytest.raises(AttributeError):
        Column("mean", "difference", "tests.mean").value(claim)
