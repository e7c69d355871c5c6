"""A server that answers anything while it is probed and asked: a model, or one of our own errors.

What it answers to single questions is fuzzed in tests/harness/models/test_server.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpicl import models
from dpicl.core.errors import DpiclError
from dpicl.models import server_http, server_probe
from dpicl.models.server_http import Call, Connection
from tests.fuzz.edits import ANY, WEIRD, places
from tests.harness.models.fake_server import FakeServer
from tests.mutations import DEEP

#: Which answer (of those with something in them), which place in it, what stands there then.
DAMAGES = st.lists(
    st.tuples(st.integers(0, 12) | st.integers(0, 60), st.floats(0, 1, exclude_max=True), ANY | WEIRD | st.just(DEEP)),
    min_size=1,
    max_size=3,
)
FEW, MANY = 5, 150


@pytest.fixture
def server(own_cache: object, monkeypatch: pytest.MonkeyPatch) -> Any:
    for module, name, seconds in ((server_http, "FIRST_PAUSE", 0.001), (server_probe, "PATIENCE", 0.01)):
        monkeypatch.setattr(module, name, seconds)
    fake = FakeServer("llama.cpp", models.load("sim"), top=4)
    yield fake
    fake.shutdown()
    fake.server_close()


def damaged(content: bytes, place: float, value: Any) -> bytes:
    held = [orjson.loads(content)]
    found = places(held)
    holder, key = found[int(place * len(found))]
    holder[key] = value
    try:
        return orjson.dumps(held[0])
    except TypeError:  # what JSON cannot hold, as other programs write it
        return repr(held[0]).encode("utf-8", "surrogatepass")


def answering(damages: dict[int, tuple[float, Any]], sent: Callable[..., Any]) -> Callable[..., Any]:
    count = -1

    async def answer(self: Connection, call: Call) -> tuple[int, float, bytes]:
        nonlocal count
        status, after, content = await sent(self, call)
        count += 1
        if count in damages and status == 200:
            content = damaged(content, *damages[count])
        return status, after, content

    return answer


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
def test_a_server_that_answers_anything_is_a_model_or_one_of_our_errors(count: int, server: FakeServer) -> None:
    sent = Connection._sent

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(DAMAGES)
    def check(damages: list[tuple[int, float, Any]]) -> None:
        with pytest.MonkeyPatch.context() as patch, suppress(DpiclError):
            patch.setattr(Connection, "_sent", answering({at: (where, value) for at, where, value in damages}, sent))
            model = models.load(server.name(patience=0.05, timeout=20))
            model.next_token_log_probs([model.encode("a text")])

    check()
    assert server.paths["/v1/models"] >= count
