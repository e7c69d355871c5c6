"""What users are told: in the words of what they wrote, with the way out, and never a traceback."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.models import hub
from tests.harness.helpers import PLUGIN, refuse, write
from tests.harness.local_suite import synthetic_suite

pytestmark = pytest.mark.usefixtures("no_plugins_before")


@pytest.fixture
def suite(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Writes a small suite of these rows into the working folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *rows, **keys: synthetic_suite(
        Path(),
        *(rows or ("zero_shot", "tang")),
        **keys,
    )


def test_a_name_alone_is_a_mechanism_and_lists_take_commas(dpicl, suite):
    flags = "--epsilon 1,8 --mechanism 'zero_shot, tang' --seed 0,3 --json"
    plan = dpicl(f"plan {suite()} {flags}").json
    assert {
        (
            cell["mechanism"],
            cell["epsilon"],
            cell["seed"],
        )
        for cell in plan["cells"]
    } == {
        (name, epsilon, seed)
        for seed in (0, 3)
        for name, epsilon in (("zero_shot", 0.0), ("tang", 1.0), ("tang", 8.0))
    }


FAILING = {
    "skip": "def skip(self, task):\n        raise RuntimeError('\\x1b[2J')",
    "events": "def events(self, knob, sizes):\n        raise GeneratorExit",
    "release": "def release(self, private, context):\n        raise KeyError('x')",
    "options": "def __post_init__(self):\n        raise SystemExit(0)",
}


@pytest.mark.parametrize("name", FAILING)
def test_a_method_that_fails_ends_its_cell_alone(dpicl, suite, name):
    knob = 'Knob("n", low=0.05, high=2000.0, non_private=0.0)'
    text = PLUGIN.replace("knob = None", f"knob = {knob}").replace(
        "import Demon", "import Knob, Demon"
    )
    text = text.replace("from dpicl.mechanism.bases import Knob,", "from dpicl import Knob\nfrom"
                        " dpicl.mechanism.bases import")  # fmt: skip
    Path("mine.py").write_text(text + f"\n    {FAILING[name]}\n")
    answer = dpicl(f"run {suite('nothing', 'zero_shot')} --plugin mine.py --json")
    assert answer.code == 2, answer.err
    if name != "options":  # these are made before the first cell
        assert answer.json["counts"] == {"done": 1, "present": 0, "skipped": 0, "failed": 1}
    assert (
        "mine.py, line" in answer.err and "Traceback" not in answer.err and "\x1b" not in answer.err
    )
    assert dpicl("plan own.yaml --plugin mine.py").code == (
        2 if name in ("events", "options") else 0
    )


# --- models and records that cannot be had


def test_a_missing_model_is_found_before_the_first_cell(dpicl, suite, monkeypatch):
    loads = []

    def head(url: str) -> None:
        loads.append(url)
        raise ConnectionError("no route")

    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", head)
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it is tried again"))
    refuse(
        dpicl(f"run {suite()} --model sim,hf:nobody/nothing --seed 0,1"),
        "nobody/nothing",
        "cache",
    )
    assert len(loads) == 1 and not list(Path().rglob("results/**/*.json"))


@pytest.mark.parametrize(
    ("reference", "words"), [("a/b/c", "OWNER/NAME"), ("/nowhere", "no folder")]
)
def test_what_is_no_model_by_its_name(reference, words):
    with pytest.raises(hub.ModelError, match=words):
        hub.require_there(reference)


def test_unreadable_records_are_found_before_the_first_cell(dpicl, suite, local_data):
    for split in ("train", "test"):
        write(local_data, "agnews", split, [{"text": "a text", "label": "Weather"}])
    refuse(
        dpicl(f"run {suite()} --source local --seed 0,1"),
        "train.jsonl line 1",
        "unknown label",
    )


# --- where the answer goes


@pytest.mark.parametrize("where", [">/dev/full", "<&- >&-"])
def test_an_answer_that_cannot_be_written_is_a_sentence(own_cache, where):
    command = ["sh", "-c", f'exec "$0" -m dpicl list suites {where}', sys.executable]
    done = subprocess.run(command, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr.startswith(b"dpicl: ") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    "how",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
    ],
)
def test_a_terminal_of_ascii_gets_the_whole_answer(own_cache, how):
    how = {"PYTHONCOERCECLOCALE": "0", **how}
    script = "import sys; from dpicl import program; program._write_what_can_be(); print(chr(949), '= 1')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env={**os.environ, **how}
    )
    assert done.returncode == 0
    assert done.stdout == b"? = 1\n"
    assert done.stderr == b""
