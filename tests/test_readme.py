"""The mechanisms of the README and of docs/mechanisms.md are real: they run as they stand there."""

import re
from pathlib import Path

import pytest

from dpicl.harness.conformance.kit import TASKS
from dpicl.harness.data.task import PublicTask

ROOT = Path(__file__).resolve().parent.parent


def links(path: Path) -> list[Path]:
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
    return [path.parent / target for target in targets]


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))], ids=lambda path: path.name
)
def test_every_link_leads_somewhere(path):
    assert [str(target) for target in links(path) if not target.exists()] == []


def test_the_example_mechanism_runs_at_its_proved_epsilon(dpicl, sim_suite, tmp_path):
    (source,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
    plugin = tmp_path / "vote.py"
    plugin.write_text(source, encoding="utf-8")
    flags = ["--plugin", plugin, "--results", tmp_path / "results"]
    options = ["--option", "slots=8", "--option", "tokens=4", "--seed", 0]
    run = dpicl("run", sim_suite, *flags, "--mechanism", "vote", *options, "--json")
    assert run.code == 0, run.err
    board = dpicl("board", sim_suite, *flags, "--json")
    assert board.code == 0, board.err
    (table,) = board.json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert row["mechanism"] == "vote"
    assert 0.98 * 2 <= row["proved"] <= 2
    assert len(table["missing"]) == 2


def test_the_example_answer_mechanism_runs_at_its_proved_epsilon(dpicl, sim_suite, tmp_path):
    text = (ROOT / "docs" / "mechanisms.md").read_text("utf-8")
    (source,) = (block for block in re.findall(r"^```python\n(.*?)^```", text, re.M | re.S) if "class Shares" in block)
    plugin = tmp_path / "shares.py"
    plugin.write_text(source, encoding="utf-8")
    flags = ["--plugin", plugin, "--results", tmp_path / "results"]
    run = dpicl("run", sim_suite, *flags, "--mechanism", "shares", "--option", "slots=4", "--seed", 0, "--json")
    assert run.code == 0, run.err
    board = dpicl("board", sim_suite, *flags, "--json")
    (table,) = board.json["sections"][0]["tasks"]
    (row,) = table["rows"]
    assert row["mechanism"] == "shares" and row["queries"] == 12
    assert 0.98 * 2 <= row["proved"] <= 2


@pytest.mark.parametrize(("page", "marker"), [("README.md", "class Vote"), ("docs/mechanisms.md", "class Shares")])
def test_the_example_mechanisms_pass_the_conformance_kit(dpicl, tmp_path, page, marker):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text("utf-8"), re.M | re.S)
    (source,) = (block for block in blocks if marker in block)
    plugin = tmp_path / "example.py"
    plugin.write_text(source, encoding="utf-8")
    checked = dpicl("check", plugin, "--task", "agnews")
    assert checked.code == 0, checked.out


def test_the_example_mechanism_says_which_tasks_it_cannot_do():
    text = (ROOT / "README.md").read_text("utf-8")
    (source,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    example: dict[str, object] = {"__name__": "vote"}
    exec(source, example)
    skipped = {task: example["Vote"]().skip(PublicTask.without_records(task)) for task in TASKS}
    assert {task for task, reason in skipped.items() if reason} == {"samsum"}


def test_a_commit_holds_no_attack_result_that_cannot_be_read():
    from dpicl.harness.attacks.store import load_attacks

    results, damaged = load_attacks(ROOT / "results")
    assert damaged == []
    assert {result.manifest.dirty for result in results} <= {False}
