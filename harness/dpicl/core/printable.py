"""Makes untrusted text safe for a terminal: no control characters and no change of direction."""

from __future__ import annotations

import re
import unicodedata

#: Control, format, surrogate, private-use and unassigned characters, and line separators.
_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
#: Colours and weights, as the tables of boards have them.
_STYLE = re.compile(r"(\x1b\[[0-9;]*m)")
#: Longest text of a released demonstration or answer that a page shows, in characters.
LONGEST_TEXT = 1000
#: A name, in quotes or without blanks, that is longer than most paths; what is shown of it.
_LONG_NAME = re.compile(r"(?<=[\s(])'[^']{300,}'|\S{300,}")
_BEGINNING, _END = 120, 60
#: What a spreadsheet takes for the beginning of a formula: at the beginning of a cell, also behind blanks and quotation
#: marks, and behind what divides cells in other languages; East Asian ones read full-width and small characters alike.
_FORMULA = re.compile(
    r"""((?:^|[;|])[\s"]*)([=+@-]|[\uff1d\uff0b\uff0d\uff20\ufe62\ufe63\ufe66\ufe6b])"""
)


def shorten(text: str) -> str:
    """The text with long names, which come from input, cut in the middle."""

    def cut(name: re.Match[str]) -> str:
        left_out = len(name[0]) - _BEGINNING - _END
        return f"{name[0][:_BEGINNING]}…({left_out:,} characters more)…{name[0][-_END:]}"

    return _LONG_NAME.sub(cut, text)


def show(character: str) -> str:
    """The character, or ⟨U+202E⟩ for one that does something."""
    return f"⟨U+{ord(character):04X}⟩" if unicodedata.category(character) in _UNSAFE else character


def make_printable(text: str, styled: bool = False) -> str:
    """The text with its line breaks and tabs, and nothing else that a terminal acts upon.

    styled: whether colours stay as well. The names in such a text must have been made safe before.
    """
    if text.isascii() and text.isprintable():
        return text
    if styled:
        return "".join(
            part if i % 2 else make_printable(part) for i, part in enumerate(_STYLE.split(text))
        )
    return "".join(character if character in "\n\t" else show(character) for character in text)


def make_visible(text: str, longest: int = LONGEST_TEXT) -> str:
    """The text with control, format and direction characters written out as ⟨U+202E⟩, and cut when it is too long.

    Names and released texts are untrusted: nothing in them may move a terminal's cursor or change the reading
    direction. Line breaks and tabs become spaces. Escaping for HTML is the template's business.
    """
    start = text[:longest]
    # else none of its characters is of a category that `show` writes out
    if not start.isprintable():
        start = "".join(" " if character in "\n\r\t" else show(character) for character in start)
    return start if len(text) <= longest else f"{start}… ({len(text):,} characters in all)"


def quote_formula(text: str) -> str:
    """The text of a cell, with an apostrophe before what a spreadsheet would take for a formula."""
    return _FORMULA.sub(r"\1'\2", text)
