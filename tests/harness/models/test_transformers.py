"""TransformersLM against a reader that reads every prompt alone from its first token."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.core.errors import ModelError, PromptTooLong
from dpicl.models import products
from dpicl.models.base import ChatPrompt
from dpicl.models.products import linear_layers
from tests.harness.models.tiny import SlowReader

TOLERANCE = 1e-4


def random_prompts(lengths: list[int], seed: int = 0, shared: int = 0) -> list[list[int]]:
    """Prompts of these lengths after `shared` common tokens."""
    generator = np.random.default_rng(seed)
    beginning = generator.integers(4, 300, size=shared).tolist()
    return [beginning + generator.integers(4, 300, size=length).tolist() for length in lengths]


def expected(slow: SlowReader, prompts: list[list[int]]) -> torch.Tensor:
    return torch.stack([slow.next_token(prompt) for prompt in prompts])


def test_only_what_a_prompt_shares_with_the_prefix_is_spared(tiny, slow):
    prefix = random_prompts([40])[0]
    prompts = [prefix, prefix[:30], [*prefix[:20], 5, 6], [7, 8], [*prefix, 9]]
    state = tiny.prefix(prefix)
    before = tiny.usage.tokens_read
    answer = tiny.next_token_log_probs(prompts, state)
    assert tiny.usage.tokens_read - before == 1 + 1 + 2 + 2 + 1
    torch.testing.assert_close(answer, expected(slow, prompts), atol=TOLERANCE, rtol=0)


def test_a_prefix_may_begin_with_a_shorter_one(tiny, slow):
    prompt = random_prompts([90])[0]
    longer = tiny.prefix(prompt[:70], tiny.prefix(prompt[:30]))
    assert tiny.usage.tokens_read == 70
    torch.testing.assert_close(
        tiny.next_token_log_probs([prompt], longer),
        expected(slow, [prompt]),
        atol=TOLERANCE,
        rtol=0,
    )
    assert tiny.usage.tokens_read == 90


def test_empty_prompt_means_after_the_start_token(tiny, slow):
    start = tiny.tokenizer.bos_token_id
    answer = tiny.next_token_log_probs([[], [5, 6]])
    assert answer.dtype == torch.float32
    torch.testing.assert_close(answer, expected(slow, [[start], [5, 6]]), atol=TOLERANCE, rtol=0)


ENDINGS = [[5], [6, 7, 8], [6, 7, 9], [6, 10], [200, 201], []]


def test_query_that_is_the_prefix_is_scored_right_after_it(tiny, slow):
    prefix = random_prompts([12])[0]
    scores = tiny.score([(prefix, ENDINGS), ([*prefix, 7, 7], ENDINGS)], tiny.prefix(prefix))
    assert scores[0] == pytest.approx(
        [slow.ending(prefix, ending) for ending in ENDINGS], abs=TOLERANCE
    )
    assert scores[1] == pytest.approx(
        [slow.ending([*prefix, 7, 7], ending) for ending in ENDINGS], abs=TOLERANCE
    )


def test_prompts_that_do_not_fit_are_refused(tiny):
    full = [5] * tiny.max_length
    tiny.next_token_log_probs([full])
    calls = [
        lambda: tiny.next_token_log_probs([[5], [*full, 5]]),
        lambda: tiny.decoder([[*full, 5]]),
        lambda: tiny.decoder([full]).append(5),
        lambda: tiny.prefix([*full, 5]),
        lambda: tiny.score([([*full, 5], [[6]])], tiny.prefix(full[:-2])),
        lambda: tiny.score([(full, [[6], [6, 7]])], tiny.prefix(full[:-2])),
        lambda: tiny.generate([full[:-2]], 3),
    ]
    for call in calls:
        with pytest.raises(PromptTooLong, match="shorter"):
            call()
    assert len(tiny.score([(full, [[6]])], tiny.prefix(full[:-2]))[0]) == 1


def test_text_survives_encoding_and_decoding(tiny):
    for text in ["", " Answer: Sports\n\n", "  two  spaces\tand é 漢 🙂", "1,234 \r\n x"]:
        assert tiny.decode(tiny.encode(text)) == text


def test_special_tokens_are_left_out_of_text(tiny):
    assert (
        tiny.decode([tiny.tokenizer.bos_token_id, *tiny.encode("World"), tiny.eos_token_id])
        == "World"
    )


def test_chat_prompt_gets_the_template(tiny):
    tokens = tiny.encode(ChatPrompt("Hello", assistant_prefix="Text:"))
    assert tiny.tokenizer.decode(tokens) == "<user>Hello</s><bot>Text:"


def test_chat_prompt_without_template_is_an_error(tiny):
    tiny.tokenizer.chat_template = None
    with pytest.raises(ModelError, match="completion"):
        tiny.encode(ChatPrompt("Hello"))


def test_bos_is_put_before_prompts_where_the_tokenizer_wants_it(tiny, slow):
    bos = tiny.tokenizer.bos_token_id
    tiny._tokens.lead = [bos]
    torch.testing.assert_close(
        tiny.next_token_log_probs([[7, 8], [bos, 7, 8], []]),
        expected(slow, [[bos, 7, 8], [bos, 7, 8], [bos]]),
        atol=TOLERANCE,
        rtol=0,
    )
    for prefix, query in (([], [7, 8]), ([7], [8]), ([], [])):
        score = tiny.score([(prefix + query, [[9, 10]])], tiny.prefix(prefix))[0][0]
        assert score == pytest.approx(slow.ending([bos, *prefix, *query], [9, 10]), abs=TOLERANCE)


def test_products_are_of_layers_in_float32_on_a_processor(tiny):
    assert linear_layers(tiny.model) and not linear_layers(tiny.model.to(torch.bfloat16))


def test_a_measure_of_one_library_is_not_believed_of_the_other(tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    for chosen in (False, True, False, True):
        monkeypatch.setattr(products, "prefers_mkl", partial(bool, chosen))
        assert models.load(f"hf:{tiny_folder}", device="cpu", dtype="float32").identity.arithmetic
    assert len(list((tmp_path / "models" / "independence").iterdir())) == 2
