"""A release that protects a person: which rows are used, what is charged to whom, what the card promises."""

import csv
import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpicl as package
from dpicl.accounting import accountants, dp_event, gaussians
from dpicl.accounting.events import gaussian
from dpicl.accounting.group_privacy import growth, of_person, of_record
from dpicl.core.errors import BudgetExceeded, Concealed, DataError, UsageError
from dpicl.core.vocabulary import Record, Sizes
from dpicl.data.persons import keep_rows, looks_personal
from dpicl.data.splits import normalise
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids
from dpicl.models.embeddings import load_embeddings
from dpicl.own import budget
from dpicl.own.budget import ChargeTo, NewRelease
from dpicl.own.private_ledger import hashes_of, read_all
from dpicl.own.records import OwnRecords, load_own
from dpicl.privacy import over_releases
from dpicl.privacy.over_releases import person_total, total
from dpicl.releasing.release import calibrate_mechanism
from tests.examples import examples
from tests.harness.helpers import refuse
from tests.harness.own.desk import assert_nothing_charged

LABELS = ("billing", "refund")
KEY = b"k" * 32
OWN = OwnRecords({label: label for label in LABELS}, person_field="customer_id")
ASKED = (
    "--labels",
    "billing,refund",
    "--size",
    40,
    "--model",
    "sim",
    "--epsilon",
    1,
    "--option",
    "embedding=sim",
)


def write_table(path: Path, rows: list[tuple[str, str, object]], head: str = "customer_id") -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "label", head), *rows])
    return path


def others(number: int = 20) -> list[tuple[str, str, object]]:
    return [(f"ticket {n} on {label}", label, f"c-{n}") for n in range(number) for label in LABELS]


@pytest.fixture
def desk(tmp_path, fresh_cache, monkeypatch) -> Path:
    """A folder with the tickets of 20 people with two rows each, and of one with 63."""
    monkeypatch.chdir(tmp_path)
    write_table(
        tmp_path / "tickets.csv",
        [
            *others(),
            *((f"swordfish {n}", "billing", "Bob") for n in range(63)),
        ],
    )
    return tmp_path


def release(dpicl, *more: object, data: str = "tickets.csv", out: str = "demos.jsonl"):
    return dpicl("release", "embedding_centroids", "--data", data, *ASKED, "--out", out, *more)


# --- which rows are used


ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "A!", "b", "c", "d e"]),
        st.sampled_from(LABELS),
        st.sampled_from("xyz"),
    ),
    max_size=12,
)


@given(
    rows=ROWS,
    most=st.integers(1, 3),
    order=st.randoms(use_true_random=False),
)
@settings(max_examples=examples(150), deadline=None)
def test_without_one_person_exactly_their_kept_rows_are_missing(rows, most, order):
    """Equal texts of several people, labels that contradict each other, and rows in another order among them."""

    def keep(table):
        return keep_rows(
            [Record(text, label) for text, label, _ in table], [who for *_, who in table], most, KEY
        )

    chosen = keep(rows)
    for person in "xyz":
        left = [row for row in rows if row[2] != person]
        theirs = Counter(chosen)
        theirs.subtract(keep(left))
        assert min(theirs.values(), default=0) >= 0
        assert sum(theirs.values()) <= most
        rows_of_person = [row for row in rows if row[2] == person]
        assert sum(theirs.values()) == min(
            most, len({normalise(text) for text, *_ in rows_of_person})
        )
        assert Counter(keep(rows_of_person)) == +theirs  # their choice looks at nobody else
    shuffled = order.sample(rows, len(rows))
    assert Counter(keep(shuffled)) == Counter(chosen)


def test_equal_texts_of_two_people_stay_two_and_public_ones_go(desk):
    same = [
        ("one text", "billing", "Ann"),
        ("One text!", "refund", "Ben"),
        ("known", "refund", "Cid"),
    ]
    public = write_table(desk / "public.csv", [("Known.", "refund", "nobody")], "note")
    assert (
        len(
            load_own(
                OWN,
                write_table(desk / "same.csv", same),
                None,
                True,
            ).task.train
        )
        == 3
    )
    loaded = load_own(OWN, desk / "same.csv", None, True, public)
    assert [record.text for record in loaded.task.train] == ["one text", "One text!"]


def test_names_in_other_spellings_and_numbers_are_one_person(desk):
    rows = [
        ("a", "billing", "Ann Lee"),
        ("b", "refund", "ann.lee "),
        ("c", "refund", "7"),
        ("d", "refund", "7.0"),
    ]
    loaded = load_own(OWN, write_table(desk / "spelled.csv", rows), None, True)
    assert len(loaded.task.train) == 2 and loaded.persons == {"annlee", "7"}


