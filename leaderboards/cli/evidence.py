"""Attacks and external evaluations under a results folder: for the boards of suites, and `dpicl board attacks`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpicl.harness.cli import output
from dpicl.harness.core.errors import UsageError

if TYPE_CHECKING:
    from dpicl.harness.attacks.results import AttackResult, External
    from dpicl.harness.mechanism.registry import Registered

#: What stands for a suite in `dpicl board attacks`.
ATTACKS = "attacks"


def load(results: Path) -> tuple[list[AttackResult], list[External]]:
    """Every attack result and every external evaluation; one sentence on stderr about files that are neither."""
    from dpicl.harness.attacks.store import load_attacks, load_external

    attacks, damaged = load_attacks(results)
    external, more = load_external(results)
    for bad, what in ((damaged, "attack result"), (more, "external evaluation")):
        if bad:
            others = f"; so are {len(bad) - 1} more" if len(bad) > 1 else ""
            output.message(
                f"dpicl: {bad[0].path} is no {what} of this version and is ignored: {bad[0].reason}{others}."
            )
    return attacks, external


def known(results: Path, mechanisms: Mapping[str, Registered]) -> Any:
    """What `load` finds, as boards take it."""
    from dpicl.harness.mechanism import registry

    attacks, external = load(results)
    return registry.leaderboards().Evidence(tuple(attacks), tuple(external), defaults(mechanisms))


def defaults(mechanisms: Mapping[str, Registered]) -> Callable[[str, str], Mapping[str, Any]]:
    """(mechanism, task) -> the options that it has when none is given; none where the mechanism is not known."""
    from dpicl.harness.mechanism.options import resolve_options

    def of(mechanism: str, task: str) -> Mapping[str, Any]:
        return resolve_options(mechanisms[mechanism].cls, task, {}) if mechanism in mechanisms else {}

    return of


def show(arguments: argparse.Namespace) -> int:
    """`dpicl board attacks`: all of them, whether a suite has a row for them or not."""
    from dpicl.harness.mechanism import registry

    if arguments.limit is not None:
        raise UsageError("--limit is about the test records of a suite; `dpicl board attacks` has none.")
    attacks, external = load(arguments.results)
    chosen = [one for one in attacks if _chosen(one, arguments)]
    boards = registry.leaderboards()
    board = boards.build_attacks(chosen, external)
    page = registry.leaderboards("html").write_attacks_html(board, arguments.html) if arguments.html else None
    if arguments.json:
        output.emit_json({**boards.attacks_json(board), "page": page})
        return 0
    if len(chosen) < len(attacks):
        output.message(f"{output.count(len(attacks) - len(chosen), 'attack')} with another model or source left out.")
    output.emit(boards.render_attacks(board), styled=True)
    if page:
        output.emit(f"Page: {page}")
    return 0


def _chosen(result: AttackResult, arguments: argparse.Namespace) -> bool:
    subject = result.subject
    return (not arguments.model or subject.model in arguments.model) and (
        arguments.source in (None, "auto", subject.source)
    )
