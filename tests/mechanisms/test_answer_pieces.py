"""Parts of the answer mechanisms, what they refuse, and what their authors claim."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.accountants import epsilon
from dpicl.mechanism.bases import Query, Sizes
from dpicl.mechanisms.esa import ESA
from dpicl.mechanisms.ksa import KSA, public_words, stopwords, words_of
from dpicl.mechanisms.sga import SGA, PublicSpace
from dpicl.mechanisms.sga_histogram import SGAHistogram
from dpicl.mechanisms.voting import Voting, spans
from tests.mechanisms.answering import (
    DIMENSION,
    HashReader,
    TinyTask,
    generator,
    run_one,
)


def test_spans_are_all_runs_of_words_short_ones_first():
    assert spans("a b a c", 2) == ("a", "b", "c", "a b", "b a", "a c")
    assert spans("one", 4) == ("one",)
    assert spans("  ", 4) == ()


def test_a_query_without_words_has_no_phrase_and_no_suggestion():
    blank = [Query("blank", "  ")]
    (answer,), ledger, _ = run_one("voting_spans", queries=blank)
    assert answer == ""
    (answer,), _, _ = run_one("ksa", queries=[Query("stop", "the of and")])
    assert answer.prompt == "Do it.\nDialogue: the of and\nThe summary is:"
    assert ledger.event() != dp.NoOpDpEvent()  # charged all the same


def test_phrases_that_differ_in_case_only_are_one():
    query, reader = Query("case", "red Cake cake CAKE"), HashReader(fixed="cAKE")
    (answer,), _, _ = run_one(
        "voting_spans",
        queries=[query],
        reader=reader,
        knob=0.0,
    )
    assert answer == "Cake"


def test_words_are_split_at_everything_but_letters_and_digits():
    assert words_of("Don't: PARTY_2024, Zoë's!") == {"don", "t", "party", "2024", "zoë", "s"}
    assert public_words("Don't the party's PARTY, or cake?") == ("party", "cake")
    assert {"the", "don", "t", "and", "would"} <= stopwords()
    assert not {"doctor", "cake", "2024", "#"} & stopwords()


@pytest.mark.parametrize(
    ("count", "dimensions"),
    [
        (1, 2),
        (2, 3),
        (9, 1),
        (9, 3),
    ],
)
def test_the_public_space_holds_all_candidates_and_their_spread(count, dimensions):
    rows = generator(count).normal(size=(count, DIMENSION)) * np.linspace(3, 0.1, DIMENSION)
    space = PublicSpace.of(rows, dimensions)
    np.testing.assert_allclose(
        space.basis @ space.basis.T,
        np.eye(dimensions),
        atol=1e-9,
    )
    reach = np.linalg.norm(space.project(rows), axis=1)
    assert reach.max() <= space.radius + 1e-9
    if count > dimensions:
        values = np.linalg.eigvalsh((rows - rows.mean(axis=0)).T @ (rows - rows.mean(axis=0)))
        assert (reach**2).sum() == pytest.approx(values[::-1][:dimensions].sum())
    if count == 1:
        assert space.radius == 1.0


# --- refusals and claims


@pytest.mark.parametrize("cls", [SGA, SGAHistogram])
def test_a_task_without_public_records_is_skipped(cls):
    assert "public: out" in cls().skip(TinyTask(public=0))
    assert cls(public="out").skip(TinyTask(public=0)) is None


@pytest.mark.parametrize(
    ("claimed", "true"),
    [
        (1, 0.751),
        (2, 1.610),
        (4, 3.511),
        (8, 7.914),
    ],
)
def test_votings_claim_is_the_classical_gaussian(claimed, true):
    sizes = Sizes({None: 1000}, {}, queries=1)
    mechanism = Voting(partition="once")
    knob = math.sqrt(2 * math.log(1.25e5)) / claimed
    assert mechanism.paper_epsilon(knob, sizes, 1e-5) == pytest.approx(claimed)
    assert epsilon(mechanism.events(knob, sizes), 1e-5).upper == pytest.approx(true, abs=6e-4)
    assert mechanism.paper_epsilon(0.0, sizes, 1e-5) == math.inf


def test_esas_claim_takes_half_the_sensitivity():
    """q = 400/14732, 100 queries, delta = 5e-5; vectors of length 1 (radius 1). The authors' search for the multiplier
    stops where the estimate and its error bound together reach epsilon."""
    mechanism = ESA(slots=100, examples_per_slot=4, radius=1.0)
    multiplier = 1.27186
    sizes = Sizes({None: 14732}, {}, queries=100)
    assert mechanism.paper_epsilon(multiplier / 2, sizes, 5e-5) == pytest.approx(1, abs=0.01)
    costs = epsilon(mechanism.events(multiplier / 2, sizes), 5e-5).estimate
    assert costs == pytest.approx(5.32, rel=5e-3)
    assert mechanism.paper_epsilon(0.0, sizes, 5e-5) == math.inf


@pytest.mark.parametrize(
    ("epsilon0", "claimed"),
    [(1.65, 2.998), (2.67, 7.996)],
)
def test_ksas_claim_is_the_authors_for_one_choice(epsilon0, claimed):
    """q = 400/14732, 100 queries, delta = 5e-5."""
    mechanism = KSA(slots=100, examples_per_slot=4, words=1)
    sizes = Sizes({None: 14732}, {}, queries=100)
    assert mechanism.paper_epsilon(1 / epsilon0, sizes, 5e-5) == pytest.approx(claimed, abs=2e-3)
    assert mechanism.paper_epsilon(0.0, sizes, 5e-5) == math.inf
