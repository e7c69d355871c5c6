"""Exact audits as a table for people."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dpicl.api.tables import failure
from dpicl.attacks.results import ATTAINED, AttackResult
from dpicl.cli import output
from dpicl.core.messages import rounded_down, rounded_up

_COLUMNS = ("mechanism", "task", "target ε", "Q", "proved", "audited", "share", "of the bound", "label only", "copies")


def emit(results: Sequence[AttackResult], notes: Sequence[str]) -> None:
    """One row an audit, what the columns mean, and which proved epsilon is refuted."""
    output.emit_table(_COLUMNS, [_row(result) for result in results])
    output.emit(
        f"audited: {ATTAINED}, without sampling error (of several copies: beside what group privacy proves); share: of"
        " what is proved; of the bound: root mean square over releases of how far the canary moves one, as a share of"
        " the move (sum) or range (choice) that is paid for; label only: the same where only the winner of every vote"
        " is seen."
    )
    for note in dict.fromkeys([*(note for result in results for note in result.notes), *notes]):
        output.emit(f"note: {note}")
    for result in results:
        if reason := failure(result):
            own = result.subject
            output.emit(
                f"FAILED: {own.mechanism} on {own.task} at epsilon = {own.epsilon:g}: {reason}; the mechanism does not"
                f" do what its events say. `dpicl check {own.mechanism}` looks for the reason."
            )


def _row(result: AttackResult) -> list[str]:
    own, bound, proved = result.subject, result.bound, result.privacy.epsilon_proved
    if bound is None:
        ends = (result.measures.get(name) for name in ("group_epsilon", "group_bound"))
        audited, proved = (math.inf if end is None else end.value for end in ends)
    else:
        audited = bound.epsilon
    share, winner = result.details.get("share_of_bound"), result.details.get("label_only")
    mean = share.get("root_mean_square") if isinstance(share, dict) else None
    return [
        own.mechanism,
        own.task,
        f"{own.epsilon:g}",
        "any" if result.privacy.queries is None else str(result.privacy.queries),
        rounded_up(proved),
        rounded_down(audited),
        f"{audited / proved:.3f}" if proved else "-",
        f"{mean:.3f}" if isinstance(mean, float) else "-",
        rounded_down(winner) if isinstance(winner, float) else "-",
        str(result.settings.get("copies", 1)),
    ]
