"""How numbers and strange texts are shown."""

import math

import pytest

from dpicl.leaderboards.model.metrics import metric_name, task_kind
from dpicl.leaderboards.model.text import (
    bound_text,
    epsilon_text,
    interval_text,
    names_text,
    queries_text,
    queries_words,
    recovery_text,
    seeds_text,
    visible,
)
from dpicl.leaderboards.render.site.row_page import describe


@pytest.mark.parametrize(
    ("epsilon", "shown"),
    [(0.0, "0"), (1.0, "1"), (0.9991, "1"), (0.98, "0.98"), (7.9201, "7.921"), (math.inf, "∞"), (None, "–")],
)
def test_epsilon_is_rounded_up(epsilon, shown):
    assert epsilon_text(epsilon) == shown


def test_seeds_are_drawn_together():
    assert seeds_text([2, 0, 1, 5]) == "0–2, 5"
    assert seeds_text([3]) == "3"


def test_small_texts():
    assert recovery_text(None) == "n/a"
    assert recovery_text(-0.256) == "-26%"
    assert queries_text(None) == "any"
    assert queries_text(1500) == "1,500"
    assert [names_text(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]


def test_queries_and_intervals_in_words():
    words = [queries_words(queries) for queries in (None, 1, 1500)]
    assert words == ["any number of queries", "1 query", "1,500 queries"]
    assert interval_text(None) == "–"
    assert interval_text((-0.1, 1.052)) == "-10% to 105%"


def test_metrics_in_words_and_the_kind_of_task_that_they_score():
    assert [metric_name(name) for name in ("rougeL", "genre_distance", "my_own")] == [
        "ROUGE-L",
        "genre distance",
        "my_own",
    ]
    assert [task_kind(name) for name in ("acc_calibrated", "exact_match", "similarity", "valid", "my_own")] == [
        "classification",
        "extraction",
        "text",
        "recommendation",
        "my_own",
    ]


def test_only_strange_characters_are_written_out():
    assert visible("Größe: 5 € – «日本語» 🎬") == "Größe: 5 € – «日本語» 🎬"
    assert visible("a\nb\tc") == "a b c"
    assert visible("a\u200bb\u2066") == "a⟨U+200B⟩b⟨U+2066⟩"


def test_every_event_of_the_ledger_has_words():
    event = {
        "event": "poisson",
        "rate": 0.064,
        "of": {"event": "repeat", "count": 30, "of": {"event": "zcdp", "rho": 0.01}},
    }
    assert describe(event) == "Poisson sample, rate 0.064, of [30 × [zero-concentrated, ρ = 0.01]]"
    assert describe({"event": "non_private"}) == "records shown as they are"
    assert describe({"event": "from the future"}) == '{"event": "from the future"}'


def test_an_epsilon_of_any_size_has_a_text():
    assert (epsilon_text(1e308), bound_text(1e308), epsilon_text(5e-324)) == ("1e+308", "1e+308", "0")
