"""Imports go down only: late ones, and those for type checks alone, count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import harness

ROOT = Path(harness.__file__).resolve().parent
#: Everything below the commands: they alone know the boards.
COMMANDS = f"{harness.__name__}.commands"


def modules() -> dict[str, Path]:
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = (harness.__name__, *path.relative_to(ROOT).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imported(path: Path) -> Iterator[str]:
    """The names that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{each.name}" for each in node.names)


def graph() -> dict[str, set[str]]:
    """Module -> the modules of ours that it imports."""
    known = modules()

    def module_of(name: str) -> str:
        while name and name not in known:
            name = name.rpartition(".")[0]
        return name

    return {name: {module_of(each) for each in imported(path)} - {"", name} for name, path in known.items()}


def test_no_module_imports_itself_by_way_of_others():
    below = {name: found for name, found in graph().items() if not name.startswith(COMMANDS)}
    assert len(below) > 100
    try:
        TopologicalSorter(below).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize(
    ("floor", "above"),
    [
        ("privacy", ("mechanism", "task", "models", "registry", "attacks", "evaluation", "releasing")),
        ("models", ("task", "mechanism", "registry", "attacks", "evaluation", "releasing", "privacy")),
        ("evaluation.lm_eval_bridge", ("registry", "attacks", "releasing", "pipeline", "conformance")),
        ("task", ("mechanism", "registry", "attacks", "evaluation", "releasing", "privacy")),
        ("mechanism", ("registry", "attacks", "evaluation", "releasing", "slot_reader", "output_cache")),
        ("pipeline", ("attacks", "conformance", "commands")),
        ("attacks", ("conformance", "commands", "scaffold")),
    ],
)
def test_a_floor_knows_nothing_of_those_above_it(floor, above):
    found = graph()
    place = f"{harness.__name__}.{floor}"
    reached, waiting = set(), [name for name in found if name == place or name.startswith(f"{place}.")]
    assert waiting
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += found.get(name, ())
    upper = [f"{harness.__name__}.{name}" for name in above]
    assert not [name for name in reached if any(name == each or name.startswith(f"{each}.") for each in upper)]
