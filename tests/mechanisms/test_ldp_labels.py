"""Randomised labels: the formula by enumeration, what depends on no label, what is refused, and a notion of its own."""

import dataclasses
import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp

from dpicl import models
from dpicl.attacks import audit
from dpicl.attacks.membership import shows_records
from dpicl.attacks.observers import Recording
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import BudgetExceeded, DataError, PluginError, UnsupportedEvent, UsageError
from dpicl.core.seeds import Streams
from dpicl.core.vocabulary import LABEL_LOCAL, RECORD_CENTRAL, Record, Sizes
from dpicl.data.task import Task
from dpicl.mechanisms.ldp_labels import LabelResponses
from dpicl.privacy.accountants import epsilon
from dpicl.privacy.events import LabelResponseDpEvent, from_json, label_response, notion_of, parallel, to_json
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.private_set import PrivateSet
from dpicl.privacy.release_hooks import NoisyRelease, observing
from dpicl.privacy.slack import LARGEST, slack
from dpicl.releasing.release import release
from tests.harness.helpers import write

LABELS = ("red", "green", "blue")


def private_set(records, ledger=None, seed=0):
    streams = Streams(seed)
    ledger = ledger or Ledger(None, math.inf)
    sizes = {None: max(len(records), 1)}
    sampling, noise = streams.source("sampling"), streams.source("noise")
    return PrivateSet(records, ledger, sizes=sizes, sampling=sampling, noise=noise)


def softmax_of(choice: NoisyRelease) -> np.ndarray:
    weights = np.exp(choice.clean / choice.scale)
    return weights / weights.sum()


@pytest.mark.parametrize("size", [0.3, 1.0, 4.0])
def test_the_chances_of_every_label_are_those_of_the_formula_and_epsilon_is_exact(size):
    """By enumeration of what the draw is from: a softmax of the clean scores."""
    rows = {}
    for own in (*LABELS, "none of them"):
        seen = Recording()
        with observing(seen):
            private_set([Record("a text", own)]).label_responses(1, LABELS, response=label_response(size), salt="s")
        (rows[own],) = [softmax_of(each.release) for each in seen.observed_releases]
    kept, other = math.exp(size) / (math.exp(size) + 2), 1 / (math.exp(size) + 2)
    for at, own in enumerate(LABELS):
        assert rows[own] == pytest.approx([kept if here == at else other for here in range(3)])
    assert rows["none of them"] == pytest.approx([1 / 3] * 3)
    worst = max(float(np.log(rows[a] / rows[b]).max()) for a in LABELS for b in LABELS)
    event = LabelResponses().events(1 / size, Sizes({}, {}))
    assert worst == pytest.approx(size) == epsilon(event, 1e-5).upper == epsilon(event, 1e-10).upper
    assert 1 <= slack(event, 1e-5, size) < LARGEST


def test_which_texts_are_shown_and_in_which_order_follows_from_no_label():
    """Nor from the place in the set, which may be in the order of the classes."""
    records = [Record(f"text {i}", LABELS[i % 3]) for i in range(30)]
    others = [Record(record.text, "red") for record in reversed(records)]
    shown = [
        [text for text, _ in private_set(own).label_responses(6, LABELS, response=label_response(1.0), salt="s")]
        for own in (records, others)
    ]
    assert shown[0] == shown[1] and len(set(shown[0])) == 6
    again = private_set(records).label_responses(6, LABELS, response=label_response(1.0), salt="other")
    assert [text for text, _ in again] != shown[0]


def test_a_label_answers_once_for_what_was_charged_and_too_few_records_are_refused():
    event = label_response(1.0)
    ledger = Ledger(event, 1.0)
    private = private_set([Record("a", "red"), Record("b", "blue")], ledger)
    private.label_responses(2, LABELS, response=event, salt="s")
    assert ledger.event() == event
    with pytest.raises(BudgetExceeded):
        private.label_responses(2, LABELS, response=event, salt="s")
    with pytest.raises(BudgetExceeded):
        private_set([Record("a", "red")], Ledger(event, 1.0)).label_responses(
            1, LABELS, response=label_response(2.0), salt="s"
        )
    with pytest.raises(DataError):
        private_set([]).label_responses(1, LABELS, response=event, salt="s")


