"""Secure noise in floating point: every step of its proof (docs/accounting.md) against a slow, obvious computation."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting import dp_event as dp
from scipy import stats
from scipy.special import ndtr

from dpicl.accounting.events import (
    EpsilonDeltaDpEvent,
    above_threshold,
    bounded_range_choice,
    compose,
    gaussian,
    parallel,
)
from dpicl.core import exact_noise, seeds
from dpicl.core.errors import PluginError, UsageError
from dpicl.core.seeds import SecureNoise, SeededNoise
from dpicl.privacy import secure_release
from dpicl.privacy.release_hooks import NoisyRelease, Permit, observing
from dpicl.privacy.secure_release import (
    choice_margin,
    floating_point_delta,
    prepared_scores,
    prepared_sum,
    require_few_rows,
    require_share,
    sum_margin,
    threshold_margin,
)
from tests.harness.accounting.makers import Recorder, divergence

RATIO = 1.375 * 2.0**46


def words_of(seed: int) -> exact_noise.Words:
    generator = np.random.default_rng(seed)
    return lambda number: generator.integers(0, 2**64, number, dtype=np.uint64)


def give(*words: int) -> exact_noise.Words:
    """These words, in order."""
    left = list(words)
    return lambda number: np.array(
        [left.pop(0) for _ in range(number)],
        dtype=np.uint64,
    )


def test_the_table_holds_the_masses_of_the_cells():
    table = exact_noise._table(RATIO)
    edges = np.arange(1, len(table) + 1) * exact_noise.CELL / RATIO
    shares = np.array([float(Fraction(entry, 2**128)) for entry in table])
    assert shares == pytest.approx(1 - 2 * ndtr(-edges), abs=1e-15)
    assert table[-1] == 2**128
    assert edges[-1] >= exact_noise.REACH
    assert len(table) <= 224
    # The far cells keep their digits: the table's own last ones are of 1e-38.
    assert float(
        Fraction(
            2**128 - table[len(table) // 2],
            2**128,
        )
    ) == pytest.approx(
        2 * ndtr(-edges[len(table) // 2]),
        rel=1e-9,
    )


def test_a_chance_in_whole_numbers_is_the_exponential():
    for cell, inside in (
        (0, 0),
        (0, 1),
        (3, exact_noise.CELL - 1),
        (150, exact_noise.CELL // 3),
    ):
        exponent = -inside * (inside + 2 * exact_noise.CELL * cell + 1) / (2 * RATIO**2)
        chance = Fraction(exact_noise.scaled_chance(cell, inside, RATIO), 2**exact_noise.CLOSE_BITS)
        assert float(chance) == pytest.approx(math.exp(exponent), rel=1e-14)


def test_all_probabilities_are_those_of_a_rounded_gaussian(monkeypatch):
    """With few and short cells, all values: the table's share times the share of what is kept, and the real masses."""
    monkeypatch.setattr(exact_noise, "CELL", 2**11)
    exact_noise._table.cache_clear()
    ratio = 1.3 * 2.0**14
    table = exact_noise._table(ratio)
    exact_noise._table.cache_clear()
    bound = 2 * (exact_noise.REACH**2 + 1) / (24 * 2.0**28)
    for cell in (0, 1, 9, 30):
        mass = (table[cell] - (table[cell - 1] if cell else 0)) / 2**128
        chances = np.array(
            [exact_noise.scaled_chance(cell, j, ratio) / 2**256 for j in range(2**11)]
        )
        ends = (cell * 2**11 + np.arange(2**11 + 1)) / ratio
        real = 2 * -np.diff(ndtr(-ends))
        assert np.abs(np.log(mass * chances / chances.sum() / real)).max() <= bound + 1e-11
        assert mass == pytest.approx(real.sum(), rel=1e-12)