@pytest.mark.parametrize("value", ["", "  "])
def test_a_row_without_a_person_is_a_fault_that_tells_nothing(dpicl, desk, value):
    path = write_table(desk / "nobody.csv", [*others(), ("swordfish", "refund", value)])
    refused = release(dpicl, "--person-field", "customer_id", data="nobody.csv")
    assert refused.code == 2 and "42" not in refused.err and "names no person" in refused.err
    with pytest.raises(Concealed):
        load_own(OWN, path, None, True)
    with pytest.raises(DataError, match="line 42 names nobody as its 'customer_id'"):
        load_own(OWN, path, None, False)
    assert_nothing_charged(dpicl)


# --- a person with 63 rows


def test_a_person_with_63_rows_moves_no_more_than_one_row_may(desk):
    """The exact law of embedding_centroids: Gaussian noise on the sum of a class, with the person and without."""
    delta = 1e-6 - 1e-7
    mechanism = EmbeddingCentroids(embedding="sim")
    sizes = Sizes(dict.fromkeys(LABELS, 40), dict.fromkeys(LABELS, 1))
    knob = calibrate_mechanism(mechanism, sizes, 1.0, delta).knob
    without = write_table(desk / "without.csv", others())

    def exact_epsilon(source: OwnRecords) -> float:
        sums = []
        for path in (desk / "tickets.csv", without):
            texts = [
                record.text
                for record in load_own(source, path, None, True).task.train
                if record.label == "billing"
            ]
            sums.append(load_embeddings("sim").encode(texts).astype(float).sum(axis=0))
        return gaussians.exact_epsilon(
            knob / float(np.linalg.norm(sums[0] - sums[1])),
            delta,
        )

    assert 0.9 < exact_epsilon(OWN) <= 1.0 + 1e-6
    assert exact_epsilon(OwnRecords(OWN.labels, per_record=True)) > 3.0


# --- more rows of a person


def test_group_privacy_takes_the_records_away_one_by_one():
    for epsilon, rows in (
        (0.3, 2),
        (0.05, 10),
        (2.0, 3),
    ):
        delta = 0.0
        for _ in range(rows):
            delta = math.exp(epsilon) * delta + 1e-6
        assert of_person(epsilon, 1e-6, rows) == pytest.approx((rows * epsilon, delta))
        assert of_person(*of_record(epsilon, 1e-4, rows, True), rows) == pytest.approx(
            (epsilon, 1e-4)
        )
    assert growth(0.0, 4) == 4 and growth(400.0, 2) == math.inf
    assert of_record(math.inf, 1e-5, 3, False) == (math.inf, 1e-5)
    with pytest.raises(UsageError, match=r"delta must be at least 0\.00000\d+, not 1e-06"):
        of_record(1.0, 1e-6, 5, True)


def test_three_rows_of_a_person_are_charged_as_a_person(dpicl, desk):
    flags = ("--person-field", "customer_id", "--rows-per-person", 3)
    refuse(release(dpicl, *flags), "3 rows", "--rows-per-person")
    answer = release(dpicl, *flags, "--delta", 5e-6, "--json").succeed()
    card = answer.json["card"]
    assert card["person"]["rows"] == 3 and card["person"]["delta"] == 5e-6
    assert card["guarantee"]["unit"] == "person"
    assert card["guarantee"]["privacy_of"] == "row"
    assert card["guarantee"]["epsilon"] == card["person"]["epsilon"]
    assert card["person"]["epsilon"] == pytest.approx(3 * card["privacy"]["epsilon_proved"])
    assert 0.97 < card["person"]["epsilon"] <= 1
    assert (
        of_person(
            card["privacy"]["epsilon_proved"],
            card["privacy"]["delta"],
            3,
        )[1]
        <= 5e-6
    )
    page = (desk / "demos.card.md").read_text().splitlines()
    assert page[0].endswith(
        "protects one person (customer\\_id) with at most 3 rows"
    ) and "3 at most" in "".join(page)
    (stands,) = answer.json["budgets"]
    assert stands["unit"] == "person"
    assert stands["sum_delta"] == 5e-6
    assert stands["sum_epsilon"] == pytest.approx(card["person"]["epsilon"]) == stands["epsilon"]
    release(dpicl, *flags, "--delta", 5e-6, out="b.jsonl").succeed()
    (stands,) = dpicl("budget", "--json").json["private_sets"]
    assert (
        1.0
        < stands["epsilon"]
        <= stands["sum_epsilon"]
        == pytest.approx(2 * card["person"]["epsilon"])
    )


