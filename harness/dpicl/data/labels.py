"""Reads a file of labels, for those that a command line cannot hold: many, or with commas and equals signs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dpicl.core import json_text
from dpicl.core.decoding import PLAIN, is_escaped, read_text
from dpicl.core.errors import DataError
from dpicl.data.tables import require_file

_LARGEST = 10_000_000


def read_labels(path: Path) -> dict[str, str]:
    """Label as a file of records has it -> label word, in order.

    One label a line, with a tab between the two where they differ; or, in a .json, a list of words or an object. Raises
    DataError for what is neither, and for a label twice.
    """
    require_file(path, "labels")
    try:
        text = read_text(path, PLAIN)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror}); give a file with labels."
        ) from None
    if is_escaped(text):
        raise DataError(f"{path} is not UTF-8; save it as UTF-8.")
    pairs = _pairs_of_json(path, text) if path.suffix.lower() == ".json" else _pairs_of_lines(text)
    labels: dict[str, str] = {}
    for written, word in pairs:
        if not written or not word:
            raise DataError(
                f"{path} has a label without a word; write one label a line, or LABEL, a tab and WORD."
            )
        if written in labels:
            raise DataError(f"{path} has the label '{written:.60}' twice; write each once.")
        labels[written] = word
    if not labels:
        raise DataError(f"{path} holds no label; write one a line.")
    return labels


def _pairs_of_lines(text: str) -> list[tuple[str, str]]:
    pairs = []
    for line in text.splitlines():
        if line.strip():
            written, tab, word = line.partition("\t")
            pairs.append((written.strip(), " ".join((word if tab else written).split())))
    return pairs


def _pairs_of_json(path: Path, text: str) -> list[tuple[str, str]]:
    try:
        value: Any = json_text.loads(text, _LARGEST, plain=False)
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}; repair it.") from None
    words = value if isinstance(value, list) else []
    pairs = list(value.items()) if isinstance(value, dict) else [(word, word) for word in words]
    if not all(isinstance(word, str) for pair in pairs for word in pair):
        raise DataError(f"{path} must be a list of words, or an object from labels to words.")
    return [(written.strip(), " ".join(word.split())) for written, word in pairs]
