import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpicl import models
from dpicl.core.errors import PromptTooLong, UsageError
from dpicl.models.base import ChatPrompt
from dpicl.models.simulated import SimulatedLM


@pytest.fixture(scope="module")
def sim():
    return models.load("sim")


@given(st.text())
def test_any_text_survives_encoding_and_decoding(text):
    model = SimulatedLM()
    assert model.decode(model.encode(text)) == text


def test_same_seed_same_model(sim):
    prompt = [sim.encode("A new")]
    same, other = models.load("sim"), models.load("sim:7")
    assert torch.equal(sim.next_token_log_probs(prompt), same.next_token_log_probs(prompt))
    assert not torch.equal(sim.next_token_log_probs(prompt), other.next_token_log_probs(prompt))
    assert same.identity == sim.identity
    assert other.identity.name == "sim:7"


def test_chat_prompt_ends_with_the_assistants_words(sim):
    assert sim.decode(sim.encode(ChatPrompt("Write.", "Text:"))).endswith("Text:")


def test_long_prompts_are_refused(sim):
    with pytest.raises(PromptTooLong):
        sim.next_token_log_probs([[5] * (sim.max_length + 1)])
    with pytest.raises(PromptTooLong):
        sim.decoder([[5] * sim.max_length]).append(5)


@pytest.mark.parametrize("option", ["fast", "9" * 5000])
def test_unknown_option_is_an_error(option):
    with pytest.raises(UsageError, match="whole number"):
        models.load(f"sim:{option}")
