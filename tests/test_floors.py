"""The floors of the house: imports go down only. Imports for type checkers alone and inside functions count too."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "harness" / "dpicl"
#: From the ground up: a module imports modules of its own floor and of those below it.
FLOORS = (
    "core",
    "tables",
    "accounting",
    "privacy",
    "models",
    "data",
    "mechanism",
    "evaluation",
    "results",
    "releasing",
    "run",
    "plan",
    "engines",
    "own",
    "attacks",
    "conformance",
    "scaffold",
    "api",
    "cli",
    "leaderboards.model",
    "leaderboards.compare",
    "leaderboards.render",
    "leaderboards.publish",
    "leaderboards.gate",
    "leaderboards.api",
    "leaderboards.cli",
    "program",  # it puts the commands of both together
)


def modules() -> dict[str, Path]:
    """Dotted name without 'dpicl.' -> file of every module of the package."""
    files = [(PACKAGE, path) for path in PACKAGE.rglob("*.py")]
    files += [
        (ROOT, path) for folder in ("mechanisms", "tasks") for path in (ROOT / folder).rglob("*.py")
    ]
    dotted = {path: ".".join(path.relative_to(base).with_suffix("").parts) for base, path in files}
    return {name.removesuffix(".__init__"): path for path, name in dotted.items()}


def list_imports(path: Path, known: dict[str, Path]) -> set[str]:
    """The modules of the package that a file names in an import statement, wherever it stands."""
    imports = set()
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
            imports.add(name)
    return imports - {""}


KNOWN = modules()


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    """Module -> the other modules of the package that it imports."""
    return {name: list_imports(path, KNOWN) - {name} for name, path in KNOWN.items()}


def floor_of(module: str) -> int | None:
    return next((i for i, floor in enumerate(FLOORS) if f"{module}.".startswith(f"{floor}.")), None)


def is_above(module: str, floor: int) -> bool:
    """Whether a module has a higher floor, or none."""
    other = floor_of(module)
    return other is None or other > floor


def test_a_module_imports_nothing_from_above(graph):
    """Files of harness/dpicl/scaffold become a user's own, and import what users import."""
    above = {}
    for name, imported in graph.items():
        floor = floor_of(name)
        if floor is not None and not name.startswith("scaffold."):
            above[name] = {other for other in imported if is_above(other, floor)}
    assert {name: others for name, others in above.items() if others} == {}


def test_no_circle(graph):
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"a circle of imports: {' <- '.join(error.args[1])}")


def test_every_module_has_a_floor():
    beside = ("mechanisms", "tasks")  # nothing below imports these
    homeless = {name for name in KNOWN if floor_of(name) is None and not name.startswith(beside)}
    assert homeless == {"__init__", "__main__", "leaderboards"}


def test_the_harness_never_names_the_leaderboards():
    for name, path in KNOWN.items():
        if floor_of(name) is not None and not name.startswith(("leaderboards", "program")):
            assert "dpicl.leaderboards" not in path.read_text("utf-8"), name


def test_shipped_methods_import_dpicl_and_each_other_alone(graph):
    shipped = [name for name in KNOWN if name.startswith("mechanisms.")]
    assert len(shipped) > 20
    for name in shipped:
        others = {other for other in graph[name] if not other.startswith("mechanisms.")}
        assert others <= {"", "__init__"}, name


def test_the_graph_is_not_empty(graph):
    assert "core.errors" in graph["core.files"]
    assert len(KNOWN) > 200