# --- what is asked, said and charged


def test_a_column_of_people_needs_a_decision_first(dpicl, desk):
    refused = release(dpicl)
    refuse(refused, "customer_id", "--person-field", "--per-record")
    assert "swordfish" not in refused.err and "loading" not in refused.err
    assert_nothing_charged(dpicl)
    refuse(release(dpicl, "--per-record", "--person-field", "customer_id"), "one of the two")
    refuse(release(dpicl, "--rows-per-person", 2, "--per-record"), "--person-field NAME")
    refuse(release(dpicl, "--person-field", "who"), "who")
    refuse(release(dpicl, "--person-field", "text"), "holds the text or the label")
    with pytest.raises(UsageError, match=r"give person_field customer_id.*per_record"):
        package.release("tang", data="tickets.csv", labels=LABELS, size=40, model="sim")


@pytest.mark.parametrize("more", [{}, {"swordfish_user": 1}])
def test_no_row_decides_whether_a_decision_is_needed(desk, more):
    rows = [{"text": text, "label": label} for text, label, _ in others()]
    (desk / "a.jsonl").write_text(
        "".join(
            json.dumps(row) + "\n"
            for row in [
                *rows,
                {**rows[0], **more},
            ]
        )
    )
    with pytest.raises(UsageError, match=r"each row has its own.*--per-record"):
        load_own(OwnRecords(OWN.labels), desk / "a.jsonl", None, True)
    decided = replace(OwnRecords(OWN.labels), per_record=True)
    assert len(load_own(decided, desk / "a.jsonl", None, True).task.train) == 40


def test_a_limit_for_people_is_of_the_people_of_one_column(fresh_cache):
    one = NewRelease(gaussian(4.0), 1.0, 1e-5, {"mechanism": "test"})
    rows = [Record("a", "billing")]
    of_people = ChargeTo("desk", rows_per_person=1, person_field="customer_id")
    budget.charge(rows, one, replace(of_people, total_epsilon=9.0), persons=["ann"])
    budget.charge(rows, one, of_people, persons=["ann"])
    for other in (ChargeTo("desk"), replace(of_people, person_field="ticket")):
        with pytest.raises(
            UsageError, match=r"stated for the people of the column customer_id.*--total-epsilon 9"
        ):
            budget.charge(rows, one, other, persons=["7"])
        assert budget.read_sets()[0]["unit"] == "person"
    budget.charge(rows, one, ChargeTo("desk", total_epsilon=9.0))
    (mixed,) = budget.read_sets()
    assert mixed["unit"] == "mixed"
    assert mixed["sum_epsilon"] == 2 * 2 + 1


def test_rows_that_no_release_used_are_of_the_same_set(desk):
    rows = [(f"text {number} of Ann", "billing", "ann") for number in range(6)]
    loaded = load_own(OWN, write_table(desk / "ann.csv", rows), None, True)
    assert len(loaded.task.train) == 1
    assert {record.text for record in loaded.read} == {text for text, *_ in rows}


@pytest.mark.parametrize("column", ["customer_id", "note"])
def test_a_mark_that_takes_in_rows_is_a_fault_in_every_column(desk, column):
    (desk / "q.csv").write_text(
        f'text,label,{column}\nhello,billing,"C1\nfoo,refund,C2\nbar,billing,C3"\nlast,refund,C4\n'
    )
    source = OwnRecords(OWN.labels, person_field=column if column == "customer_id" else None)
    with pytest.raises(DataError):
        load_own(source, desk / "q.csv", None, False)


@pytest.mark.parametrize("rows", [None, 1])
def test_the_card_and_the_terminal_say_whom_a_release_protects(dpicl, desk, rows):
    answer = release(
        dpicl, *(("--per-record",) if rows is None else ("--person-field", "customer_id"))
    ).succeed()
    who = "one record" if rows is None else "one person (customer_id)"
    head, *page = (desk / "demos.card.md").read_text().splitlines()
    assert head.replace("\\", "").endswith(f"protects {who}") and f"for {who};" in answer.out
    whole = "\n".join(page)
    assert ("one has one record more" in whole) is (rows is None)
    assert ("epsilon for somebody with 10 records" in whole) is (rows is None)
    assert ("under two names" in whole) is (rows is not None)
    assert "swordfish" not in whole and "Bob" not in whole
    assert "a person" in dpicl("budget").out or rows is None


