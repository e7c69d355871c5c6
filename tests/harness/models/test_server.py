"""A model behind a real HTTP server gives what it gives in this process, whatever happens on the way; no API key or
password is shown, whatever a name or a server holds."""

from __future__ import annotations

import gzip
import json
import math
import random
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Any

import pytest
import torch

from dpicl import models
from dpicl.core.errors import DpiclError, ModelError, PromptTooLong, UsageError
from dpicl.core.together import run_together
from dpicl.models import server_http, server_probe
from dpicl.models.embeddings import load_embeddings
from dpicl.models.server import ServerLM
from dpicl.models.server_dialects import LETTERS
from dpicl.models.server_http import Call, Connection
from tests.fuzz.mutations import mutate
from tests.harness.helpers import assert_shown_nowhere
from tests.harness.models import fake_server
from tests.harness.models.fake_server import FakeServer, Handler, answer_with, run_server, status
from tests.harness.models.tiny import assert_reads_alike, close, save_tiny_llama

TEXTS = ("The film of the year", "School", "", "the team won the game in the city")
KEY = "hunter2-hunter2-hunter2"
SECRET = "Patient Zero lives at 12 Elm Street"


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(server_probe, "PATIENCE", 1.0)
    monkeypatch.setenv("OUR_KEY", KEY)


@pytest.fixture
def start(tiny_folder):
    with ExitStack() as servers:
        yield lambda kind, **how: servers.enter_context(run_server(kind, tiny_folder, **how))


def load(server: FakeServer, **how: object) -> ServerLM:
    model = models.load(server.name(**{"patience": 60, "timeout": 30, **how}))
    assert isinstance(model, ServerLM)
    return model


def test_it_reads_as_the_same_model_does_in_this_process(fake, tiny):
    model = load(fake)
    limits = (tiny.vocab_size, tiny.eos_token_id, 256)
    assert (model.vocab_size, model.eos_token_id, model.max_length) == limits
    assert model.server.vocabulary and model.identity.batch_invariant is False
    prompts = [tiny.encode(text) or [5] for text in TEXTS]
    assert [model.encode(text) or [5] for text in TEXTS] == prompts
    assert model.decode(prompts[0]) == TEXTS[0]
    assert_reads_alike(model, tiny, prompts)
    few = model.decoder(prompts).likeliest(70)
    assert (few > -torch.inf).sum(dim=1).tolist() == [70] * 4
    assert model.usage.tokens_read > 0


def test_a_prompt_that_does_not_fit_is_not_sent(fake):
    model = load(fake, context=20)
    before = len(fake.seen)
    with pytest.raises(PromptTooLong):
        model.next_token_log_probs([[5] * 20])
    with pytest.raises(PromptTooLong):
        model.generate([[5] * 15], 10)
    with pytest.raises(UsageError):
        model.generate([[5]], 10, temperature=1.0)
    assert len(fake.seen) == before


def test_a_server_that_lists_tokens(start, tiny):
    prompts = [tiny.encode("Article: A new"), tiny.encode("Answer")]
    model, expected = load(start("vllm", top=20)), tiny.next_token_log_probs(prompts)
    record = model.server
    assert (record.vocabulary, record.top_tokens, record.listed_ids) == (False, 20, 128)
    listed = list(range(0, 300, 2))  # more than a request lists
    close(model.listed_log_probs(prompts, listed)[:, listed], expected[:, listed])
    row = model.next_token_log_probs(prompts[:1])[0]
    known = row > -torch.inf
    assert known.sum() == 20
    close(row[known], expected[0][known])
    endings = [tiny.encode(" Sports"), tiny.encode(" World")]
    assert model.score([(prompts[0], endings)])[0] == pytest.approx(
        tiny.score([(prompts[0], endings)])[0], abs=1e-3
    )
    assert model.generate(prompts, 5) == tiny.generate(prompts, 5)


def test_ids_that_an_older_server_ignores_are_not_relied_on(start, tiny):
    model = load(start("vllm", top=20, listed=0), patience=1)
    assert model.server.listed_ids == 0 and not model.server.candidates
    prompt = tiny.encode("Article: A new")
    expected = tiny.next_token_log_probs([prompt])[0]
    known = model.next_token_log_probs([prompt])[0] > -torch.inf
    left, missing = 1 - float(expected[known].exp().sum()), int((~known).nonzero()[0])
    share = math.log(left / (model.vocab_size - int(known.sum())))
    score = model.score([(prompt, [[missing]])])[0][0]
    assert score == pytest.approx(min(share, float(expected[known].min())), abs=1e-3)


