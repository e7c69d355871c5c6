"""The floors of the house: imports go down only. Imports for type checkers alone and inside functions count too."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
#: From the ground up: a module imports modules of its own floor and of those below it.
FLOORS = (
    "harness.core",
    "harness.privacy",
    "harness.models",
    "harness.data",
    "harness.mechanism",
    "harness.evaluation",
    "harness.run",
    "harness.attacks",
    "harness.reaccounting",
    "harness.conformance",
    "harness.scaffold",
    "harness.api",
    "harness.cli",
    "leaderboards.model",
    "leaderboards.compare",
    "leaderboards.render",
    "leaderboards.publish",
    "leaderboards.gate",
    "leaderboards.api",
    "leaderboards.cli",
    "cli",  # dpicl/cli.py puts the commands of both together
)


def modules() -> dict[str, Path]:
    """Dotted name without 'dpicl.' -> file of every module of the package."""
    found = {}
    for folder in ("harness", "leaderboards", "mechanisms", "tasks"):
        for path in (ROOT / folder).rglob("*.py"):
            found[".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")] = path
    return {**found, "cli": ROOT / "dpicl" / "cli.py"}


def imported(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file names in an import statement, wherever it stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: say where it comes from"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in (name.removeprefix("dpicl.") for name in names if name.startswith("dpicl.")):
            while name and name not in known:
                name = name.rpartition(".")[0]
            found.add(name)
    return found - {""}


KNOWN = modules()
GRAPH = {name: imported(path, KNOWN) - {name} for name, path in KNOWN.items()}


def floor_of(module: str) -> int | None:
    return next((i for i, floor in enumerate(FLOORS) if f"{module}.".startswith(f"{floor}.")), None)


# Files of harness/scaffold become a user's own, and import what users import.
@pytest.mark.parametrize(
    "module", sorted(name for name in KNOWN if floor_of(name) is not None and not name.startswith("harness.scaffold."))
)
def test_a_module_imports_nothing_from_above(module):
    own = floor_of(module)
    above = {other for other in GRAPH[module] if (floor := floor_of(other)) is None or floor > own}
    assert above == set()


def test_no_circle():
    try:
        TopologicalSorter(GRAPH).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_every_module_has_a_floor():
    beside = ("mechanisms", "tasks", "leaderboards.submissions")  # nothing below imports these
    homeless = {name for name in KNOWN if floor_of(name) is None and not name.startswith(beside)}
    assert homeless == {"harness", "leaderboards"}


def test_the_harness_never_names_the_leaderboards():
    for name, path in KNOWN.items():
        if name.startswith("harness"):
            assert "dpicl.leaderboards" not in path.read_text("utf-8"), name


def test_the_graph_is_not_empty():
    assert "harness.core.errors" in GRAPH["harness.core.files"]
    assert len(KNOWN) > 200
