"""The gate lets the good submission in, and refuses each broken or false one with a sentence."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.accounting.events import from_json
from dpicl.core import git
from dpicl.data.task import Task
from dpicl.leaderboards.gate.case import Case
from dpicl.leaderboards.gate.contents import read_contents
from dpicl.leaderboards.gate.examination import ROOT, find_submissions, known_suites
from dpicl.leaderboards.gate.ledgers import bounds_of
from dpicl.leaderboards.model.comparability import BASELINES, REFERENCE, list_differing
from dpicl.results.schema import Result, from_text
from tests.conftest import COMMITTED, read_releases
from tests.leaderboards.gate.conftest import World, edit_part, move_cell, move_results, short_ledger

VOTE = "results/tiny/sim/vote"


def test_a_good_submission_passes_every_check_that_needs_no_code(world: World):
    examination = world.examine()
    assert examination.good
    status = {finding.check: finding.status for finding in examination.findings}
    assert {check for check, one in status.items() if one == "not checked"} == {
        "commit",  # an invented one
        "history",
        "ledger",
        "conformance",
    }


@pytest.mark.parametrize("suite", ["ginc", "open", "record"])
def test_the_gate_would_take_the_rows_of_a_suite_that_are_here(suite):
    folders = [path for path in sorted((COMMITTED / suite).glob("*/*/*")) if path.is_dir()]
    version = known_suites()[suite].version
    results = {folder: read_newest(folder, version) for folder in folders}
    newest = {folder: result for folder, result in results.items() if result}
    assert len(newest) > 10
    for folder, result in newest.items():
        if result.cell.mechanism in BASELINES:  # which nobody sends
            continue
        baseline = newest.get(
            folder.parents[1] / BASELINES[result.kind == "demonstrations"] / folder.name
        )
        assert baseline is None or list_differing(result, baseline, REFERENCE) == [], folder


def read_newest(folder: Path, version: int) -> Result | None:
    """Of those of the version that are not on development records; scores without a release are not looked at."""
    results = [
        result for result in read_releases(folder.glob("*.json")) if result.suite.version == version
    ]
    results = [result for result in results if not result.cell.development]
    return max(results, key=lambda result: result.created, default=None)


def test_baselines_on_development_records_set_no_standard(tmp_path):
    folder = shutil.copytree(ROOT / "example/vote", tmp_path / "example/vote")
    card = folder / "submission.yaml"
    card.write_text(card.read_text("utf-8").replace("suite: open", "suite: record"), "utf-8")
    reference = Case(read_contents(folder), known_suites(), COMMITTED).reference
    assert reference and not any(result.cell.development for result in reference)


@pytest.mark.parametrize("suite", ["ginc", "open"])
def test_results_that_anybody_can_make_are_there_and_current(suite, dpicl):
    planned = json.loads(dpicl(f"plan {suite} --json").out)
    assert (planned["missing"], planned["stale"]) == (0, 0)


def runs_of_eight(public: bool, records: range) -> list[str]:
    """Runs of eight words that so many private records have, and that some (or no) test record has."""
    task = Task.load("agnews", "synthetic", limit_train=60, seed=0)
    holders: dict[str, set[int]] = {}
    for number, record in enumerate(task.train):
        for run in eights(record.text):
            holders.setdefault(run, set()).add(number)
    known = {run for record in task.test for run in eights(record.text)}
    return [
        run
        for run, numbers in holders.items()
        if len(numbers) in records and (run in known) is public
    ]


def eights(text: str) -> set[str]:
    words = re.findall(r"\w+", text.lower())
    return {" ".join(words[i : i + 8]) for i in range(len(words) - 7)}


def disguise(text: str) -> str:
    """Wide letters, with something invisible after each."""
    return " ".join(
        "".join(f"{chr(ord(letter) + 0xFEE0)}\u200b" for letter in word) for word in text.split()
    )


def private(number: int = 7) -> str:
    return Task.load("agnews", "synthetic", limit_train=60, seed=0).train[number].text


def _add_noise(world: World) -> None:
    """The rows of the ledger say more noise than the event does."""

    def add_noise(data):
        for row in data["privacy"]["ledger"]:
            row["event"]["of"]["noise_multiplier"] *= 2

    world.edit(add_noise)


def _halve_ledger(world: World) -> None:
    """Half of the charges are gone, and the proved epsilon is honestly that of the rest."""
    short_ledger(world)

    def prove(data):
        data["privacy"]["epsilon_proved"] = bounds_of(
            from_json(data["privacy"]["event"]), data["cell"]["delta"]
        ).upper

    world.edit(prove)


def _four_seeds(world: World) -> None:
    for path in world.files:
        if from_text(path.read_text()).cell.seed == 4:
            path.unlink()


def _further_seed(world: World) -> None:
    text = world.files[0].read_text()
    path = world.files[0]
    move_cell(path, seed=7)
    path.write_text(text)


def _same_noise(world: World) -> None:
    released = json.loads(world.files[0].read_text())["released"]
    world.edit(lambda data: data.update(released=released))


def _remove_plugin(world: World) -> None:
    (world.folder / "vote.py").unlink()
    world.card("mechanism: vote.py\n", "")


def _escape(world: World) -> None:
    escaped = "".join(f"\\x{ord(one):02x}" for one in private())
    world.card("tuning: none", f'tuning: "{escaped}"')


def _record_in_the_mechanism(world: World) -> None:
    (world.folder / "vote.py").write_text(f'"""A method."""\n\nEXAMPLES = ["{private(3)}"]\n')
    world.card("mechanism: vote.py\n", "")  # otherwise the suite check comes first
    move_results(plugin=None)(world)


def card(old: str, new: str) -> Callable[[World], None]:
    return lambda world: world.card(old, new)


def write_file(
    name: str, text: Callable[[], str] | str, mode: str = "w"
) -> Callable[[World], None]:
    def write(world: World) -> None:
        with (world.folder / name).open(mode) as file:
            file.write(text if isinstance(text, str) else text())

    return write


def edit_manifest(part: str, **values: object) -> Callable[[World], None]:
    return lambda world: world.edit(lambda data: data["manifest"][part].update(values))


def score(value: object) -> dict[str, object]:
    return {"value": value, "low": 0.0, "high": 1.0}


EVENT = {"event": "epsilon_delta", "epsilon": 1.99, "delta": 0.0}
ROW = {"partition": None, "event": EVENT, "count": 1, "note": ""}
ASSERTED = {"ledger": [ROW], "event": EVENT, "epsilon_proved": 1.99}
NOTHING = {"ledger": [], "event": {"event": "none"}, "epsilon_proved": 0.0, "accountants": {}}


def _results_of_another_file(world: World) -> None:
    """Of record, from the file as it was before it was edited; the submitted file's own are no duplicates."""
    shutil.copytree(world.folder / VOTE, world.root.parent / VOTE)
    with (world.folder / "vote.py").open("a") as file:
        file.write("\n# another version\n")


