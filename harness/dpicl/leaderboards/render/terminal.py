"""Boards in a terminal: a screen with the answer, or everything."""

from __future__ import annotations

from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.render.board_view import NOTHING, overview, section_blocks
from dpicl.tables.console import to_text
from dpicl.tables.document import Block, notes, words

#: Lines of the first screen; the command adds two.
_SCREEN = 38


def board_blocks(board: Board, attacks: bool = False, full: bool = True, epsilon: float | None = None) -> list[Block]:
    """The board. attacks: with every attack on its rows. full: every table of every task; else at most 40 lines, about
    one ε (None: the one that is answered first)."""
    blocks: list[Block] = []
    if full or attacks:
        blocks = [words(NOTHING)] if not board.sections else []
        blocks += [one for section in board.sections for one in section_blocks(section, attacks=attacks)]
        return blocks + notes(board.notes)
    for most in range(19, 4, -1):
        blocks = overview(board, epsilon, most)
        if to_text(blocks, False).count("\n") <= _SCREEN:
            break
    return blocks