def send_positive(handler: Handler, answer: bytes) -> bool:
    """Log-probabilities above 0."""
    handler.raw(answer.replace(b'"logprob": -', b'"logprob": '))
    return True


FAULTS = {
    "500": status(500),
    "429": status(429, Retry_After="0"),
    "half": fake_server.half,
    "truncated": fake_server.truncate,
    "dropped": fake_server.drop,
    "dripping": fake_server.send_slowly,
    "endless": fake_server.send_endlessly,
    "above 0": send_positive,
    "not JSON": answer_with(b"\xff\xfe<html>"),
    "NaN": answer_with(
        b'{"completion_probabilities": [{"top_logprobs": [{"id": 1, "logprob": NaN}]}]}'
    ),
    "deep": answer_with(b"[" * 100_000),
    "out of range": answer_with(
        b'{"completion_probabilities": [{"top_logprobs": [{"id": 99999999, "logprob": -1}]}]}'
    ),
    "twice": answer_with(
        b'{"completion_probabilities": [{"top_logprobs": [{"id": 1, "logprob": -1}, {"id": 1, "logprob": -2}]}]}'
    ),
    "gzip": answer_with(gzip.compress(b" " * 10_000_000), Content_Encoding="gzip"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_fails_is_sent_again_and_gives_the_same(fault, fake, tiny):
    model = load(fake, timeout=3 if fault == "dripping" else 30)
    prompts = [tiny.encode(text) or [5] for text in TEXTS]
    fake.faults.extend([FAULTS[fault], None, FAULTS[fault]])
    close(model.next_token_log_probs(prompts), tiny.next_token_log_probs(prompts))
    assert not fake.faults


def test_one_refused_prompt_has_no_numbers_and_changes_no_other(fake, tiny):
    model = load(fake, patience=0.3)
    bad, good = tiny.encode("the bad film"), tiny.encode("the good film")

    for refuse in (*map(status, (302, 400, 401, 403, 500)), fake_server.drop):
        fake.always = lambda handler, answer, refuse=refuse: (
            refuse(handler, answer) if _read_prompt(handler) == bad else False
        )
        rows = model.next_token_log_probs([good, bad, good])
        assert rows[1].isnan().all()
        close(rows[::2], tiny.next_token_log_probs([good, good]))
        scores = model.score([(bad, [[7]]), (good, [[7]])])
        assert math.isnan(scores[0][0]) and math.isfinite(scores[1][0])
        assert model.generate([good, bad], 3, broken="empty") == [tiny.generate([good], 3)[0], ""]
        with pytest.raises(ModelError):
            model.generate([bad], 3)
    assert sum(model.usage.failures.values()) == 6 * 4


def test_a_server_that_is_gone_ends_the_run_and_shows_nothing(fake):
    model = load(fake, patience=0.3, key="OUR_KEY")
    assert all(seen["Authorization"] == f"Bearer {KEY}" for seen in fake.headers_seen)
    fake.always = answer_with(json.dumps({"error": f"{KEY} {SECRET}"}).encode())
    with pytest.raises(ModelError) as caught:
        model.next_token_log_probs([model.encode(SECRET)])
    for word in (KEY, SECRET, "Elm"):
        assert_shown_nowhere(word, caught.value)
    assert KEY not in repr(model.server) + repr(model.identity) + repr(vars(model))


def test_redirects_are_refused(fake, tiny, start):
    model, elsewhere = load(fake), start("llama.cpp")
    fake.always = status(307, Location=elsewhere.url + "/completion")
    with pytest.raises(ModelError, match="redirect"):
        model.next_token_log_probs([tiny.encode("the film")])
    assert not elsewhere.headers_seen


@pytest.mark.parametrize(
    "rest",
    [
        "", "name", "ftp://x", "http://", "http://example.org:8000", "http://127.0.0.1:0",
        "http://127.0.0.1:99999999", "http://127.0.0.1.example.org", "http://127.0.0.1?wndow=3", "http://127.0.0.1?window=0",
        "http://127.0.0.1?window=3&window=4", "http://127.0.0.1?key=sk-hunter2", "http://[::1",
        "http://127.0.0.1?timeout=nan", "http://127.0.0.1?key=NOT_SET_ANYWHERE", "http://127.0.0.1 /x",
    ],
)  # fmt: skip
def test_bad_addresses_are_refused_before_anything_is_sent(rest):
    with pytest.raises(UsageError) as caught:
        models.load(f"server:{rest}{'&' if '?' in rest else '?'}tokenizer=x")
    assert "hunter2" not in str(caught.value)


def test_a_named_server_is_found_in_the_environment(fake, monkeypatch):
    monkeypatch.setenv("DPICL_SERVER_MY_BOX", fake.name(window=2).removeprefix("server:"))
    assert models.load("server:my-box").identity.name == "server:my-box"


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"model": "other"}, "fake"), ({"tokenizer": ""}, "value"), ({"tokenizer": "/no"}, "hub id")],
)
def test_what_cannot_be_loaded_says_why(fake, settings, said):
    with pytest.raises(DpiclError, match=said):
        models.load(fake.name(**settings))


