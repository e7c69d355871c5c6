"""Primitives: sensitivity with the noise off, bounded inputs whatever comes, charge before noise, exact noise scale."""

import math
from functools import partial

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from dpicl.attacks.trade_offs import epsilon_of_mu
from dpicl.core.seeds import SecureNoise, SeededNoise, streams
from dpicl.privacy.accountants import epsilon
from dpicl.privacy.events import BoundedRangeDpEvent
from dpicl.privacy.primitives import (
    SIMPLEX_DIAMETER,
    BoundedRangeChoice,
    GaussianSum,
    clip_norm,
    clip_scores,
    project_sub_simplex,
)
from dpicl.privacy.private_set import Sample
from tests.examples import examples
from tests.harness.privacy.makers import WILD, Recorder, paid


def rows(count: int = 4, width: int = 6):
    return hnp.arrays(np.float32, (count, width), elements=WILD)


@given(rows())
def test_projection_stays_in_the_sub_simplex_whatever_comes(values):
    out = project_sub_simplex(values)
    assert np.isfinite(out).all()
    assert (out >= 0).all()
    assert (out.sum(axis=1) <= 1 + 1e-9).all()


@pytest.mark.parametrize(
    "bounded", [project_sub_simplex, partial(clip_norm, radius=0.5), partial(clip_scores, clip=10)]
)
def test_a_row_is_bounded_the_same_to_the_last_bit_however_many_there_are_and_however_they_lie(bounded):
    """Columns that are picked from several rows lie one after the other in memory, those of one row do not."""
    picked = np.random.default_rng(0).random((5, 700))[:, np.arange(0, 600, 2)]
    for at, row in enumerate(bounded(picked)):
        assert row.tobytes() == bounded(picked[[at]])[0].tobytes()


@given(rows(), hnp.arrays(np.float32, (1, 6), elements=WILD), st.integers(0, 3))
def test_one_changed_row_moves_the_sum_by_at_most_sqrt_two(values, adversarial, at):
    changed = values.copy()
    changed[at] = adversarial
    move = project_sub_simplex(values).sum(axis=0) - project_sub_simplex(changed).sum(axis=0)
    assert np.linalg.norm(move) <= SIMPLEX_DIAMETER + 1e-9


@given(rows(), hnp.arrays(np.float32, (1, 6), elements=WILD))
def test_one_added_row_moves_the_sum_by_at_most_one(values, adversarial):
    """Where every record has a slot of its own; also from no row at all."""
    for before in (values, values[:0]):
        after = np.concatenate([before, adversarial])
        move = project_sub_simplex(after).sum(axis=0) - project_sub_simplex(before).sum(axis=0)
        assert np.linalg.norm(move) <= GaussianSum(1.0, own_slots=True).bound + 1e-9


def test_a_row_that_is_added_is_bounded_by_its_length_and_one_that_is_replaced_by_the_diameter():
    corner = np.array([[0.0, 1.0, 0.0]])
    assert np.linalg.norm(project_sub_simplex(corner).sum(axis=0)) == GaussianSum(1.0, own_slots=True).bound == 1
    assert GaussianSum(1.0).bound == SIMPLEX_DIAMETER


@pytest.mark.parametrize("count", [0, 3])
def test_with_own_slots_the_noise_on_the_sum_is_sigma(count):
    source, mechanism = Recorder(), GaussianSum(0.51, own_slots=True)
    mechanism.choose(np.ones((count, 3)) / 3, paid(mechanism, source, own_slots=count))
    assert source.asked == [("gaussian", pytest.approx(0.51), 3)]
    assert mechanism.event == GaussianSum(0.51).event


def test_two_corners_reach_the_stated_sensitivity():
    corners = np.eye(2)
    assert np.linalg.norm(project_sub_simplex(corners)[0] - project_sub_simplex(corners)[1]) == pytest.approx(
        math.sqrt(2)
    )


def test_a_distribution_passes_the_projection_unchanged():
    simplex = np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.1]])
    np.testing.assert_allclose(project_sub_simplex(simplex), simplex)


@given(rows(3, 5), st.floats(0.5, 20))
def test_clipped_scores_stay_in_plus_minus_c(values, clip):
    out = clip_scores(values, clip)
    assert np.isfinite(out).all()
    assert (out >= -clip - 1e-9).all() and (out <= clip + 1e-9).all()


def test_clipping_is_the_published_formula_and_ignores_a_shift():
    z = np.array([[3.0, -1.0, 2.5, -40.0]])
    expected = np.maximum(-10, z - 3.0 + 10)
    np.testing.assert_allclose(clip_scores(z, 10), expected)
    np.testing.assert_allclose(clip_scores(z - 123.0, 10), expected)


@given(rows(3, 5), hnp.arrays(np.float32, (1, 5), elements=WILD), hnp.arrays(np.float32, 5, elements=st.floats(-50, 0)))
@settings(max_examples=examples(200))
def test_one_more_record_moves_scores_by_c_over_2s_and_their_range_by_c_over_s(values, record, public):
    clip, s = 10.0, 4

    def scores(private):
        z = clip_scores(private, clip).sum(axis=0) / s
        return 0.5 * z + 0.5 * clip_scores(public[None], clip)[0]

    move = scores(np.concatenate([values, record])) - scores(values)
    assert np.abs(move).max() <= clip / (2 * s) + 1e-9
    assert move.max() - move.min() <= clip / s + 1e-9


