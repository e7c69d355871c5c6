"""Whatever is sent, the gate has findings and the board goes on: no traceback, no program, no raw control character."""

from __future__ import annotations

import json
import shutil

import pytest

from dpicl.cli.output import plain
from dpicl.core.printable import visible
from dpicl.leaderboards.gate.case import Case, Request
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import examine, known_suites, load_submissions
from dpicl.leaderboards.gate.report import ending, findings_text, markdown
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.render.as_json import board_json
from dpicl.leaderboards.render.html import write_html
from dpicl.leaderboards.render.terminal import render_terminal
from tests.leaderboards.gate.conftest import World
from tests.leaderboards.gate.mutations import damage


def examined(world: World, suites) -> str:
    """Everything that the gate and the board say of the damaged submission and the sound one beside it."""
    found, notes = load_submissions(world.root, suites)
    assert "team_b/vote" in [one.name for one in found]
    assert len(found) + len(notes) == 2
    contents, request = read_contents(world.folder), Request(suites=suites, results=world.results)
    examination = examine(contents, request)
    said = [*notes, findings_text(examination.findings), ending(examination), markdown([examination])]
    said.append(json.dumps(plain(examination.as_json()), ensure_ascii=False))
    if not notes:
        board = build_board(Case(contents, request).reference, submissions=found)
        said += [render_terminal(board), json.dumps(board_json(board))]
        write_html(board, world.root.parent / "site")
    return "\n".join(said)


@pytest.mark.parametrize("seeds", [range(30), pytest.param(range(1000, 1600), marks=pytest.mark.slow)])
def test_random_damages(world: World, started: list[tuple[str, str]], seeds: range):
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
        kind = damage(world.folder, seed)
        try:
            said = examined(world, suites)
            said.encode("utf-8")
        except Exception as error:
            failures.append(f"seed {seed}, {kind}: {type(error).__name__}: {str(error)[:200]}")
            continue
        if "as a fault" in said:
            failures.append(f"seed {seed}, {kind}: {said[said.index('as a fault') - 200 :][:200]}")
        if any(visible(line, len(line)) != line for line in said.replace("\u200b", "").split("\n")):
            failures.append(f"seed {seed}, {kind}: a raw character")
    assert failures == [] and started == []
