"""The budget of private records: what is on the ledger is never less than what was released, whatever happens."""

import hashlib
import json
import math
import os
import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl import models
from dpicl.accounting import accountants
from dpicl.accounting.events import (
    EpsilonDeltaDpEvent,
    bounded_range_choice,
    compose,
    gaussian,
    parallel,
)
from dpicl.core import files
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import BudgetExceeded, Concealed, ResultError, UnsupportedEvent, UsageError
from dpicl.core.files import own_folder
from dpicl.core.vocabulary import Record
from dpicl.data.task import Task
from dpicl.own import budget
from dpicl.own.budget import ChargeTo, NewRelease
from dpicl.own.private_ledger import read_all
from dpicl.privacy import over_releases, secure_release
from dpicl.privacy.over_releases import join_groups, total
from dpicl.releasing.release import release
from tests.examples import examples
from tests.harness.local_suite import LABELS
from tests.harness.parrot import Parrot

DELTA = 1e-5
FORMS = ("NFC", "NFD", "NFKC", "NFKD")
ONE = NewRelease(gaussian(4.0), 1.0, DELTA, {"mechanism": "test"})


@pytest.fixture
def private(tmp_path, monkeypatch) -> Path:
    """An empty folder for ledgers."""
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "private"


def records(first: int, last: int, tail: str = "") -> list[Record]:
    return [
        Record(f"Secret ticket number {number}{tail}", "billing") for number in range(first, last)
    ]


def pay(to: ChargeTo, release: NewRelease = ONE, last: int = 9) -> tuple[str, ...]:
    """Charges a release that read the first records."""
    return budget.charge(records(0, last), release, to)


def count_spent(name: str) -> int:
    return next((len(ledger.charges) for ledger in read_all() if ledger.name == name), 0)


def write_ledger(lines: list[Any]) -> bytes:
    """The lines of a ledger, each with the hash of those before it, and the last with their number."""
    text = ""
    for number, line in enumerate(lines):
        if isinstance(line, dict) and number and line.get("before") is not None:
            line = {**line, "before": hashlib.sha256(text.encode()).hexdigest()}
        if isinstance(line, dict) and number == len(lines) - 1 and type(line.get("lines")) is int:
            line = {**line, "lines": number}
        text += json.dumps(line) + "\n"
    return text.encode()


# --- what releases cost together -------------------------------------------------------------------------------------


def make_sampled(rate: float, sigma: float, times: int) -> dp.DpEvent:
    return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), times)


def test_twelve_gaussian_releases_cost_what_one_smaller_does():
    bounds = total([gaussian(10.0)] * 12, DELTA)
    assert bounds.upper == pytest.approx(
        accountants.epsilon(gaussian(10 / math.sqrt(12)), DELTA - 1e-7).upper
    )
    assert bounds.upper < 12 * accountants.epsilon(gaussian(10.0), DELTA).upper / 2


def test_one_release_costs_its_own_epsilon():
    event = parallel(
        {
            "a": make_sampled(0.1, 2.0, 10),
            "b": make_sampled(0.02, 2.0, 30),
        }
    )
    assert join_groups(event) == make_sampled(0.1, 2.0, 30)
    assert total([event], DELTA).upper == pytest.approx(
        accountants.epsilon(event, DELTA - 1e-7).upper, rel=1e-9
    )


def test_a_record_whose_label_changes_is_covered():
    """It meets the worst group of each: parallel composition over the groups of both would count one of them."""
    first = parallel({"a": gaussian(1.0), "b": dp.NoOpDpEvent()})
    second = parallel({"a": dp.NoOpDpEvent(), "b": gaussian(1.0)})
    naive = accountants.epsilon(compose([first, second]), DELTA).upper
    assert (
        total([first, second], DELTA).upper
        >= accountants.epsilon(compose([gaussian(1.0)] * 2), DELTA).upper
        > naive
    )


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from("abc"),
            st.tuples(
                st.sampled_from([0.02, 0.1, 1.0]), st.sampled_from([1.5, 4.0]), st.integers(1, 3)
            ),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=2,
    )
)
@settings(max_examples=examples(8), deadline=None)
def test_a_joined_event_covers_what_every_record_meets(releases):
    events = [
        parallel({label: make_sampled(*one) for label, one in groups.items()})
        for groups in releases
    ]
    whole = accountants.rough_epsilon(compose(map(join_groups, events)), DELTA, 400)
    for label in "abc":
        met = compose(make_sampled(*groups[label]) for groups in releases if label in groups)
        assert accountants.rough_epsilon(met, DELTA, 400) <= whole * 1.01


