"""A server that answers anything while it is probed and asked: a model with bounded rows, or one of our own errors."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from dpicl import models
from dpicl.core.errors import DpiclError
from dpicl.models import server_http, server_probe
from dpicl.models.server_dialects import LETTERS
from dpicl.models.server_http import Call, Connection
from tests.fuzz.mutations import mutated
from tests.harness.conftest import tiny_folder as tiny_folder
from tests.harness.models.fake_server import MODEL, running


@pytest.fixture(autouse=True)
def short_pauses(own_cache: object, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, seconds in ((server_http, "FIRST_PAUSE", 0.001), (server_probe, "PATIENCE", 0.01)):
        monkeypatch.setattr(module, name, seconds)


@pytest.mark.parametrize("kind", MODEL)
def test_whatever_a_server_answers_is_bounded_or_one_of_our_errors(
    kind: str, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, sent = random.Random(kind), Connection._sent

    async def altered(self: Connection, call: Call) -> tuple[int, float, bytes]:
        status, after, content = await sent(self, call)
        return status, after, mutated(content, chance) if chance.random() < 0.3 else content

    with running(kind, tiny_folder, top=20) as fake:
        name = fake.name(patience=0.05, timeout=20)
        model = models.load(name)
        monkeypatch.setattr(Connection, "_sent", altered)
        for at in range(20):
            if at % 4 == 0:
                with suppress(DpiclError):
                    models.load(name)
            with suppress(DpiclError):
                for row in (model.next_token_log_probs([[5, at]]), model.listed_log_probs([[5]], [at, 3])):
                    assert row.isnan().all() or -torch.inf < float(row.max()) <= 0
            with suppress(DpiclError):
                (text,) = model.generate([[5, at]], 4, broken="empty")
                assert len(text) <= 4 * LETTERS and text.encode() is not None
