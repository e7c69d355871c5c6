"""The files in examples/ run as they are (slow tests: each loads all that a user's program does)."""

import csv
import json
import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def run_example(monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str) -> None:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")


@pytest.mark.slow
def test_a_method_of_ones_own_is_compared(monkeypatch, capsys, fresh_cache):
    run_example(monkeypatch, "compare_a_method.py", "--model", "sim")
    printed = capsys.readouterr().out
    assert all(row in printed for row in ("ballots", "zero_shot", "real_demonstrations"))


@pytest.mark.slow
def test_demonstrations_come_from_a_table(monkeypatch, capsys, fresh_cache, tmp_path):
    monkeypatch.chdir(tmp_path)
    with open("tickets.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        writer.writerows((f"ticket number {row}", "ab"[row % 2]) for row in range(200))
    run_example(
        monkeypatch, "release_from_csv.py", "tickets.csv", *"ab", "--size", "200", "--model", "sim"
    )
    printed = capsys.readouterr().out
    assert "for one record" in printed
    assert Path("demonstrations.jsonl").exists()
    assert Path("demonstrations.card.md").exists()


@pytest.mark.slow
def test_the_notebook_draws_a_forest(dpicl, monkeypatch, fresh_cache, tmp_path):
    results = EXAMPLES.parent / "results"
    site = tmp_path / "site"
    assert dpicl(f"board ginc --results {results} --html {site}").code == 0
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((EXAMPLES / "forest.ipynb").read_text("utf-8"))
    names: dict[str, object] = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert Path("forest.svg").read_text("utf-8").startswith("<svg")
    assert names["best"] == "zero_shot"
