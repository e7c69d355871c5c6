"""`dpicl attack` as a user meets it: reference baselines, resuming, refusals, tables, and what is never written."""

from functools import cache
from pathlib import Path

import pytest

import dpicl.models
from dpicl.attacks import likelihood
from dpicl.attacks.results import attack_from_text
from dpicl.data.task import Task
from tests.harness.attacks.copying_model import CopyingLM
from tests.harness.helpers import refuse, write

LOAD = Task.load
SIM = "--model sim --source synthetic"
SMALL = f"{SIM} --task agnews --members 12 --others 12"
TINY_TANG = "--mechanism tang --option slots=2 --option tokens=2"

#: A shipped attack under a name of its own.
ATTACK_PLUGIN = (
    Path(likelihood.__file__).read_text(encoding="utf-8").replace('"likelihood"', '"mine"')
)


@pytest.fixture(autouse=True)
def loaded_once(monkeypatch):
    """Every command loads its task; here all of them share it."""
    monkeypatch.setattr(Task, "load", staticmethod(_load))


@cache
def _load(name, source):
    return LOAD(name, source)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_baselines_stand_beside_mechanisms_and_no_run_repeats(dpicl, results):
    command = f"attack inquiry {SMALL} {TINY_TANG} --results {results} --json"
    first = dpicl(f"{command} --epsilon 1").succeed()
    assert first.json["made"] == 4
    subjects = [
        (
            row["subject"]["mechanism"],
            row["subject"]["epsilon"],
        )
        for row in first.json["results"]
    ]
    assert subjects == [
        ("zero_shot", 0.0),
        ("tang", 1.0),
        ("real_demonstrations", "Infinity"),
        ("broken_answers", "Infinity"),
    ]
    again = dpicl(f"{command} --epsilon 1 --epsilon inf")
    assert again.json["made"] == 1 and len(again.json["results"]) == 5
    for row in again.json["results"]:
        text = (results.parent / row["path"]).read_text()
        assert attack_from_text(text).id == row["id"]
        assert (
            row["privacy"]["epsilon_proved"] in (0.0, "Infinity")
            or row["privacy"]["epsilon_proved"] <= 1.0
        )


def test_other_settings_are_other_results(dpicl, results):
    command = f"attack inquiry {SMALL} --mechanism zero_shot --no-ends --json --results {results}"
    changes = "", "--seed 1", "--set words=5", "--others 13", "--members 13", "--shots 3"
    answers = [dpicl(f"{command} {change}") for change in changes]
    assert len({answer.json["results"][0]["id"] for answer in answers}) == 6


def test_what_cannot_be_attacked_is_left_out_with_its_reason(dpicl, results):
    command = f"attack repeat {SMALL} --set embedding=sim --epsilon 1 --json --results {results}"
    some = dpicl(f"{command} {TINY_TANG} --mechanism voting").succeed()
    assert "too many" in some.json["skipped"]["voting"]
    refuse(dpicl(f"{command} --mechanism voting"), "voting: it votes among few public answers")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (f"inquire {SMALL} {TINY_TANG}", "Did you mean 'inquiry'"),
        (f"gap {SMALL} --mechanism tang", "add --epsilon"),
        (f"gap {SIM} --task agnews", "--mechanism is missing"),
        (f"gap {SMALL} --mechanism zero_shot --set word=3", "Did you mean 'words'"),
        (f"gap {SMALL} --mechanism zero_shot --set repeat.words=4", "Unknown attack 'repeat'"),
        (f"gap {SMALL} {TINY_TANG} --epsilon 1 --option slots=50 --no-ends", "does not fit"),
        (f"gap {SMALL} --mechanism zero_shot --members 99999", "lower --members"),
        (f"pii {SIM} --task enron --mechanism zero_shot --others 5", "leave --others out"),
        (
            f"gap {SMALL} --mechanism real_demonstrations --shots 40 --no-ends",
            "or lower --shots",
        ),
    ],
)
def test_bad_use_says_what_to_do(dpicl, results, flags, message):
    refuse(dpicl(f"attack {flags} --results {results}"), message)
    assert not list(results.rglob("*.json"))