def test_a_close_comparison_decides_as_whole_numbers_do(monkeypatch):
    cell = np.array([0, 5, 40, 200])
    inside = np.array(
        [
            1 << 40,
            1 << 42,
            (1 << 43) - 1,
            12345,
        ]
    )
    exact = [
        exact_noise.scaled_chance(int(c), int(j), RATIO) for c, j in zip(cell, inside, strict=True)
    ]
    for offset, expected in (
        (-1, True),
        (0, False),
        (1, False),
    ):
        numbers = [chance + offset for chance in exact]
        coin = np.array([number >> 192 for number in numbers], dtype=np.uint64)
        further = [
            (number >> (64 * place)) & (2**64 - 1) for number in numbers for place in range(3)
        ]
        decisions = exact_noise._draw_kept(cell, inside, RATIO, coin, give(*further))
        assert decisions.tolist() == [expected] * 4  # the floats cannot tell them apart
    coin = words_of(3)(4)
    plain = exact_noise._draw_kept(cell, inside, RATIO, coin, give())
    monkeypatch.setattr(exact_noise, "DOUBT", 2.0)
    assert (
        exact_noise._draw_kept(
            cell,
            inside,
            RATIO,
            coin,
            words_of(4),
        ).tolist()
        == plain.tolist()
    )


def test_a_number_with_the_first_half_of_an_entry_is_read_whole():
    table = exact_noise._table(RATIO)
    high, low = divmod(table[7], 2**64)
    for number, cell in (
        (low - 1, 7),
        (low, 8),
        (low + 1, 8),
    ):
        cells = exact_noise._cells(
            table, np.array([high], dtype=np.uint64), np.array([number], dtype=np.uint64)
        )
        assert cells.tolist() == [cell]
    last = np.array([2**64 - 1], dtype=np.uint64)
    assert exact_noise._cells(table, last, last).tolist() == [len(table) - 1]


@pytest.mark.parametrize("scale", [2.5, 1e-9, 3e7])
def test_gaussian_noise_has_its_deviation_and_lies_on_half_steps(scale):
    drawn = exact_noise.gaussian(scale, 20_000, words_of(5))
    step = exact_noise.step_of(scale)
    assert 2.0**46 <= scale / step < 2.0**47 and math.frexp(step)[0] == 0.5
    assert stats.kstest(drawn / scale, stats.norm.cdf).pvalue > 1e-3
    assert ((drawn / step) % 1 == 0.5).all()


def test_a_value_that_is_not_kept_is_drawn_again_in_its_own_cell():
    """With a fresh cell each time, cells far from 0, of which less is kept, would be too rare: noise that is too small.

    The widest cells, 1/8 of a deviation; so many numbers show a share of 1% that is missing beyond 2 deviations."""
    drawn = exact_noise.gaussian(1.0, 400_000, words_of(7))
    assert drawn.std() == pytest.approx(1.0, abs=0.005)
    assert stats.kstest(drawn, stats.norm.cdf).pvalue > 1e-3
    for least in (2.0, 3.0):
        beyond = 2 * ndtr(-least)
        assert (np.abs(drawn) > least).mean() == pytest.approx(
            beyond, abs=4 * math.sqrt(beyond / 400_000)
        )


def test_sum_and_noise_are_a_function_of_the_sum_of_steps():
    """Two pairs of clean sum and noise with one sum in whole numbers give one float."""
    step, random = exact_noise.step_of(0.7), np.random.default_rng(6)
    for _ in range(200):
        clean, other = (
            prepared_sum(
                random.normal(50, 0.5, 1),
                0.7,
            )
            for _ in range(2)
        )
        noise = exact_noise.gaussian(
            0.7,
            1,
            words_of(int(random.integers(1 << 30))),
        )
        shifted = (Fraction(clean[0]) + Fraction(noise[0]) - Fraction(other[0])) / Fraction(step)
        assert shifted.denominator == 2
        assert other + float(shifted * Fraction(step)) == clean + noise


def test_exponentials_have_digits_at_both_ends():
    zero, top = 0, 2**64 - 1
    (small,) = exact_noise.exponential(
        1, give(zero, 2**63, 1)
    )  # 53 zeros and none: 1 - uniform is 2^-55
    (large,) = exact_noise.exponential(1, give(zero, 2**63, 0))
    assert small == pytest.approx(2.0**-55, rel=1e-15)
    assert large == pytest.approx(55 * math.log(2), rel=1e-15)
    middle = [
        exact_noise.exponential(
            1,
            give(top, top - 1 + last),
        )[0]
        for last in (0, 1)
    ]
    assert middle == pytest.approx([math.log(2)] * 2, rel=1e-12)  # the halves meet
    drawn = exact_noise.exponential(40_000, words_of(8))
    assert stats.kstest(drawn, stats.expon.cdf).pvalue > 1e-3
    assert (
        stats.kstest(
            exact_noise.gumbel(40_000, words_of(9)),
            stats.gumbel_r.cdf,
        ).pvalue
        > 1e-3
    )