def test_events_of_several_kinds_have_a_total():
    events = [
        gaussian(5.0),
        bounded_range_choice(0.5),
        make_sampled(0.1, 2.0, 5),
        EpsilonDeltaDpEvent(0.3, 1e-7),
    ]
    alone = [accountants.epsilon(event, DELTA).upper for event in events]
    assert max(alone) < total(events, DELTA).upper < 1.5 * sum(alone)
    assert math.isinf(total([*events, dp.NonPrivateDpEvent()], DELTA).upper)


def test_the_share_for_floating_point_pays_for_every_sum(monkeypatch):
    """Several sums of one sample are one Gaussian to the accountants, and as many to the floating point."""
    counted = []

    def count_floating_point(event, epsilon):
        counted.append(secure_release.floating_point_delta(event, epsilon))
        return counted[-1]

    monkeypatch.setattr(over_releases, "floating_point_delta", count_floating_point)
    whole = dp.PoissonSampledDpEvent(0.1, dp.SelfComposedDpEvent(gaussian(20.0), 30))
    events = [whole, parallel({"a": whole, "b": whole})]
    upper = total(events, DELTA).upper
    flat = dp.SelfComposedDpEvent(gaussian(20.0), 90)
    assert counted == [
        pytest.approx(secure_release.floating_point_delta(flat, upper), rel=1e-9, abs=0)
    ]


# --- who pays --------------------------------------------------------------------------------------------------------


def test_records_with_one_added_pay_where_they_paid_before(private):
    assert budget.charge(
        records(0, 50),
        ONE,
        ChargeTo(default="tickets"),
    ) == ("tickets",)
    assert budget.charge(
        records(0, 51),
        ONE,
        ChargeTo(default="other"),
    ) == ("tickets",)
    assert budget.charge(
        records(10, 60, "!?"),
        ONE,
        ChargeTo("renamed"),
    ) == ("tickets", "renamed")
    assert budget.charge(records(59, 70), ONE, ChargeTo()) == (
        "renamed",
        "tickets",
    )  # one record is enough
    assert budget.charge(
        records(100, 120),
        ONE,
        ChargeTo(default="others"),
    ) == ("others",)
    assert count_spent("tickets") == 4
    assert count_spent("renamed") == 2
    assert count_spent("others") == 1


def test_every_unicode_form_of_a_record_pays_where_one_did(private, monkeypatch):
    forms = [[Record(normalize(form, "Résiliation — ﬁn ½"), "billing")] for form in FORMS]
    for number, first in enumerate(forms):
        with monkeypatch.context() as patch:
            patch.setenv("DPICL_CACHE", str(private / str(number)))
            budget.charge(first, ONE, ChargeTo(default="tickets", total_epsilon=1.0))
            for other in forms:
                with pytest.raises(BudgetExceeded):
                    budget.charge(other, ONE, ChargeTo(default="other"))


def test_a_named_set_pays_whatever_its_records_are(private):
    pay(ChargeTo("tickets"), last=5)
    assert budget.charge(
        records(5, 9, " in other words"),
        ONE,
        ChargeTo("tickets"),
    ) == ("tickets",)
    assert count_spent("tickets") == 2


@dataclass(frozen=True)
class SaysNothing(Parrot):
    """States that it reads nothing, and reads all."""

    name = "says_nothing"
    knob = None

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def answer(self, query, sample, context):
        return "World"

    def release(self, knob):
        return dp.NonPrivateDpEvent()


def test_what_claims_to_read_nothing_reads_nothing(private):
    task = replace(
        Task.load("agnews", "synthetic", limit_train=20, limit_test=2),
        declared=dict.fromkeys(LABELS, 20),
    )
    config = ReleaseConfig(epsilon=math.inf, delta=DELTA, noise="secure")
    with pytest.raises(Concealed):
        release(
            SaysNothing(slots=4, examples_per_slot=2),
            task,
            models.load("sim"),
            config,
            charge=partial(budget.charge, task.train, to=ChargeTo("tickets")),
        )
    assert read_all() == []


def test_what_reads_no_record_costs_nothing(private):
    nothing = NewRelease(dp.NoOpDpEvent(), 0.0, DELTA, {})
    assert budget.charge(records(0, 5), nothing, ChargeTo("tickets")) == ()
    assert read_all() == []


