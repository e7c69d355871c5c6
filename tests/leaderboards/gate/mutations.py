"""Random damage to a submission, as a stranger with an editor and bad intentions would do it."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpicl.core.cell import Cell
from dpicl.results.store import Store
from tests.mutations import AGAIN, YAML, bytes_mutated, value_mutated

NAMES = ["\x1b[31m.json", "a\nb.json", "\udcff.json", "x" * 250, "con.json", "a:b.json", "..json", "é.json", "A" * 60]


def a_result(folder: Path, chance: random.Random) -> None:
    """A result file whose JSON is damaged; half of the time it is named as its content then says."""
    path = chance.choice(sorted(folder.glob("results/*/*/*/*/*.json")))
    data = json.loads(path.read_text())
    data = value_mutated(data, chance)
    if chance.random() < 0.6 and isinstance(data, dict):
        path = _renamed(folder, path, data)
    path.write_text(json.dumps(data))


def _renamed(folder: Path, path: Path, data: dict[str, Any]) -> Path:
    """Where the damaged result belongs, with the id that it then has; its old place where it is no cell at all."""
    try:
        cell = Cell.model_validate_json(json.dumps(data.get("cell")))
        data["cell_id"] = cell.id
        data["suite"].update(name=cell.suite, version=cell.suite_version)
        target = Store(folder / "results", cell.suite).path(cell)
        target.resolve().relative_to(folder.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        path.unlink()
        return target
    except (ValidationError, ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError):
        return path


def a_record_of_a_rerun(folder: Path, chance: random.Random) -> None:
    (folder / "reproduced.json").write_text(json.dumps(value_mutated(AGAIN, chance)))


def a_card(folder: Path, chance: random.Random) -> None:
    path = folder / "submission.yaml"
    lines = path.read_text().splitlines()
    i = chance.randrange(len(lines))
    new = chance.choice(YAML)
    key = lines[i].partition(":")[0]
    lines[i] = chance.choice((f"{key}: {new}", new, f"{new}: 1", f"{lines[i]}\nreported: [{{task: {new}}}]"))
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))


def some_bytes(folder: Path, chance: random.Random) -> None:
    path = chance.choice([one for one in sorted(folder.rglob("*")) if one.is_file()])
    path.write_bytes(bytes_mutated(path.read_bytes(), chance))


def a_name(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.rglob("*")))
    target = path.with_name(chance.choice(NAMES))
    try:
        path.rename(target)
    except OSError:
        target.with_name("x" * 80).write_text("x")


def an_entry(folder: Path, chance: random.Random) -> None:
    holder = chance.choice([folder, *(one for one in sorted(folder.rglob("*")) if one.is_dir())])
    path = holder / chance.choice([*NAMES, ".git", "HEAD", "objects", "refs", "x.py", "x.json", "README.md", ".locks"])
    if len(os.fsencode(path.name)) > 255 or path.exists():
        return
    match chance.randrange(4):
        case 0:
            path.mkdir()
        case 1:
            path.symlink_to(chance.choice(("/", "..", "nothing", path.name)))
        case 2:
            os.mkfifo(path)
        case _:
            path.write_text("x")


KINDS: list[Callable[[Path, random.Random], None]] = [
    a_result,
    a_result,
    a_result,
    a_card,
    a_record_of_a_rerun,
    some_bytes,
    a_name,
    an_entry,
]


def damage(folder: Path, seed: int) -> str:
    """One random damage, with what is random fixed by the seed; returns its kind."""
    chance = random.Random(seed)
    kind = chance.choice(KINDS)
    kind(folder, chance)
    return kind.__name__
