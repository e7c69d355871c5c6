"""A model behind a real HTTP server gives what it gives in this process, whatever happens on the way."""

from __future__ import annotations

import gc
import gzip
import math
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from dpicl import models
from dpicl.core.errors import DpiclError, ModelError, PromptTooLong, UsageError
from dpicl.core.together import together
from dpicl.models import server_http
from dpicl.models.base import ChatPrompt, LanguageModel
from dpicl.models.server import ServerLM
from dpicl.models.transformers import TransformersLM
from tests.harness.helpers import assert_shown_nowhere
from tests.harness.models import fake_server
from tests.harness.models.fake_server import FakeServer, Handler, says, status

TEXTS = ("The film of the year", "School", "", "the team won the game in the city")
SECRET = "Patient Zero lives at 12 Elm Street"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)


@pytest.fixture
def sim() -> LanguageModel:
    return models.load("sim")


@pytest.fixture
def start() -> Iterator[Callable[..., FakeServer]]:
    started: list[FakeServer] = []

    def make(kind: str, model: LanguageModel, **how: int) -> FakeServer:
        started.append(FakeServer(kind, model, **how))
        return started[-1]

    yield make
    for each in started:
        each.shutdown()
        each.server_close()


@pytest.fixture
def llama(start: Callable[..., FakeServer], sim: LanguageModel) -> FakeServer:
    return start("llama.cpp", sim)


def loaded(server: FakeServer, **how: object) -> ServerLM:
    model = models.load(server.name(**{"patience": 60, "timeout": 30, **how}))
    assert isinstance(model, ServerLM)
    return model


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    torch.testing.assert_close(one, other, atol=2e-5, rtol=0)


def test_it_reads_as_the_same_model_does_in_this_process(llama: FakeServer, sim: LanguageModel) -> None:
    model = loaded(llama)
    assert (model.vocab_size, model.eos_token_id, model.max_length) == (sim.vocab_size, sim.eos_token_id, 4096)
    assert model.server is not None and model.server.vocabulary
    assert model.identity.batch_invariant is False
    prompts = [sim.encode(text) or [5] for text in TEXTS]
    assert [model.encode(text) or [5] for text in TEXTS] == prompts
    assert model.decode(prompts[0]) == TEXTS[0]
    close(model.next_token_log_probs(prompts), sim.next_token_log_probs(prompts))
    unlikely = sim.next_token_log_probs(prompts)[0].argsort()[:90].tolist()
    close(model.listed_log_probs(prompts, unlikely)[:, unlikely], sim.next_token_log_probs(prompts)[:, unlikely])
    endings = [sim.encode(" Sports"), sim.encode(" zebra"), sim.encode(" the x")]
    ours, theirs = model.score([(prompts[0], endings)]), sim.score([(prompts[0], endings)])
    assert ours[0] == pytest.approx(theirs[0], abs=1e-4)
    assert model.generate(prompts, 6, stop=[" "]) == sim.generate(prompts, 6, stop=[" "])
    decoder, other = model.decoder(prompts), sim.decoder(prompts)
    decoder.append(7)
    other.append(7)
    close(decoder.log_probs, other.log_probs)
    few = decoder.likeliest(70)
    assert (few > -torch.inf).sum(dim=1).tolist() == [70] * 4
    assert model.usage.tokens_read > 0


def test_a_model_that_is_no_more_leaves_no_connection_open(llama: FakeServer) -> None:
    model = loaded(llama)
    client = model._connection._client
    assert not client.is_closed
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del model
        gc.collect()
        end = time.monotonic() + 30
        while not client.is_closed and time.monotonic() < end:
            time.sleep(0.01)
        assert client.is_closed
        del client
        gc.collect()
    assert not caught


def test_a_prompt_that_does_not_fit_is_not_sent(llama: FakeServer) -> None:
    model = loaded(llama, context=20)
    before = len(llama.seen)
    with pytest.raises(PromptTooLong):
        model.next_token_log_probs([[5] * 20])
    with pytest.raises(PromptTooLong):
        model.generate([[5] * 15], 10)
    with pytest.raises(UsageError):
        model.generate([[5]], 10, temperature=1.0)
    assert len(llama.seen) == before


def test_a_server_that_lists_tokens(start: Callable[..., FakeServer], tiny: TransformersLM, tiny_folder) -> None:
    prompts = [tiny.encode("Article: A new"), tiny.encode("Answer")]
    whole = loaded(start("vllm", tiny), tokenizer=tiny_folder)
    assert whole.server is not None and whole.server.vocabulary and whole.server.tokenizer == "agrees"
    close(whole.next_token_log_probs(prompts), tiny.next_token_log_probs(prompts))
    fake = start("vllm", tiny, top=20)
    model, expected = loaded(fake, tokenizer=tiny_folder), tiny.next_token_log_probs(prompts)
    assert model.server is not None
    assert (model.server.vocabulary, model.server.top_tokens, model.server.listed_ids) == (False, 20, 128)
    listed = list(range(0, 300, 2))  # more than a request lists
    close(model.listed_log_probs(prompts, listed)[:, listed], expected[:, listed])
    row = model.next_token_log_probs(prompts[:1])[0]
    known = row > -torch.inf
    assert known.sum() == 20
    close(row[known], expected[0][known])
    endings = [tiny.encode(" Sports"), tiny.encode(" World")]
    assert model.score([(prompts[0], endings)])[0] == pytest.approx(tiny.score([(prompts[0], endings)])[0], abs=1e-3)
    assert model.generate(prompts, 5) == tiny.generate(prompts, 5)
    chat = ChatPrompt("Write an article.", "Sure")
    assert model.encode(chat) == tiny.encode(chat)
    assert whole.identity.sha256 != model.identity.sha256


