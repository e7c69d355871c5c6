"""Writes the table of own-records.md, which method for which need, from the committed results: make reports"""

from __future__ import annotations

import math
import re
from pathlib import Path

import dpicl

ROOT = Path(__file__).resolve().parents[1]
TASK, MODEL = "dbpedia", "embedded-float32"
HEAD = "| you need | method | ε | right answers on DBPedia, 14 classes |"
#: What is needed -> rows of the suite `record` that give it.
NEEDS = {
    "labels for new texts, however many": ("embedding_centroids", "embedding_logistic"),
    "a prompt with texts and labels": (
        "invisible_ink_small",
        "tang_small",
        "prism_small",
        "private_evolution",
    ),
    "the same without spending anything": (
        "public_greedy",
        "public_demonstrations",
        "repeated_label",
        "zero_shot",
    ),
    "for comparison: real records in the prompt, not private": ("real_demonstrations",),
}
#: Rows whose name is not that of a method.
CALLED = {
    "public_greedy": "`public_demonstrations --option greedy=true`",
    "embedding_logistic": "`embedding_centroids --option head=logistic`",
}
MARKS = re.compile(r"(<!-- choice -->\n).*?(<!-- end -->)", re.DOTALL)


def table() -> str:
    board = dpicl.board("record", results=str(ROOT / "results")).to_frame()
    rows = board[(board.task == TASK) & (board.model == MODEL) & (board.epsilon != 8)].set_index(
        "label"
    )
    lines = [HEAD, "|---|---|---|---|"]
    for need, labels in NEEDS.items():
        for place, label in enumerate(labels):
            row = rows.loc[label]
            method = CALLED.get(label, f"`{label.removesuffix('_small')}`")
            epsilon = "∞" if math.isinf(row.epsilon) else f"{row.epsilon:g}"
            score = f"{row.score:.3f}".removeprefix("0")
            lines.append(f"| {'' if place else need} | {method} | {epsilon} | {score} |")
    return "\n".join(lines) + "\n"


def fill(text: str) -> str:
    """own-records.md with the table of now."""
    return MARKS.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    page = ROOT / "docs" / "own-records.md"
    page.write_text(fill(page.read_text("utf-8")), encoding="utf-8")
