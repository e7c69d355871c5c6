from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dpicl import models
from dpicl.core.errors import PromptTooLong, UsageError
from dpicl.models.base import ChatPrompt, LanguageModel
from dpicl.models.simulated import SimulatedLM, load_simulated


@pytest.fixture(scope="module")
def sim() -> LanguageModel:
    return models.load("sim")


@given(st.text())
def test_any_text_survives_encoding_and_decoding(text: str) -> None:
    model = SimulatedLM()
    assert model.decode(model.encode(text)) == text


def test_common_words_and_newlines_are_one_token(sim: LanguageModel) -> None:
    for text in ("\n", " World", " Sports", " the", "Film", '"'):
        assert len(sim.encode(text)) == 1


def test_log_probs_are_a_distribution_that_depends_on_the_prompt(sim: LanguageModel) -> None:
    rows = sim.next_token_log_probs([sim.encode("The film"), sim.encode("The school is a school"), []])
    assert rows.dtype == torch.float32
    assert rows.shape == (3, sim.vocab_size)
    torch.testing.assert_close(rows.exp().sum(dim=1), torch.ones(3))
    assert not torch.allclose(rows[0], rows[1])


def test_what_followed_before_is_likely_again(sim: LanguageModel) -> None:
    (token,) = sim.encode(" Business")
    with_it, without = sim.next_token_log_probs(
        [sim.encode("Answer: Business\nAnswer:"), sim.encode("Answer: Sports\nAnswer:")]
    )
    assert with_it[token] > without[token] + 1


def test_same_seed_same_model(sim: LanguageModel) -> None:
    prompt = [sim.encode("A new")]
    same, other = models.load("sim"), models.load("sim:7")
    assert torch.equal(sim.next_token_log_probs(prompt), same.next_token_log_probs(prompt))
    assert not torch.equal(sim.next_token_log_probs(prompt), other.next_token_log_probs(prompt))
    assert same.identity == sim.identity
    assert other.identity.name == "sim:7"


def test_decoder_equals_reading_again(sim: LanguageModel) -> None:
    prompts = [sim.encode("one film"), sim.encode("A village in the")]
    decoder = sim.decoder(prompts)
    for token in sim.encode(" United States"):
        decoder.append(token)
        prompts = [[*prompt, token] for prompt in prompts]
        assert torch.equal(decoder.log_probs, sim.next_token_log_probs(prompts))


def test_scores_are_sums_of_next_token_log_probs(sim: LanguageModel) -> None:
    prefix, query, ending = sim.encode("Article: a film\n"), sim.encode("Answer:"), sim.encode(" Film series")
    total, said = 0.0, [*prefix, *query]
    for token in ending:
        total += float(sim.next_token_log_probs([said])[0, token])
        said.append(token)
    assert sim.score([([*prefix, *query], [ending, []])], sim.prefix(prefix))[0] == pytest.approx(
        [total, 0.0], abs=1e-5
    )


def test_chat_prompt_ends_with_the_assistants_words(sim: LanguageModel) -> None:
    assert sim.decode(sim.encode(ChatPrompt("Write.", "Text:"))).endswith("Text:")


def test_long_prompts_are_refused(sim: LanguageModel) -> None:
    with pytest.raises(PromptTooLong):
        sim.next_token_log_probs([[5] * (sim.max_length + 1)])
    with pytest.raises(PromptTooLong):
        sim.decoder([[5] * sim.max_length]).append(5)


def test_unknown_option_is_an_error() -> None:
    with pytest.raises(UsageError, match="sim:SEED"):
        models.load("sim:fast")


def test_a_seed_with_too_many_digits_is_refused():
    with pytest.raises(UsageError, match="whole number"):
        load_simulated("9" * 5000)
