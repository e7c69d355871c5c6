"""A server that answers anything while it is probed and asked: a model, or one of our own errors.

What it answers to single questions is fuzzed in tests/harness/models/test_server.py.
"""

from __future__ import annotations

import json
import random
from contextlib import suppress
from typing import Any

import pytest

from dpicl import models
from dpicl.core.errors import DpiclError
from dpicl.models import server_http, server_probe
from dpicl.models.server_http import Call, Connection
from tests.fuzz.mutations import value_mutated
from tests.harness.models.fake_server import FakeServer


@pytest.fixture
def server(own_cache: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    for module, name, seconds in ((server_http, "FIRST_PAUSE", 0.001), (server_probe, "PATIENCE", 0.01)):
        monkeypatch.setattr(module, name, seconds)
    fake = FakeServer("llama.cpp", models.load("sim"), top=4)
    yield fake
    fake.shutdown()
    fake.server_close()


@pytest.mark.parametrize("seeds", [range(5), pytest.param(range(5, 155), marks=pytest.mark.slow)])
def test_a_server_that_answers_anything_is_a_model_or_one_of_our_errors(
    seeds: range, server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, chance = Connection._sent, random.Random()

    async def answer(self: Connection, call: Call) -> tuple[int, float, bytes]:
        status, after, content = await sent(self, call)
        if status == 200 and chance.random() < 0.15:
            content = json.dumps(value_mutated(json.loads(content), chance)).encode()
        return status, after, content

    monkeypatch.setattr(Connection, "_sent", answer)
    for seed in seeds:
        chance.seed(seed)
        with suppress(DpiclError):
            model = models.load(server.name(patience=0.05, timeout=20))
            model.next_token_log_probs([model.encode("a text")])
    assert server.paths["/v1/models"] >= len(seeds)
