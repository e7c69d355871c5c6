"""What every demonstration mechanism must hold besides what the conformance kit checks, with a model that tries to
break it."""

import math

import numpy as np
import pytest

from dpicl.accounting.events import compose
from dpicl.core.errors import ModelError, PromptTooLong, UsageError
from dpicl.data.task import Record
from dpicl.mechanism.bases import Sizes
from dpicl.mechanism.generation import PromptWriter, ReleasedText
from dpicl.mechanisms.adadpsyn import AdaDPSyn
from dpicl.mechanisms.hot_pate import HotPATE
from dpicl.mechanisms.invisible_ink import InvisibleInk
from dpicl.mechanisms.prism import Prism
from dpicl.mechanisms.private_prediction import PrivatePrediction
from dpicl.mechanisms.pta import PTA
from dpicl.mechanisms.tang import Tang
from dpicl.privacy import release_hooks
from tests.mechanisms.adversarial import (
    AdversarialModel,
    ForcedNoise,
    TinyTask,
    read_prompt,
    run,
    write_token,
)

RECORDS = [f"record number {i}" for i in range(12)]
ANSWERS = {
    "tang": Tang(slots=4, tokens=3, top_k=8),
    "tang_full_vocabulary": Tang(slots=4, tokens=3, top_k=None),
    "tang_top_p": Tang(slots=4, tokens=3, top_k=8, top_p=0.9),
    "pta": PTA(slots=4, tokens=3, top_k=8),
    "pta_alpha": PTA(slots=4, tokens=3, top_k=8, alpha=5.0),
    "pta_top_p": PTA(slots=4, tokens=3, top_k=8, top_p=0.9),
    "pta_no_base": PTA(slots=4, tokens=3, top_k=8, base=False),
    "tang_shared": Tang(slots=3, examples_per_slot=2, tokens=3, top_k=8),
    "pta_shared": PTA(slots=3, examples_per_slot=2, tokens=3, top_k=8),
    "hot_pate": HotPATE(slots=4, tokens=3, top_k=8),
}
ALL = {
    **ANSWERS,
    "adadpsyn": AdaDPSyn(slots=4, tokens=3, top_k=8),
    "prism": Prism(prompts=6, tokens=3),
    "prism_completion": Prism(prompts=6, tokens=3, style="completion"),
    "invisible_ink": InvisibleInk(prompts=6, tokens=3, top_k=8),
    "private_prediction": PrivatePrediction(prompts=6, tokens=3, private_tokens=2),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_a_record_that_shares_a_slot_replaces_a_row(name, monkeypatch):
    scales, noisy_sum = [], release_hooks.Permit.noisy_sum

    def spy(permit, clean, bound, **settings):
        scales.append(bound)
        return noisy_sum(permit, clean, bound, **settings)

    monkeypatch.setattr(release_hooks.Permit, "noisy_sum", spy)
    run(ANSWERS[name], RECORDS)
    assert set(scales) == {1.0 if ANSWERS[name].examples_per_slot == 1 else math.sqrt(2)}


@pytest.mark.parametrize("name", ["tang", "tang_full_vocabulary", "pta"])
def test_the_weights_of_a_row_do_not_depend_on_other_rows(name):
    """To the last bit: the columns of several rows lie otherwise in memory, and a sum over them had another order."""
    generator, mechanism = np.random.default_rng(0), ALL[name]
    rows = generator.normal(0, 3, (5, 700)).astype(np.float32)
    public = generator.normal(0, 3, (2, 700))
    allowed = generator.permutation(700)[:333]
    alone = [
        mechanism.distributions(rows[[at]], public, allowed)[0].tobytes() for at in range(len(rows))
    ]
    for number in range(2, len(rows) + 1):
        together = mechanism.distributions(rows[:number], public, allowed)
        assert [row.tobytes() for row in together] == alone[:number]


@pytest.mark.parametrize("name", ALL)
def test_the_ledger_of_a_run_is_what_events_promised(name):
    mechanism = ALL[name]
    sizes = Sizes(records={"a": len(RECORDS)}, shots={"a": 2})
    _, ledger, _ = run(mechanism, RECORDS, knob=1.5, shots=("a", "a"))
    promised = mechanism.events(1.5, sizes)
    assert ledger.event() == type(promised)(((("a"), _canonical(promised)),))


def _canonical(promised):
    return compose([dict(promised.branches)["a"]])


@pytest.mark.parametrize("name", ALL)
def test_a_run_that_stops_early_is_charged_in_full(name):
    class Stops(AdversarialModel):
        def log_probs_after(self, prompt):
            row = np.full(self.vocab_size, -50.0)
            row[self.eos_token_id] = 0.0
            return row

    mechanism = ALL[name]
    demos, ledger, _ = run(mechanism, RECORDS, knob=0.0, model=Stops())
    assert demos[0].tokens == 1 and demos[0].text == ""
    demos, ledger, _ = run(mechanism, RECORDS, knob=3.0, model=Stops())
    _, full, _ = run(mechanism, RECORDS, knob=3.0, noise=ForcedNoise())
    assert ledger.event() == full.event()


@pytest.mark.parametrize("name", ALL)
def test_a_public_prompt_answered_with_nan_is_one_clear_error(name):
    class Broken(TinyTask):
        def generation_prompt(self, label, examples, style="completion"):
            return super().generation_prompt(label + "@", examples, style)

    with pytest.raises(ModelError, match="NaN or infinite"):
        run(ALL[name], RECORDS, task=Broken())


@pytest.mark.parametrize("name", ALL)
def test_a_public_prompt_that_does_not_fit_is_one_clear_error(name):
    model = AdversarialModel()
    model.max_length = 10
    with pytest.raises(PromptTooLong, match="lower `tokens`"):
        run(ALL[name], RECORDS, model=model)


def test_a_slot_that_is_too_long_loses_its_last_records_only():
    model = AdversarialModel()
    writer = PromptWriter(TinyTask(), model, "a", room=10, record_tokens=None, style="completion")
    short, long = Record("short", "a"), Record("x" * 500, "a")
    assert writer.private([short, long]) == writer.private([short])
    assert writer.private([long]) == writer.public
    cut = PromptWriter(TinyTask(), model, "a", room=10, record_tokens=20, style="completion")
    assert model.decode(cut.private([long])).count("x") == 20


@pytest.mark.parametrize("name", ["tang", "pta"])
def test_without_noise_the_token_is_the_best_slow_average(name):
    """One record, sampled for sure, one slot: the release is the greedy non-private continuation."""
    mechanism = {"tang": Tang, "pta": PTA}[name](slots=1, tokens=1, top_k=5)
    model = AdversarialModel(poison=False)
    demos, _, _ = run(mechanism, ["only record"], knob=0.0, model=model)
    private, public = read_prompt(model, "only record"), read_prompt(model)
    base = model.log_probs_after([])
    allowed = sorted(
        range(len(public)),
        key=lambda v: -public[v],
    )[:5]
    score = private if name == "tang" else base + private - public
    assert demos[0].text == write_token(
        model,
        max(allowed, key=lambda v: score[v]),
    )


def test_with_noise_off_prism_takes_the_best_blended_score():
    mechanism = Prism(prompts=1, tokens=1, style="completion")
    model = AdversarialModel(poison=False)
    demos, _, _ = run(mechanism, ["only record"], knob=0.0, model=model)
    private, public = read_prompt(model, "only record"), read_prompt(model)
    score = [
        max(-10, p - max(private) + 10) / 2 + max(-10, u - max(public) + 10) / 2
        for p, u in zip(private, public, strict=True)
    ]
    assert demos[0].text == write_token(model, int(np.argmax(score)))


@pytest.mark.parametrize("normalise", ["public", "all"])
def test_amplification_matches_algorithm_1(normalise):
    generator = np.random.default_rng(1)
    private, public, base = (generator.dirichlet(np.ones(6)) for _ in range(3))
    allowed = np.array([4, 1, 2])
    row = PTA(alpha=2.0, normalise=normalise)
    got = row.distributions(
        np.log(private)[None],
        np.log([public, base]),
        allowed,
    )[0]
    weights = base * (private / public) ** 2
    np.testing.assert_allclose(
        got, weights[allowed] / weights[allowed if normalise == "public" else slice(None)].sum()
    )


def test_amplification_keeps_an_impossible_token_at_weight_zero():
    public = np.array(
        [
            -np.inf,
            math.log(0.5),
            math.log(0.5),
        ]
    )
    got = PTA(alpha=2.0).amplify_private(
        np.log([[0.9, 0.05, 0.05]]), public, np.log([0.4, 0.3, 0.3])
    )[0]
    assert got[0] == 0 and got.sum() == pytest.approx(1)


def test_a_class_smaller_than_the_sample_is_refused():
    for mechanism in (
        Tang(slots=20),
        PTA(slots=20),
        Prism(prompts=20),
    ):
        with pytest.raises(UsageError, match="expected sample of 20 records"):
            mechanism.events(
                1.0,
                Sizes(
                    records={"a": 12},
                    shots={"a": 1},
                ),
            )


def test_line_breaks_before_the_first_word_end_nothing():
    model = AdversarialModel()
    text = ReleasedText(TinyTask(), model)
    for token in model.encode('\n "Hello'):
        text.append(token)
    assert not text.ended
    text.append(model.encode("\n")[0])
    assert text.ended
    assert text.demonstration("a").text == "Hello"
