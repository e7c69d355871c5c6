"""`dpicl board attacks`: every attack and audit under a results folder, whether a suite has a row for it or not."""

from __future__ import annotations

import argparse

from dpicl.harness.attacks.results import AttackResult
from dpicl.harness.cli import output
from dpicl.harness.core.errors import UsageError
from dpicl.leaderboards.api import read_evidence
from dpicl.leaderboards.model.attack_board import build_attacks
from dpicl.leaderboards.render.as_json import attacks_json
from dpicl.leaderboards.render.html import write_attacks_html
from dpicl.leaderboards.render.terminal_attacks import render_attacks

#: What stands for a suite in `dpicl board attacks`.
ATTACKS = "attacks"


def show(arguments: argparse.Namespace) -> int:
    """The command."""
    if arguments.limit is not None:
        raise UsageError("--limit is about the test records of a suite; `dpicl board attacks` has none.")
    attacks, external = read_evidence(arguments.results, output.message)
    chosen = [one for one in attacks if _chosen(one, arguments)]
    board = build_attacks(chosen, external)
    page = write_attacks_html(board, arguments.html) if arguments.html else None
    if arguments.json:
        output.emit_json({**attacks_json(board), "page": page})
        return 0
    if len(chosen) < len(attacks):
        output.message(f"{output.count(len(attacks) - len(chosen), 'attack')} with another model or source left out.")
    output.emit(render_attacks(board), styled=True)
    if page:
        output.emit(f"Page: {page}")
    return 0


def _chosen(result: AttackResult, arguments: argparse.Namespace) -> bool:
    subject = result.subject
    return (not arguments.model or subject.model in arguments.model) and (
        arguments.source in (None, "auto", subject.source)
    )
