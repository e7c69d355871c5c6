"""Chances of taught tokens: those with which the mechanism itself releases them, in thousands of releases."""

from collections import Counter

import numpy as np
import pytest

from dpicl.harness.core.seeds import Streams
from dpicl.harness.data.task import Record
from dpicl.harness.evaluation.taught_model import TaughtModel
from dpicl.harness.evaluation.teaching import NotTaught, Teacher, taught_chances
from dpicl.harness.mechanism.bases import Context
from dpicl.harness.mechanism.generation import ReleasedText, taught
from dpicl.harness.privacy.ledger import Ledger
from dpicl.harness.privacy.primitives import GaussianSum
from dpicl.harness.privacy.private_set import PrivateSet
from dpicl.harness.privacy.release_hooks import observing
from dpicl.mechanisms.hot_pate import HotPATE
from dpicl.mechanisms.invisible_ink import InvisibleInk
from dpicl.mechanisms.prism import Prism
from dpicl.mechanisms.private_prediction import PrivatePrediction
from dpicl.mechanisms.pta import PTA
from dpicl.mechanisms.tang import Tang
from tests.mechanisms.adversarial import AdversarialModel, TinyTask

RECORDS = [Record(f"record number {i}", "a") for i in range(12)]
TOKENS = 3
MECHANISMS = [
    (Tang(slots=5, tokens=TOKENS, top_k=4), 0.4),
    (Tang(slots=3, examples_per_slot=2, tokens=TOKENS, top_k=4), 0.3),
    (PTA(slots=5, tokens=TOKENS, top_k=4), 3.0),
    (HotPATE(slots=5, tokens=TOKENS, top_k=4), 0.4),
    (Prism(prompts=5, tokens=TOKENS), 0.5),
    (InvisibleInk(prompts=5, tokens=TOKENS, top_k=4), 0.3),
    (PrivatePrediction(prompts=5, tokens=TOKENS, private_tokens=1, threshold=0.35), 0.8),
    (PrivatePrediction(prompts=5, tokens=TOKENS, private_tokens=9, threshold=0.3), 0.8),
]
names = [f"{mechanism.name}-{number}" for number, (mechanism, _) in enumerate(MECHANISMS)]


class NoEnd(TinyTask):
    stop_strings = ()


class SameCoins:
    """One sample, whenever it is asked for."""

    def uniform(self, size):
        return np.random.default_rng(size).random(size)


class Listening:
    """A lesson that changes nothing but the end."""

    def __init__(self, generator):
        self.generator, self.tokens = generator, []

    def said(self, token):
        self.tokens.append(token)
        return token, len(self.tokens) == TOKENS

    def offered(self, scores):
        return int((scores + self.generator.gumbel(size=len(scores))).argmax())


def release(mechanism, knob, model, seed):
    streams = Streams(seed)
    private = PrivateSet(
        RECORDS,
        Ledger(None, float("inf")),
        sizes={"a": len(RECORDS)},
        sampling=SameCoins(),
        noise=streams.source("noise"),
    )
    return mechanism.release(private, Context(NoEnd(), model, ("a",), knob, streams.public))


def chances(mechanism, knob, tokens, seed=0):
    model = TaughtModel(AdversarialModel(poison=False))

    def run(teacher):
        model.follow(teacher)
        with observing(teacher), taught(teacher):
            release(mechanism, knob, model, seed)

    return taught_chances(run, tokens, model.vocab_size)


class Remembering(AdversarialModel):
    """Reads every prompt once."""

    def __init__(self):
        super().__init__(poison=False)
        self.known = {}

    def log_probs_after(self, prompt):
        key = tuple(prompt)
        if key not in self.known:
            self.known[key] = super().log_probs_after(prompt)
        return self.known[key]