def test_other_texts_of_the_same_people_are_charged_to_their_set(dpicl, desk):
    person = ("--person-field", "customer_id")
    release(dpicl, *person, "--total-epsilon", 1.5).succeed()
    write_table(
        desk / "later.csv", [("something else", "refund", "BOB"), ("and more", "billing", "c-77")]
    )
    refuse(release(dpicl, *person, data="later.csv", out="b.jsonl"), "'tickets'", "1.5")
    assert (
        release(dpicl, "--per-record", data="later.csv", out="b.jsonl").code == 0
    )  # nobody is named in it
    ledger = next(each for each in read_all() if each.name == "tickets")
    ledger_words = re.sub(r"[A-Za-z0-9+/=]{80,}", "", ledger.text)  # base64 may spell any name
    assert "bob" not in ledger_words.lower()
    assert not hashes_of(["bob"]) & hashes_of([], ["bob"])


def test_a_set_that_mixes_units_says_that_a_record_is_protected(dpicl, fresh_cache):
    one = NewRelease(gaussian(4.0), 1.0, 1e-5, {"mechanism": "test"})
    rows = [Record("a", "billing")]
    budget.charge(rows, one, ChargeTo("desk"))
    assert budget.read_sets()[0]["unit"] == "record"
    assert "rows_per_person" not in read_all()[0].text  # as before there were persons
    budget.charge(rows, one, ChargeTo("desk", rows_per_person=2), persons=["ann"])
    assert budget.read_sets()[0]["unit"] == "mixed"
    shown = dpicl("budget", "--private-set", "desk")
    assert (
        "the sums are those of a record" in " ".join(shown.out.split())
        and "a person, 2" in shown.out
    )
    (mixed,) = budget.read_sets()
    assert (
        mixed["sum_epsilon"] == mixed["epsilon"] == 1.0 + 2 * 1.0
    )  # without one row another one of hers is used
    assert mixed["sum_delta"] == pytest.approx(1e-5 + 1e-5 * (1 + math.e))
    with pytest.raises(BudgetExceeded):
        budget.charge([], one, ChargeTo("new", total_epsilon=2.5), persons=["ann"])


# --- what is counted


@pytest.mark.parametrize(
    ("name", "expected"),
    [("customer_id", True), ("CustomerID", True), ("E-Mail", True), ("patient no", True), ("name", True),
     ("author", True), ("file_name", False), ("id", False), ("date", False), ("user: it fails", False), ("users", True),
     ("call the customer back now please", False), ("from", True), ("Kundennummer", True), ("cust_id", True),
     ("usuário", True), ("客户编号", True), ("клиент", True),
     ("created_by", True), ("ip_address", True), ("shipped", False),
     ("description", False), ("author_country", False), ("userRating", False), ("客服", False)],
)  # fmt: skip
def test_columns_that_look_like_people(name, expected):
    assert looks_personal(name) is expected


def test_data_says_how_many_rows_people_have(dpicl, desk):
    assert "21 people with 103 rows" in dpicl("data", "tickets.csv").out
    (counted,) = dpicl("data", "tickets.csv", "--rows-per-person", 2, "--json").json["persons"]
    assert (counted["column"], counted["used"], counted["largest"]) == ("customer_id", 42, 63)
    assert counted["above"] == pytest.approx(1 / 21)


# --- a budget of many releases


def make_sampled(number: int) -> dp_event.DpEvent:
    sampled = dp_event.PoissonSampledDpEvent(
        0.01 + number / 1000, dp_event.GaussianDpEvent(1.0 + number / 100)
    )
    return dp_event.SelfComposedDpEvent(sampled, 10)


def test_different_releases_have_a_finite_total_that_is_stored(fresh_cache, monkeypatch):
    events = [make_sampled(number) for number in range(6)]
    bound = person_total(events, 1e-6, 1)
    quick = total(events, 1e-6, quick=True).upper
    assert accountants.epsilon(events[0], 1e-6).upper < bound == quick
    with monkeypatch.context() as patch:
        patch.setattr(over_releases, "total", None)
        assert person_total(events, 1e-6, 1) == bound
    assert bound < person_total(events, 5e-4, 2) < 2 * bound  # at a delta that pays for both rows


def test_a_total_is_the_sum_where_no_composition_is_finite(fresh_cache):
    """The share of delta pays for the floating point of few sums at a large epsilon."""
    large = NewRelease(gaussian(0.08), 110.0, 1e-6, {})
    rows = [Record("a", "billing")]
    for _ in range(3):
        budget.charge(rows, large, ChargeTo("desk"))
    stands = budget.read_sets()[0]
    assert math.isfinite(stands["epsilon"]) and stands["epsilon"] <= 330.0
