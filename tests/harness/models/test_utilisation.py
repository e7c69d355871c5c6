"""The clock of the benchmark `utilisation`: each kind of operator of a pass, and nothing outside of passes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks._kinds import KINDS, PARTS, by_kind
from benchmarks.utilisation import _shares
from dpicl import models
from dpicl.models import attention


def test_every_kind_of_a_pass_is_clocked_and_nothing_else(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "_multiplies_bfloat16", lambda: True)
    whole = [getattr(where, name) for where, name, _ in PARTS]
    with by_kind() as seconds:
        model = models.load(f"hf:{tiny_folder}", device="cpu", dtype="bfloat16")
        seconds.clear()
        torch.randn(30, 30) @ torch.randn(30, 30)
        assert not seconds
        model.next_token_log_probs([[5, 6, 7], [8, 9]])
    assert set(seconds) == {*KINDS, *(kind for *_, kind in PARTS), "rest"} and min(seconds.values()) > 0
    assert [getattr(where, name) for where, name, _ in PARTS] == whole


def test_shares_add_up_to_all_seconds() -> None:
    assert _shares({"norms": 1.0, "products": 5.0}, 10.0) == {"products": 0.5, "norms": 0.1, "other": 0.4}