@pytest.mark.parametrize(("mechanism", "knob"), MECHANISMS, ids=names)
def test_texts_are_released_as_often_as_their_chances_say(mechanism, knob):
    model, texts, releases = Remembering(), Counter(), 300
    for seed in range(releases):
        listening = Listening(np.random.default_rng(seed))
        with taught(listening):
            release(mechanism, knob, model, seed)
        texts[tuple(listening.tokens)] += 1
    assert len(texts) > 5
    for tokens, count in texts.most_common(3):
        seeds = range(60) if isinstance(mechanism, HotPATE) else range(1)
        expected = np.prod(np.mean([chances(mechanism, knob, tokens, seed) for seed in seeds], axis=0))
        assert abs(count / releases - expected) < 5 * np.sqrt(expected * (1 - expected) / releases) + 0.03 * expected


def test_without_noise_the_released_text_is_certain():
    listening = Listening(None)
    mechanism = MECHANISMS[0][0]
    with taught(listening):
        release(mechanism, 0.0, AdversarialModel(poison=False), 0)
    assert chances(mechanism, 0.0, listening.tokens).tolist() == [1.0] * TOKENS
    other = [(listening.tokens[0] + 1) % 97, *listening.tokens[1:]]
    assert chances(mechanism, 0.0, other)[0] == 0.0


def test_every_prompt_is_read_once_whoever_asks():
    model = AdversarialModel(poison=False)
    shared, tokens = TaughtModel(model), [5, 6, 7]

    def run(teacher, mechanism=MECHANISMS[0][0], knob=1.0):
        shared.follow(teacher)
        with observing(teacher), taught(teacher):
            release(mechanism, knob, shared, 0)

    taught_chances(run, tokens, model.vocab_size)
    read = len(model.prompts_seen)
    taught_chances(lambda teacher: run(teacher, HotPATE(slots=5, tokens=TOKENS, top_k=9), 0.2), tokens, 97)
    assert len(model.prompts_seen) == read == len(set(model.prompts_seen))
    shared.forget()
    taught_chances(run, tokens, model.vocab_size)
    assert len(model.prompts_seen) == 2 * read


class Deaf(Tang):
    """Goes on with what it released itself."""

    def write(self, label, private, context):
        token = GaussianSum(context.knob, True)
        sampler = private.poisson_slots(5, None, partition="a", releases=token.event, times=TOKENS)
        tokens = []
        text = ReleasedText(context.task, context.model)
        while len(text.tokens) < TOKENS:
            sample = sampler.draw()
            prompts = [[1, *context.model.encode(slot[0].text), *tokens] for slot in sample.slots]
            rows = np.exp(context.model.next_token_log_probs(prompts).numpy())
            tokens.append(token.choose(rows[:, :50], sample, np.arange(50)))
            text.append(tokens[-1])
        return text.demonstration(label)


class Silent(Tang):
    """Does not say which tokens its releases choose among."""

    def write(self, label, private, context):
        token = GaussianSum(context.knob, True)
        sample = private.poisson_slots(5, None, partition="a", releases=token.event).draw()
        token.choose(np.ones((len(sample.slots), 3)), sample)


def test_what_cannot_be_followed_is_refused():
    deaf, silent = Deaf(slots=5, tokens=TOKENS), Silent(slots=5, tokens=TOKENS)
    with pytest.raises(NotTaught, match="ReleasedText"):
        chances(deaf, 1.0, [90, 3, 4])
    with pytest.raises(NotTaught, match="ids"):
        chances(silent, 1.0, [90, 3, 4])
    with pytest.raises(NotTaught, match="whole texts"):
        TaughtModel(AdversarialModel()).generate([[1]], 5)
    teacher = Teacher([1], 97)
    with pytest.raises(NotTaught, match="no noisy release"):
        taught_chances(lambda own: own.said(3), [1], 97)
    with pytest.raises(NotTaught, match="writes no text"):
        taught_chances(lambda own: None, [1], 97)
    teacher.said(1)
    with pytest.raises(NotTaught, match="more than one text"):
        teacher.said(1)
