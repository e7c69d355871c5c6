"""The real vLLM, in a process and an environment of its own (`make vllm`), against the same weights in this process."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
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
from tests.harness.models.server_process import NotStarted, ServerProcess
from tests.harness.models.vllm_process import ENVIRONMENT, PYTHON, ROOT, vllm_server

pytestmark = [pytest.mark.server, pytest.mark.model]

TEXTS = (
    "The capital of France is",
    "Classify the news. Text: Oil prices fell.\nTopic:",
    "In 2024, 17 of   365 days",
)
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


@pytest.fixture(scope="module")
def server():
    if not PYTHON.exists():
        pytest.skip(
            f"vLLM is not installed in an environment of its own ({PYTHON} is missing): make vllm"
        )
    try:
        folder = cached_model()
    except ModelError as error:
        pytest.skip(str(error))
    started = vllm_server(folder, "--max-logprobs", "-1")
    try:
        started.start(600)  # it takes 20 s on an idle machine, and minutes beside other work
    except NotStarted as error:
        pytest.skip(str(error))
    yield started
    started.kill()


#: Prints what the engine reads of a folder (the first argument) after some texts (the second).
READ = """
import json, sys
from dpicl import models
from dpicl.models.vllm_engine import are_rows_alone

model = models.load(f"vllm:{sys.argv[1]}?context=2048", dtype="float32")
prompts = [model.encode(text) for text in json.loads(sys.argv[2])]
listed = list(range(0, model.vocab_size, 200))
labels = [model.encode(f" {label}") for label in ("World", "Sports", "Business", "Technology")]
identity = model.identity
print(json.dumps({
    "rows": model.next_token_log_probs(prompts).tolist(),
    "listed": model.listed_log_probs(prompts, listed)[:, listed].tolist(),
    "scores": model.score([(prompts[1], labels)])[0],
    "texts": model.generate(prompts, 8),
    "batch_invariant": identity.batch_invariant,
    "alone": are_rows_alone(model, 256),
    "pin": identity.pin,
    "parameters": identity.parameters,
}))
"""


def load(server: ServerProcess, **settings: object) -> ServerLM:
    more = "".join(f"&{key}={value}" for key, value in settings.items())
    found = models.load(f"server:{server.url}?tokenizer={cached_model()}{more}")
    assert isinstance(found, ServerLM)
    return found


def test_the_record_says_what_it_can_do(server):
    record = load(server).server
    assert (record.kind, record.model, record.context) == ("vllm", "smollm2", 2048)
    assert record.vocabulary and record.listed_ids == 128 and record.version
    assert record.mixes is not None and load(server, top=20).server.top_tokens == 20


def test_numbers_are_those_of_this_process(server):
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


def test_requests_that_come_together_are_answered_in_full(server):
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


def test_mechanisms_of_each_need_run_through_it(server, dpicl, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE, encoding="utf-8")
    name = f"server:{server.url}?tokenizer={cached_model()}"
    answer = dpicl("run", suite, "--model", name, "--results", tmp_path / "results")
    assert answer.code == 0, answer.err
    results = [from_text(path.read_text()) for path in (tmp_path / "results").rglob("*.json")]
    assert {result.cell.label for result in results} == {"voting", "tang", "prism"}
    assert all(0 < result.privacy.epsilon_proved <= 8 for result in results)


def test_a_restart_with_other_flags_is_named(server):
    model, flags = load(server), server.words
    prompt = model.encode(TEXTS[0])
    server.kill()
    server.words = lambda port: [
        word for word in flags(port) if word not in ("--max-logprobs", "-1")
    ]
    server.start(600)
    with pytest.raises(ModelError, match="49152 likeliest tokens, and refuses to"):
        model.next_token_log_probs([prompt])


# --- in the process that reads ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder():
    """The embedded model's, where this project is installed beside vLLM."""
    if (
        not PYTHON.exists()
        or subprocess.run([PYTHON, "-c", "import greenlet, dp_accounting, vllm"]).returncode
    ):
        pytest.skip(
            f"vLLM and this project are not installed in one environment ({PYTHON}): make vllm"
        )
    try:
        return cached_model()
    except ModelError as error:
        pytest.skip(str(error))


def run_beside_vllm(*words: str | Path) -> str:
    """What a command of that environment prints."""
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT / "harness")}
    done = subprocess.run(
        [PYTHON, *words], env=environment, cwd=ROOT, capture_output=True, text=True, timeout=550
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_engine_gives_the_numbers_of_this_process(
    folder,
):
    found = json.loads(run_beside_vllm("-c", READ, str(folder), json.dumps(TEXTS)))
    here = models.load("embedded-float32")
    prompts = [here.encode(text) for text in TEXTS]
    expected = here.next_token_log_probs(prompts)
    torch.testing.assert_close(torch.tensor(found["rows"]), expected, atol=1e-3, rtol=0)
    for row, other in zip(found["listed"], expected, strict=True):
        torch.testing.assert_close(torch.tensor(row), other[::200], atol=1e-3, rtol=0)
    labels = [here.encode(f" {label}") for label in ("World", "Sports", "Business", "Technology")]
    (ours,) = here.score([(prompts[1], labels)])
    assert found["scores"] == pytest.approx(ours, abs=1e-3)
    assert found["texts"] == here.generate(prompts, 8)
    assert found["batch_invariant"] is False and isinstance(
        found["alone"], bool
    )  # a processor has no such mode
    assert (
        found["pin"] == models.identify(f"hf:{folder}")
        and found["parameters"] == here.identity.parameters
    )


def test_cells_run_with_the_engine_and_stdout_is_the_answer(folder, tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text(SUITE, encoding="utf-8")
    name = f"vllm:{folder}?context=2048"
    said = run_beside_vllm(
        "-m", "dpicl", "run", suite, "--model", name, "--results", tmp_path / "results", "--json"
    )
    assert {cell["status"] for cell in json.loads(said)["cells"]} == {"done"}
    results = [from_text(path.read_text()) for path in (tmp_path / "results").rglob("*.json")]
    assert {result.cell.label for result in results} == {"voting", "tang", "prism"}
    assert all(result.manifest.model.batch_invariant is False for result in results)