def test_a_tokenizer_of_another_model_is_refused(fake, monkeypatch):
    with pytest.raises(UsageError, match="needs the tokenizer"):
        models.load(f"server:{fake.url}")
    monkeypatch.setattr(fake.model, "encode", lambda text: [5, 6, 7])
    with pytest.raises(ModelError, match="other tokens"):
        models.load(fake.name())


def _read_prompt(handler: Handler) -> object:
    return handler.sent.get("prompt")


def test_prompts_use_nothing_that_was_kept_where_asked(fake, start):
    load(fake).next_token_log_probs([[5]])
    assert all(body["cache_prompt"] is True for _, body in fake.seen)
    fake.seen.clear()
    model = load(fake, cache="no")
    model.next_token_log_probs([[5]])
    assert all(body["cache_prompt"] is False for _, body in fake.seen)
    assert not model.server.cache
    vllm = start("vllm", top=20)
    load(vllm, cache="no").next_token_log_probs([[5, 6], [5, 7]])
    salts = [body["cache_salt"] for _, body in vllm.seen]
    assert len(set(salts)) == len(salts)


# --- keys and passwords -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "http://user:hunter2@127.0.0.1/", "user:hunter2@127.0.0.1:80", "http:/user:hunter2@127.0.0.1/",
        "https://user%3Ahunter2%40example.org/", "https://example.org/?api=hunter2", "https://example.org/?hunter2",
        "https://example.org/#hunter2", "http://user:hunter2@[::1",
    ],
)  # fmt: skip
def test_a_name_that_holds_a_password_is_refused_unseen(name, dpicl, sim_suite, tmp_path):
    own = tmp_path / "suite.yaml"
    own.write_text(
        sim_suite.read_text().replace("models: [sim]", f"models: [{json.dumps('server:' + name)}]")
    )
    for words in (
        ("plan", own), ("plan", sim_suite, "--model", f"server:{name}"), ("run", own, "--results", tmp_path / "results")
    ):  # fmt: skip
        answer = dpicl(*words)
        assert answer.code == 2 and "Traceback" not in answer.err
        assert "hunter2" not in answer.out + answer.err and answer.err.count("\n") == 1
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:9/?tokenizer=x", "https://example.org", "//x", ""]
)
def test_a_file_names_no_address(address, dpicl, sim_suite, tmp_path):
    suite, config, name = tmp_path / "suite.yaml", tmp_path / "config.yaml", f"server:{address}"
    suite.write_text(
        sim_suite.read_text().replace("models: [sim]", f"models: [{json.dumps(name)}]")
    )
    config.write_text(f"model: {json.dumps('sim,' + name)}")
    for words in (("plan", suite), ("run", suite), ("plan", sim_suite, "--config", config)):
        answer = dpicl(*words)
        assert answer.code == 2 and answer.err.count("\n") == 1
        assert all(
            word in answer.err for word in ("--model server:URL", "line", "DPICL_SERVER_NAME")
        )


def test_the_user_names_an_address_by_flag_or_environment(dpicl, sim_suite, tmp_path, monkeypatch):
    suite, address = tmp_path / "suite.yaml", "https://example.org/?tokenizer=x&key=OUR_KEY"
    assert dpicl("plan", sim_suite, "--model", f"server:{address}").code == 0
    suite.write_text(sim_suite.read_text().replace("models: [sim]", "models: ['server:box']"))
    monkeypatch.setenv("DPICL_SERVER_BOX", address)
    assert dpicl("plan", suite).code == 0