BROKEN = {
    "edited score": (
        edit_part("scores", True, acc_calibrated=score(0.99)),
        "schema",
        "not the mean of its outcomes",
    ),
    "edited cell": (edit_part("cell", True, seed=9), "schema", "cell_id"),
    "short ledger": (
        short_ledger,
        "epsilon",
        r"its ledger costs epsilon 1\.\d+, and the file says",
    ),
    "lowered epsilon": (
        edit_part("privacy", epsilon_proved=1.0),
        "epsilon",
        r"epsilon 1\.99\d+.* says 1\.000000",
    ),
    "rows and event": (_add_noise, "epsilon", "do not add up to its event"),
    "no charge": (
        edit_part("privacy", **NOTHING),
        "epsilon",
        "released 2 texts and charged nothing",
    ),
    "unspent": (_halve_ledger, "epsilon", r"costs epsilon 1\.\d+, under 0\.98 of the target 2"),
    "asserted": (edit_part("privacy", **ASSERTED), "epsilon", "asserts epsilon_delta"),
    "private record": (
        lambda world: world.edit(
            lambda data: data["released"][0].update(text=private()), world.files[:1]
        ),
        "private records",
        r"released\[0\] holds words of 1 private record of agnews",
    ),
    "eight words": (
        write_file(
            "README.md",
            lambda: f"It writes: {runs_of_eight(public=False, records=range(1, 2))[0]}.\n",
        ),
        "private records",
        r"README\.md holds words of 1 private record of agnews",
    ),
    "in other characters": (
        write_file(
            "README.md", lambda: disguise(runs_of_eight(public=False, records=range(1, 2))[0])
        ),
        "private records",
        r"README\.md holds words of 1 private record of agnews",
    ),
    "in the mechanism": (
        _record_in_the_mechanism,
        "private records",
        r"^vote\.py holds words of 1 private record",
    ),
    "as a key": (
        move_results(options=lambda cell: {**cell.options, private(): 1}),
        "private records",
        "holds words of 1",
    ),
    "escaped": (_escape, "private records", r"submission\.yaml holds words of 1"),
    "four seeds": (_four_seeds, "seeds", r"at epsilon 2 \(sim\) lacks seed 4 of the suite"),
    "one noise": (_same_noise, "seeds", "the same for all 5 seeds"),
    "chosen seeds": (
        move_results(seed=lambda cell: cell.seed + 1000),
        "seeds",
        "lacks seed 0–4 of the suite",
    ),
    "further seed": (
        _further_seed,
        "seeds",
        r"at epsilon 2 \(sim\) has seed 7, which is none of the suite's",
    ),
    "other records": (edit_manifest("data", fingerprint="0" * 64), "data", "differ in records"),
    "other weights": (edit_manifest("model", sha256="0" * 64), "data", "differ in model weights"),
    "invented metric": (
        edit_part(aggregates={"best": 1.0}, higher_is_better=None),
        "data",
        "set of metrics",
    ),
    "turned metric": (
        lambda world: world.edit(
            lambda data: data.update(higher_is_better=dict.fromkeys(data["scores"], False))
        ),
        "data",
        "directions of the metrics",
    ),
    "earlier version": (
        lambda world: world.suite.write_text(
            world.suite.read_text().replace("version: 1", "version: 2")
        ),
        "suite",
        "suite_version is 1, and tiny ships in version 2",
    ),
    "another file": (
        write_file("vote.py", "\n# one more line\n", "a"),
        "suite",
        r"not with the submitted vote\.py",
    ),
    "not sent": (_remove_plugin, "suite", "that is not here"),
    "own delta": (move_results(delta=1e-4), "suite", "delta 0.0001 instead of"),
    "other epsilon": (move_results(epsilon=3.0), "suite", "epsilon 3 is not in the suite"),
    "a baseline": (move_results(True, label="zero_shot"), "suite", "is a reference baseline"),
    "options by seed": (
        move_results(True, options=lambda cell: {**cell.options, "slots": 9}),
        "suite",
        "2 sets of options",
    ),
    "future": (
        edit_part(first=True, created="2999-01-01T00:00:00+00:00"),
        "consistency",
        "in the future",
    ),
    "uncommitted": (edit_part("manifest", dirty=True), "consistency", "uncommitted"),
    "no commit": (edit_part("manifest", commit="0123abc"), "consistency", "names no commit"),
    "unknown changes": (edit_part("manifest", dirty=None), "consistency", "no commit is known"),
    "no texts": (edit_part(released=[]), "consistency", "counts 2 released texts and holds none"),
    "nothing released": (
        edit_part(released=[], released_count=0),
        "consistency",
        "released nothing",
    ),
    "one query": (
        edit_part("privacy", epsilon_per_query=9.0),
        "consistency",
        "for one query, 9, is above",
    ),
    "duplicate": (_results_of_another_file, "duplicates", "5 of its cells"),
    "too large": (
        write_file("README.md", "x" * 200_001),
        "size",
        r"README\.md does not belong .* at most 200,000 bytes",
    ),
    "executable": (
        lambda w: (w.folder / "vote.py").chmod(0o755),
        "size",
        r"vote\.py does not belong .* not executable",
    ),
    "pickle": (
        write_file("weights.pkl", "x"),
        "size",
        r"weights\.pkl does not belong in a submission",
    ),
    "further file": (write_file("other.py", "X = 1\n"), "size", r"other\.py is not the mechanism"),
    "stale record": (
        card(
            "tuning: none",
            "tuning: none\nreproduced: 2 of 5 cells, 2 identical; files 0123456789ab",
        ),
        "reproduced",
        "not about these files",
    ),
    "unknown key": (
        card("tuning: none", "tuning: none\ntunning: none"),
        "card",
        "line 13: .*'tunning'.*'tuning'",
    ),
    "no licence": (card("licence: Apache-2.0", "licence: free"), "card", "line 8: .*SPDX"),
    "other team": (
        card("team: team_a", "team: team_b"),
        "card",
        "'team_b' and 'vote', .* 'team_a' and 'vote'",
    ),
    "alias": (card("paper: none", "paper: &a none\ncode: *a"), "card", "line 10: .*aliases"),
    "no address": (card("paper: none", "paper: none\ncode: javascript:alert(1)"), "card", "https"),
    "a path": (card("mechanism: vote.py", "mechanism: ../../vote.py"), "card", r"mechanism.*\.py"),
    "left open": (card("tuning: none", "tuning: TODO how"), "card", "TODO"),
    "reported": (
        card(
            "tuning: none",
            "tuning: none\nreported:\n  - {task: agnews, epsilon: 1, score: 1.5, where: x}",
        ),
        "card",
        "reported, entry 1, score",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_or_false_submission_is_refused_with_a_sentence(world: World, name: str):
    break_it, check, words = BROKEN[name]
    break_it(world)
    finding = world.make_finding(check)
    assert finding.status == "failed"
    assert any(re.search(words, one) for one in (finding.why, *finding.others)), finding
    assert finding.why.endswith(".") or ". " in finding.why
    assert check != "card" or "submission.yaml" in finding.why


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("left open", {"card"}),
        ("unknown key", {"card"}),
        ("no licence", {"card"}),
        ("alias", {"card"}),
        ("edited cell", {"schema"}),
        ("executable", {"size"}),
        ("pickle", {"size"}),
    ],
)
def test_a_check_fails_for_its_own_reason_alone(world: World, name: str, checks: set[str]):
    before = shutil.copytree(
        world.folder, world.root.parent / "before" / "team_a" / "vote"
    ).parents[1]
    shutil.copytree(
        world.folder / VOTE, world.root.parent / VOTE
    )  # what the submitter's own run left there
    BROKEN[name][0](world)
    findings = world.examine(base=before).findings
    assert {one.check for one in findings if one.status == "failed"} == checks


