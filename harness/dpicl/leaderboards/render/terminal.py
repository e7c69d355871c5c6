"""Boards in a terminal: a screen with the answer, or everything."""

from __future__ import annotations

from typing import Any

from dpicl.leaderboards.model.attacks import AttackBoard
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.render.attacks_view import attack_blocks
from dpicl.leaderboards.render.board_view import NOTHING, overview, section_blocks
from dpicl.tables.console import to_text
from dpicl.tables.document import Block, notes, words

#: Lines of the first screen; the command adds two.
_SCREEN = 38


def render_terminal(board: Board, color: bool | None = None, **what: Any) -> str:
    """The board as text. color: None means: where the terminal has colours. what: as of `board_blocks`."""
    return to_text(board_blocks(board, **what), color)


def board_blocks(board: Board, attacks: bool = False, full: bool = True, epsilon: float | None = None) -> list[Block]:
    """The board. attacks: with every attack on its rows. full: every table of every task; else at most 40 lines, about
    one ε (None: the one that is answered first)."""
    blocks: list[Block]
    if full or attacks:
        blocks = [words(NOTHING)] if not board.sections else []
        blocks += [one for section in board.sections for one in section_blocks(section, attacks=attacks)]
        blocks += notes(board.notes)
    else:
        fitting = (overview(board, epsilon, most) for most in range(19, 4, -1))
        blocks = next(
            (one for one in fitting if to_text(one, False).count("\n") <= _SCREEN), overview(board, epsilon, 5)
        )
    return blocks


def render_attacks(board: AttackBoard, color: bool | None = None) -> str:
    """The board of all attacks as text. color: None means: when standard output is a terminal."""
    return to_text(attack_blocks(board), color)
