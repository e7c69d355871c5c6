"""`dpicl check`: exit codes, one line a check, and one sentence for a bad use."""

import json
from pathlib import Path

import pytest

from dpicl.conformance.kit import CHECKS
from dpicl.program import main

BROKEN = Path(__file__).parent / "broken"


def test_a_sound_mechanism_exits_with_0_and_shows_every_check(capfd, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no line goes on below
    assert main(["check", "public_demonstrations", "--task", "agnews"]) == 0
    out, _ = capfd.readouterr()
    assert [line.split()[0] for line in out.splitlines()[2 : 2 + len(CHECKS)]] == list(CHECKS)


@pytest.mark.slow
def test_a_broken_file_exits_with_1_and_json_says_why(capfd):
    path = str(BROKEN / "sensitivity_one_for_root_two.py")
    assert main(["check", path, "--json", "--seed", "2"]) == 1
    document = json.loads(capfd.readouterr().out)
    assert document["ok"] is False and document["seed"] == 2
    (report,) = document["mechanisms"]
    assert report["mechanism"] == "sensitivity_one_for_root_two" and report["tasks"] == ["agnews"]
    by_name = {check["check"]: check for check in report["checks"]}
    assert list(by_name) == list(CHECKS)
    assert (
        by_name["sensitivity"]["status"] == "failed" and by_name["sensitivity"]["task"] == "agnews"
    )


def test_all_mechanisms_of_a_file_are_checked_with_their_options(tmp_path, capfd):
    source = (
        "from dpicl.mechanisms.zero_shot import ZeroShot\n"
        "from dpicl.mechanisms.public_demonstrations import PublicDemonstrations\n"
    )
    source += "class First(ZeroShot):\n    name = 'first'\nclass Second(PublicDemonstrations):\n    name = 'second'\n"
    path = tmp_path / "two.py"
    path.write_text(source, encoding="utf-8")
    assert (
        main(["check", str(path), "--task", "agnews", "--option", "second.tokens=2", "--json"]) == 0
    )
    assert [report["mechanism"] for report in json.loads(capfd.readouterr().out)["mechanisms"]] == [
        "first",
        "second",
    ]
