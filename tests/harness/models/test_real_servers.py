"""Real model servers, llama.cpp's and vLLM's (`make vllm`), in processes of their own, against the same weights in this
process."""

from functools import partial
from importlib.util import find_spec

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.core.together import run_together
from dpicl.models.base import ChatPrompt
from dpicl.models.embedded import cached_model, gguf_path
from dpicl.results.schema import from_text
from tests.harness.models.llama_cpp_server import llama_server
from tests.harness.models.server_process import NotStarted, ServerProcess
from tests.harness.models.vllm_process import PYTHON, vllm_server

pytestmark = [pytest.mark.server, pytest.mark.model]

TEXTS = (
    "The capital of France is",
    "Classify the news. Text: Oil prices fell sharply on Monday.\nTopic:",
    "In 2024, 17 of 365 days   were naïve 東京.",
)
SUITE = """\
name: servers
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
  - {name: prism, options: {prompts: 3, tokens: 3, record_tokens: 20}}
"""
#: (tolerance of log-probabilities of labels, of distances of distributions, tokens that are written alike): llama.cpp
#: multiplies 4-bit weights by 8-bit activations.
ALIKE = {"llama.cpp": (0.5, 0.15, 1), "vllm": (1e-3, 1e-3, 8)}


def start(kind: str) -> ServerProcess:
    """Raises NotStarted or ModelError."""
    if kind == "llama.cpp":
        if find_spec("xllamacpp") is None:
            raise NotStarted("the wheel xllamacpp is not installed: pip install xllamacpp")
        process, seconds = llama_server(gguf_path()), 120
    else:
        if not PYTHON.exists():
            raise NotStarted(f"vLLM is not installed on its own ({PYTHON} is missing): make vllm")
        # it takes 20 s on an idle machine, and minutes beside other work
        process, seconds = vllm_server(cached_model(), "--max-logprobs", "-1"), 600
    process.start(seconds)
    return process


@pytest.fixture(scope="module", params=ALIKE)
def server(request):
    """(kind, process)"""
    try:
        process = start(request.param)
    except (ModelError, NotStarted) as error:
        pytest.skip(str(error))
    yield request.param, process
    process.kill()


def name_of(process: ServerProcess, settings: str = "") -> str:
    return f"server:{process.url}?window=4&tokenizer={cached_model()}{settings}"


def test_the_record_says_what_it_can_do(server):
    kind, process = server
    model = models.load(name_of(process))
    record = model.server
    assert (record.kind, record.model, record.context) == (kind, "smollm2", 2048)
    assert record.vocabulary and record.loopback and model.vocab_size == 49152
    assert record.listed_ids == (128 if kind == "vllm" else 1024)
    assert kind == "vllm" or model.identity.parameters > 10**8


def test_numbers_are_close_to_those_of_this_process(server):
    kind, process = server
    near, apart, count = ALIKE[kind]
    model, here = models.load(name_of(process)), models.load("embedded-float32")
    prompts = [here.encode(text) for text in TEXTS]
    assert [model.encode(text) for text in TEXTS] == prompts
    assert [model.decode(prompt) for prompt in prompts] == [here.decode(row) for row in prompts]
    chat = ChatPrompt("Write a headline.", "Sure")
    assert model.encode(chat) == here.encode(chat)
    ours, theirs = here.next_token_log_probs(prompts), model.next_token_log_probs(prompts)
    assert float((ours.exp() - theirs.exp()).abs().sum(dim=1).max()) / 2 < apart
    listed = ours[1].argsort()[:200].tolist()  # of vLLM in two requests
    some = model.listed_log_probs(prompts[1:2], listed)[0, listed]
    torch.testing.assert_close(some.exp(), theirs[1, listed].exp(), atol=1e-4, rtol=0)
    labels = [here.encode(f" {label}") for label in ("World", "Sports", "Business", "Technology")]
    (row,), (other) = here.score([(prompts[1], labels)]), model.score([(prompts[1], labels)])[0]
    assert other == pytest.approx(row, abs=near)
    assert model.generate(prompts[:1], count) == here.generate(prompts[:1], count)


def test_requests_that_come_together_are_answered_in_full(server):
    _, process = server
    model = models.load(name_of(process))
    prompts = [model.encode(f"Item {at}: the news of the day is") for at in range(12)]
    likeliest = [partial(model.likeliest_log_probs, [prompt], 20) for prompt in prompts]
    listed = [partial(model.listed_log_probs, [prompt], [5, 6, 7, 8]) for prompt in prompts]
    found = run_together([job for pair in zip(likeliest, listed, strict=True) for job in pair])
    assert [int((row > -torch.inf).sum()) for row in found[::2]] == [20] * 12
    assert all(bool(row[0, 5:9].isfinite().all()) for row in found[1::2])


def test_mechanisms_of_each_need_run_through_it(server, dpicl, tmp_path):
    suite, folder = tmp_path / "suite.yaml", tmp_path / "results"
    suite.write_text(SUITE, encoding="utf-8")
    answer = dpicl("run", suite, "--model", name_of(server[1]), "--results", folder)
    assert answer.code == 0, answer.err
    results = [from_text(path.read_text()) for path in folder.rglob("*.json")]
    assert {result.cell.label for result in results} == {"voting", "tang", "prism"}
    for result in results:
        assert 0 < result.privacy.epsilon_proved <= 8 and result.manifest.server is not None
        assert result.manifest.model.batch_invariant is False


def test_a_server_that_is_killed_and_started_again_goes_on(server):
    _, process = server
    model = models.load(name_of(process))
    prompt = model.encode(TEXTS[1])
    before = model.listed_log_probs([prompt], range(100, 140))[:, 100:140]
    process.kill()
    process.start(600)
    again = model.listed_log_probs([prompt], range(100, 140))[:, 100:140]
    torch.testing.assert_close(before, again, atol=0.1, rtol=0)


def test_a_restart_with_other_flags_is_named(server):
    kind, process = server
    if kind != "vllm":
        pytest.skip("the server of llama.cpp lists all tokens whatever its flags are")
    model, words = models.load(name_of(process)), process.words
    prompt = model.encode(TEXTS[0])
    process.kill()
    process.words = lambda port: [
        word for word in words(port) if word not in ("--max-logprobs", "-1")
    ]
    process.start(600)
    with pytest.raises(ModelError, match="49152 likeliest tokens, and refuses to"):
        model.next_token_log_probs([prompt])
