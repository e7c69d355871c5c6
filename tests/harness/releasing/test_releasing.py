"""A release of answers: paid for before it starts, once a query, and nothing more than was declared."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from dp_accounting import dp_event as dp

from dpicl import models
from dpicl.accounting.accountants import epsilon
from dpicl.accounting.ledger import Ledger
from dpicl.attacks.audit_runs import CoupledSampling
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import BudgetExceeded, UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.seeds import Streams
from dpicl.core.vocabulary import Sizes
from dpicl.data.task import Task
from dpicl.mechanism.bases import Query
from dpicl.mechanisms.tang import Tang
from dpicl.privacy.sampling_schemes import SCHEMES, SamplingScheme
from dpicl.releasing.execution import Execution
from dpicl.releasing.reader import SlotReader
from dpicl.releasing.release import release
from tests.harness.parrot import Parrot
from tests.samples import contents, private_set

CONFIG = ReleaseConfig(epsilon=2.0, delta=1e-5)
PARROT = Parrot(slots=4, examples_per_slot=2)


def configure(**more):
    return ReleaseConfig(**{"epsilon": 1.0, "delta": 1e-5, **more})


@pytest.fixture(autouse=True)
def _nobody_asked(own_cache):
    Parrot.query_ids.clear()


def release_once(mechanism, task, config=CONFIG, queries=None, cache=None):
    outputs = OutputCache(None) if cache is None else cache
    return release(mechanism, task, models.load("sim"), config, queries, outputs=lambda: outputs)


def test_what_a_mechanism_is_given_leads_to_no_record(agnews, monkeypatch):
    def look(mechanism, private, context):
        held = [
            vars(context),
            *(
                cell.cell_contents
                for one in (context.embed, context.progress)
                for cell in one.__closure__
            ),
        ]
        assert not any(
            isinstance(one, Execution)
            for one in (
                *held,
                *vars(context).values(),
            )
        )
        assert not any(hasattr(one, "__self__") for one in (context.embed, context.progress))
        raise UsageError("looked")

    monkeypatch.setattr(Tang, "release", look)
    with pytest.raises(UsageError, match="looked"):
        release_once(Tang(slots=4), agnews)


@pytest.mark.parametrize("partition", SCHEMES)
def test_the_ledger_holds_what_was_declared(agnews, partition):
    mechanism = Parrot(slots=8, examples_per_slot=2, partition=partition)
    outcome = release_once(mechanism, agnews)
    assert outcome.ledger.event() == outcome.calibration.event
    assert 0.98 * CONFIG.epsilon <= outcome.bounds.upper <= CONFIG.epsilon
    assert epsilon(outcome.ledger.event(), CONFIG.delta).upper == outcome.bounds.upper
    assert set(outcome.answers) == {query.id for query in agnews.queries()}
    assert set(outcome.answers.values()) <= set(agnews.labels)


def test_each_sampling_scheme_has_its_event():
    inner = dp.GaussianDpEvent(3.0)
    sampled = dp.PoissonSampledDpEvent
    assert SamplingScheme(10, 2, "per_query").event(inner, 1000, 50) == dp.SelfComposedDpEvent(
        sampled(0.02, inner), 50
    )
    one = SamplingScheme(10, 2, "one_sample").event(inner, 1000, 50)
    assert one == sampled(0.02, dp.SelfComposedDpEvent(inner, 50))
    assert SamplingScheme(10, 2, "once").event(inner, 1000, 50) == dp.SelfComposedDpEvent(inner, 50)
    with pytest.raises(UsageError, match="Unknown partition 'twice'"):
        SamplingScheme(10, 2, "twice")
    with pytest.raises(UsageError, match="expected sample of 20"):
        SamplingScheme(10, 2, "per_query").event(inner, 19, 1)


def test_once_deals_every_record_and_the_others_a_sample(agnews):
    def assign(way):
        """The records of three samples, and the samples."""
        private, *_ = private_set(agnews.train, {None: len(agnews.train)})
        sample_for = SamplingScheme(8, 2, way).sampler(private, dp.GaussianDpEvent(1.0), 3)
        records, samples = [], []
        for _ in range(3):
            samples.append(sample_for("a query"))
            slots = contents(samples[-1].slots)
            records.append([record for slot in slots for record in slot])
        return records, samples

    (all_records, *others), samples = assign("once")
    assert sorted(r.text for r in all_records) == sorted(r.text for r in agnews.train)
    assert samples[0] is samples[1] is samples[2] and others[0] == all_records
    (sample, *_), samples = assign("one_sample")
    assert samples[0] is samples[2] and 0 < len(sample) < len(agnews.train)
    fresh, samples = assign("per_query")
    assert len({tuple(r.text for r in records) for records in fresh}) == 3


@pytest.mark.parametrize("way", SCHEMES)
def test_one_more_record_changes_one_slot_by_it_alone(agnews, way):
    for seed in range(12):
        pair = []
        for records in (agnews.train[:-1], agnews.train):
            private, *_ = private_set(records, {None: len(agnews.train)}, seed)
            sample_for = SamplingScheme(6, 3, way).sampler(private, dp.GaussianDpEvent(1.0), 4)
            pair.append([contents(sample_for("a query").slots) for _ in range(4)])
        for without, with_it in zip(*pair, strict=True):
            changed = [(a, b) for a, b in zip(without, with_it, strict=True) if a != b]
            assert len(changed) <= 1
            for a, b in changed:
                assert [r for r in b if r != agnews.train[-1]] == list(a)
                assert len(b) == len(a) + 1


def execution(mechanism, task, queries, budget, ledger, knob=1.0, records=None, **settings):
    return Execution(
        mechanism,
        task.public_view(),
        models.load("sim"),
        knob,
        records=task.train if records is None else records,
        sizes=Sizes.from_queries(len(task.train if records is None else records), budget),
        sampling=CoupledSampling(0),
        noise=Streams(0).source("noise"),
        public=Streams(0).public,
        ledger=ledger,
        queries=queries,
        **settings,
    )


def run_parrot(task, queries, budget, allowance=None, limit=float("inf"), mechanism=None):
    mechanism = mechanism or PARROT
    ledger = Ledger(allowance, limit)
    return execution(mechanism, task, queries, budget, ledger).run().answers, ledger


def test_all_queries_are_charged_before_the_first_answer(agnews):
    with pytest.raises(BudgetExceeded):
        run_parrot(agnews, agnews.queries(), 1000, limit=0.5)
    assert Parrot.query_ids == []


def test_the_whole_budget_is_charged_whatever_is_asked(agnews):
    _, small = run_parrot(agnews, agnews.queries()[:1], 50)
    _, full = run_parrot(agnews, agnews.queries(), 50)
    assert small.event() == full.event()
    (row,) = small.to_json()
    assert row["count"] == 50


def test_too_many_queries_or_one_id_twice_are_refused_first(
    agnews,
):
    queries = agnews.queries()
    config = configure(queries=5)
    for refused, words in (
        (queries, "6 queries but the budget is for 5"),
        (queries[:1] * 2, "same id"),
    ):
        with pytest.raises(UsageError, match=words):
            release(PARROT, agnews, models.load("sim"), config, refused)
    assert Parrot.query_ids == []


def test_a_final_prompt_is_answered_by_the_model():
    task = Task.load("mit_g", "synthetic", limit_train=50, limit_test=3)
    mechanism = Parrot(slots=4, asks_model=True)

    @dataclass(frozen=True)
    class Labelled:
        text: str
        label: str = task.labels[0]

    queries = [Query(str(i), record.text) for i, record in enumerate(task.test)]
    records = [Labelled(f"text {i}") for i in range(40)]
    reader = SlotReader(task, models.load("sim"), OutputCache(None), mechanism.scheme, queries)
    ledger = Ledger(None, float("inf"))
    run = execution(mechanism, task, queries, 3, ledger, 0.0, records, reader=reader)
    answers = run.run().answers
    for query in queries:
        prompt = f"{task.labels[0]} {query.text}"
        assert answers[query.id] == reader.write([prompt])[0]


def test_a_release_that_was_not_declared_is_refused(agnews):
    class Greedy(Parrot):
        def answer(self, query, sample, context):
            super().answer(query, sample, context)
            return super().answer(query, sample, context)

    with pytest.raises(BudgetExceeded, match="was not charged"):
        run_parrot(
            agnews,
            agnews.queries(),
            10,
            mechanism=Greedy(slots=4, examples_per_slot=2),
        )


def test_the_same_coins_assign_the_same_records(agnews, monkeypatch):
    slots, answer = [], Parrot.answer

    def noting(self, query, sample, context):
        slots.append(contents(sample.slots))
        return answer(self, query, sample, context)

    monkeypatch.setattr(Parrot, "answer", noting)
    mechanism = Parrot(slots=4, examples_per_slot=2, sampling_seed=5)
    for seed, target in (
        (0, 1.0),
        (1, 1.0),
        (1, 8.0),
    ):
        release_once(mechanism, agnews, configure(epsilon=target, seed=seed))
    assert slots[:6] == slots[6:12] == slots[12:]
    release_once(PARROT, agnews, configure(seed=1))
    assert slots[18:] != slots[:6]


def declare(task):
    return replace(task, declared=dict.fromkeys(task.labels, 60))


def test_public_coins_and_secret_noise_do_not_go_together(agnews):
    with pytest.raises(UsageError, match="sampling_seed makes the sampling randomness public"):
        release_once(
            Parrot(slots=4, sampling_seed=5),
            declare(agnews),
            configure(noise="secure"),
        )


def test_secure_noise_is_refused_at_a_large_delta(
    agnews,
):
    task, config = declare(agnews), configure(delta=0.1, noise="secure")
    with pytest.raises(UsageError, match="above 1/240"):
        release_once(Parrot(slots=4), task, config)
    noted = release_once(
        Parrot(slots=4),
        task,
        config.model_copy(update={"noise": "seeded"}),
    )
    assert any("above 1/240" in note for note in noted.bounds.notes)


def test_secure_noise_leaves_nothing_in_the_cache(agnews):
    mechanism = Parrot(slots=4)
    config = configure(noise="secure")
    model, opened = models.load("sim"), lambda: pytest.fail("the cache was opened")
    outcome = release(
        mechanism, declare(agnews), model, config, outputs=opened, charge=lambda new: ()
    )
    assert outcome.bounds.upper <= 1.0


def test_a_text_is_released_with_the_noise_of_its_label():
    task = Task.load("trec", "synthetic", limit_test=6)
    task = replace(task, declared={**task.group_sizes, "Abbreviation": 84})
    outcome = release_once(Tang(slots=4, tokens=3), task, configure(shots=6))
    knobs = outcome.calibration.by_label
    assert (
        set(knobs)
        == {demonstration.label for demonstration in outcome.demonstrations}
        == set(task.labels)
    )
    charged = {row["partition"]: json.dumps(row["event"]) for row in outcome.ledger.to_json()}
    assert all(f": {knobs[label]}" in event for label, event in charged.items())
    assert len(set(knobs.values())) > 1
    assert outcome.bounds.upper <= 1.0


def test_labels_that_are_dropped_get_no_text_and_no_noise():
    task = Task.load("trec", "synthetic", limit_test=6)
    config = configure(shots=10)
    outcome = release_once(
        Tang(slots=4, tokens=3, dropped=("Abbreviation",)),
        task,
        config,
    )
    assert Counter(
        demonstration.label for demonstration in outcome.demonstrations
    ) == dict.fromkeys(set(task.labels) - {"Abbreviation"}, 2)
    assert {row["partition"] for row in outcome.ledger.to_json()} == set(task.labels) - {
        "Abbreviation"
    }
    with pytest.raises(UsageError, match="Abbreviations"):
        release_once(Tang(slots=4, tokens=3, dropped=("Abbreviations",)), task, config)
    with pytest.raises(UsageError, match="leaves no label"):
        release_once(Tang(slots=4, tokens=3, dropped=task.labels), task, config)


def test_a_mechanism_sees_no_record_but_in_its_samples(agnews):
    """Its own methods that plan a run get the public view, or sizes alone; what it returns leads to no record."""
    views = []

    class Curious(Tang):
        name = "curious"

        def count_released(self, shots, task):
            views.append(task)
            return shots

        def public_sizes(self, task, shots, queries):
            views.append(task)
            return super().public_sizes(task, shots, queries)

    config = configure(shots=2)
    release_once(Curious(slots=4, tokens=2), agnews, config)
    view, sizes = views
    assert not hasattr(view, "train") and not any(record.label for record in view.test)
    assert sizes.train == sizes.test == ()
    assert dict(sizes.group_sizes) == dict(agnews.group_sizes)