def test_ids_that_an_older_server_ignores_are_not_relied_on(start, tiny: TransformersLM, tiny_folder) -> None:
    model = loaded(start("vllm", tiny, top=20, listed=0), tokenizer=tiny_folder)
    assert model.server is not None and model.server.listed_ids == 0 and not model.server.candidates


def test_an_openai_server_lists_texts_of_tokens(start, tiny: TransformersLM, tiny_folder) -> None:
    model = loaded(start("openai", tiny, top=20), tokenizer=tiny_folder)
    assert model.server is not None and model.server.top_tokens <= 20 and model.server.tokenizer == "not compared"
    prompt = tiny.encode("Article: The team won the game after a long")
    row, expected = model.next_token_log_probs([prompt])[0], tiny.next_token_log_probs([prompt])[0]
    known = row > -torch.inf
    assert 0 < known.sum() <= 20
    close(row[known], expected[known])
    left = 1 - float(expected[known].exp().sum())
    missing = int((~known).nonzero()[0])
    score = model.score([(prompt, [[missing]])])[0][0]
    assert score == pytest.approx(
        min(math.log(left / (model.vocab_size - int(known.sum()))), float(row[known].min())), abs=1e-3
    )


def test_an_openai_server_may_like_tokens_without_a_text_of_their_own_best(start, tiny, tiny_folder) -> None:
    """Six bytes that are no text alone are the likeliest tokens, whatever the prompt."""
    fake, nameless = start("openai", tiny, top=20), [at for at in range(320) if "\ufffd" in tiny.decode([at])][:6]
    fake.change = np.zeros(tiny.vocab_size)
    fake.change[nameless] = 50.0
    model = loaded(fake, tokenizer=tiny_folder, patience=1)
    row = model.next_token_log_probs([tiny.encode("Article: A new")])[0]
    assert len(nameless) == 6 and 0 < (row > -torch.inf).sum() <= 14


def positive(handler: Handler, answer: bytes) -> bool:
    """Log-probabilities above 0."""
    handler.raw(answer.replace(b'"logprob": -', b'"logprob": '))
    return True


