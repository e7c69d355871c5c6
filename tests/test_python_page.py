"""docs/python.md, executed cell by cell as a notebook does, with the simulated model in place of the embedded one."""

import ast
import inspect
import re
from functools import partial
from pathlib import Path

import pytest

import dpicl

ROOT = Path(__file__).resolve().parent.parent
#: Defaults of the functions that this test makes small.
SMALL = {"model": "sim", "source": "synthetic", "progress": False, "train_records": 60}


def cells() -> list[str]:
    text = (ROOT / "docs" / "python.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [block for block in blocks if "# -> Results" not in block]  # that one is a signature


def run_cell(source: str, names: dict[str, object]) -> object:
    """Executes a cell; its value is that of its last expression, as in a notebook."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.slow
def test_the_page_runs_as_a_notebook(monkeypatch, tmp_path, request):
    request.getfixturevalue("own_cache")
    for name in ("evaluate", "audit", "check", "diagnose", "release", "answer", "answer_from"):
        function = getattr(dpicl, name)
        small = {key: SMALL[key] for key in SMALL.keys() & inspect.signature(function).parameters}
        monkeypatch.setattr(dpicl, name, partial(function, **small))
    (tmp_path / "results").symlink_to(ROOT / "results")
    tickets = [f"ticket {n} on {label},{label}" for n in range(80) for label in ("billing", "technical", "refund")]
    (tmp_path / "tickets.csv").write_text("\n".join(["text,label", *tickets]))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [run_cell(cell, names) for cell in cells()]
    first, means, ballots, *_ = shown
    assert {"score", "epsilon_proved"} <= set(first.columns) and len(first) == 2
    assert set(means.index.get_level_values("mechanism")) == {"zero_shot", "tang", "real_demonstrations"}
    assert set(ballots.mechanism) == {"ballots", "voting"} and (ballots.epsilon_proved <= 1).all()
    assert (names["audit"].to_frame().epsilon_audited <= names["audit"].to_frame().epsilon_proved).all()
    assert (names["diagnosis"].to_frame().hit_rate <= 1).all() and len(names["diagnosis"].differences) == 3
    assert 5.32 < names["cost"]["proved"] < 5.34
    for thing in (names["results"], names["findings"], names["audit"], names["board"]):
        assert "<table" in thing._repr_html_() and repr(thing)
