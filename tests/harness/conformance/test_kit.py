"""The kit itself: it judges what it saw, says so when it saw nothing, and its watch changes nothing."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest

from dpicl.conformance import kit
from dpicl.conformance.adversaries import scripted
from dpicl.conformance.bench import Run, set_up
from dpicl.conformance.checking import LEAST, CheckEvidence
from dpicl.conformance.checks import sampling
from dpicl.conformance.checks.neighbours import sensitivity
from dpicl.conformance.checks.noise import noise
from dpicl.conformance.hostile_model import CERTAIN, ENDING, NAN, HostileModel
from dpicl.conformance.kit import CHECKS, check_mechanism, tasks_of
from dpicl.conformance.transcript import EVERY_SAMPLE, NO_SAMPLE, Drawn, Spend, Transcript
from dpicl.conformance.variants import Variant
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import ModelError, UsageError
from dpicl.core.vocabulary import Knob
from dpicl.models.base import ChatPrompt
from dpicl.models.simulated import SimulatedLM
from dpicl.privacy.top_k import NoisyTopK
from dpicl.releasing.release import release
from tests.harness.conformance.fails_with_option import Fails
from tests.harness.conformance.sound import SoundTokens, SoundVoting


@pytest.fixture(scope="module")
def bench():
    return set_up(SoundVoting, "agnews", {}, seed=0)


def test_no_noisy_release_at_a_finite_epsilon_fails():
    class Constant(SoundVoting):
        name = "constant"

        def answer(self, query, sample, context):
            return context.task.labels[0]

    findings = {f.check: f for f in check_mechanism(Constant, task="agnews")}
    assert findings["noise"].status == "failed"
    assert findings["sensitivity"].status == findings["audit"].status == "not applicable"


def test_records_that_move_nothing_are_a_failure_not_a_pass():
    class Deaf(SoundVoting):
        name = "deaf"

        def winner(self, counts, sample, context):
            return super().winner(0 * counts, sample, context)

    verdict = CHECKS["sensitivity"](CheckEvidence(set_up(Deaf, "agnews", {}, seed=0)))
    assert verdict.status == "failed"


def test_runs_in_which_no_record_matters_are_followed_by_more(bench):
    """The kit failed `voting_nearest` at a pair of options, where it makes two rounds alone."""
    verdict = sensitivity(CheckEvidence(bench, replace(LEAST, additions=0)))
    assert verdict.status == "passed", verdict.why


def test_noise_of_another_law_fails_the_kolmogorov_smirnov_test(bench):
    """Noise that every other test takes for fresh: drawn at the noisy release, by the source that was given."""
    evidence = CheckEvidence(bench)
    assert noise(evidence).status == "passed"
    generator, forged = np.random.default_rng(0), []
    for run in evidence.runs:
        observed_releases = []
        for observed in run.observed_releases:
            clean = observed.release.clean
            values = generator.laplace(
                0,
                observed.release.scale / np.sqrt(2),
                clean.size,
            )
            observed_releases.append(replace(observed, noise=(values,), released=clean + values))
        forged.append(replace(run, observed_releases=observed_releases))
    evidence.runs = forged
    verdict = noise(evidence)
    assert verdict.status == "failed"


def test_a_run_under_observation_answers_as_a_release_does():
    """At q = 1 the sampling decides only the slots; with one slot, only the order."""
    bench = set_up(
        SoundVoting, "agnews", {"partition": "once", "slots": 1, "examples_per_slot": 200}, seed=0
    )
    task = replace(bench.task, train=bench.task.train[:1])
    bench.task = task
    released = release(
        bench.mechanism,
        task,
        bench.model,
        ReleaseConfig(epsilon=float("inf"), delta=1e-5),
        bench.queries,
    )
    assert bench.run(Run(knob=0.0)).released == tuple(released.answers.items())


@pytest.mark.parametrize("mechanism", [SoundVoting, SoundTokens])
@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize(
    ("crowding", "where"),
    [(1.0, 0), (0.4, 0.5)],
)
def test_an_added_record_changes_nobody_elses_coin_or_slot(mechanism, present, crowding, where):
    bench = set_up(mechanism, "agnews", {}, seed=0)
    base = list(bench.task.train)
    how = Run(sampling=3, crowding=crowding, script=scripted("random", 0))
    added = replace(base[1], label=bench.shots[0])
    changed = replace(
        how,
        added=added,
        place=int(where * len(base)),
        presence=EVERY_SAMPLE if present else NO_SAMPLE,
    )
    without, with_it = bench.run(how), bench.run(changed)
    joined = 0
    for a, b in zip(without.samples, with_it.samples, strict=True):
        expected = {len(base)} if present and b.partition in (None, added.label) else set()
        assert set(b.members) == set(a.members) | expected
        joined += len(expected)
        places = dict(zip(b.members, b.slots, strict=True))
        assert all(places[member] == slot for member, slot in zip(a.members, a.slots, strict=True))
    assert bool(joined) == present


def test_shots_written_at_once_draw_what_they_draw_in_turn():
    bench = set_up(SoundTokens, "agnews", {}, seed=0)
    alone = bench.run()
    at_once = bench.run(Run(at_once=True))
    assert [each.shot for each in alone.observed_releases] == [
        each.shot for each in at_once.observed_releases
    ]
    pairs = zip(alone.observed_releases, at_once.observed_releases, strict=True)
    assert all(np.array_equal(a.released, b.released) for a, b in pairs)
    partitions = [sample.partition for sample in at_once.samples]
    assert partitions != [sample.partition for sample in alone.samples]  # the shots took turns


@pytest.mark.parametrize("rate", [0.05, 0.4])
def test_poisson_samples_pass_and_fixed_ones_do_not(rate):
    generator, n, draws = np.random.default_rng(0), 40, 400

    def draw_slots(members):
        return Drawn(
            None, tuple(members), tuple(generator.integers(0, 4, len(members)).tolist()), n, rate, 4
        )

    poisson = [
        draw_slots(np.flatnonzero(generator.random(n) < rate).tolist()) for _ in range(draws)
    ]
    fixed = [draw_slots(generator.permutation(n)[: round(n * rate)].tolist()) for _ in range(draws)]
    favoured = [
        draw_slots(np.flatnonzero(generator.random(n) < rate * (np.arange(n) % 2) * 2).tolist())
        for _ in range(draws)
    ]
    assert sampling._sizes(poisson) > 1e-3
    assert sampling._inclusion(poisson) > 1e-3
    assert sampling._slots(poisson) > 1e-3
    assert sampling._sizes(fixed) < 1e-6
    assert sampling._inclusion(favoured) < 1e-6
    crowded = [
        replace(sample, slots=tuple(slot // 2 for slot in sample.slots)) for sample in poisson
    ]
    assert sampling._slots(crowded) < 1e-6


def test_the_hostile_model_has_the_tokens_of_the_simulated_one():
    for text in (
        "",
        "\n",
        " two\n\n lines\u2028 é\n",
        ChatPrompt("Hi\nthere", assistant_prefix="Text:\n"),
    ):
        assert HostileModel().encode(text) == SimulatedLM().encode(text)


def test_the_hostile_model_follows_the_prompt_and_its_markers():
    model, again = HostileModel(), HostileModel()
    prompts = [
        model.encode(f"Anna brings the {what} tomorrow") for what in ("cake", "water", "city")
    ]
    np.testing.assert_array_equal(
        model.next_token_log_probs(prompts), again.next_token_log_probs(prompts)
    )
    assert model.generate(prompts, 8) == again.generate(prompts, 8)
    assert all(
        set(text.split()) <= set(model.decode(p).split())
        for text, p in zip(model.generate(prompts, 8), prompts, strict=True)
    )
    rows = model.next_token_log_probs(prompts).exp()
    np.testing.assert_allclose(rows.sum(dim=1), 1.0, rtol=1e-4)
    assert model.next_token_log_probs([model.encode(f"a {NAN} b")]).isnan().all()
    assert (
        model.next_token_log_probs([model.encode(f"a {ENDING} b")]).argmax() == model.eos_token_id
    )
    assert model.next_token_log_probs([model.encode(f"a {CERTAIN} b")]).exp().max() == 1.0
    assert model.generate([model.encode(f"a {NAN} b")], 4, broken="empty") == [""]
    with pytest.raises(ModelError):
        model.generate([model.encode(f"a {NAN} b")], 4)


def test_options_are_small_and_groups_grow_until_a_sample_fits():
    small = set_up(SoundTokens, "agnews", {}, seed=0)
    assert small.mechanism.slots == 5 and len(small.task.train) == 120
    large = set_up(SoundTokens, "agnews", {"slots": 64, "tokens": 2}, seed=0)
    assert large.mechanism.slots == 64 and len(large.task.train) == 480
    with pytest.raises(UsageError, match="does not fit the bench"):
        set_up(SoundTokens, "agnews", {"slots": 5000}, seed=0)


def test_a_task_that_a_mechanism_cannot_do_is_one_sentence():
    assert tasks_of(SoundTokens, None, {}) == ["agnews", "mit_g", "wikimovies"]
    with pytest.raises(UsageError, match=r"sound_tokens cannot do samsum"):
        check_mechanism(SoundTokens, task="samsum")


def test_more_processes_find_what_one_finds(monkeypatch):
    for effort in ("FULL", "QUICK"):
        monkeypatch.setattr(kit, effort, LEAST)
    monkeypatch.setattr(
        kit, "CHECKS", {name: CHECKS[name] for name in ("no-crash", "side-effects", "non-private")}
    )
    monkeypatch.setattr(kit, "OTHER_SETTINGS", ("non-private",))
    settings = [Variant({"wrong": True}), Variant({"wrong": False})]
    monkeypatch.setattr(kit, "variants", lambda *_: settings)
    alone = check_mechanism(Fails, task="agnews")
    shared = check_mechanism(Fails, task="agnews", processes=2)
    assert shared == alone
    assert "With option wrong=True" in " ".join(finding.why for finding in alone)


def run_of(*samples, uses=2):
    """A run whose every sample was spent. samples: (members, their slots)."""
    drawn = [Drawn(None, members, slots, 9, 1.0, 3, uses) for members, slots in samples]
    return Transcript(
        samples=drawn, spends=[Spend(number, None, None) for number in range(len(drawn))]
    )


@pytest.mark.parametrize(
    ("samples", "status"),
    [
        (
            [
                ((0, 1), (2, 0)),
                ((0,), (2,)),
                ((), ()),
            ],
            "passed",
        ),
        (
            [
                ((0, 1), (2, 0)),
                ((0,), (2,)),
                ((0,), (2,)),
            ],
            "failed",
        ),
        (
            [
                ((0, 1), (2, 0)),
                ((0,), (1,)),
            ],
            "failed",
        ),
        (
            [
                ((0,), ()),
                ((1,), ()),
            ],
            "passed",
        ),
    ],
)
def test_uses_and_slots_are_counted(samples, status):
    assert sampling._check_joining([run_of(*samples)]).status == status


def test_counts_above_one_that_a_primitive_cuts_are_said():
    """Private all the same, and not what the mechanism means to count: see NoisyTopK."""

    class Words(SoundVoting):
        name = "words"
        knob = Knob("temperature", low=0.02, high=10_000.0, non_private=0.0)
        most: ClassVar[float] = 1.0

        def release(self, knob):
            return NoisyTopK(1, knob).event

        def winner(self, counts, sample, context):
            rows = self.most * np.eye(len(sample.slots), len(counts))
            return NoisyTopK(1, context.knob).choose(rows * counts, sample)[0]

    evidence = CheckEvidence(set_up(Words, "agnews", {}, seed=0), LEAST)
    assert any(run.footprint.cut for run in evidence.runs)
    assert "counts above 1" in sensitivity(evidence).why