FAULTS = {
    "500": status(500),
    "429": status(429, Retry_After="0"),
    "503": status(503),
    "half": fake_server.half,
    "truncated": fake_server.truncated,
    "dropped": fake_server.dropped,
    "dripping": fake_server.dripping,
    "endless": fake_server.endless,
    "above 0": positive,
    "empty": says(b""),
    "not JSON": says(b"\xff\xfe<html>"),
    "NaN": says(b'{"completion_probabilities": [{"top_logprobs": [{"id": 1, "logprob": NaN}]}]}'),
    "deep": says(b"[" * 100_000),
    "list": says(b"[]"),
    "no list": says(b'{"completion_probabilities": []}'),
    "out of range": says(b'{"completion_probabilities": [{"top_logprobs": [{"id": 99999999, "logprob": -1}]}]}'),
    "twice": says(
        b'{"completion_probabilities": [{"top_logprobs": [{"id": 1, "logprob": -1}, {"id": 1, "logprob": -2}]}]}'
    ),
    "gzip": says(gzip.compress(b" " * 10_000_000), Content_Encoding="gzip"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_fails_is_sent_again_and_gives_the_same(
    fault: str, llama: FakeServer, sim: LanguageModel
) -> None:
    model = loaded(llama, timeout=3 if fault == "dripping" else 30)
    prompts = [sim.encode(text) or [5] for text in TEXTS]
    llama.faults.extend([FAULTS[fault], None, FAULTS[fault]])
    close(model.next_token_log_probs(prompts), sim.next_token_log_probs(prompts))
    assert not llama.faults
    model.verify_unchanged()


def test_one_refused_prompt_has_no_numbers_and_no_other_one_changes(llama: FakeServer, sim: LanguageModel) -> None:
    model = loaded(llama, patience=0.3)
    bad, good = sim.encode("the bad film"), sim.encode("the good film")

    for refuse in (status(400), status(500), fake_server.dropped):
        llama.always = lambda handler, answer, refuse=refuse: (
            refuse(handler, answer) if _sent(handler) == bad else False
        )
        rows = model.next_token_log_probs([good, bad, good])
        assert rows[1].isnan().all()
        close(rows[::2], sim.next_token_log_probs([good, good]))
        scores = model.score([(bad, [[7]]), (good, [[7]])])
        assert math.isnan(scores[0][0]) and math.isfinite(scores[1][0])
        assert model.generate([good, bad], 3, broken="empty") == [sim.generate([good], 3)[0], ""]
        with pytest.raises(ModelError):
            model.generate([bad], 3)


def test_a_server_that_is_gone_ends_the_run_and_shows_nothing(
    llama: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUR_KEY", "sk-very-secret")
    model = loaded(llama, patience=0.3, key="OUR_KEY")
    assert all(seen["Authorization"] == "Bearer sk-very-secret" for seen in llama.headers_seen)
    llama.always = says(b'{"error": "sk-very-secret ' + SECRET.encode() + b'"}')
    with pytest.raises(ModelError) as caught:
        model.next_token_log_probs([model.encode(SECRET)])
    for word in ("sk-very-secret", SECRET, "Elm"):
        assert_shown_nowhere(word, caught.value)
    assert "sk-very-secret" not in repr(model.server) + repr(model.identity) + repr(vars(model))


def test_another_model_at_the_address_is_noticed(llama: FakeServer, sim: LanguageModel) -> None:
    model = loaded(llama)
    prompt = sim.encode("the film")
    model.verify_unchanged()
    change = np.random.default_rng(0).normal(size=sim.vocab_size)
    llama.faults.append(fake_server.dropped)  # it was restarted ...
    llama.change = change  # ... with other weights
    with pytest.raises(ModelError, match="another"):
        model.next_token_log_probs([prompt])
    with pytest.raises(ModelError, match="another"):
        model.verify_unchanged()
    llama.change = None
    close(model.next_token_log_probs([prompt]), sim.next_token_log_probs([prompt]))


def test_redirects_are_refused(llama: FakeServer, sim: LanguageModel, start) -> None:
    model, elsewhere = loaded(llama), start("llama.cpp", sim)
    llama.always = status(307, Location=elsewhere.url + "/completion")
    with pytest.raises(ModelError, match="redirect"):
        model.next_token_log_probs([sim.encode("the film")])
    assert not elsewhere.paths


def test_requests_of_all_jobs_share_a_bounded_window(llama: FakeServer, sim: LanguageModel) -> None:
    model = loaded(llama, window=3)
    llama.most_going = 0
    llama.always = lambda handler, answer: bool(fake_server.time.sleep(0.01))
    prompts = [sim.encode(f"the film {word}") for word in ("a", "of", "team", "was", "one", "two")]
    found = together([lambda p=prompt: model.next_token_log_probs([p, p]) for prompt in prompts])
    for rows, prompt in zip(found, prompts, strict=True):
        close(rows, sim.next_token_log_probs([prompt, prompt]))
    assert 1 < llama.most_going <= 3


@pytest.mark.parametrize(
    "rest",
    [
        "", "name", "ftp://x", "http://", "http://example.org:8000", "https://user:pw@example.org", "http://127.0.0.1:0",
        "http://127.0.0.1:99999999", "http://127.0.0.1.example.org", "http://127.0.0.1?wndow=3", "http://127.0.0.1?window=0",
        "http://127.0.0.1?window=3&window=4", "http://127.0.0.1?kind=tgi", "http://127.0.0.1?key=sk-1234", "http://[::1",
        "http://127.0.0.1?timeout=nan", "http://127.0.0.1?key=NOT_SET_ANYWHERE", "http://127.0.0.1 /x",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused_before_anything_is_sent(rest: str) -> None:
    with pytest.raises(UsageError) as caught:
        models.load(f"server:{rest}")
    assert "pw" not in str(caught.value)


def test_a_named_server_is_found_in_the_environment(llama: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPICL_SERVER_MY_BOX", llama.name(window=2).removeprefix("server:"))
    assert models.load("server:my-box").identity.name == "server:my-box"


def test_what_is_no_model_server_says_so(llama: FakeServer) -> None:
    with pytest.raises(DpiclError, match="tokenizer"):
        models.load(llama.name(kind="vllm"))
    with pytest.raises(UsageError, match="fake"):
        models.load(llama.name(model="other"))
    llama.shutdown()
    llama.server_close()


def _sent(handler: Handler) -> object:
    return handler.sent.get("prompt")


def test_prompts_use_nothing_that_was_kept_where_that_is_asked_for(llama: FakeServer, start, tiny, tiny_folder) -> None:
    loaded(llama).next_token_log_probs([[5]])
    assert all(body["cache_prompt"] is True for _, body in llama.seen)
    llama.seen.clear()
    model = loaded(llama, cache="no")
    model.next_token_log_probs([[5]])
    model.verify_unchanged()
    assert all(body["cache_prompt"] is False for _, body in llama.seen)
    assert model.server is not None and not model.server.cache
    vllm = start("vllm", tiny, top=20)
    loaded(vllm, tokenizer=tiny_folder, cache="no").next_token_log_probs([[5, 6], [5, 7]])
    salts = [body["cache_salt"] for _, body in vllm.seen]
    assert len(set(salts)) == len(salts)
    with pytest.raises(UsageError, match="cache"):
        loaded(start("openai", tiny), tokenizer=tiny_folder, cache="no")
