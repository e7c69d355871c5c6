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


def mutate(monkeypatch: pytest.MonkeyPatch, share: float, chance: random.Random) -> None:
    """Every answer holds something else with this probability."""
    sent = Connection._sent

    async def answer(self: Connection, call: Call) -> tuple[int, float, bytes]:
        status, after, content = await sent(self, call)
        if status == 200 and chance.random() < share:
            content = mutated(content, chance)
        return status, after, content

    monkeypatch.setattr(Connection, "_sent", answer)


@pytest.mark.parametrize("kind", MODEL)
@pytest.mark.parametrize(("loads", "asked"), [(5, 20), pytest.param(150, 1000, marks=pytest.mark.slow)])
def test_whatever_a_server_answers_is_bounded_or_one_of_our_errors(
    kind: str, loads: int, asked: int, tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(kind, tiny_folder, top=20) as fake:
        name = fake.name(patience=0.05, timeout=20)
        model = models.load(name)
        mutate(monkeypatch, 0.3, random.Random(kind))
        for _ in range(loads):
            with suppress(DpiclError):
                models.load(name)
        for at in range(asked):
            with suppress(DpiclError):
                rows = [model.next_token_log_probs([[5, at % 50]]), model.listed_log_probs([[5]], [at % 50, 3])]
                for row in rows:
                    assert row.isnan().all() or -torch.inf < float(row.max()) <= 0
            with suppress(DpiclError):
                (text,) = model.generate([[5, at % 50]], 4, broken="empty")
                assert len(text) <= 4 * LETTERS and text.encode() is not None
