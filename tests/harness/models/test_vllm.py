"""The real vLLM as an engine, in an environment of its own (`make vllm`), against the same weights in this process."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.models.embedded import cached_model
from dpicl.results.schema import from_text
from tests.harness.models.test_real_servers import SUITE, TEXTS
from tests.harness.models.vllm_process import ENVIRONMENT, PYTHON, ROOT

pytestmark = [pytest.mark.server, pytest.mark.model]


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
