"""The real server of llama.cpp, in a process of its own, against the same weights in this process."""

import importlib.util

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.models.base import ChatPrompt
from dpicl.models.embedded import cached_model, gguf_path
from dpicl.models.server import ServerLM
from dpicl.results.schema import from_text
from tests.harness.models.llama_cpp_server import llama_server
from tests.harness.models.server_process import NotStarted

pytestmark = [pytest.mark.server, pytest.mark.model]

TEXTS = (
    "The capital of France is",
    "Classify the news. Text: Oil prices fell sharply on Monday.\nTopic:",
    "In 2024, 17 of 365 days   were naïve 東京.",
)
SUITE = """\
name: llama_cpp
version: 1
source: synthetic
models: [sim]
seeds: [0]
epsilons: [8]
shots: 1
test_records: 3
train_records: 40
tasks: [agnews]
mechanisms:
  - {name: voting, options: {slots: 3, examples_per_slot: 1, record_tokens: 20}}
  - {name: tang, options: {slots: 3, examples_per_slot: 1, tokens: 4, top_k: 50, record_tokens: 20}}
"""


@pytest.fixture(scope="module")
def server():
    if importlib.util.find_spec("xllamacpp") is None:
        pytest.skip("the wheel xllamacpp is not installed: pip install xllamacpp")
    try:
        path = gguf_path()
    except ModelError as error:
        pytest.skip(str(error))
    started = llama_server(path)
    try:
        started.start()
    except NotStarted as error:
        pytest.skip(str(error))
    yield started
    started.kill()


@pytest.fixture
def model(server):
    found = models.load(f"server:{server.url}?window=4&tokenizer={cached_model()}")
    assert isinstance(found, ServerLM)
    return found


def test_the_record_says_what_it_can_do(model):
    record = model.server
    assert (
        record is not None
        and record.kind == "llama.cpp"
        and record.model == "smollm2"
        and record.loopback
    )
    assert record.vocabulary and record.listed_ids == 1024 and record.context == 2048
    assert model.vocab_size == 49152 and model.identity.parameters > 10**8


def test_numbers_are_close_to_those_of_this_process(model):
    own = models.load("embedded-float32")
    prompts = [own.encode(text) for text in TEXTS]
    assert [model.encode(text) for text in TEXTS] == prompts
    chat = ChatPrompt("Write a headline.", "Sure")
    assert model.encode(chat) == own.encode(chat)
    assert [model.decode(prompt) for prompt in prompts] == [
        own.decode(prompt) for prompt in prompts
    ]
    ours, theirs = (
        own.next_token_log_probs(prompts).exp(),
        model.next_token_log_probs(prompts).exp(),
    )
    assert theirs.sum(dim=1).tolist() == pytest.approx([1.0] * 3, abs=2e-3)
    assert (
        float((ours - theirs).abs().sum(dim=1).max()) / 2 < 0.15
    )  # it multiplies 4-bit weights by 8-bit activations
    listed = ours[1].argsort()[:40].tolist()
    some = model.listed_log_probs(prompts[1:2], listed)[0, listed]
    torch.testing.assert_close(some.exp(), theirs[1, listed], atol=1e-4, rtol=0)
    labels = [own.encode(f" {label}") for label in ("World", "Sports", "Business", "Technology")]
    ((here,), (there,)) = own.score([(prompts[1], labels)]), model.score([(prompts[1], labels)])
    assert there == pytest.approx(here, abs=0.5)
    assert model.generate(prompts[:1], 1) == own.generate(prompts[:1], 1)


def test_voting_and_tang_run_through_it(server, dpicl, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE, encoding="utf-8")
    name = f"server:{server.url}?window=4&tokenizer={cached_model()}"
    answer = dpicl("run", suite, "--model", name, "--results", tmp_path / "results")
    assert answer.code == 0, answer.err
    results = {
        r.cell.label: r
        for r in map(from_text, (p.read_text() for p in (tmp_path / "results").rglob("*.json")))
    }
    assert set(results) == {"voting", "tang"}
    for result in results.values():
        assert 0 < result.privacy.epsilon_proved <= 8 and result.manifest.server is not None
        assert result.manifest.model.batch_invariant is False
    assert len(results["voting"].answers) == 3 and results["tang"].released_count == 1


def test_a_server_that_is_killed_and_started_again_goes_on(server, model):
    prompt = model.encode(TEXTS[1])
    before = model.listed_log_probs([prompt], range(100, 140))[:, 100:140]
    server.kill()
    server.start()
    again = model.listed_log_probs([prompt], range(100, 140))[:, 100:140]
    torch.testing.assert_close(before, again, atol=0.1, rtol=0)