def test_beyond_the_limit_nothing_is_charged_and_the_limit_stays(private):
    pay(ChargeTo("tickets", total_epsilon=1.2))
    before = (private / "budget-tickets.jsonl").read_bytes()
    for limit in (None, 1.2):
        with pytest.raises(BudgetExceeded, match="tickets"):
            pay(ChargeTo("other", total_epsilon=limit))
    with pytest.raises(UsageError, match="--raise"):
        pay(ChargeTo("tickets", total_epsilon=5.0))
    assert (private / "budget-tickets.jsonl").read_bytes() == before
    assert not (private / "budget-other.jsonl").exists()
    budget.set_limit("tickets", 5.0, None, may_rise=True)
    assert pay(ChargeTo("tickets")) == ("tickets",)
    budget.set_limit("tickets", 2.0, None)
    assert budget.read_sets()[0]["total_epsilon"] == 2.0


def test_the_limit_is_of_the_sum_and_not_of_the_composition(private):
    """Composition is proved for settings that were fixed beforehand, and so admits nothing."""
    limit = total([ONE.event] * 3, DELTA).upper
    assert 1.5 < limit < 2.5
    for _ in range(int(limit)):
        pay(ChargeTo("tickets", total_epsilon=limit))
    with pytest.raises(BudgetExceeded, match="add up"):
        pay(ChargeTo("tickets"))
    stands, *_ = budget.read_sets()
    assert stands["left"] == pytest.approx(limit - int(limit))
    assert stands["sum_delta"] == int(limit) * DELTA
    assert budget.charge(
        records(0, 9),
        NewRelease(
            ONE.event,
            stands["left"],
            DELTA,
            {},
        ),
        ChargeTo("tickets"),
    )


SMALL = NewRelease(gaussian(400.0), 0.01, 1 / 210, {"mechanism": "test"})


def test_deltas_add_up_to_one_over_the_declared_records_at_most(private):
    """99 of these were admitted under a limit of epsilon = 1: delta was .471 in all."""
    tickets = ChargeTo("tickets", total_epsilon=1.0, declared=210)
    pay(tickets, SMALL)
    before = (private / "budget-tickets.jsonl").read_bytes()
    for to in (
        tickets,
        ChargeTo("other", declared=5),
        ChargeTo("tickets"),
    ):  # of a smaller file, or of nobody knows
        with pytest.raises(
            BudgetExceeded,
            match=r"delta = 0\.0095.* its limit is 0\.00476.*declared.* --total-delta",
        ):
            pay(to, SMALL)
    with pytest.raises(
        BudgetExceeded, match="2 releases"
    ):  # a larger declared number makes the limit smaller
        budget.charge(
            records(0, 9),
            replace(SMALL, delta=1e-6),
            replace(tickets, declared=1000),
        )
    with pytest.raises(
        UsageError, match=r"may add up to delta = 0\.00476.*--total-delta 0\.1 --raise"
    ):
        pay(replace(tickets, total_delta=0.1), SMALL)
    assert (private / "budget-tickets.jsonl").read_bytes() == before
    stands = budget.read_sets()[0]
    assert stands["total_delta"] == 1 / 210
    assert stands["left_delta"] == 0.0
    budget.set_limit("tickets", None, None, may_rise=True, total_delta=0.01)
    pay(tickets, SMALL)
    stands = budget.read_sets()[0]
    assert stands["total_delta"] == 0.01
    assert stands["total_epsilon"] == 1.0
    assert stands["releases"] == 2
    with pytest.raises(
        BudgetExceeded, match=r"limit is 0\.01\. "
    ):  # a stated limit is not lifted by the flag
        pay(replace(tickets, allow_large_delta=True), SMALL)


def test_a_large_delta_that_is_allowed_passes_the_default_once(private):
    allowed = ChargeTo("tickets", declared=10, allow_large_delta=True)
    assert budget.charge(
        records(0, 9),
        replace(SMALL, delta=0.2),
        allowed,
    ) == ("tickets",)
    with pytest.raises(BudgetExceeded, match=r"limit is 0\.1, one over the declared"):
        pay(ChargeTo("tickets", declared=10), SMALL)


def test_a_budget_of_an_earlier_version_is_read(private):
    pay(ChargeTo("tickets", total_epsilon=1.0), SMALL)
    text = (private / "budget-tickets.jsonl").read_text()
    assert "declared" not in text and "total_delta" not in text  # as it was written before
    assert budget.read_sets()[0]["total_delta"] is None
    with pytest.raises(BudgetExceeded, match="one over the declared number"):
        pay(ChargeTo("tickets", declared=210), SMALL)


