"""The gate lets the good submission in, and refuses each broken one with the sentence that says what to do."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from dpicl.harness.data.task import Task
from dpicl.harness.run.results import from_text
from dpicl.leaderboards.gate import ROOT, find_submissions
from tests.leaderboards.gate.conftest import World, move_cell


def test_a_good_submission_passes_every_check_that_needs_no_code(world: World):
    found = world.examine()
    assert found.good
    status = {finding.check: finding.status for finding in found.findings}
    assert {check for check, one in status.items() if one == "not checked"} == {"history", "ledger", "conformance"}
    (line,) = found.lines
    assert (line.row, line.task, line.seeds) == ("team_a/vote", "agnews", (0, 1, 2, 3, 4))
    assert (line.rank, line.rivals, line.change) == (1, 1, None)
    assert 0.98 * 2 <= line.proved <= 2


def _edited_score(world: World) -> None:
    def raise_it(data):
        score = data["scores"]["acc_calibrated"]
        score["value"], score["high"] = 0.99, 1.0

    world.edit(raise_it, world.files[:1])


def _short_ledger(world: World) -> None:
    """Half of the charges go: from the rows and from the event alike."""

    def halve(event):
        if event["event"] == "repeat":
            event["count"] //= 2
        for part in event["of"].values() if event["event"] == "parallel" else ():
            halve(part)

    def cut(data):
        for row in data["privacy"]["ledger"]:
            row["count"] //= 2
        halve(data["privacy"]["event"])

    world.edit(cut)


def _lowered_epsilon(world: World) -> None:
    world.edit(lambda data: data["privacy"].update(epsilon_proved=1.0))


def _more_noise_than_charged(world: World) -> None:
    """The rows of the ledger say more noise than the event does."""

    def louder(data):
        for row in data["privacy"]["ledger"]:
            row["event"]["of"]["noise_multiplier"] *= 2

    world.edit(louder)


def _private_record(world: World) -> None:
    record = Task.load("agnews", "synthetic", limit_train=60, seed=0).train[7]
    world.edit(lambda data: data["released"][0].update(text=record.text), world.files[:1])


def runs_of_eight(public: bool, records: range) -> list[str]:
    """Runs of eight words that so many private records have, and that some (or no) test record has."""
    task = Task.load("agnews", "synthetic", limit_train=60, seed=0)
    holders: dict[str, set[int]] = {}
    for number, record in enumerate(task.train):
        for run in eights(record.text):
            holders.setdefault(run, set()).add(number)
    known = {run for record in task.test for run in eights(record.text)}
    return [run for run, own in holders.items() if len(own) in records and (run in known) is public]


def eights(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[i : i + 8]) for i in range(len(words) - 7)}


def _eight_words(world: World) -> None:
    rare = runs_of_eight(public=False, records=range(1, 2))[0]
    (world.folder / "README.md").write_text(f"# vote\n\nIt writes things like: {rare}, and more.\n")


def _four_seeds(world: World) -> None:
    for path in world.files:
        if from_text(path.read_text()).cell.seed == 4:
            path.unlink()


def _other_data(world: World) -> None:
    world.edit(lambda data: data["manifest"]["data"].update(fingerprint="0" * 64))


def _other_weights(world: World) -> None:
    world.edit(lambda data: data["manifest"]["model"].update(sha256="0" * 64))


def _retired_version(world: World) -> None:
    world.suite.write_text(world.suite.read_text().replace("version: 1", "version: 2"))


def _too_large(world: World) -> None:
    (world.folder / "README.md").write_text("x" * 200_001)


def _other_file(world: World) -> None:
    with (world.folder / "vote.py").open("a") as file:
        file.write("\n# one more line\n")


def _same_noise(world: World) -> None:
    first = json.loads(world.files[0].read_text())["released"]
    world.edit(lambda data: data.update(released=first))


def _own_delta(world: World) -> None:
    for path in world.files:
        move_cell(path, delta=1e-4)


def _other_epsilon(world: World) -> None:
    for path in world.files:
        move_cell(path, epsilon=3.0)


def _an_end(world: World) -> None:
    move_cell(world.files[0], label="zero_shot")


def _two_options(world: World) -> None:
    cell = from_text(world.files[0].read_text()).cell
    move_cell(world.files[0], options={**cell.options, "slots": 9})


def _future(world: World) -> None:
    world.edit(lambda data: data.update(created="2999-01-01T00:00:00+00:00"), world.files[:1])


def _dirty(world: World) -> None:
    world.edit(lambda data: data["manifest"].update(dirty=True))


def _taken_over(world: World) -> None:
    shutil.copytree(world.folder / "results" / "tiny" / "sim" / "vote", world.results / "tiny" / "sim" / "vote")


def _link(world: World) -> None:
    (world.folder / "notes.md").symlink_to("/etc/hostname")


def _executable(world: World) -> None:
    (world.folder / "vote.py").chmod(0o755)


def _hidden(world: World) -> None:
    (world.folder / ".notes.md").write_text("x")


def _pickle(world: World) -> None:
    (world.folder / "weights.pkl").write_bytes(b"\x80\x04.")


def _edited_seed(world: World) -> None:
    world.edit(lambda data: data["cell"].update(seed=9), world.files[:1])


def _unknown_key(world: World) -> None:
    world.card("tuning: none", "tuning: none\ntunning: none")


def _no_licence(world: World) -> None:
    world.card("licence: Apache-2.0", "licence: free")


def _other_team(world: World) -> None:
    world.card("team: team_a", "team: team_b")


BROKEN = {
    "edited score": (_edited_score, "schema", "the score of acc_calibrated is not the mean of its outcomes"),
    "short ledger": (_short_ledger, "epsilon", r"its ledger costs epsilon 1\.\d+, and the file says"),
    "lowered epsilon": (_lowered_epsilon, "epsilon", r"its ledger costs epsilon 1\.99\d+, and the file says 1\.000000"),
    "rows and event": (_more_noise_than_charged, "epsilon", "the rows of its ledger do not add up to its event"),
    "private record": (_private_record, "private records", r"released\[0\] holds words of 1 private record of agnews"),
    "eight words": (_eight_words, "private records", r"README\.md holds words of 1 private record of agnews"),
    "four seeds": (_four_seeds, "seeds", r"at epsilon 2 \(sim\) has 4 seeds; at least 5 are needed"),
    "other records": (_other_data, "data", "differ in records"),
    "other weights": (_other_weights, "data", "differ in model weights"),
    "retired version": (_retired_version, "suite", "Version 1 of suite tiny is retired and takes no new results"),
    "too large": (_too_large, "size", r"README\.md has 200,001 bytes; 200,000 is the most for one file"),
    "another file": (_other_file, "suite", r"with another version of it, not with the vote\.py that was sent"),
    "one noise": (_same_noise, "seeds", "released the same for all 5 seeds, although it has noise"),
    "own delta": (_own_delta, "suite", "its delta is not what the suite says"),
    "other epsilon": (_other_epsilon, "suite", "epsilon 3 is not in the suite, which has 2"),
    "an end": (_an_end, "suite", "zero_shot is an end of the scale"),
    "options by seed": (_two_options, "suite", "was run with 2 sets of options"),
    "future": (_future, "consistency", "it was created in the future"),
    "uncommitted": (_dirty, "consistency", "it was run with uncommitted changes"),
    "duplicate": (_taken_over, "duplicates", "5 of its cells are those of the results of record already"),
    "link": (_link, "size", r"notes\.md is a link; send the file itself"),
    "executable": (_executable, "size", r"vote\.py is marked as executable"),
    "hidden": (_hidden, "size", r"\.notes\.md is hidden"),
    "pickle": (_pickle, "size", r"weights\.pkl is none of the kinds"),
    "edited cell": (_edited_seed, "schema", "cell_id does not fit the cell; the file was edited"),
    "unknown key": (_unknown_key, "card", "line 13: Unknown key 'tunning'. Did you mean 'tuning'?"),
    "no licence": (_no_licence, "card", "line 8: 'licence' is no SPDX licence id"),
    "other team": (_other_team, "card", "team and method are 'team_b' and 'vote', the folders 'team_a' and 'vote'"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_submission_is_refused_with_a_sentence(world: World, name: str):
    break_it, check, sentence = BROKEN[name]
    break_it(world)
    status, why = world.status(check)
    assert status == "failed"
    assert re.search(sentence, why), why
    assert why.endswith(".") or ". " in why


def test_reports_never_show_words_of_a_private_record(world: World):
    _private_record(world)
    record = Task.load("agnews", "synthetic", limit_train=60, seed=0).train[7]
    shown = json.dumps(world.examine().as_json())
    words = record.text.split()
    assert "holds words of" in shown
    assert not any(" ".join(words[i : i + 4]) in shown for i in range(len(words) - 3))


def test_eight_words_that_a_test_record_has_are_public(world: World):
    (world.folder / "README.md").write_text(f"It writes: {runs_of_eight(public=True, records=range(1, 3))[0]}.\n")
    assert world.status("private records")[0] == "ok"


def test_eight_words_of_three_records_are_boilerplate_and_counted(world: World):
    (world.folder / "README.md").write_text(f"It writes: {runs_of_eight(public=False, records=range(3, 99))[0]}.\n")
    (found,) = [finding for finding in world.examine().findings if finding.check == "private records"]
    assert found.status == "ok"
    assert found.others == ("1 runs of 8 words are in 3 or more records of agnews (synthetic).",)


def test_a_record_in_the_options_or_the_mechanism_is_found_as_well(world: World):
    record = Task.load("agnews", "synthetic", limit_train=60, seed=0).train[3]
    (world.folder / "vote.py").write_text(f'"""A method."""\n\nEXAMPLES = ["{record.text}"]\n')
    world.card("mechanism: vote.py\n", "")  # otherwise the suite check comes first
    for path in world.files:
        move_cell(path, plugin=None)
    status, why = world.status("private records")
    assert status == "failed" and why.startswith("vote.py holds words of 1 private record")


def test_records_that_are_not_here_are_not_checked_and_said_so(world: World):
    for path in world.files:
        move_cell(path, source="local")
    world.suite.write_text(world.suite.read_text().replace("synthetic", "local"))
    status, why = world.status("private records")
    assert status == "not checked" and "DPICL_DATA is not set" in why


HOSTILE = {
    "deep nesting": b'{"schema_version": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "huge number": b'{"schema_version": 1' + b"0" * 60_000 + b"}",
    "not a number": b'{"schema_version": NaN}',
    "no text": b"\xff\xfe\x00",
    "foreign": b'{"a": 1}',
    "list": b"[]",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_result_file_is_one_sentence(world: World, name: str):
    world.files[0].write_bytes(HOSTILE[name])
    status, why = world.status("schema")
    assert status == "failed"
    assert world.files[0].name in why and why.count("\n") == 0 and len(why) < 600


def test_a_text_of_a_megabyte_is_refused_before_it_is_read(world: World):
    world.edit(lambda data: data["released"][0].update(text="a" * 1_000_000), world.files[:1])
    status, why = world.status("size")
    assert status == "failed" and "bytes; 200,000 is the most" in why


def test_a_score_that_is_no_number_is_damaged(world: World):
    world.edit(lambda data: data["scores"]["acc"].update(value="NaN"), world.files[:1])
    assert world.status("schema")[0] == "failed"


CARDS = {
    "python tag": ("paper: none", "paper: !!python/object/apply:os.system [touch ran]", "there are no tags"),
    "alias": ("paper: none", "paper: &a none\ncode: *a", "line 10: write the value out"),
    "nesting": ("paper: none", "paper: " + "[" * 3000 + "]" * 3000, "nested"),
    "no address": (
        "paper: none",
        "paper: none\ncode: javascript:alert(1)",
        "must be an address that begins with https",
    ),
    "a path": ("mechanism: vote.py", "mechanism: ../../vote.py", "must be the plain name of a Python file"),
    "left open": ("tuning: none", "tuning: TODO how", "still says TODO"),
    "reported": (
        "tuning: none",
        "tuning: none\nreported:\n  - {task: agnews, epsilon: 1, score: 1.5, where: x}",
        "reported.0.score",
    ),
}


@pytest.mark.parametrize("name", CARDS)
def test_a_hostile_card_is_one_sentence_with_its_line(world: World, name: str):
    old, new, sentence = CARDS[name]
    world.card(old, new)
    status, why = world.status("card")
    assert status == "failed" and sentence in why and "submission.yaml" in why


def test_data_is_checked_without_running_what_was_sent(world: World, dpicl):
    marker = world.root / "ran"
    (world.folder / "vote.py").write_text(f"open({str(marker)!r}, 'w').write('x')\n")
    answer = dpicl("submit", world.folder, "--suite", world.suite, "--results", world.results)
    assert answer.code == 1
    assert "not with the vote.py that was sent" in answer.out
    assert not marker.exists()


def test_files_of_locks_that_a_run_leaves_behind_are_no_part_of_it(world: World):
    folder = world.folder / "results" / "tiny" / ".locks"
    assert (folder / ".gitignore").is_file()
    assert world.status("size")[0] == "ok"
    (folder / "more.lock").write_text("something")
    assert world.status("size")[0] == "failed"


def test_the_shipped_submissions_pass(dpicl, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    monkeypatch.chdir(Path(__file__).parents[3])
    answer = dpicl("submit", "--all", "--json")
    assert answer.code == 0, answer.out
    assert len(answer.json["submissions"]) == len(find_submissions(ROOT)) >= 1
    assert os.path.isdir(ROOT)