def test_a_record_is_not_sampled_more_often_than_charged(monkeypatch):
    for number in (
        0,
        1,
        2**52,
        2**53 - 2,
        2**53 - 1,
    ):
        word = np.array([number << 11], dtype=np.uint64).tobytes()
        monkeypatch.setattr(seeds.secrets, "token_bytes", lambda size, word=word: word)
        (drawn,) = SecureNoise().uniform(1)
        assert drawn == min(number + 1, 2**53 - 1) / 2**53
        assert 0 < drawn < 1


@pytest.mark.parametrize("seed", range(50))
def test_prepared_scores_move_no_further_than_scores(seed):
    random = np.random.default_rng(seed)
    temperature = 2.0 ** random.integers(-8, 4)
    width = 10.0 ** random.uniform(-3, 4)
    scores = random.normal(0, 1, 6) * 10.0 ** random.uniform(-2, 6)
    moved = scores + random.uniform(0, width, 6) - random.uniform(0, width)
    moves = prepared_scores(moved, temperature) - prepared_scores(scores, temperature)
    error = 8 * (np.abs(scores).max() + width) * 2.0**-52
    assert np.ptp(moves) <= width + error
    assert min(moves.min(), 0) >= -width - error
    assert max(moves.max(), 0) <= width + error
    assert prepared_scores(scores, temperature).max() == 0
    assert prepared_scores(scores, temperature).min() >= secure_release.LOWEST * temperature


def ordered_chance(scores: np.ndarray, order: tuple[int, ...]) -> float:
    """Of the first of a list that is drawn without replacement from the softmax."""
    left, chance = list(range(len(scores))), 1.0
    for at in order:
        chance *= math.exp(scores[at]) / np.exp(scores[left]).sum()
        left.remove(at)
    return chance


def test_errors_of_scores_change_a_list_by_the_stated_factor():
    """Draw j given the earlier ones, by a factor of at most e^(+-2 e j^2); and the first one by one near it."""
    error, random, worst = 0.05, np.random.default_rng(10), 0.0
    for _ in range(15):
        scores = random.normal(0, 2, 4)
        for signs in itertools.product((-error, error), repeat=4):
            for order in itertools.permutations(range(4), 3):
                ratios = [
                    ordered_chance(scores + np.array(signs), order[:j])
                    / ordered_chance(scores, order[:j])
                    for j in range(4)
                ]
                for j in range(1, 4):
                    change = abs(math.log(ratios[j] / ratios[j - 1]))
                    assert change <= 2 * error * j**2
                    worst = max(worst, change) if j == 1 else worst
    assert worst > 1.5 * error


@pytest.mark.parametrize("count", [1, 10, 200])
@pytest.mark.parametrize("size", [1e-5, 1e-3, 0.3, 5.0])
def test_margins_outweigh_what_they_pay_for(count, size):
    larger = 1 + choice_margin(size, count)
    assert (
        size * (1 + secure_release.SUMS / 2) / larger + 8 * exact_noise.GUMBEL_ERROR * count**2
        <= size
    )
    assert larger < 1.001 or size < 1e-4
    larger = 1 + threshold_margin(size)
    error = 2.0**-29 + 2.0**-19 * size
    assert size / larger + 6 * error <= size
    for multiplier in (0.3, 40.0, 5000.0):
        number, larger = 10_000 * count, 1 + sum_margin(multiplier, 10_000 * count)
        step = exact_noise.step_of(multiplier * larger)  # a record moves the sum by 1
        assert (
            multiplier * (1 + secure_release.SUMS / 2 + step * math.sqrt(number))
            <= multiplier * larger
        )


