"""What tests of releases from a user's own file share: the file, and the words of a small release."""

import json
from pathlib import Path

LABELS = ("billing", "technical", "refund")
SMALL = ("--option", "slots=4", "--option", "tokens=3", "--option", "top_k=10")
ALWAYS = ("--labels", ",".join(LABELS), "--size", 20, "--model", "sim", "--epsilon", 1)


def write_csv(path: Path, each: int, head: str = "text,label") -> None:
    rows = [
        f'"a swordfish, ""ticket"" number {n} on {label}",{label}'
        for n in range(each)
        for label in LABELS
    ]
    path.write_text("\n".join([head, *rows]) + "\n")


def release(dpicl, *more: object, data: str = "tickets.csv", out: str = "demos.jsonl"):
    return dpicl("release", "tang", "--data", data, *ALWAYS, *SMALL, "--out", out, *more)


def read_rows(path: Path | str) -> list[dict]:
    """The rows of a file of JSON lines."""
    return [json.loads(line) for line in Path(path).read_text().splitlines()]


def read_card(name: str = "demos") -> dict:
    """The privacy card beside the released file of that name, in the working folder."""
    return json.loads(Path(f"{name}.card.json").read_text())


def assert_nothing_charged(dpicl) -> None:
    assert dpicl("budget", "--json").json == {"private_sets": []}
