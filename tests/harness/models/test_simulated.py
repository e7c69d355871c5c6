from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpicl import models
from dpicl.core.errors import PromptTooLong, UsageError
from dpicl.models.base import ChatPrompt, LanguageModel
from dpicl.models.simulated import SimulatedLM


@pytest.fixture(scope="module")
def sim() -> LanguageModel:
    return models.load("sim")


@given(st.text())
def test_any_text_survives_encoding_and_decoding(text: str) -> None:
    model = SimulatedLM()
    assert model.decode(model.encode(text)) == text


def test_log_probs_are_a_distribution_that_depends_on_the_prompt(sim: LanguageModel) -> None:
    rows = sim.next_token_log_probs(
        [sim.encode("The film"), sim.encode("The school is a school"), []]
    )
    assert rows.dtype == torch.float32
    assert rows.shape == (3, sim.vocab_size)
    torch.testing.assert_close(rows.exp().sum(dim=1), torch.ones(3))
    assert not torch.allclose(rows[0], rows[1])


def test_same_seed_same_model(sim: LanguageModel) -> None:
    prompt = [sim.encode("A new")]
    same, other = models.load("sim"), models.load("sim:7")
    assert torch.equal(sim.next_token_log_probs(prompt), same.next_token_log_probs(prompt))
    assert not torch.equal(sim.next_token_log_probs(prompt), other.next_token_log_probs(prompt))
    assert same.identity == sim.identity
    assert other.identity.name == "sim:7"


def test_chat_prompt_ends_with_the_assistants_words(sim: LanguageModel) -> None:
    assert sim.decode(sim.encode(ChatPrompt("Write.", "Text:"))).endswith("Text:")


def test_long_prompts_are_refused(sim: LanguageModel) -> None:
    with pytest.raises(PromptTooLong):
        sim.next_token_log_probs([[5] * (sim.max_length + 1)])
    with pytest.raises(PromptTooLong):
        sim.decoder([[5] * sim.max_length]).append(5)


@pytest.mark.parametrize("option", ["fast", "9" * 5000])
def test_unknown_option_is_an_error(option: str) -> None:
    with pytest.raises(UsageError, match="whole number"):
        models.load(f"sim:{option}")
