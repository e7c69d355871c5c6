"""The core of the wheel: what works without the packages of any extra, and what is said where one is missing."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from dpicl.core.extras import EXTRAS

ROOT = Path(__file__).resolve().parent.parent
#: What a package is imported as, where that is not its name.
IMPORTED = {"scikit_learn": "sklearn", "vl_convert_python": "vl_convert"}
#: Accounts, and then runs command lines, each a line of the first argument, where no package of an extra is found.
CORE = """
import sys

import dpicl

assert 5.3 < dpicl.account(noise=1.27186, sensitivity=2, rate=400 / 14732, steps=100, delta=5e-5)["proved"] < 5.4
heavy = {"torch", "transformers", "pandas", "pyarrow", "dpicl.plan", "dpicl.data", "dpicl.mechanism", "dpicl.models"}
assert not heavy & {*sys.modules}, heavy & {*sys.modules}

from dpicl.core.extras import EXTRAS

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(name.partition(".")[0] in packages for packages in EXTRAS.values()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from dpicl.program import main

try:
    dpicl.plot
    raise SystemExit("drawn without vl-convert")
except dpicl.UsageError:
    print([main(line.split()) for line in sys.argv[1].splitlines()])
"""


def core(*lines: str) -> tuple[str, str]:
    """(the exit codes, stderr) of command lines without extras."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "harness"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", CORE, "\n".join(lines)]
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()[-1], done.stderr


def test_the_core_accounts_and_shows_boards_without_any_extra() -> None:
    works = (
        "account --noise 1 --delta 1e-5",
        "list mechanisms",
        "list attacks",
        "board open",
        "plan quick",
        "--help",
    )
    missing = {
        "run quick --model sim": "run",
        "board open --html site": "board",
        "check pta": "run",
    }
    codes, output = core(*works, *missing)
    assert codes == str([0] * len(works) + [2] * len(missing))
    imports = re.findall(
        r"^dpicl: \w+ is not installed; run `pip install 'dpicl-bench\[(\w+)\]'`\.$",
        output,
        re.MULTILINE,
    )
    assert imports == [*missing.values()]


def test_the_extras_are_those_of_pyproject() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    for extra, packages in EXTRAS.items():
        names = {re.split(r"[<>=\[]", one)[0].replace("-", "_") for one in extras[extra]} - {
            "dpicl_bench"
        }
        brought = {"tokenizers", "huggingface_hub"} if extra == "run" else set()  # by transformers
        assert {IMPORTED.get(name, name) for name in names} | brought == {*packages}, extra