def test_a_card_without_a_suite_leaves_what_needs_one_unchecked(world: World):
    world.card("suite: tiny\n", "suite: TODO\n")
    statuses = {one.check: one.status for one in world.examine().findings}
    assert (statuses["data"], statuses["duplicates"], statuses["seeds"]) == ("not checked",) * 3
    assert statuses["card"] == "failed"


def test_commits_are_looked_up_and_unknown_ones_named(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    unknown = world.make_finding("commit")
    assert (
        unknown.status == "not checked"
        and "fetch the commits below, or ask the author" in unknown.why
    )
    assert unknown.others == (f"Commit {'0123456789' * 4} of 5 results is not in this repository.",)
    head = "fedcba9876" * 4
    answers = {"rev-list": f"{head}\n".encode(), "rev-parse": b"true\n"}
    monkeypatch.setattr(git, "git", lambda *words: answers[words[0]])
    monkeypatch.setattr(git, "has_repository", lambda: True)
    assert "this clone is shallow" in world.make_finding("commit").why
    world.edit(lambda data: data["manifest"].update(commit=head))
    assert world.status("commit") == ("ok", "this repository has 1 commit that the results name")
    monkeypatch.setattr(git, "has_repository", lambda: False)
    assert "without its repository" in world.make_finding("commit").why


def test_reports_never_show_words_of_a_private_record(world: World):
    BROKEN["private record"][0](world)
    shown = json.dumps(world.examine().as_json())
    words = private().split()
    assert "holds words of" in shown
    assert not any(" ".join(words[i : i + 4]) in shown for i in range(len(words) - 3))


def test_eight_words_that_a_test_record_has_are_public(world: World):
    (world.folder / "README.md").write_text(
        f"It writes: {runs_of_eight(public=True, records=range(1, 3))[0]}.\n"
    )
    assert world.status("private records")[0] == "ok"


def test_eight_words_of_three_records_are_boilerplate(world: World):
    (world.folder / "README.md").write_text(
        f"It writes: {runs_of_eight(public=False, records=range(3, 99))[0]}.\n"
    )
    finding = world.make_finding("private records")
    assert finding.status == "ok"
    assert finding.others == ("1 runs of 8 words are in 3 or more records of agnews (synthetic).",)


def test_records_that_are_not_here_are_not_checked_and_said_so(world: World):
    for path in world.files:
        move_cell(path, source="local")
    world.suite.write_text(world.suite.read_text().replace("synthetic", "local"))
    status, why = world.status("private records")
    assert status == "not checked" and "DPICL_DATA is not set" in why


def test_a_copy_with_its_records_in_another_order_is_a_duplicate(world: World):
    _results_of_another_file(world)
    for path in world.files:
        move_cell(path, delta=1.1e-5)  # no cell is the same

    def turn(data):
        for one in data["documents"].values():
            one["ids"].reverse(), one["outcomes"].reverse()

    world.edit(turn)
    finding = world.make_finding("duplicates")
    assert any(
        "5 of 5 cells have the texts or the outcomes" in one
        for one in (finding.why, *finding.others)
    )


def test_the_shipped_submissions_pass(dpicl, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("DPICL_DATA", raising=False)
    monkeypatch.chdir(Path(__file__).parents[3])
    answer = dpicl("submit --all --json")
    assert answer.code == 0, answer.out
    assert len(answer.json["submissions"]) == len(find_submissions(ROOT)) >= 1
    assert os.path.isdir(ROOT)
