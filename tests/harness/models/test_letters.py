"""A model of somebody's own: what `RereadingModel` makes of one function, and how it comes onto a board."""

import json
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core.errors import PromptTooLong
from dpicl.models.base import ChatPrompt
from tests.harness.helpers import refuse

FILE = Path(__file__).parent / "letters.py"


@pytest.fixture
def letters(dpicl, no_plugins_before):
    """The model, made known as a plugin."""
    assert dpicl("list", "models", "--plugin", FILE).code == 0
    return models.load("letters")


def test_a_model_of_one_function_is_a_language_model(letters):
    prompts = [
        letters.encode(text) for text in ("the", "", "people of", ChatPrompt("Hello", "Yes"))
    ]
    rows = letters.next_token_log_probs(prompts)
    assert rows.shape == (4, letters.vocab_size) and rows.dtype == torch.float32
    assert torch.allclose(rows.exp().sum(dim=1), torch.ones(4), atol=1e-5)
    assert letters.decode([*letters.encode("Grüße"), letters.eos_token_id]) == "Grüße"

    decoder = letters.decoder(prompts)
    decoder.append(104)
    assert torch.equal(
        decoder.log_probs, letters.next_token_log_probs([[*prompt, 104] for prompt in prompts])
    )

    ending = letters.encode("he")
    query = letters.encode("the t")
    (row,) = letters.score([(query, [ending, []])], letters.prefix(prompts[0]))
    first, second = letters.next_token_log_probs([query, letters.encode("the th")])
    assert row == pytest.approx([float(first[ending[0]] + second[ending[1]]), 0], abs=1e-5)

    greedy = int(rows[0].argmax())
    assert letters.generate([prompts[0]], 1) == [letters.decode([greedy])]
    with pytest.raises(PromptTooLong):
        letters.generate([[97] * 4090], 10)


def test_a_model_of_one_s_own_is_on_the_board_by_its_fingerprint(
    dpicl, sim_suite, letters, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    flags = ["--plugin", FILE, "--model", "letters:0.5"]
    run = dpicl("run", sim_suite, *flags, "--mechanism", "zero_shot", "--json")
    assert run.code == 0, run.err
    (cell, *_) = run.json["cells"]
    identity = json.loads(Path(cell["path"]).read_text())["manifest"]["model"]
    assert identity["name"] == "letters:0.5"
    assert (
        identity["sha256"] == models.load("letters:0.5").identity.sha256 != letters.identity.sha256
    )
    assert dpicl("board", sim_suite, *flags).code == 0
    refuse(dpicl("run", sim_suite, "--plugin", FILE, "--model", "letters:many"), "letters:NUMBER")
