"""Writes the table of own-records.md, which method for which need, from the committed results: make reports"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results" / "record" / "embedded-float32"
TASK = "dbpedia"
HEAD = "| you need | method | ε | right answers on DBPedia, 14 classes |"
#: What is needed -> rows of the suite `record` that give it.
NEEDS = {
    "labels for new texts, however many": ("embedding_centroids", "embedding_logistic"),
    "a prompt with texts and labels": ("invisible_ink_small", "tang_small", "prism_small", "private_evolution"),
    "the same without spending anything": (*("public_greedy", "public_demonstrations", "repeated_label", "zero_shot"),),
    "for comparison: real records in the prompt, not private": ("real_demonstrations",),
}
#: Rows whose name is not that of a method.
CALLED = {
    "public_greedy": "`public_demonstrations --option greedy=true`",
    "embedding_logistic": "`embedding_centroids --option head=logistic`",
}
MARKS = re.compile(r"(<!-- choice -->\n).*?(<!-- end -->)", re.DOTALL)


def scores() -> dict[tuple[str, str], list[float]]:
    """(row, epsilon) -> the main metric at each seed."""
    found = defaultdict(list)
    for path in sorted(RESULTS.rglob("*.json")):
        result = json.loads(path.read_text("utf-8"))
        cell = result["cell"]
        if cell["task"] == TASK and not cell.get("development"):
            key = cell["label"], "∞" if cell["epsilon"] == "Infinity" else f"{cell['epsilon']:g}"
            found[key].append(result["scores"][result["main_metric"]]["value"])
    return found


def table() -> str:
    lines = [HEAD, "|---|---|---|---|"]
    found = scores()
    for need, rows in NEEDS.items():
        for row in rows:
            (epsilon,) = [epsilon for name, epsilon in found if name == row and epsilon in ("0", "1", "∞")]
            called = CALLED.get(row, f"`{row.removesuffix('_small')}`")
            lines.append(f"| {need} | {called} | {epsilon} | {fmean(found[row, epsilon]):.3f} |".replace("0.", "."))
            need = ""
    return "\n".join(lines) + "\n"


def fill(text: str) -> str:
    """own-records.md with the table of now."""
    return MARKS.sub(lambda match: match[1] + table() + match[2], text)


if __name__ == "__main__":
    page = ROOT / "docs" / "own-records.md"
    page.write_text(fill(page.read_text("utf-8")), encoding="utf-8")
