"""Records that join queries: the theorem's premise by brute force (with top-k retrieval in its place it fails), and
what the private set charges and hands out for it."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.accounting.ledger import Ledger
from dpicl.core.errors import BudgetExceeded, PluginError, UsageError
from dpicl.core.seeds import SecureNoise
from dpicl.privacy.joining import Joining
from dpicl.privacy.private_set import PrivateSet
from dpicl.privacy.sampling_schemes import JoiningScheme
from dpicl.privacy.secure_release import MOST_ROWS
from tests.examples import examples
from tests.harness.accounting.makers import private_set

SLOTS, USES, THRESHOLD = 3, 2, 0.5


class Nearest(Joining):
    """Two of those that join are shown."""

    def __init__(self, contents, rows, slots, threshold, uses):
        super().__init__(contents, rows, slots, threshold, uses, nearest=2)


class TopK(Joining):
    """DP-kNN-ICL: the k likest of the records that have uses left are shown, and these alone spend a use."""

    def join(self, query):
        alike = np.where(
            self._left > 0,
            (self._rows * query).sum(axis=1),
            -np.inf,
        )
        joined = [
            at for at in np.argsort(-alike, kind="stable")[:2].tolist() if alike[at] > -np.inf
        ]
        self._left[joined] -= 1
        slots: list[list[int]] = [[] for _ in range(self._slots)]
        for at in joined:
            slots[self._places[at]].append(at)
        return slots


def streams_of(cls, names, vectors, queries):
    """What the slots of every query hold, by name."""
    joining = cls(
        [(name,) for name in names], np.array(vectors).reshape(-1, 2), SLOTS, THRESHOLD, USES
    )
    return [[[names[at] for at in slot] for slot in joining.join(query)] for query in queries]


def has_larger_change(cls, vectors, queries, at, slots=1):
    """Whether the record at that place moves more than that many slots, or anything in more than r queries; where one
    slot is stated, whether it moves another record."""
    names = [f"record {i}" for i in range(len(vectors))]
    with_it = streams_of(cls, names, vectors, queries)
    without = streams_of(
        cls, names[:at] + names[at + 1 :], vectors[:at] + vectors[at + 1 :], queries
    )
    changed = [
        [slot for slot, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        for before, after in zip(without, with_it, strict=True)
    ]
    others = [[[name for name in slot if name != names[at]] for slot in query] for query in with_it]
    moved = slots == 1 and others != without
    return sum(map(bool, changed)) > USES or max(map(len, changed), default=0) > slots or moved


ANGLES = st.lists(
    st.sampled_from([0.0, 0.5, 1.0, 1.2, 2.0, 3.0, 4.0]),
    min_size=1,
    max_size=5,
)


def points(angles):
    return [[math.cos(angle), math.sin(angle)] for angle in angles]


@given(records=ANGLES, queries=ANGLES, at=st.integers(0, 4))
@settings(max_examples=examples(300))
def test_a_record_changes_one_slot_of_at_most_r_queries(records, queries, at):
    """For any queries, so also for those that are chosen after earlier answers."""
    assert not has_larger_change(
        Joining, points(records), np.array(points(queries)), at % len(records)
    )
    assert not has_larger_change(
        Nearest, points(records), np.array(points(queries)), at % len(records), slots=2
    )


def test_all_tiny_streams_keep_it_and_top_k_retrieval_does_not():
    broken = displaced = 0
    for records in itertools.product((0.0, 0.6, 1.5), repeat=4):
        for queries in itertools.product((0.0, 1.0), repeat=3):
            stream = np.array(points(queries))
            assert not has_larger_change(Joining, points(records), stream, 3)
            assert not has_larger_change(Nearest, points(records), stream, 3, slots=2)
            broken += has_larger_change(TopK, points(records), stream, 3, slots=2)
            displaced += has_larger_change(Nearest, points(records), stream, 3)
    assert broken > 20 and displaced > 20


def test_likeness_is_rounded_alike_whoever_else_is_there():
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 384))
    query = generator.normal(size=384)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    query /= np.linalg.norm(query)
    names = [(str(i),) for i in range(60)]
    for at in range(60):
        exact = float((rows[at] * query).sum())
        for others in (
            [at],
            [at, *range(7)],
            list(range(60)),
        ):
            slots = Joining(
                [names[i] for i in others],
                rows[others],
                SLOTS,
                exact,
                1,
            ).join(query)
            assert others.index(at) in [member for slot in slots for member in slot]


def embed(texts, name):
    """One direction a first letter; nothing for an empty text."""
    return np.array([[float(text[:1] == letter) for letter in "ab"] for text in texts]).reshape(
        len(texts), 2
    )


def make_joined_set(texts, ledger, **more):
    return private_set(
        texts,
        ledger,
        **{
            "sizes": {None: max(len(texts), 1)},
            "embed": embed,
            **more,
        },
    )


def scheme(uses=2, slots=2):
    return JoiningScheme(slots, 4, THRESHOLD, uses, "any")


GAUSS = dp.GaussianDpEvent(3.0)


@pytest.mark.parametrize(
    ("uses", "queries", "charged"),
    [
        (2, 5, 2),
        (7, 5, 5),
        (1, 1000, 1),
    ],
)
def test_a_stream_is_charged_r_times_and_each_query_has_one(uses, queries, charged):
    allowance = dp.SelfComposedDpEvent(GAUSS, charged)
    ledger = Ledger(allowance, 1.0)
    sample_of = scheme(uses).sampler(
        make_joined_set(["a1", "a2", "b1"], ledger),
        GAUSS,
        queries,
    )
    assert (
        ledger.event()
        == (allowance if charged > 1 else GAUSS)
        == scheme(uses).event(GAUSS, 3, queries)
    )
    shown = []
    for number in range(min(queries, 6)):
        sample = sample_of("a query")
        sample.spend(GAUSS).noisy_sum(np.zeros(2), 1.0)
        with pytest.raises(BudgetExceeded):
            sample.spend(GAUSS)
        shown.append(sorted(record.text for slot in sample.slots for record in slot))
        assert len(sample.slots) == 2 and not sample.own_slots
        assert shown[-1] == (["a1", "a2"] if number < uses else [])


def test_nothing_is_read_before_it_is_charged():
    def fail(texts, name):
        pytest.fail("records were embedded")

    for allowance in (
        dp.GaussianDpEvent(3.0),
        dp.SelfComposedDpEvent(dp.GaussianDpEvent(4.0), 2),
    ):
        private = make_joined_set(["a1"], Ledger(allowance, 1.0), embed=fail)
        with pytest.raises(BudgetExceeded):
            scheme(2).sampler(private, GAUSS, 5)


def test_uncharged_queries_and_senseless_settings_are_refused():
    sample_of = scheme().sampler(
        make_joined_set(["a1"], Ledger(None, math.inf)),
        GAUSS,
        1,
    )
    sample_of("a")
    with pytest.raises(BudgetExceeded):
        sample_of("a")
    settings = {"threshold": 0.5, "uses": 1, "embedding": "any", "releases": GAUSS, "times": 1}
    for wrong in ({"uses": 0}, {"uses": 2.5}, {"times": 0}):
        with pytest.raises(UsageError):
            make_joined_set(["a1"], Ledger(None, math.inf)).joining_slots(
                2, **{**settings, **wrong}
            )
    with pytest.raises(PluginError):
        make_joined_set(
            ["a1"],
            Ledger(None, math.inf),
            embed=None,
        ).joining_slots(2, **settings)
    with pytest.raises(UsageError):
        JoiningScheme(2, 4, 1.5, 2, "any")


def test_a_closed_sample_and_a_closed_set_give_no_record():
    private = make_joined_set(["a1", "a2"], Ledger(None, math.inf))
    sample_of = scheme().sampler(private, GAUSS, 3)
    first = sample_of("a")
    second = sample_of("b")
    with pytest.raises(PluginError):
        first.slots  # noqa: B018
    assert [len(slot) for slot in second.slots] == [0, 0]
    private.close()
    assert not any(sample_of("a").slots)


def test_a_set_without_records_answers_too():
    sample_of = scheme().sampler(
        make_joined_set([], Ledger(None, math.inf)),
        GAUSS,
        1,
    )
    assert not any(sample_of("a").slots)


def test_secure_noise_refuses_more_slots_than_its_margins_take():
    noise = SecureNoise()
    private = PrivateSet(
        [], Ledger(None, math.inf), sizes={None: 1}, sampling=noise, noise=noise, embed=embed
    )
    with pytest.raises(UsageError, match="rows"):
        scheme(slots=MOST_ROWS + 1).sampler(private, GAUSS, 1)
