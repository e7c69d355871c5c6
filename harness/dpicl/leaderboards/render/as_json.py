"""Boards and attacks as plain JSON: numbers, names and settings, without ledgers and manifests."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from dpicl.attacks.audited import Audit
from dpicl.attacks.power import Power
from dpicl.attacks.results import ATTAINED, EXACT, GROUP, AttackResult
from dpicl.attacks.table import trials_text
from dpicl.core.json_text import to_plain
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.comparability import weights
from dpicl.leaderboards.model.evidence import AttackBoard
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.task_table import TaskTable

#: Of what `dpicl board --json` prints (docs/files.md).
VERSION = 1


def audit_json(audit: Audit) -> dict[str, Any]:
    """The audited ε of a row (None without an attack), the attack behind it, and all attacks."""
    best = {} if audit.best is None else attack_json(audit.best)
    return {
        "epsilon": audit.epsilon,
        "kind": audit.kind or None,
        "says": ATTAINED if audit.kind == "exact" else None,
        "confidence": best.get("confidence"),
        "attack": best.get("attack"),
        "access": best.get("access"),
        "trials": best.get("trials"),
        "flag": audit.flag,
        "doubts": list(audit.doubts),
        "attacks": [attack_json(result, audit.powers.get(result.id)) for result in audit.attacks],
    }


def submission_json(row: Row) -> dict[str, Any] | None:
    """Where a submitted row comes from, and what was found about it; None for a row of our own."""
    if row.submission is None:
        return None
    names = {
        "licence",
        "paper",
        "code",
        "public_data",
        "tuning",
        "footnote",
        "unreliable",
        "reproduced",
        "authors",
    }
    return {
        "name": row.submission.name,
        **row.submission.card.model_dump(include=names),
        "reported": row.reported,
    }


def attack_json(result: AttackResult, power: Power | None = None) -> dict[str, Any]:
    """One attack: its bound, what it measured, on what, and what it finds where nothing is hidden."""
    bound = result.bound
    return {
        "attack": result.attack,
        "access": result.access,
        "epsilon": bound and bound.epsilon,
        "confidence": bound and bound.confidence,
        "method": bound and bound.method,
        "says": ATTAINED if result.attack in (EXACT, GROUP) else None,
        "trials": trials_text(result),
        "id": result.id,
        "epsilon_asked": result.subject.epsilon,
        "epsilon_proved": result.privacy.epsilon_proved,
        "delta": result.privacy.delta,
        "queries": result.privacy.queries,
        "decision": bound and bound.decision and bound.decision.model_dump(mode="json"),
        "subject": result.subject.model_dump(mode="json"),
        "settings": result.settings,
        "measures": {
            name: measure.model_dump(mode="json") for name, measure in result.measures.items()
        },
        "power": None if power is None else power.to_json(),
        "counts": dict(result.counts),
        "notes": list(result.notes),
        "weights": weights(result) or None,
        "created": result.created,
    }


def board_json(board: Board) -> dict[str, Any]:
    """The board as JSON: numbers and names, without the results behind them. Infinity is the text "Infinity"."""
    plain: dict[str, Any] = to_plain(
        {
            "schema_version": VERSION,
            "sections": [_section_json(section) for section in board.sections],
            "notes": list(board.notes),
            "skipped": list(board.skipped),
        }
    )
    return plain


def _section_json(section: Section) -> dict[str, Any]:
    return {
        "group": asdict(section.group),
        "answers": [{**asdict(answer), "where": answer.where} for answer in section.answers],
        "tasks": [_table_json(table) for table in section.tables],
        "measured": {table.task: _headroom_json(table) for table in section.measured},
        "contrasts": [contrast.to_json() for contrast in section.contrasts],
        "notes": list(section.notes),
    }


def _table_json(table: TaskTable) -> dict[str, Any]:
    metrics = (table.metric, *table.other_metrics)
    return {
        "task": table.task,
        "metric": table.metric,
        "reader": table.reader,
        "higher_is_better": {name: not table.lower_is_better(name) for name in metrics},
        "documents": table.documents,
        "rows": [_row_json(row) for row in table.in_order],
        "missing": list(table.missing),
        "headroom": _headroom_json(table),
        "margin": table.margin,
        "detectable": {f"{epsilon:g}": gain for epsilon, gain in table.detectable.items()},
        "unranked_levels": {
            f"{epsilon:g}": reason for epsilon, reason in table.unranked_levels.items()
        },
    }


def _headroom_json(table: TaskTable) -> dict[str, Any]:
    """By metric."""
    return {
        name: {**asdict(headroom), "rewards": headroom.rewards}
        for name, headroom in table.headroom.items()
    }


def _row_json(row: Row) -> dict[str, Any]:
    data = vars(row).copy()
    for name in ("results", "audit", "submission"):
        del data[name]
    return {
        **data,
        "name": row.name,
        "rank": row.rank and asdict(row.rank),
        "against_public": row.against_public and asdict(row.against_public),
        "marks": [mark.name for mark in row.marks],
        "failures": row.failures,
        "audited": audit_json(row.audit),
        "submission": submission_json(row),
        "seeds": list(row.seeds),
        "cells": [result.cell_id for result in row.results],
    }


def attacks_json(board: AttackBoard) -> dict[str, Any]:
    """The board as JSON: numbers, names and settings. Infinity is the text "Infinity"."""
    attacks = [attack_json(result, board.powers.get(result.id)) for result in board.attacks]
    plain: dict[str, Any] = to_plain(
        {"schema_version": VERSION, "attacks": attacks, "notes": list(board.notes)}
    )
    return plain
