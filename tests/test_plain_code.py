"""Holds how dense each room's code is, and how many of its names tell no type. These numbers may only fall."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HARNESS = ROOT / "harness" / "dpicl"
#: From so many tokens on, a line is dense.
DENSE = 25
#: A string on one line, a number, a name, an operator. Not `tokenize`: it takes five times as long, and since Python
#: 3.12 it counts the parts of an f-string.
TOKEN = re.compile(
    r"""[rbfRBF]*(?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\d+(?:[.\w]|(?<=e)-)*|\w+"""
    r"""|->|:=|\.\.\.|\*\*|//|<<|>>|[-+*/|&%@^<>=!]=|[^\w\s]"""
)
WEAK = {"own", "found", "said", "given", "made", "asked", "kept", "wanted", "told", "seen"}
#: What looks like one that is bound; a file without it is not walked.
BOUND = re.compile(rf"\b(?:{'|'.join(WEAK)})(?:\s*(?:[:,)]|[-+*/|&]?=(?!=))| in )")
#: Room -> (percent of its lines of code that are dense, names that tell no type), at most.
ROOMS = {
    "accounting": (2.6, 0),
    "api": (2.7, 0),
    "attacks": (2.1, 0),
    "cli": (1.2, 1),
    "conformance": (1.8, 0),
    "core": (2.7, 0),
    "data": (1.8, 0),
    "engines": (1.9, 0),
    "evaluation": (2.5, 0),
    "leaderboards": (1.8, 3),
    "mechanism": (1.8, 0),
    "models": (2.1, 0),
    "own": (1.6, 0),
    "plan": (1.4, 0),
    "privacy": (2.2, 0),
    "releasing": (1.8, 0),
    "results": (1.2, 0),
    "run": (1.3, 0),
    "scaffold": (2.9, 0),
    "tables": (2.2, 0),
}
#: Folder of tests -> percent of its lines that are dense, at most. No name there is weak, and none of a test is longer
#: than LONGEST.
TESTS = {
    "faults": 3.3,
    "fuzz": 2.7,
    "harness/accounting": 1.9,
    "harness/api": 2.8,
    "harness/attacks": 2.4,
    "harness/cli": 1.8,
    "harness/comparison": 2.5,
    "harness/conformance": 1.9,
    "harness/core": 1.1,
    "harness/data": 3.0,
    "harness/engines": 1.6,
    "harness/evaluation": 3.8,
    "harness/mechanism": 1.2,
    "harness/own": 1.8,
    "harness/plan": 2.6,
    "harness/privacy": 3.2,
    "harness/releasing": 1.8,
    "harness/results": 1.1,
    "harness/run": 3.0,
    "harness/scaffold": 0.6,
    "leaderboards/gate": 2.2,
    "mechanisms": 3.0,
    "tasks": 2.9,
}
LONGEST = 60
LONG_NAME = re.compile(rf"def (test_\w{{{LONGEST - 4},}})")


def list_prose(body: list[ast.stmt]) -> Iterator[int]:
    """The lines of docstrings."""
    for at, statement in enumerate(body):
        if (
            at == 0
            and isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
        ):
            yield from range(statement.lineno, statement.end_lineno + 1)
        elif isinstance(statement, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from list_prose(statement.body)


def count_weak(tree: ast.Module) -> int:
    """Variables and parameters with a weak name."""
    names = [
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]
    names += [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)]
    return sum(name in WEAK for name in names)


def measure(folder: Path) -> tuple[float, int]:
    lines, dense, weak = 0, 0, 0
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text)
        prose = set(list_prose(tree.body))
        if BOUND.search(text):
            weak += count_weak(tree)
        for number, line in enumerate(text.splitlines(), start=1):
            code = line.partition("  # ")[0].strip()
            if code and not code.startswith("#") and number not in prose:
                lines += 1
                dense += len(TOKEN.findall(code)) >= DENSE
    return 100 * dense / lines, weak


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_gets_no_denser_and_its_names_no_weaker(room):
    dense, weak = measure(HARNESS / room)
    most_dense, most_weak = ROOMS[room]
    assert dense <= most_dense
    assert weak <= most_weak


@pytest.mark.parametrize("folder", TESTS)
def test_tests_get_no_denser_and_their_names_stay_short(folder):
    dense, weak = measure(ROOT / "tests" / folder)
    assert dense <= TESTS[folder] and weak == 0
    texts = (path.read_text("utf-8") for path in (ROOT / "tests" / folder).rglob("test_*.py"))
    assert [name for text in texts for name in LONG_NAME.findall(text)] == []


def test_a_line_is_measured_by_its_tokens():
    assert TOKEN.findall("x: float = f(a, 'it is') ** -1.5e-3") == [
        *("x", ":", "float", "=", "f", "(", "a", ",", "'it is'", ")", "**", "-", "1.5e-3"),
    ]