def test_a_sum_of_rows_in_floats_is_within_its_share_of_margin():
    rows = np.random.default_rng(11).dirichlet(np.ones(3), secure_release.MOST_ROWS)
    off = [
        abs(total - math.fsum(column))
        for total, column in zip(rows.sum(axis=0), rows.T, strict=True)
    ]
    assert math.hypot(*off) <= secure_release.SUMS / 4  # of a bound of 1
    assert secure_release.MOST_ROWS**2 * 2.0**-53 <= secure_release.SUMS / 8


def test_errors_of_comparisons_change_a_round_by_the_factor():
    """AboveThreshold with exponential noise, by quadrature; every query and the last one off by c in the worst way."""
    at = np.arange(0, 60, 1e-3) + 5e-4

    def chance(queries: list[float]) -> float:
        above = [np.exp(-np.maximum(at - query, 0.0)) for query in queries]
        return float(
            (np.exp(-at) * np.prod(1 - np.array(above[:-1]), axis=0) * above[-1]).sum() * 1e-3
        )

    error, worst = 0.02, 0.0
    for length in (1, 2, 40):
        for query in (-3.0, 0.5, 2.0):
            exact = chance([query] * length)
            for below, last in itertools.product((-error, error), repeat=2):
                change = abs(
                    math.log(chance([query + below] * (length - 1) + [query + last]) / exact)
                )
                assert change <= 3 * error * (1 + 1e-6) + 1e-9
                worst = max(worst, change)
    assert worst > 1.5 * error


def test_failures_of_choices_count_at_the_rate_of_their_sample():
    """Nothing is chosen by a score of ln(1/delta0) temperatures: with the temperature of secure noise, more often."""
    failure, size, count = 1e-7, 0.4, 50
    one = compose([bounded_range_choice(size), EpsilonDeltaDpEvent(0.0, failure)])
    counted = floating_point_delta(
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.02, one), count), 1.0
    )
    margin = choice_margin(size, 1)
    grown = math.exp(math.log(failure) / (1 + margin) + 4 * exact_noise.GUMBEL_ERROR) - failure
    assert 0 < 0.02 * count * grown <= counted < 4 * 0.02 * count * grown
    assert (
        floating_point_delta(compose([gaussian(1.0), EpsilonDeltaDpEvent(0.5, 0.0)]), 1.0) < 1e-15
    )


@pytest.mark.parametrize("seed", range(50))
def test_delta_grows_by_no_more_than_the_stated_share(monkeypatch, seed):
    """All pairs of distributions, each replaced by one that is off by a factor and then by a total variation."""
    random = np.random.default_rng(seed)
    added = random.uniform(0, 0.01)
    factor = random.uniform(0, 0.05)
    epsilon = random.uniform(0, 3)
    monkeypatch.setattr(exact_noise, "ADDED", added)
    monkeypatch.setattr(exact_noise, "FACTOR", factor)
    monkeypatch.setattr(secure_release, "MOST_COORDINATES", 1)

    def change(law: np.ndarray) -> np.ndarray:
        other = law * np.exp(random.choice([-1, 1], law.size) * factor / 2)
        other = other / other.sum()  # within e^(+-factor)
        moved = min(added, other.max())
        other[other.argmax()] -= moved
        other[random.integers(law.size)] += moved
        return other

    with_it = random.dirichlet(np.ones(5))
    without = random.dirichlet(np.ones(5))
    delta = max(divergence(with_it, without, epsilon), divergence(without, with_it, epsilon))
    allowed = delta + floating_point_delta(gaussian(1.0), epsilon)
    first, second = change(with_it), change(without)
    assert (
        max(divergence(first, second, epsilon), divergence(second, first, epsilon))
        <= allowed + 1e-12
    )


