"""Private prediction: what it asks, when it pays, which tokens are public, and what it costs."""

import math

import numpy as np
import pytest
from dp_accounting import dp_event as dp

from dpicl.accounting.events import AboveThresholdDpEvent, BoundedRangeDpEvent, flatten
from dpicl.conformance.bench import set_up
from dpicl.conformance.checking import QUICK, CheckEvidence
from dpicl.conformance.kit import CHECKS
from dpicl.mechanism.bases import Sizes
from dpicl.mechanisms.private_prediction import PrivatePrediction, distances
from dpicl.privacy.above_threshold import AboveThreshold
from dpicl.privacy.release_hooks import observing
from tests.mechanisms.adversarial import AdversarialModel, TinyTask, read_prompt, run

RECORDS = [f"record number {i}" for i in range(12)]


class Answering:
    """Keeps every noisy release, and gives these answers to the questions of rounds; choices are drawn."""

    def __init__(self, answers):
        self.answers, self.seen = list(answers), []

    def intercept(self, noisy_release, draw):
        self.seen.append(noisy_release)
        if noisy_release.kind == "threshold":
            return np.array([self.answers.pop(0)])
        return draw()

    @property
    def kinds(self):
        return "".join(release.kind[0] for release in self.seen)


def answer(mechanism, answers, texts=RECORDS, **settings):
    observer = Answering(answers)
    with observing(observer):
        demonstrations, ledger, _ = run(
            mechanism, texts, model=AdversarialModel(poison=False), **settings
        )
    return observer, demonstrations, ledger


class NoEnd(TinyTask):
    stop_strings = ()


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        ([1, 1, 1, 1], "tctc"),
        ([0, 1, 0, 1], "ttcttc"),
        ([0] * 5, "ttttt"),
        ([0, 0, 0, 1, 0], "ttttct"),
    ],
)
def test_a_private_token_follows_each_yes_r_times_at_most(answers, kinds):
    mechanism = PrivatePrediction(prompts=6, tokens=5, private_tokens=2)
    observer, _, ledger = answer(mechanism, answers, task=NoEnd())
    assert observer.kinds == kinds
    again = answer(mechanism, [0] * 5, task=NoEnd())
    assert again[2].event() == ledger.event()  # the whole of it, used or not


def test_the_query_is_the_mean_distance_from_the_public_prompt():
    model = AdversarialModel(poison=False)
    mechanism = PrivatePrediction(
        prompts=1, tokens=1, private_tokens=1, threshold=0.3, style="completion"
    )
    observer, _, _ = answer(mechanism, [1], ["only record"], knob=2.0)
    private = np.exp(read_prompt(model, "only record"))
    public = np.exp(read_prompt(model))
    question, chosen = observer.seen
    assert question.clean[0] == pytest.approx(
        np.abs(private - public).sum() / 2 - 0.3,
        abs=1e-5,
    )
    assert question.bound == 1
    assert chosen.scale == 2.0 and chosen.bound == 2 * mechanism.clip
    np.testing.assert_allclose(
        chosen.clean,
        np.maximum(
            -10,
            np.log(private / private.max()) + 10,
        ),
        atol=1e-4,
    )


def test_hostile_rows_count_as_the_public_one():
    public = np.log(np.array([0.5, 0.3, 0.2]))
    rows = np.array(
        [
            public,
            [0.0, -np.inf, -np.inf],
            [np.nan] * 3,
            [np.inf, 0, 0],
        ]
    )
    measured = distances(rows, public)
    assert measured[0] == pytest.approx(0, abs=1e-12)
    assert measured[1] == pytest.approx(0.5)
    assert not np.isfinite(measured[2:]).any()
    assert distances(np.zeros((0, 3)), public).shape == (0,)


def test_the_budget_is_split_by_the_public_share():
    for share in (0.2, 0.5, 0.9):
        mechanism = PrivatePrediction(prompts=20, tokens=9, private_tokens=4, threshold_share=share)
        (sampled,) = flatten(
            mechanism.events(
                0.5,
                Sizes({"a": 100}, {"a": 1}),
            ).branches[0][1]
        )
        parts = {
            type(event): (event.epsilon, count) for event, count in flatten(sampled.event).items()
        }
        choice_size, count = parts[BoundedRangeDpEvent]
        size, rounds = parts[AboveThresholdDpEvent]
        assert count == rounds == 4 and choice_size == pytest.approx(2 * 10 / (20 * 0.5))
        assert 2 * size**2 / (2 * size**2 + choice_size**2 / 4) == pytest.approx(share)
        assert set(flatten(mechanism.text_event(0.0))) == {dp.NonPrivateDpEvent()}
    assert PrivatePrediction(tokens=3, private_tokens=7).rounds == 3


def test_the_papers_epsilon_is_zcdp_of_rounds_and_tokens():
    mechanism = PrivatePrediction(prompts=250, tokens=100, private_tokens=50)
    sigma = mechanism._noisy_threshold(2.0).scale
    rho = 50 * ((10 / (250 * 2.0)) ** 2 / 2 + 2 / (250 * sigma) ** 2)
    claimed = mechanism.paper_epsilon(2.0, None, 1e-5)
    assert (
        rho + math.sqrt(2 * rho * math.log(1e5))
        < claimed
        < rho + 2 * math.sqrt(rho * math.log(1e5))
    )


class MeanOfThoseThatCame(AboveThreshold):
    """Divides by the number of rows: one more record may lower the query."""

    def start(self, sample):
        above = sample.spend(self.event).threshold_round(self.threshold, self.bound)
        return lambda values: above(float(np.nan_to_num(values).mean()) if len(values) else 0.0)


class NotMonotone(PrivatePrediction):
    name = "not_monotone"

    def _noisy_threshold(self, temperature):
        sound = super()._noisy_threshold(temperature)
        return MeanOfThoseThatCame(sound.threshold, sound.divisor, sound.epsilon)


def test_the_kit_catches_a_query_that_a_record_may_lower():
    evidence = CheckEvidence(set_up(NotMonotone, "agnews", {}, seed=0), QUICK)
    verdict = CHECKS["sensitivity"](evidence)
    assert verdict.status == "failed" and "only rise" in verdict.why
