"""InvisibleInk: how far one record moves the scores, what may be drawn, and what it draws without noise."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax

from dpicl.accounting.events import BoundedRangeDpEvent
from dpicl.mechanisms.invisible_ink import InvisibleInk, candidates
from dpicl.privacy.primitives import DifferenceChoice
from tests.examples import examples
from tests.harness.accounting.makers import WILD, Recorder, pay
from tests.mechanisms.adversarial import AdversarialModel, read_prompt, run, write_token
from tests.samples import noisy_releases


def scores(choice, rows, public):
    """The scores that the primitive draws from."""
    with noisy_releases() as releases:
        choice.choose(rows, public, pay(choice, Recorder(), own_slots=len(rows)))
    (release,) = releases
    assert release.bound == choice.width
    assert release.scale == choice.temperature
    return release.clean


def test_the_worst_neighbours_lose_a_range_of_exactly_epsilon():
    """By enumeration of the tokens: an extreme record and a tiny one, with others in the sample."""
    choice = DifferenceChoice(clip=2.0, divisor=3, temperature=0.9)
    assert choice.event == BoundedRangeDpEvent(2 * 2.0 / (3 * 0.9))
    public = np.log([0.05, 0.6, 0.35])
    others = np.log([[0.1, 0.1, 0.8]])
    before = log_softmax(scores(choice, others, public) / 0.9)
    extreme = log_softmax(
        scores(
            choice,
            np.append(others, [[0, -50, -50]], axis=0),
            public,
        )
        / 0.9
    )
    assert np.ptp(extreme - before) == pytest.approx(choice.range_epsilon)
    mild = log_softmax(
        scores(
            choice,
            np.append(others, [public + 0.1 * np.arange(3)], axis=0),
            public,
        )
        / 0.9
    )
    assert np.ptp(mild - before) == pytest.approx(0.2 / 3 / 0.9)


def test_no_record_gives_the_public_distribution():
    choice = DifferenceChoice(2.0, 3, 0.9)
    public = np.log([0.5, 0.3, 0.2])
    np.testing.assert_array_equal(
        scores(
            choice,
            np.zeros((0, 3)),
            public,
        ),
        public,
    )
    np.testing.assert_array_equal(
        scores(
            choice,
            np.full((2, 3), np.nan),
            public,
        ),
        public,
    )


def test_candidates_are_the_top_k_and_what_a_record_could_lift():
    public = np.array(
        [
            -4.0,
            -1.0,
            -np.inf,
            -2.0,
            -2.5,
            -9.0,
        ]
    )
    assert candidates(public, 2, 0.0).tolist() == [1, 3]
    assert candidates(public, 2, 0.5).tolist() == [1, 3, 4]
    assert candidates(public, 2, 2.0).tolist() == [0, 1, 3, 4]
    assert candidates(public, 50, 0.1).tolist() == [0, 1, 3, 4, 5]
    assert candidates(public, 1, 1e9).tolist() == [0, 1, 3, 4, 5]


@given(
    st.lists(st.floats(-9, 0), min_size=5, max_size=5),
    st.lists(WILD, min_size=5, max_size=5),
    st.integers(1, 5),
)
@settings(max_examples=examples(150), deadline=None)
def test_a_token_that_a_record_lifts_may_be_drawn(public, record, top_k):
    public, choice = np.array(public), DifferenceChoice(3.0, 4, 1.0)
    lifted = np.argsort(
        -scores(choice, np.array([record]), public),
        kind="stable",
    )[:top_k]
    kth = np.sort(
        scores(
            choice,
            np.array([record]),
            public,
        )
    )[-top_k]
    sure = [
        v
        for v in lifted
        if scores(
            choice,
            np.array([record]),
            public,
        )[v]
        > kth + 1e-9
    ]
    assert set(sure) <= set(candidates(public, top_k, choice.width).tolist())


@pytest.mark.parametrize("knob", [0.0, 1e-3])
def test_unclipped_scores_are_means_of_log_probabilities(knob):
    mechanism = InvisibleInk(prompts=1, tokens=1, style="completion")
    model = AdversarialModel(False)
    with noisy_releases() as releases:
        demonstrations, _, _ = run(mechanism, ["only record"], knob=knob, model=model)
    private = read_prompt(model, "only record")
    np.testing.assert_allclose(releases[0].clean, private, rtol=1e-5)
    if knob == 0:
        assert demonstrations[0].text == write_token(model, int(np.argmax(private)))


def test_the_papers_epsilon_is_zcdp_without_sampling():
    mechanism = InvisibleInk(prompts=7, tokens=200, temperature=1.2)
    rho = 200 * 0.5**2 / (2 * 7**2 * 1.2**2)
    claimed = mechanism.paper_epsilon(1 / 0.5, None, 1e-5)
    assert (
        rho + math.sqrt(2 * rho * math.log(1e5))
        < claimed
        < rho + 2 * math.sqrt(rho * math.log(1e5))
    )
