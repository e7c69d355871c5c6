"""What a user installs: one package, whatever lies beside the user's script."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("harness", "leaderboards", "mechanisms", "tasks")
FILES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")
PIP = (sys.executable, "-m", "pip", "--quiet")
ALONE = ("--no-deps", "--no-build-isolation", "--no-index")
SCRIPT = """
import dpicl, tasks

assert tasks.MINE
assert dpicl.__file__.startswith({installed!r}), dpicl.__file__
results = dpicl.evaluate("zero_shot", task="agnews", model="sim", source="synthetic", test_records=8, progress=False)
print(len(results.to_frame()), sorted(row["name"] for row in dpicl.list_suites()))
"""


def run(*words: object, **how: Any) -> str:
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=300, **how
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.fixture(
    scope="module",
    params=[
        "folder",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("sdist", "zip", "editable")),
    ],
)
def wheel(request, tmp_path_factory) -> Path:
    """The wheel of this checkout, or of its sdist or a zip of it, beside its source."""
    place = tmp_path_factory.mktemp("wheel")
    source = place / "source"
    for name in SOURCES:
        ignored = shutil.ignore_patterns("__pycache__", "submissions")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in FILES:
        shutil.copy(ROOT / name, source / name)
    if request.param == "sdist":
        run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", cwd=source)
        (source,) = (source / "dist").glob("*.tar.gz")
    elif request.param == "zip":
        source = shutil.make_archive(place / "zip", "zip", place, "source")
    run(*PIP, "wheel", source, *ALONE, "--wheel-dir", place)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(request, wheel) -> Path:
    """A folder with that wheel, or with the checkout itself, installed alone."""
    editable = request.node.callspec.params["wheel"] == "editable"
    what = ["--editable", wheel.parent / "source"] if editable else [wheel]
    run(*PIP, "install", *ALONE, "--target", wheel.parent / "site", *what)
    return wheel.parent / "site"


def test_the_wheel_holds_one_package_with_all_its_files(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"dpicl", "dpicl_bench"}
    assert {
        "dpicl/tasks/agnews/task.yaml",
        "dpicl/suites/quick.yaml",
        "dpicl/mechanisms/stopwords.txt",
    } <= {*names}
    assert any(name.endswith(".css") for name in names)
    assert not any("submissions/" in name for name in names)


@pytest.mark.slow
def test_it_works_beside_files_of_the_same_names(installed, tmp_path):
    (tmp_path / "tasks.py").write_text("MINE = True\n")
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise SystemExit('taken')\n")
    (tmp_path / "results").mkdir()
    (tmp_path / "script.py").write_text(SCRIPT.format(installed=str(installed.parent)))
    places = [
        str(installed),
        *(path.read_text().strip() for path in installed.glob("*.pth")),
    ]  # of an editable one
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "OMP_NUM_THREADS": "1"}
    output = run(sys.executable, "script.py", cwd=tmp_path, env=environment)
    assert output.startswith("1 ") and "'open'" in output
    quick = (
        "run",
        "quick",
        "--model",
        "sim",
        "--task",
        "agnews",
        "--mechanism",
        "zero_shot",
        "--limit",
        8,
        "--json",
    )
    done = run(
        sys.executable,
        installed / "bin" / "dpicl",
        *quick,
        cwd=tmp_path,
        env=environment,
    )
    assert json.loads(done)["counts"]["done"] == 1
