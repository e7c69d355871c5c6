"""The real vLLM, in a process and an environment of its own (`make vllm`), against the same weights in this process."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.core.together import run_together
from dpicl.models.embedded import cached_model
from dpicl.models.server import ServerLM
from dpicl.results.schema import from_text
from tests.harness.models.server_process import ServerProcess, run_process

pytestmark = [pytest.mark.server, pytest.mark.model]

ROOT = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("DPICL_VLLM", ROOT / ".venv-vllm" / "bin" / "python"))
TEXTS = ("The capital of France is", "Classify the news. Text: Oil prices fell.\nTopic:", "In 2024, 17 of   365 days")
SUITE = """\
name: vllm
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


def vllm_server(folder: Path, *flags: str) -> ServerProcess:
    words: tuple[str, ...]
    words = ("-m", "vllm.entrypoints.openai.api_server", "--model", str(folder), "--served-model-name", "smollm2")
    words += ("--host", "127.0.0.1", "--dtype", "float32", "--max-model-len", "2048", "--max-num-seqs", "16")
    return ServerProcess(
        lambda port: [str(PYTHON), *words, "--enforce-eager", "--port", str(port), *flags],
        VLLM_CPU_KVCACHE_SPACE="1",
        VLLM_CPU_OMP_THREADS_BIND="nobind",
        VLLM_NO_USAGE_STATS="1",
        HF_HUB_OFFLINE="1",
        PYTHONPATH="",
    )


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    if not PYTHON.exists():
        pytest.skip(f"vLLM is not installed in an environment of its own ({PYTHON} is missing): make vllm")
    try:
        folder = cached_model()
    except ModelError as error:
        pytest.skip(str(error))
    with run_process(vllm_server(folder, "--max-logprobs", "-1"), 300) as started:
        yield started


def load(server: ServerProcess, **settings: object) -> ServerLM:
    more = "".join(f"&{key}={value}" for key, value in settings.items())
    found = models.load(f"server:{server.url}?tokenizer={cached_model()}{more}")
    assert isinstance(found, ServerLM)
    return found


def test_the_record_says_what_it_can_do(server: ServerProcess) -> None:
    record = load(server).server
    assert record is not None and (record.kind, record.model, record.context) == ("vllm", "smollm2", 2048)
    assert record.vocabulary and record.listed_ids == 128 and record.version and record.mixes is not None
    assert load(server, top=20).server.top_tokens == 20


def test_numbers_are_those_of_this_process(server: ServerProcess) -> None:
    model, here = load(server), models.load("embedded-float32")
    prompts = [here.encode(text) for text in TEXTS]
    expected = here.next_token_log_probs(prompts)
    torch.testing.assert_close(model.next_token_log_probs(prompts), expected, atol=1e-3, rtol=0)
    listed = expected[0].argsort()[:200].tolist()  # in two requests
    torch.testing.assert_close(
        model.listed_log_probs(prompts, listed)[:, listed], expected[:, listed], atol=1e-3, rtol=0
    )
    labels = [here.encode(f" {label}") for label in ("World", "Sports", "Business", "Technology")]
    ((ours,), (theirs,)) = here.score([(prompts[1], labels)]), model.score([(prompts[1], labels)])
    assert theirs == pytest.approx(ours, abs=1e-3)
    assert model.generate(prompts, 8) == here.generate(prompts, 8)


def test_kinds_of_requests_that_come_together_are_answered_in_full(server: ServerProcess) -> None:
    model, here = load(server, window=16), models.load("embedded-float32")
    prompts = [model.encode(f"Item {at}: the news of the day is") for at in range(12)]
    likeliest = [partial(model.likeliest_log_probs, [prompt], 20) for prompt in prompts]
    listed = [partial(model.listed_log_probs, [prompt], [5, 6, 7, 8]) for prompt in prompts]
    found = run_together([job for pair in zip(likeliest, listed, strict=True) for job in pair])
    assert Counter(int((row > -torch.inf).sum()) for row in found[::2]) == {20: 12}
    expected = here.next_token_log_probs(prompts)
    for row, other, right in zip(found[::2], found[1::2], expected, strict=True):
        known = row[0] > -torch.inf
        torch.testing.assert_close(row[0][known], right[known], atol=1e-3, rtol=0)
        torch.testing.assert_close(other[0, 5:9], right[5:9], atol=1e-3, rtol=0)


def test_mechanisms_of_each_need_run_through_it(server: ServerProcess, dpicl, tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE, encoding="utf-8")
    name = f"server:{server.url}?tokenizer={cached_model()}"
    answer = dpicl("run", suite, "--model", name, "--results", tmp_path / "results")
    assert answer.code == 0, answer.err
    results = [from_text(path.read_text()) for path in (tmp_path / "results").rglob("*.json")]
    assert {result.cell.label for result in results} == {"voting", "tang", "prism"}
    assert all(0 < result.privacy.epsilon_proved <= 8 for result in results)


def test_a_restart_with_other_flags_is_named(server: ServerProcess) -> None:
    model, flags = load(server), server.words
    prompt = model.encode(TEXTS[0])
    server.kill()
    server.words = lambda port: [word for word in flags(port) if word not in ("--max-logprobs", "-1")]
    server.start(300)
    with pytest.raises(ModelError, match="49152 likeliest tokens, and refuses to"):
        model.next_token_log_probs([prompt])
