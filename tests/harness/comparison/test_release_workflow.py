"""The GitHub Actions example of docs/releases.md: sound YAML, few rights, and commands that `dpicl` understands."""

import re
import shlex
from pathlib import Path

import yaml

from dpicl.program import parse

WORKFLOW = Path(__file__).parents[3] / "docs" / "examples" / "model-release.yml"


def steps():
    document = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    return [step for job in document["jobs"].values() for step in job["steps"]]


def commands() -> list[list[str]]:
    lines = [line for step in steps() for line in step.get("run", "").splitlines()]
    return [shlex.split(line.partition(" | ")[0])[1:] for line in lines if "bin/dpicl " in line]


def test_every_dpicl_command_parses():
    parsed = [parse(words).arguments for words in commands()]
    assert [words[0] for words in commands()] == ["run", "run", "compare"]
    previous, run, compare = parsed
    assert previous["model"] == ["$PREVIOUS"]
    assert Path(previous["results"]) / previous["suite"] == Path(compare["base"])
    assert compare["fail_on_regression"]
    assert Path(run["results"]) / run["suite"] == Path(compare["candidate"])


def test_actions_are_pinned_and_rights_are_few():
    document = yaml.safe_load(WORKFLOW.read_text(encoding="utf-8"))
    assert document["permissions"] == {"contents": "read"}
    rights = {name: job.get("permissions") for name, job in document["jobs"].items()}
    assert rights == {"compare": None, "comment": {"pull-requests": "write"}}
    used = [step["uses"] for step in steps() if "uses" in step]
    assert len(used) == 5
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", name) for name in used)


def test_nothing_of_a_pull_request_is_pasted_into_a_shell():
    """An expression inside `run` would let a branch name or a title run commands."""
    assert not [step["run"] for step in steps() if "${{" in step.get("run", "")]
