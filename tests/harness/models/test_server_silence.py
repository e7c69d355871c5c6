"""Answers of a server that look right and are not: nothing of them is used, and nothing is said to be an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest

from dpicl import models
from dpicl.core.errors import ModelError
from dpicl.models import server_http, server_probe
from dpicl.models.server import ServerLM
from tests.harness.models.fake_server import (
    FakeServer,
    Handler,
    answer_with,
    load_model,
    run_server,
)
from tests.harness.models.tiny import close, save_tiny_llama


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(server_http, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(server_probe, "PATIENCE", 1.0)


@pytest.fixture
def start(tiny_folder):
    with ExitStack() as servers:
        yield lambda kind, **how: servers.enter_context(run_server(kind, tiny_folder, **how))


def load(server: FakeServer, **how: object) -> ServerLM:
    tokenizer = {"tokenizer": server.folder} if server.kind != "openai" else {}
    settings = {**tokenizer, "patience": 0.5, "timeout": 20, **how}
    model = models.load(f"server:{server.url}?" + "&".join(f"{k}={v}" for k, v in settings.items()))
    assert isinstance(model, ServerLM)
    return model


def change_answers(change: Callable[[dict[str, Any]], None]) -> Callable[[Handler, bytes], bool]:
    def fault(handler: Handler, answer: bytes) -> bool:
        content = json.loads(answer)
        change(content)
        handler.answer(content)
        return True

    return fault


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "openai"])
@pytest.mark.parametrize(
    "body", [{"error": "out of memory"}, {"object": "error", "message": "busy", "code": 503}, {}]
)
def test_an_error_with_status_200_is_no_text(kind, body, start):
    server = start(kind)
    model = load(server)
    server.always = answer_with(json.dumps(body).encode())
    with pytest.raises(ModelError, match="no sound answer"):
        model.generate([[5, 6]], 3, broken="empty")


@pytest.mark.parametrize("kind", ["llama.cpp", "vllm", "openai"])
def test_an_error_beside_an_answer_is_no_answer(kind, start):
    server = start(kind)
    model, prompts = load(server), [[65, 66], [65, 67]]
    server.always = change_answers(lambda answer: answer.update(error={"message": "cut"}))
    with pytest.raises(ModelError, match="no sound answer"):
        model.generate(prompts, 3, broken="empty")


@pytest.mark.parametrize("reason", ["content_filter", "abort"])
@pytest.mark.parametrize("kind", ["vllm", "openai"])
def test_a_text_that_a_filter_cut_is_a_failure(kind, reason, start):
    server = start(kind)
    model, bad = load(server), [65, 66]
    sent = bad if kind == "vllm" else "AB"
    server.always = lambda handler, answer: (
        handler.sent["prompt"] == sent
        and change_answers(lambda content: content["choices"][0].update(finish_reason=reason))(
            handler, answer
        )
    )
    (text,) = model.generate([bad], 3, broken="empty")
    assert isinstance(text, str) and type(text) is not str
    assert sum(model.usage.failures.values()) == 1


def test_a_server_that_mixes_up_prompts_gets_them_alone(start, tiny):
    server = start("vllm", top=20)

    def turn_around(answer: dict[str, Any]) -> None:
        choices = answer["choices"]
        for at, choice in enumerate(reversed(choices)):
            choice["index"] = at

    server.always = change_answers(turn_around)
    model, prompts = load(server), [tiny.encode(f"the film {at}") for at in range(3)]
    close(
        model.listed_log_probs(prompts, [5, 6, 7])[:, 5:8],
        tiny.next_token_log_probs(prompts)[:, 5:8],
    )
    assert model.generate(prompts, 4) == tiny.generate(prompts, 4)


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
def test_a_model_that_changes_behind_an_open_connection_is_named(
    kind, start, tmp_path, monkeypatch
):
    server = start(kind)
    model = load(server)
    model.next_token_log_probs([[5, 6]])
    server.model = load_model(save_tiny_llama(tmp_path / "other", seed=5))
    with pytest.raises(ModelError, match="another model"):
        model.require_same()
    monkeypatch.setattr(server_http, "LOOK_AGAIN", 0.0)
    with pytest.raises(ModelError, match="another model"):
        model.next_token_log_probs([[5, 7]])


def test_a_server_is_looked_at_again_after_an_outage(start, tmp_path):
    server = start("vllm")
    model = load(server, patience=5)
    other = load_model(save_tiny_llama(tmp_path / "other", seed=5))

    def fail_once(handler: Handler, answer: bytes) -> bool:
        handler.raw(b"", 503)
        server.always, server.model = None, other
        return True

    server.always = fail_once
    with pytest.raises(ModelError, match="another model"):
        model.next_token_log_probs([[5, 6]])