def test_the_share_counts_every_noisy_sum_and_no_choice():
    one = floating_point_delta(gaussian(1.0), 8.0)
    assert 0 < one < 1e-15
    sampled = dp.SelfComposedDpEvent(
        dp.PoissonSampledDpEvent(0.1, compose([gaussian(1.0), gaussian(2.0)])), 50
    )
    groups = parallel({"a": sampled, "b": dp.ZCDpEvent(0.5)})
    assert floating_point_delta(groups, 8.0) == pytest.approx(101 * one, rel=1e-6)
    assert floating_point_delta(dp.SelfComposedDpEvent(bounded_range_choice(0.5), 10**6), 8.0) == 0
    assert floating_point_delta(gaussian(1.0), 1e6) == math.inf
    # What the boards have, and more, is far inside the share.
    require_share(
        dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(0.01, gaussian(0.5)), 10**6), 16.0
    )
    require_share(
        dp.SelfComposedDpEvent(gaussian(0.5), 10**6), math.inf
    )  # that is for somebody else to refuse
    with pytest.raises(UsageError, match="1e-07"):
        require_share(gaussian(1.0), 70.0)
    with pytest.raises(UsageError, match="noisy sums"):
        require_share(dp.SelfComposedDpEvent(gaussian(0.5), 10**11), 1.0)


class Seen:
    """Keeps what is released and what comes out."""

    def intercept(self, noisy_release: NoisyRelease, draw) -> np.ndarray:
        self.release, self.out = noisy_release, draw()
        return self.out


def test_a_permit_prepares_sums_and_scores_for_secure_noise_only():
    clean = np.array([1 / 3, 2 / 7, 100.1])
    scores = np.array([3.0, -5e9, 3.5])
    observer, step = Seen(), exact_noise.step_of(2.0)
    with observing(observer):
        Permit(gaussian(1.0), SecureNoise()).noisy_sum(clean, 2.0)
        assert observer.release.clean.tolist() == (np.rint(clean / step) * step).tolist()
        assert 2.0 < observer.release.scale == 2.0 * (1 + sum_margin(1.0, 3)) < 2.0001
        assert ((observer.out / step) % 1 == 0.5).all()
        Permit(bounded_range_choice(0.5), SecureNoise()).noisy_choice(scores, 1.0)
        assert observer.release.scale == 2.0 * (1 + choice_margin(0.5, 1))
        assert observer.release.clean.tolist() == [
            -0.5,
            secure_release.LOWEST * observer.release.scale,
            0.0,
        ]
        Permit(gaussian(1.0), Recorder()).noisy_sum(clean, 2.0)
        assert observer.release.clean is clean and observer.release.scale == 2.0
        Permit(bounded_range_choice(0.5), Recorder()).noisy_choice(scores, 1.0)
        assert observer.release.clean is scores and observer.release.scale == 2.0
        Permit(above_threshold(0.5), SecureNoise()).threshold_round(1.0, 0.25)(0.5)
        assert observer.release.scale == 0.5 * (1 + threshold_margin(0.5))
        Permit(above_threshold(0.5), Recorder()).threshold_round(1.0, 0.25)(0.5)
        assert observer.release.scale == 0.5
        Permit(dp.NonPrivateDpEvent(), SecureNoise()).noisy_sum(clean, 2.0)
        assert observer.release.clean is clean and observer.out.tolist() == clean.tolist()
    seeded = Permit(
        gaussian(1.0),
        SeededNoise(lambda shot: np.random.default_rng(0)),
    ).noisy_sum(clean, 2.0)
    assert seeded.tolist() == (clean + np.random.default_rng(0).normal(0.0, 2.0, 3)).tolist()


def test_what_the_proof_does_not_cover_is_refused(monkeypatch):
    monkeypatch.setattr(secure_release, "MOST_COORDINATES", 3)
    for permit, use in (
        (gaussian(1.0), "noisy_sum"),
        (bounded_range_choice(1.0), "noisy_choice"),
    ):
        with pytest.raises(PluginError, match="at most 3"):
            getattr(Permit(permit, SecureNoise()), use)(np.zeros(4), 1.0)
        getattr(Permit(permit, Recorder()), use)(np.zeros(4), 1.0)
    with pytest.raises(PluginError, match="margin"):
        Permit(bounded_range_choice(1e-12), SecureNoise()).noisy_choice(np.zeros(2), 1.0)
    require_few_rows(secure_release.MOST_ROWS)
    with pytest.raises(UsageError, match="rows"):
        require_few_rows(secure_release.MOST_ROWS + 1)
