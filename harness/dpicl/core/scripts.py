"""Words of texts in any script; of Latin texts they are runs of letters and digits."""

from __future__ import annotations

import re
import unicodedata

#: A character, with its signs, of scripts without blanks between words: Thai, Lao, Burmese, Khmer, Chinese, Japanese.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff]"
    "[\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ece\u102b-\u103e\u17b4-\u17d3\u3099\u309a]*"
)
#: What nobody sees (Unicode's Default_Ignorable_Code_Point); between a letter and its accent it keeps them apart.
_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def fold_text(text: str) -> str:
    """A text without case, invisible characters and Unicode forms: NFC and NFD, widths and ligatures are one."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize(
        "NFKC", unicodedata.normalize("NFKC", _UNSEEN.sub("", text)).casefold()
    )


def space_out(text: str) -> str:
    """A text with blanks around every character of a script that has none between words."""
    return text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)


def split_words(text: str) -> list[str]:
    """Letters and digits in a row with their accents and vowel signs; a character where a script has no blanks."""
    spaced = space_out(unicodedata.normalize("NFC", text))
    parts = "".join(char if _is_of_word(char) else " " for char in spaced).split()
    return [part for part in parts if any(map(str.isalnum, part))]


def is_latin(char: str) -> bool:
    """Whether a character belongs to Latin texts: ASCII, Latin letters, and those that stand in for some."""
    named = unicodedata.name(char, "").startswith(("LATIN ", "MODIFIER LETTER"))
    return char.isascii() or char in "ªºµ" or named


def _is_of_word(char: str) -> bool:
    selects = "\ufe00" <= char <= "\ufe0f"  # how an emoji looks
    return char.isalnum() or (unicodedata.category(char) in ("Mn", "Mc") and not selects)