@pytest.mark.parametrize(
    "name", ["hf:https://127.0.0.1:9/model", "hf:http://example.org/model@main", "hf:a:b/c"]
)
def test_models_and_embeddings_have_no_addresses(name, monkeypatch):
    def connect(*words: object) -> None:
        raise AssertionError("something was sent")

    monkeypatch.setattr("socket.socket.connect", connect)
    with pytest.raises(ModelError, match="not an id of the hub"):
        models.load(name)
    with pytest.raises(ModelError, match="not an id of the hub"):
        load_embeddings(name.replace("hf:", "st:"))


@pytest.mark.parametrize("kind", fake_server.MODEL)
def test_any_answer_of_a_server_is_bounded_or_one_of_our_errors(start, kind, monkeypatch):
    chance, sent, name = (
        random.Random(kind),
        Connection._send,
        start(kind, top=20).name(patience=0.05, timeout=20),
    )

    async def alter(self: Connection, call: Call) -> tuple[int, float, bytes]:
        status, after, content = await sent(self, call)
        return status, after, mutate(content, chance) if chance.random() < 0.3 else content

    model = models.load(name)
    monkeypatch.setattr(Connection, "_send", alter)
    monkeypatch.setattr(server_probe, "PATIENCE", 0.01)
    for at in range(12):
        if at % 4 == 0:
            with suppress(DpiclError):
                models.load(name)
        with suppress(DpiclError):
            for row in (
                model.next_token_log_probs([[5, at]]),
                model.listed_log_probs([[5]], [at, 3]),
            ):
                assert row.isnan().all() or -torch.inf < float(row.max()) <= 0
        with suppress(DpiclError):
            (text,) = model.generate([[5, at]], 4, broken="empty")
            assert len(text) <= 4 * LETTERS and text.encode() is not None


# --- answers that are not what was requested --------------------------------------------------------------------------


def _alter(change: Callable[[dict[str, Any]], Any]) -> fake_server.Fault:
    """Answers with what ``change`` makes of each right answer."""

    def fault(handler: Handler, answer: bytes) -> bool:
        right = json.loads(answer)
        handler.answer(right if (changed := change(right)) is None else changed)
        return True

    return fault


def _likely(answer: dict[str, Any]) -> dict[str, float]:
    likely: dict[str, float] = answer["choices"][0]["logprobs"]["top_logprobs"][0]
    return likely


UNSOUND: dict[str, Callable[[dict[str, Any]], Any]] = {
    "two tokens of twenty": lambda answer: [_likely(answer).popitem() for _ in range(18)] and None,
    "no token": lambda answer: _likely(answer).clear(),
    "a sentinel": lambda answer: _likely(answer).update({min(_likely(answer)): -9999.0}),
    "an id that no vocabulary has": lambda answer: _likely(answer).update({"token_id:90000": -3.0}),
    "more than one together": lambda answer: _likely(answer).update(
        dict.fromkeys(_likely(answer), -0.5)
    ),
    "two choices": lambda answer: answer["choices"].append(answer["choices"][0]),
    "no choice": lambda answer: answer["choices"].clear(),
    "two places": lambda answer: answer["choices"][0]["logprobs"]["top_logprobs"].append({}),
    "another model": lambda answer: answer.update(model="other"),
    "another prompt": lambda answer: answer.update(usage={"prompt_tokens": 99}),
}


@pytest.mark.parametrize("what", UNSOUND)
def test_an_unsound_answer_is_repeated_or_named_where_all_are(what, start, tiny):
    server = start("vllm", top=20)
    model, prompt = load(server, patience=0.4), tiny.encode("the film")
    expected = model.next_token_log_probs([prompt])
    server.faults.extend([_alter(UNSOUND[what])] * 2)
    assert torch.equal(model.next_token_log_probs([prompt]), expected)
    bad = _alter(UNSOUND[what])
    server.always = lambda handler, answer: (
        bad(handler, answer) if _read_prompt(handler) == prompt else False
    )
    assert model.next_token_log_probs([prompt]).isnan().all()  # a private text cannot end a run
    assert sum(model.usage.failures.values()) == 1
    server.always = bad
    with pytest.raises(ModelError, match=r"gives no sound answer: its? [a-z]"):
        model.next_token_log_probs([prompt])