@pytest.mark.parametrize(
    "event",
    [
        dp.ComposedDpEvent([label_response(1.0), dp.GaussianDpEvent(1.0)]),
        dp.PoissonSampledDpEvent(0.1, label_response(1.0)),
        parallel({"a": label_response(1.0), "b": label_response(1.0)}),
    ],
)
def test_no_epsilon_covers_two_notions_or_a_sample_of_labels(event):
    with pytest.raises(UnsupportedEvent):
        epsilon(event, 1e-5)


def test_the_event_is_of_its_own_notion_and_reads_back():
    assert notion_of(label_response(1.0)) is LABEL_LOCAL and notion_of(dp.GaussianDpEvent(1.0)) is RECORD_CENTRAL
    assert from_json(to_json(label_response(2.0))) == LabelResponseDpEvent(2.0)
    assert label_response(math.inf) == dp.NonPrivateDpEvent()
    twice = dp.SelfComposedDpEvent(label_response(1.5), 2)
    assert epsilon(twice, 1e-5).upper == 3.0


@pytest.fixture(scope="module")
def agnews():
    return Task.load("agnews", "synthetic", limit_train=20, limit_test=4)


def made(task, mechanism=None, **config):
    settings = {"epsilon": 1.0, "delta": 1e-5, "shots": 6, **config}
    return release(mechanism or LabelResponses(), task, models.load("sim"), ReleaseConfig(**settings))


def test_a_release_shows_texts_of_the_set_and_states_its_formula(agnews):
    found = made(agnews)
    texts = {record.text for record in agnews.train}
    assert len(found.demonstrations) == 6 and all(each.text in texts for each in found.demonstrations)
    assert {each.label for each in found.demonstrations} <= set(agnews.labels)
    assert found.bounds.upper == pytest.approx(1.0, rel=1e-3) == found.stated.claimed
    assert [d.label for d in made(agnews).demonstrations] == [d.label for d in found.demonstrations]
    own = {record.text: record.label for record in agnews.train}
    true = made(agnews, epsilon=math.inf)
    assert all(each.label == own[each.text] for each in true.demonstrations)
    cut = made(agnews, LabelResponses(record_tokens=3))
    assert all(each.tokens <= 3 for each in cut.demonstrations)


def test_secure_noise_and_restricted_records_are_refused_and_texts_are_no_labels(agnews):
    declared = dataclasses.replace(agnews, declared=dict.fromkeys(agnews.labels, 20))
    with pytest.raises(UsageError):
        made(declared, noise="secure")
    metadata = {**agnews.config["metadata"], "restricted": True}
    with pytest.raises(UsageError):
        made(dataclasses.replace(agnews, source="local", config={**agnews.config, "metadata": metadata}))
    assert LabelResponses().skip(Task.without_records("samsum"))


def test_texts_that_a_limit_chose_by_their_labels_are_not_shown(tmp_path, monkeypatch):
    """With a limit of 2 a class, of two files that differ in one label the other records follow, or leave."""
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    labels, loaded = Task.without_records("agnews").labels, []
    for moved in labels[:2]:
        rows = [{"text": f"text {n}", "label": moved if n == 0 else labels[n % 4]} for n in range(24)]
        write(tmp_path, "agnews", "train", rows)
        write(tmp_path, "agnews", "test", [{"text": "a question", "label": labels[0]}])
        for limit in (2, None):
            loaded.append(Task.load("agnews", "local", limit_train=limit))
    texts = [{record.text for record in task.train} for task in loaded]
    assert texts[0] != texts[2] and texts[1] == texts[3]
    for limited, whole in zip(loaded[::2], loaded[1::2], strict=True):
        with pytest.raises(UsageError, match="train_records"):
            made(limited)
        assert len(made(whole).demonstrations) == 6
    shown = [[each.text for each in made(whole).demonstrations] for whole in loaded[1::2]]
    assert shown[0] == shown[1]


def test_a_mechanism_that_states_another_notion_than_its_events_is_refused(agnews):
    @dataclasses.dataclass(frozen=True)
    class Pretending(LabelResponses):
        notion = RECORD_CENTRAL

    with pytest.raises(PluginError):
        made(agnews, Pretending())


def test_audits_have_nothing_to_test_and_membership_is_shown(agnews):
    with pytest.raises(UsageError):
        audit.check(LabelResponses(), agnews)
    assert shows_records(LabelResponses())
