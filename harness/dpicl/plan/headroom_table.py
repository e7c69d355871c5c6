"""How headroom is shown, in a plan and on a board: the columns of its tables."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from dpicl.core.messages import score_text, signed_text
from dpicl.plan.headroom import Gain, Headroom
from dpicl.tables.document import Column


def headroom_columns(of: Callable[[Any], Headroom | None]) -> tuple[Column, ...]:
    """Shots, both ends, the gain, its sample and what is gained over other controls. of: item of the table -> its
    headroom; None where an end of it has no result."""

    def column(key: str, name: str, value: Callable[[Headroom], object], wide: bool = False) -> Column:
        return Column(key, name, lambda item: None if (found := of(item)) is None else value(found), wide=wide)

    return (
        column("shots", "shots", attrgetter("shots")),
        column("ends", "public → real", lambda one: f"{score_text(one.public)} → {score_text(one.real)}"),
        column("gain", "headroom (95%)", _gain),
        column("sizes", "seeds × records", lambda one: f"{len(one.seeds)} × {one.documents}{_where(one)}"),
        column(
            "others",
            "gain over other controls (95%)",
            lambda one: "; ".join(f"{gain.over} {_gain(gain)}" for gain in one.others),
            wide=True,
        ),
    )


def _gain(one: Gain | Headroom) -> str:
    return f"{signed_text(one.gain)} ({signed_text(one.low)} to {signed_text(one.high)})"


def _where(one: Headroom) -> str:
    return ", development" if one.development else ""
