"""Threads of OpenMP sleep soon where others want the processor."""

import os
import subprocess
import sys

import pytest

PRINT = "import os; print(os.environ.get('GOMP_SPINCOUNT'), os.environ.get('KMP_BLOCKTIME'))"


def run(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """A new Python without the variables that decide how threads wait, but for these."""
    names = ("GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, **settings},
    )


@pytest.mark.parametrize(
    ("settings", "waiting"),
    [
        ({}, "10000 1"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "ACTIVE"}, "None None"),
    ],
)
def test_waiting_is_limited_unless_the_user_decides(settings: dict[str, str], waiting: str) -> None:
    assert run(f"import dpicl; {PRINT}", **settings).stdout.split() == waiting.split()


def test_torch_that_was_loaded_before_is_warned_of() -> None:
    late = "import sys, types; sys.modules['torch'] = types.ModuleType('torch'); import dpicl"
    assert "import dpicl first" in run(late).stderr
    assert run(late, OMP_NUM_THREADS="1").stderr == ""
    assert run("import dpicl").stderr == ""