def test_range_epsilon_is_c_over_s_tau_and_the_event_says_it():
    choice = BoundedRangeChoice(clip=10, divisor=380, temperature=1.1295)
    assert choice.range_epsilon == pytest.approx(0.02330, abs=1e-5)
    assert choice.event == BoundedRangeDpEvent(choice.range_epsilon)
    assert isinstance(BoundedRangeChoice(10, 380, 0.0).event, dp.NonPrivateDpEvent)


def test_noise_on_the_sum_is_sigma_times_sqrt_two():
    source = Recorder()
    mechanism = GaussianSum(0.51)
    mechanism.choose(np.ones((10, 3)) / 3, Sample(((),), mechanism.event, source))
    assert source.asked == [("gaussian", pytest.approx(0.51 * math.sqrt(2)), 3)]


def test_without_noise_the_choices_are_the_non_private_ones():
    values = np.array([[0.1, 0.7, 0.2], [0.5, 0.4, 0.1]])
    off = GaussianSum(0.0)
    assert off.choose(values, Sample(((),), off.event, Recorder())) == 1
    greedy = BoundedRangeChoice(10, 2, 0.0)
    logits = np.log(values)
    got = greedy.choose(logits, logits[1], paid(greedy, Recorder(allowed=False), own_slots=2))

    def clipped(z, i):
        return max(-10, z[i] - max(z) + 10)

    slow = [sum(clipped(z, i) for z in logits) / 4 + clipped(logits[1], i) / 2 for i in range(3)]
    assert got == int(np.argmax(slow))


def test_an_empty_sample_leaves_the_public_scores():
    choice = BoundedRangeChoice(10, 4, 0.0)
    public = np.log(np.array([0.1, 0.2, 0.7]))
    assert choice.choose(np.zeros((0, 3)), public, paid(choice, Recorder(), own_slots=0)) == 2


def test_softmax_choice_has_the_softmax_frequencies():
    choice = BoundedRangeChoice(clip=10, divisor=1, temperature=2.0)
    public, private = np.log([0.2, 0.5, 0.3]), np.log([[0.6, 0.3, 0.1]])
    noise, draws = SeededNoise(lambda shot: np.random.default_rng(0)), 4000
    counts = np.bincount(
        [choice.choose(private, public, paid(choice, noise, own_slots=1)) for _ in range(draws)], minlength=3
    )
    scores = (clip_scores(private, 10)[0] + clip_scores(public[None], 10)[0]) / 2
    expected = np.exp(scores / 2.0) / np.exp(scores / 2.0).sum()
    assert stats.chisquare(counts, expected * draws).pvalue > 1e-4


@pytest.mark.parametrize(
    "source", [SecureNoise(), SeededNoise(lambda shot: np.random.default_rng(1))], ids=["secure", "seeded"]
)
def test_noise_sources_draw_the_stated_distributions(source):
    n = 20_000
    assert stats.kstest(source.gaussian(2.5, n), stats.norm(scale=2.5).cdf).pvalue > 1e-4
    assert stats.kstest(source.gumbel(n), stats.gumbel_r.cdf).pvalue > 1e-4
    assert stats.kstest(source.uniform(n), stats.uniform.cdf).pvalue > 1e-4


def test_secure_noise_never_repeats():
    assert not np.array_equal(SecureNoise().gaussian(1.0, 50), SecureNoise().gaussian(1.0, 50))


def test_scores_are_divided_by_the_constant_and_not_by_the_number_of_rows():
    choice = BoundedRangeChoice(clip=10, divisor=100, temperature=0.0)
    strongly_first, slightly_second = np.array([[0.0, -20.0]]), np.array([-0.5, 0.0])
    assert choice.choose(strongly_first, slightly_second, paid(choice, Recorder(), own_slots=1)) == 1


def test_secure_streams_hold_no_seed_for_noise_nor_for_sampling_coins():
    for name in ("noise", "sampling"):
        assert not streams(7, "secure").source(name).seeded
        assert streams(7, "seeded").source(name).seeded


@pytest.mark.parametrize("own_slots", [True, False])
def test_the_ideal_auditor_finds_all_of_epsilon_and_no_more(own_slots):
    """A ballot that is added (1 under noise sigma) shows as much as one that is replaced (sqrt(2) under sqrt(2) sigma):
    mu = 1/sigma either way, and the noise on the board is 29% less."""
    source, mechanism = Recorder(), GaussianSum(1.081, own_slots)
    mechanism.choose(np.eye(2), paid(mechanism, source, own_slots=2 if own_slots else None))
    ((_, scale, _),) = source.asked
    without, with_it = (np.eye(2)[[0]], np.eye(2)) if own_slots else (np.eye(2)[[0, 0]], np.eye(2))
    mu = float(np.linalg.norm(with_it.sum(axis=0) - without.sum(axis=0))) / scale
    proved = epsilon(mechanism.event, 1e-5).upper
    assert epsilon_of_mu(mu, 1e-5) == pytest.approx(proved, rel=1e-6)
    assert epsilon_of_mu(mu, 1e-5) <= proved
