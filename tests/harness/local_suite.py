"""A suite on records of a test's own, and an entropy source that a test can repeat."""

import hashlib
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.harness.helpers import write

LABELS = ("World", "Sports", "Business", "Technology")
SUITE = """
name: own
version: 1
source: local
models: [sim]
seeds: [0]
epsilons: [{epsilon}]
delta: 1e-5
shots: 2
test_records: 4
tasks: [agnews]
mechanisms:
{mechanisms}
"""
ROWS = {
    "tang": "{name: tang, options: {slots: 4, examples_per_slot: 1, tokens: 3, top_k: 10}}",
    "pta": "{name: pta, options: {slots: 4, examples_per_slot: 1, tokens: 3}}",
    "prism": "{name: prism, options: {prompts: 8, tokens: 3}}",
    "esa": "{name: esa}",
    "zero_shot": "{name: zero_shot}",
}


def suite(folder: Path, *rows: str, epsilon: str = "1", **changes: str) -> Path:
    """The file of a suite of these rows, names of ROWS or YAML; changes: further keys."""
    text = SUITE.format(
        epsilon=epsilon, mechanisms="\n".join(f"  - {ROWS.get(row, row)}" for row in rows)
    )
    for key, value in changes.items():
        text = (
            "\n".join(line for line in text.splitlines() if not line.startswith(f"{key}:"))
            + f"\n{key}: {value}\n"
        )
    path = folder / "own.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def synthetic_suite(folder: Path, *rows: str, **changes: str) -> Path:
    """The same on the synthetic corpora."""
    return suite(folder, *rows, **{"source": "synthetic", "train_records": "60", **changes})


def rows_of(split: str, each: int) -> list[dict[str, str]]:
    """``each`` records a class, as a local file has them."""
    return [
        {"text": f"{split} story {number} about {label.lower()} matters", "label": label}
        for number in range(each)
        for label in LABELS
    ]


def write_records(
    folder: Path, train: list[dict[str, str]], test: list[dict[str, str]] | None = None
) -> Path:
    """$DPICL_DATA with the one task agnews; returns the folder."""
    write(folder, "agnews", "train", train)
    write(folder, "agnews", "test", rows_of("test", 2) if test is None else test)
    return folder


def private_release(records: Path, out: Path) -> list[object]:
    """The words of a release from such records, as a file of a user's own."""
    words = [
        "release",
        "tang",
        "--data",
        records,
        "--labels",
        ",".join(LABELS),
        "--size",
        20,
        "--epsilon",
        1,
    ]
    options = ("slots=4", "examples_per_slot=1", "tokens=3", "top_k=10")
    return [*words, "--model", "sim", "--out", out, *(f"--option={option}" for option in options)]


def repeated_entropy() -> Callable[[int], bytes]:
    """In place of secrets.token_bytes: the same bytes whenever it starts anew.

    A longer draw begins as a shorter one, so one record more at the end changes no other coin.
    """
    calls = count()
    return lambda size: hashlib.shake_256(f"entropy {next(calls)}".encode()).digest(size)
