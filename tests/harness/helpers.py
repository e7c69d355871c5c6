"""What several tests of commands and plug-ins use."""

import json
from collections.abc import Iterable
from pathlib import Path

PLUGIN = """\
from __future__ import annotations

from dataclasses import dataclass

from dp_accounting import dp_event as dp

from dpicl.mechanism.bases import DemonstrationMechanism, Demonstration


@dataclass(frozen=True)
class Nothing(DemonstrationMechanism):
    name = "nothing"
    knob = None
    words: int = 3

    def events(self, knob, sizes):
        return dp.NoOpDpEvent()

    def release(self, private, context):
        return [Demonstration("word " * self.words, label, self.words) for label in context.shots]
"""


def refuse(answer, *words: str) -> None:
    """Exit code 2, nothing on stdout, one line that begins with the program's name and holds the words."""
    assert answer.code == 2
    assert answer.out == ""
    lines = [line for line in answer.err.splitlines() if line.startswith("dpicl: ")]
    assert len(lines) == 1, answer.err
    assert "Traceback" not in answer.err
    for word in words:
        assert word in lines[0]


def list_kind(dpicl, kind: str, *flags: object) -> dict[str, dict]:
    answer = dpicl("list", kind, *flags, "--json")
    assert answer.code == 0, answer.err
    return {row["name"].partition(":")[0]: row for row in answer.json}


def children(pid: int) -> set[int]:
    """The processes that a process has started and that are alive, and theirs."""
    pids: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(path.parent.name)
            pids |= {child} | children(child)
    return pids


def write(folder: Path, task: str, split: str, rows: Iterable[dict]) -> Path:
    """Writes ``folder/task/split.jsonl``."""
    path = folder / task / f"{split}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in rows),
        encoding="utf-8",
    )
    return path


def assert_shown_nowhere(secret: str, error: BaseException | None) -> None:
    while error is not None:
        assert secret not in str(error)
        assert secret not in repr(vars(error))
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