def test_ids_that_are_missing_or_of_another_model_are_named(fake, start):
    vllm = start("vllm", top=20)
    model = load(vllm, patience=0.5)
    vllm.always = _alter(lambda answer: _likely(answer).pop("token_id:7") and None)
    with pytest.raises(ModelError, match="leaves out"):
        model.listed_log_probs([[5, 6]], [7, 8])
    llama = load(fake, patience=0.5)
    fake.always = _alter(lambda answer: answer.update(tokens_evaluated=3))
    with pytest.raises(ModelError, match="more or fewer tokens"):
        llama.generate([[5, 6]], 3)


def test_requests_that_spoil_each_other_are_not_sent_together(start, tiny):
    server = start("vllm", top=20, collapses=True)
    model = load(server)
    assert model.server.mixes is False and model.server.listed_ids == 128
    assert load(start("vllm", top=20)).server.mixes is True
    prompts = [tiny.encode(f"the film {word}") for word in ("a", "of", "team", "was")]
    jobs = [job for prompt in prompts for job in (partial(model.likeliest_log_probs, [prompt], 20),
                                                  partial(model.listed_log_probs, [prompt], [5, 6, 7]))]  # fmt: skip
    server.seen.clear()
    found = run_together(jobs)
    assert sum(body["prompt"] in prompts for _, body in server.seen) == 8  # no answer was repeated
    for at, prompt in enumerate(prompts):
        expected = tiny.next_token_log_probs([prompt])[0]
        known = found[2 * at][0] > -torch.inf
        assert known.sum() == 20
        close(found[2 * at][0][known], expected[known])
        close(found[2 * at + 1][0, [5, 6, 7]], expected[[5, 6, 7]])


# --- several prompts in a request -------------------------------------------------------------------------------------


def _prompts_of(server: FakeServer) -> list[int]:
    """How many prompts each request had."""
    return [
        len(body["prompt"]) if isinstance(body["prompt"][0], list) else 1 for _, body in server.seen
    ]


def test_prompts_share_requests_and_each_has_its_own_row(start, tiny):
    server = start("vllm", top=20)
    model, prompts = load(server), [tiny.encode(f"the film {at}") for at in range(40)]
    server.seen.clear()
    rows = model.listed_log_probs(prompts, [5, 6, 7])
    assert sorted(_prompts_of(server)) == [8, 16, 16]
    assert len({body["cache_salt"] for _, body in server.seen}) == 1
    close(rows[:, 5:8], tiny.next_token_log_probs(prompts)[:, 5:8])

    server.seen.clear()
    assert model.generate(prompts[:5], 4) == tiny.generate(prompts[:5], 4)
    assert _prompts_of(server) == [5]
    server.seen.clear()
    model.generate(prompts[:3], 4, temperature=1.0, seeds=[1, 2, 3])
    assert _prompts_of(server) == [1, 1, 1]

    server.most_going = 0
    few = load(server, window=3)
    close(few.listed_log_probs(prompts, [5])[:, 5], tiny.next_token_log_probs(prompts)[:, 5])
    assert 1 < server.most_going <= 3


def test_unsound_choices_of_a_request_are_asked_again_alone(start, tiny):
    server = start("vllm", top=20)
    model, prompts = load(server, patience=0.4), [tiny.encode(f"the film {at}") for at in range(5)]
    expected = model.listed_log_probs(prompts, [5, 6])

    def spoil(answer: dict[str, Any]) -> None:
        answer["choices"][2]["logprobs"]["top_logprobs"][0].pop("token_id:5", None)
        answer["choices"].reverse()  # each says to which prompt it belongs

    def drop_last(answer: dict[str, Any]) -> None:
        answer["choices"].pop()

    def repeat_first(answer: dict[str, Any]) -> None:
        answer["choices"][1]["index"] = 0

    def exceed(answer: dict[str, Any]) -> None:
        answer["choices"][4]["index"] = 5

    every = list(range(5))
    for change, repeated in (
        (spoil, [2]),
        (drop_last, every),
        (repeat_first, every),
        (exceed, every),
    ):
        server.seen.clear()
        server.faults.append(_alter(change))
        assert torch.equal(model.listed_log_probs(prompts, [5, 6]), expected)
        asked_again = [body["prompt"] for _, body in server.seen]
        assert sorted(asked_again) == sorted(prompts[at] for at in repeated)
    assert not model.usage.failures


