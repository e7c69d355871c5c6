"""A submission that is damaged at random: the gate has findings and the board goes on, without a traceback, a program
or a raw control character."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import matplotlib.font_manager  # noqa: F401  it lists the fonts by a program, once, which is none of ours
import pytest
from pydantic import ValidationError

from dpicl.core.cell import Cell
from dpicl.core.json_text import plain
from dpicl.core.printable import visible
from dpicl.leaderboards.cli.submit import findings_text
from dpicl.leaderboards.gate.examination import known_suites, load_submissions
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render import page
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import pages
from dpicl.results.store import Store
from tests.fuzz.mutations import mutated
from tests.fuzz.test_files import AGAIN
from tests.leaderboards.gate.conftest import World
from tests.leaderboards.shown import render_terminal


def damage(folder: Path, chance: random.Random) -> None:
    """Other values or other bytes in a file; results lie where their content then says, most of the time."""
    if chance.random() < 0.2:
        (folder / "reproduced.json").write_text(json.dumps(AGAIN))
    path = chance.choice(sorted(each for each in folder.rglob("*") if each.is_file()))
    path.write_bytes(mutated(path.read_bytes(), chance))
    if path.is_relative_to(folder / "results") and chance.random() < 0.6:
        move_home(folder, path)


def move_home(folder: Path, path: Path) -> None:
    """Gives a result the id and the place that it should have; nothing where it is no cell at all."""
    try:
        data = json.loads(path.read_bytes())
        cell = Cell.model_validate_json(json.dumps(data.get("cell")))
        data["cell_id"] = cell.id
        data["suite"].update(name=cell.suite, version=cell.suite_version)
        target = Store(folder / "results", cell.suite).path(cell)
        target.resolve().relative_to(folder.resolve())
        target.parent.mkdir(parents=True, exist_ok=True)
        path.rename(target)
        target.write_text(json.dumps(data))
    except (ValidationError, ValueError, OSError, KeyError, TypeError, AttributeError, RecursionError):
        return


def examined(world: World, suites: Any) -> str:
    """Everything that the gate and the board say of the damaged submission and the sound one beside it."""
    found, notes = load_submissions(world.root, suites)
    assert "team_b/vote" in [one.name for one in found]
    assert len(found) + len(notes) == 2
    examination = world.examine()
    said = [*notes, findings_text(examination.findings), examination.ending]
    said.append(json.dumps(plain(examination.as_json()), ensure_ascii=False))
    if not notes:
        board = build_board(Store(world.results, "tiny").load_all()[0], submissions=found)
        said += [render_terminal(board), json.dumps(board_json(board))]
        page.write(pages(board), world.root.parent / "site")
    return "\n".join(said)


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(1000, 1600), marks=pytest.mark.slow)])
def test_random_damages(world: World, started: list[tuple[str, str]], seeds: range) -> None:
    shutil.copytree(world.folder, world.root / "team_b" / "vote")
    sound = world.root / "team_b" / "vote" / "submission.yaml"
    sound.write_text(sound.read_text().replace("team_a", "team_b"))
    kept = world.root.parent / "kept"
    shutil.copytree(world.folder, kept)
    suites = known_suites([world.suite])
    started.clear()
    failures = []
    for seed in seeds:
        shutil.rmtree(world.folder)
        shutil.copytree(kept, world.folder)
        damage(world.folder, random.Random(seed))
        try:
            said = examined(world, suites)
            said.encode("utf-8")
        except Exception as error:
            failures.append(f"seed {seed}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if "as a fault" in said:
            failures.append(f"seed {seed}: {said[said.index('as a fault') - 200 :][:200]}")
        if any(visible(line, len(line)) != line for line in said.replace("\u200b", "").split("\n")):
            failures.append(f"seed {seed}: a raw character")
    assert failures == [] and started == []
