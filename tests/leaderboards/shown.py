"""Boards as a terminal shows them."""

from __future__ import annotations

from typing import Any

from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.evidence import AttackBoard
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.board_view import board_blocks
from dpicl.tables.console import to_text


def render_terminal(board: Board, color: bool | None = None, **what: Any) -> str:
    """The board as text. color: None means: where the terminal has colours. what: as of `board_blocks`."""
    return to_text(board_blocks(board, **what), color)


def render_attacks(board: AttackBoard, color: bool | None = None) -> str:
    """The board of all attacks as text. color: None means: when standard output is a terminal."""
    return to_text(attack_blocks(board), color)
