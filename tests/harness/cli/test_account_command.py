"""`dpicl account`: each family against closed forms and published numbers, and what it refuses."""

import math

import pytest

from dpicl.accounting.published import ksa_ptr_epsilon
from dpicl.accounting.reaccounting import FAMILIES, Setting, reaccount
from dpicl.core.json_text import to_plain

PRISM = "--family bounded-range --sensitivity 10/760 --steps 100 --delta 1e-4 --temperature 1.1295"


@pytest.fixture
def account(dpicl):
    """The JSON answer of `dpicl account` with these flags."""

    def run(flags):
        done = dpicl(f"account {flags} --json").succeed()
        return done.json

    return run


def test_a_gaussian_without_sampling_meets_its_own_curve(account):
    """delta = Phi(1/(2m) - e m) - e^e Phi(-1/(2m) - e m), Balle & Wang 2018, at m = 1.5/sqrt(4) for four steps."""
    m, delta = 0.75, 1e-3
    e = account(f"--noise 1.5 --steps 4 --delta {delta}")["proved"]

    def phi(x):
        return math.erfc(-x / math.sqrt(2)) / 2

    curve = phi(0.5 / m - e * m) - math.exp(e) * phi(-0.5 / m - e * m)
    assert curve == pytest.approx(delta, rel=1e-6)


def test_twice_the_sensitivity_is_half_the_noise(account):
    answer = account("--noise 3 --sensitivity 2 --delta 1e-5")
    assert answer["proved"] == account("--noise 1.5 --delta 1e-5")["proved"]
    assert answer["as_claimed"] == account("--noise 3 --delta 1e-5")["proved"]
    same = account("--noise 3 --sensitivity 2 --claimed-sensitivity 2 --delta 1e-5")
    assert same["proved"] == answer["as_claimed"] and "as_claimed" not in same


@pytest.mark.parametrize(
    ("place", "factor"),
    [
        ("sum", 1),
        ("slot", 3),
        ("mean", 9),
    ],
)
def test_noise_on_slots_or_the_mean_is_more_noise_on_the_sum(place, factor):
    slots = None if place == "sum" else 9
    moved = reaccount(Setting("gaussian", 1e-5, noise=0.7, noise_on=place, slots=slots))
    assert moved["noise_multiplier"] == pytest.approx(0.7 * factor)
    assert moved["proved"] == pytest.approx(
        reaccount(Setting("gaussian", 1e-5, noise=0.7 * factor))["proved"]
    )


def test_gaussians_on_one_sample_are_one_gaussian(account):
    once = account("--noise 4 --rate 0.2 --sample once --steps 4 --delta 1e-4")
    alone = account("--noise 2 --rate 0.2 --delta 1e-4")
    for name in ("proved", "pld", "fixed_replace_one"):
        assert once[name] == pytest.approx(alone[name], rel=1e-9)
    each = account("--noise 4 --rate 0.2 --steps 4 --delta 1e-4")
    assert once["proved"] > 1.3 * each["proved"]


def test_a_range_and_its_temperature_cost_the_same():
    by_range = reaccount(Setting("bounded-range", 1e-5, epsilon0=0.3, sensitivity=2, steps=5))
    by_temperature = reaccount(
        Setting("bounded-range", 1e-5, temperature=4, sensitivity=1.2, steps=5)
    )
    assert by_range["range_epsilon"] == pytest.approx(by_temperature["range_epsilon"]) == 0.6
    assert by_range["proved"] == pytest.approx(by_temperature["proved"])
    assert by_range["autodp"] < by_temperature["autodp"]  # the claim of the first one is 0.3


def test_parameters_are_amplified_and_added(account):
    """One release: (ln(1 + q(e^e0 - 1)), q d0). Two far too large ones: the sum."""
    family = "--family epsilon-delta --epsilon0"
    one = account(f"{family} 1 --delta0 1e-4 --rate 0.1 --delta 1.01e-5")
    assert one["proved"] == pytest.approx(
        math.log1p(0.1 * math.expm1(1)),
        abs=1e-3,
    )
    assert account(f"{family} 10000 --steps 2 --delta 1e-5")["proved"] == 20000


@pytest.mark.parametrize(
    ("steps", "sample", "chance"),
    [
        (1, "each", 0.1),
        (3, "once", 0.1),
        (3, "each", 1 - 0.9**3),
        (1000, "each", 1.0),
    ],
)
def test_without_noise_only_a_delta_above_the_chance_is_enough(steps, sample, chance):
    def prove(delta):
        return reaccount(
            Setting(
                "no-noise",
                delta,
                rate=0.1,
                steps=steps,
                sample=sample,
            )
        )["proved"]

    assert prove(0.999 * chance) == math.inf
    if chance < 1:
        assert prove(1.001 * chance) == 0


@pytest.mark.parametrize(
    ("flags", "proved"),
    [
        ("--rate 1/2953 --delta 1/2953", 0),
        ("--rate 4/2953 --delta 1/2953", "Infinity"),
        ("--delta 0.9", "Infinity"),
    ],
)
def test_one_random_record_costs_nothing_at_delta_one_over_n(account, flags, proved):
    assert account(f"--family no-noise {flags}")["proved"] == proved


def test_ksa_ptr_accounting_reproduces_its_printed_digits():
    rate, delta = 400 / 14732, 5e-5
    assert ksa_ptr_epsilon(0.9, 1.869, 0.99 * delta / rate, rate, 100, delta) == pytest.approx(
        2.99958729, abs=2e-7
    )


def test_failures_that_use_up_delta_prove_nothing(account):
    words = "--family bounded-range --epsilon0 1.8 --delta0 1e-5 --rate 0.1 --steps 10"
    answer = account(f"{words} --delta 9e-6")
    assert answer["proved"] == "Infinity" and "dp_opt" not in answer
    assert "use up delta" in answer["notes"][0]
    enough = account(f"{words} --delta 1e-4")
    assert 0 < enough["proved"] < math.inf and "dp_opt" in enough


def test_people_read_every_number_with_its_theorem(dpicl):
    text = " ".join(dpicl(f"account {PRISM}").out.split())
    for part in ("0.3700", "1.0549", "no bound", "Cesar & Rogers 2021", "theorem III.3"):
        assert part in text
    assert "∞" in dpicl("account --family no-noise --delta 1e-5").out


@pytest.mark.parametrize("family", FAMILIES)
def test_every_accounting_says_what_it_is(family):
    """Of each family: what is said about is there, and nothing is there that is not said about."""
    needed = {
        "gaussian": {"noise": 2.0},
        "classical": {"epsilon0": 0.5},
        "bounded-range": {"epsilon0": 0.5},
    }
    needed |= {
        "epsilon-delta": {"epsilon0": 0.5},
        "no-noise": {},
        "above-threshold": {"noise": 4.0, "epsilon0": 0.1},
    }
    answer = to_plain(reaccount(Setting(family, 1e-5, rate=0.1, **needed[family])))
    others = {"about", "notes", "noise_multiplier", "range_epsilon", "round_epsilon"}
    assert set(answer) - set(answer["about"]) <= others
    assert all(
        about["bound"] and about["theorem"] and about["neighbours"]
        for about in answer["about"].values()
    )
    assert "proved" in answer["about"]


def test_numbers_beyond_the_accountants_are_one_sentence(dpicl):
    done = dpicl("account --noise .5 --rate .1 --steps", 10**9, "--delta", "1e-5")
    assert done.code == 2 and "Traceback" not in done.err


def test_a_delta_near_1_leaves_nothing_to_bound(account):
    assert account("--noise .5 --rate .1 --steps 10 --delta .999999999")["lower"] == 0.0