def test_what_was_made_before_a_failure_is_kept(dpicl, results):
    flags = f"{SMALL} {TINY_TANG} --epsilon 1 --option slots=50 --results {results}"
    answer = dpicl(f"attack gap {flags}")
    assert answer.code == 2 and "lower the number of slots" in answer.err
    mechanisms = {path.parts[-3] for path in results.rglob("*.json")}
    assert mechanisms == {"zero_shot", "real_demonstrations", "broken_answers"}


def test_each_attack_has_a_broken_mechanism_that_it_sees(dpicl, results):
    words = f"attack pii {SIM} --task enron --members 12 --mechanism zero_shot"
    rows = dpicl(f"{words} --results {results} --json").json["results"]
    counts = {row["subject"]["mechanism"]: row["counts"] for row in rows}
    assert counts.keys() == {"zero_shot", "real_demonstrations", "broken_demonstrations"}
    assert (
        counts["broken_demonstrations"]["leaking_texts"] > counts["zero_shot"]["leaking_texts"] == 0
    )


def test_an_attack_of_ones_own_is_a_file(dpicl, results, tmp_path):
    flags = f"{SMALL} {TINY_TANG} --epsilon 1 --no-ends --json --results {results}"
    path, other = tmp_path / "mine.py", tmp_path / "theirs.py"
    path.write_text(ATTACK_PLUGIN)
    answer = dpicl(f"attack mine {flags} --plugin {path} --set generations=2")
    (row,) = answer.json["results"]
    assert row["settings"]["generations"] == 2 and len(row["settings"]["plugin"]) == 64
    other.write_text(ATTACK_PLUGIN.replace("generations: int = 5", "generations: int = 2"))
    (again, *_) = dpicl(f"attack mine {flags} --plugin {other}").json["results"]
    assert again["settings"]["generations"] == 2 and again["id"] != row["id"]


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """E-mails with strings that occur nowhere else; the words that must not be found again."""
    words = [f"zq{number}planted" for number in range(60)]
    for split, part in (
        ("train", words[:50]),
        ("test", words[50:]),
    ):
        rows = [
            {
                "text": f"Dear {word}, call 415-555-01{at:02d} or write to {word}@example.org about the {word} sample."
            }
            for at, word in enumerate(part)
        ]
        write(tmp_path / "data", "enron", split, rows)
    monkeypatch.setenv("DPICL_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(Task, "load", LOAD)
    monkeypatch.setattr(dpicl.models, "load", lambda name, **settings: CopyingLM())
    return words


@pytest.mark.parametrize("attack", ["pii", "inquiry", "repeat"])
def test_no_private_text_is_written_or_shown(dpicl, results, planted, attack):
    """The model copies private texts, the attack finds them, and only numbers of that leave."""
    more = {"pii": "", "inquiry": "--others 12", "repeat": "--others 12 --set embedding=sim"}
    command = f"attack {attack} --task enron --source local --members 20 {more[attack]}"
    command += f" {TINY_TANG} --epsilon 1 --results {results}"
    as_json, shown = dpicl(command, "--json"), dpicl(command)
    assert as_json.code == 0
    assert shown.code == 0
    if attack == "pii":
        leaks = {
            one["subject"]["mechanism"]: one["counts"]["unexplained_addresses"]
            for one in as_json.json["results"]
        }
        assert leaks["real_demonstrations"] > 0
    files = list(results.rglob("*"))
    written = [path.read_text() for path in files if path.is_file()]
    assert len(written) == 4
    outputs = (as_json.out, as_json.err, shown.out, shown.err)
    for text in (*written, *outputs, *map(str, files)):
        assert not [word for word in (*planted, "415-555", "415555") if word in text]


def test_an_error_shows_no_private_text(dpicl, results, planted):
    command = "attack pii --task enron --source local --members 20 --mechanism tang"
    answer = dpicl(f"{command} --option slots=500 --epsilon 1 --results {results}")
    assert answer.code == 2
    assert sum(word in answer.err for word in planted) == 0