def test_the_ledger_is_its_owners_alone_and_holds_no_text(private):
    pay(ChargeTo("tickets"))
    path = private / "budget-tickets.jsonl"
    assert (private / "key").exists() and path.stat().st_mode & 0o077 == 0
    assert "Secret" not in path.read_text()
    exported = json.dumps(budget.read_sets()[0], default=str)
    assert "records" not in exported and "gaussian" in exported


def test_an_earlier_line_is_never_changed(private):
    before = ""
    for number in range(3):
        budget.charge(
            records(0, 9 + number),
            ONE,
            ChargeTo("tickets", total_epsilon=50.0 - number),
        )
        *lines, _ = (private / "budget-tickets.jsonl").read_text().splitlines(keepends=True)
        assert "".join(lines).startswith(before)
        before = "".join(lines)


def test_two_names_that_differ_in_case_alone_are_refused(private):
    pay(ChargeTo("tickets"))
    with pytest.raises(UsageError, match="tickets"):
        budget.charge(records(20, 29), ONE, ChargeTo("Tickets"))
    for name in ("../tickets", "", "a/b", ".x", "x" * 90, "naïve"):
        with pytest.raises(UsageError, match="name"):
            budget.charge(records(20, 29), ONE, ChargeTo(name or "-"))


# --- damage ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def ledger(private) -> Path:
    for number in range(2):
        pay(ChargeTo("tickets", total_epsilon=9.0), last=3 + number)
    return private / "budget-tickets.jsonl"


def test_a_ledger_that_is_cut_anywhere_is_refused(ledger):
    whole = ledger.read_bytes()
    lines = [at for at, byte in enumerate(whole) if byte == 10]
    for end in {
        *range(0, len(whole), 97),
        *lines,
        *(at + 1 for at in lines[:-1]),
        len(whole) - 1,
    }:
        ledger.write_bytes(whole[:end])
        assert_refused()
    ledger.write_bytes(whole)
    assert count_spent("tickets") == 2


def test_a_ledger_that_was_changed_anywhere_is_refused(ledger):
    whole = ledger.read_bytes()
    for at in range(0, len(whole), 31):
        ledger.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert_refused()
    *lines, end = whole.splitlines(keepends=True)
    for content in (
        [*lines[:-1], end],
        [lines[0], end],
        [*lines, lines[-1], end],
        [*lines, end, end],
        [end],
    ):
        ledger.write_bytes(b"".join(content))
        assert_refused()


def test_another_key_and_another_name_are_refused(ledger, private):
    key = (private / "key").read_text()
    (private / "key").write_text("ab" * 32)
    assert_refused()
    (private / "key").unlink()  # a new one would know none of the records
    assert_refused()
    (private / "key").write_text(key)
    ledger.rename(private / "budget-other.jsonl")
    assert_refused()


def assert_refused() -> None:
    with pytest.raises(ResultError, match="cannot be used"):
        budget.charge(records(500, 501), ONE, ChargeTo("unrelated"))


# --- disks and races -------------------------------------------------------------------------------------------------


def test_a_full_disk_is_one_sentence_and_charges_nothing(private, monkeypatch):
    pay(ChargeTo("tickets"), last=3)

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(files.os, "fsync", fail)
        with pytest.raises(ResultError, match="No space left"):
            pay(ChargeTo("tickets"), last=3)
    assert count_spent("tickets") == 1


def test_no_more_are_admitted_at_once_than_the_limit_allows(private):
    limit = 3.0
    admitted: list[tuple[str, ...]] = []

    def release() -> None:
        with suppress(BudgetExceeded):
            admitted.append(pay(ChargeTo("tickets", total_epsilon=limit), last=3))

    threads = [threading.Thread(target=release) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(admitted) == count_spent("tickets") == 3


@pytest.mark.parametrize("place", ["", "a\0b", "pipe"])
def test_nothing_but_a_plain_file_is_written_or_replaced(tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OSError, match=r"invalid file name|not a regular file"):
        files.put_whole(Path(place), "{}")
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    assert Path("pipe").is_fifo()


def test_a_ledger_with_a_key_in_other_characters_is_refused(private):
    pay(ChargeTo("tickets"), last=3)
    (path,) = own_folder().glob("budget-*.jsonl")
    head, *rest = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_bytes(write_ledger([{**head, "key": "\x80"}, *rest]))
    with pytest.raises(ResultError, match="another key"):
        read_all()


def test_noise_that_no_float_can_account_for_is_unsupported():
    with pytest.raises(UnsupportedEvent):
        total(
            [
                gaussian(4.0),
                dp.SelfComposedDpEvent(gaussian(1e-300), 10**9),
            ],
            DELTA,
        )