def test_a_refused_prompt_spoils_none_that_share_its_request(start, tiny):
    server = start("vllm", top=20)
    model, prompts = load(server, patience=0.3), [tiny.encode(f"the film {at}") for at in range(5)]
    expected = tiny.next_token_log_probs(prompts)

    def refuse(handler: Handler, answer: bytes) -> bool:
        prompt = _read_prompt(handler)
        return (prompt == prompts[1] or prompts[1] in prompt) and status(400)(handler, answer)

    server.always = refuse
    rows = model.listed_log_probs(prompts, [5, 6])
    assert rows[1].isnan().all() and sum(model.usage.failures.values()) == 1
    others = [0, 2, 3, 4]
    close(rows[others][:, 5:7], expected[others][:, 5:7])


def test_the_whole_vocabulary_is_requested_by_its_size(start, tiny):
    server = start("vllm")
    model, prompt = load(server), tiny.encode("the film")
    assert model.server.vocabulary and model.server.kind == "vllm"
    assert model.identity.sha256 != load(start("vllm", top=20)).identity.sha256
    close(model.next_token_log_probs([prompt]), tiny.next_token_log_probs([prompt]))
    assert max(body.get("logprobs", 0) for _, body in server.seen) == tiny.vocab_size
    assert all(body.get("logprobs") != -1 for _, body in server.seen)
    padded = load(start("vllm", padding=8))
    assert padded.server.vocabulary
    close(padded.next_token_log_probs([prompt]), tiny.next_token_log_probs([prompt]))


# --- another server at the same address -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        ("vllm", {"top": 20}, "likeliest tokens, and refuses"), ("vllm", {"listed": 5}, "128 listed tokens"),
        ("vllm", {"version": "0.1"}, "version was 0.0, and is 0.1"), ("llama.cpp", {"folder": None}, "another model"),
        ("vllm", {"folder": None}, "another model"), ("vllm", {"id": "other"}, "other"),
    ],
)  # fmt: skip
def test_a_server_that_comes_back_as_another_one_is_named(
    kind, change, said, tiny_folder, tmp_path
):
    if "folder" in change:
        change = {"folder": save_tiny_llama(tmp_path / "other", seed=5)}
    with ExitStack() as servers:
        first = servers.enter_context(run_server(kind, tiny_folder))
        model = load(first, patience=5)
        row = model.next_token_log_probs([[5, 6]])
        first.stop()
        how = {
            "folder": tiny_folder,
            **{name: change[name] for name in change if name not in ("version", "id")},
        }
        second = FakeServer(kind, **how, port=first.server_port)
        servers.callback(second.stop)
        second.version, second.id = change.get("version", "0.0"), change.get("id", "fake")
        with pytest.raises(DpiclError, match=said) as caught:
            model.next_token_log_probs([[5, 6]])
        assert str(caught.value).count("\n") == 0 and "finite" not in str(caught.value)
        second.stop()
        servers.callback(FakeServer(kind, tiny_folder, port=first.server_port).stop)
        close(model.next_token_log_probs([[5, 6]]), row)


def test_no_cookie_is_kept_and_no_proxy_reads_plain_http(fake, start, monkeypatch):
    proxy = start("llama.cpp")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    server_http._client_of.cache_clear()
    fake.always = lambda handler, answer: answer_with(answer, Set_Cookie="session=1; Path=/")(
        handler, answer
    )
    load(fake).next_token_log_probs([[5], [6]])
    assert not any("cookie" in {name.lower() for name in seen} for seen in fake.headers_seen)
    assert not proxy.headers_seen and not proxy.connections


# --- texts alone ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", ["&tokenizer={}", "&context=100", ""])
def test_a_server_of_plain_completions_writes_texts(settings, start, tiny):
    server = start("openai")
    model = models.load(f"server:{server.url}?patience=2{settings.format(server.folder)}")
    record, texts = model.server, [text for text in TEXTS if text]
    assert (record.kind, record.top_tokens, record.candidates) == ("openai", 0, False)
    prompts = [model.encode(text) for text in texts]
    assert [model.decode(prompt) for prompt in prompts] == texts
    expected = tiny.generate([tiny.encode(text) for text in texts], 6, stop=[" "])
    assert model.generate(prompts, 6, stop=[" "]) == expected
    with pytest.raises(ModelError, match="texts, and no log-probabilities"):
        model.next_token_log_probs(prompts)
    if "context" in settings:
        with pytest.raises(PromptTooLong):
            model.generate([model.encode("ü" * 50)], 1)
    long = model.encode("film " * 300)  # the server has no room for it
    if not settings:
        assert model.generate([prompts[0], long], 6, stop=[" "], broken="empty") == [
            expected[0],
            "",
        ]
