"""Submissions that agree with themselves and are false all the same: each is refused with a sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpicl.harness.core.errors import UsageError
from dpicl.harness.data.task import Task
from dpicl.harness.privacy.events import from_json
from dpicl.harness.run.results import from_text, to_text
from dpicl.harness.run.store import Store
from dpicl.leaderboards.gate import known_suites, load_submissions, read_contents
from dpicl.leaderboards.gate import rerun as rerun_module
from dpicl.leaderboards.gate.code import conformance_check
from dpicl.leaderboards.gate.history import find_base
from dpicl.leaderboards.gate.ledgers import account, events_of, problem_of
from dpicl.leaderboards.gate.paid import missing_texts
from dpicl.leaderboards.gate.rerun import Again, sample
from tests.leaderboards.gate.conftest import World, move_cell
from tests.leaderboards.gate.test_gate import _short_ledger
from tests.leaderboards.gate.test_history import committed, git  # noqa: F401

RESULTS = Path(__file__).parents[3] / "results"


def _no_texts(world: World) -> None:
    world.edit(lambda data: data.update(released=[]))


def _nothing_released(world: World) -> None:
    world.edit(lambda data: data.update(released=[], released_count=0))


def _chosen_seeds(world: World) -> None:
    for path in world.files:
        move_cell(path, seed=from_text(path.read_text()).cell.seed + 1000)


def _further_seed(world: World) -> None:
    path = world.files[0]
    text = path.read_text()
    move_cell(path, seed=7)
    path.write_text(text)


def _no_charge(world: World) -> None:
    nothing = {"ledger": [], "event": {"event": "none"}, "epsilon_proved": 0.0, "accountants": {}}
    world.edit(lambda data: data["privacy"].update(nothing))


def _unspent(world: World) -> None:
    """Half of the charges are gone, and the proved epsilon is honestly that of the rest."""
    _short_ledger(world)

    def prove(data):
        data["privacy"]["epsilon_proved"] = account(from_json(data["privacy"]["event"]), data["cell"]["delta"])[0]

    world.edit(prove)


def _asserted(world: World) -> None:
    event = {"event": "epsilon_delta", "epsilon": 1.99, "delta": 0.0}
    row = {"partition": None, "event": event, "count": 1, "note": ""}
    world.edit(lambda data: data["privacy"].update(ledger=[row], event=event, epsilon_proved=1.99))


def _not_sent(world: World) -> None:
    (world.folder / "vote.py").unlink()
    world.card("mechanism: vote.py\n", "")


def _further_file(world: World) -> None:
    (world.folder / "other.py").write_text("X = 1\n")


def record_again(world: World, **change: object) -> None:
    """A reproduced.json of one cell, as `--record` writes it, with some fields changed."""
    result = from_text(world.files[0].read_text())
    score = result.scores[result.main_metric].value
    entry = {"cell_id": result.cell_id, "task": result.cell.task, "epsilon": result.cell.epsilon}
    entry |= {"seed": result.cell.seed, "reported": score, "reproduced": score, "identical": True, "by": "somebody"}
    entry |= {"created": "2026-01-02T03:04:05+00:00", "commit": "a" * 40, **change}
    (world.folder / "reproduced.json").write_text(json.dumps({"schema_version": 1, "cells": [entry]}))


def _private() -> str:
    return Task.load("agnews", "synthetic", limit_train=60, seed=0).train[7].text


def _record_as_a_key(world: World) -> None:
    for path in world.files:
        move_cell(path, options={**from_text(path.read_text()).cell.options, _private(): 1})


def _record_under_an_excused_name(world: World) -> None:
    for path in world.files:
        move_cell(path, options={**from_text(path.read_text()).cell.options, "created": _private()})


def _record_escaped_in_the_card(world: World) -> None:
    escaped = "".join(f"\\x{ord(one):02x}" for one in _private())
    world.card("tuning: none", f'tuning: "{escaped}"')


def _key_twice(world: World) -> None:
    path = world.files[0]
    path.write_text(path.read_text().replace('"released": [', '"released": [], "released": [', 1))


def changed(part: str | None = None, **values: object):
    """Sets fields of a part of every result."""
    return lambda world: world.edit(lambda data: (data[part] if part else data).update(values))


FALSE = {
    "no texts": (_no_texts, "consistency", "it counts 2 released texts and holds none"),
    "nothing released": (_nothing_released, "consistency", "it has an epsilon and released nothing"),
    "chosen seeds": (_chosen_seeds, "seeds", "Seed 0–4 of the suite is left out; run all of its seeds"),
    "further seed": (_further_seed, "seeds", r"zero_shot on agnews \(sim\) has no result of record for seed 7"),
    "no charge": (_no_charge, "epsilon", "it released 2 texts and charged nothing"),
    "unspent": (_unspent, "epsilon", r"costs epsilon 1\.\d+, under 0\.98 of the target 2, which no calibrated knob"),
    "asserted": (_asserted, "epsilon", "its ledger asserts epsilon_delta, which no primitive of the project charges"),
    "not sent": (_not_sent, "suite", "it was made with a mechanism's file, which is not here"),
    "further file": (_further_file, "size", r"other\.py is not the mechanism that the card names"),
    "other score": (lambda w: record_again(w, reported=0.1), "reproduced", "is not that of the result"),
    "other seed": (lambda w: record_again(w, seed=77), "reproduced", "is not that of the result"),
    "far": (lambda w: record_again(w, reproduced=1.0, identical=False), "reproduced", "1.000 does not reproduce 0"),
    "yesterday": (lambda w: record_again(w, created="yesterday"), "reproduced", "`created` is no time"),
    "tomorrow": (lambda w: record_again(w, created="2999-01-01T00:00:00+00:00"), "reproduced", "from the future"),
    "no such cell": (lambda w: record_again(w, cell_id="0" * 16), "reproduced", "of a cell that is not here"),
    "record as a key": (_record_as_a_key, "private records", "holds words of 1 private record"),
    "excused name": (_record_under_an_excused_name, "private records", "holds words of 1 private record"),
    "escaped": (_record_escaped_in_the_card, "private records", r"submission\.yaml holds words of 1 private record"),
    "key twice": (_key_twice, "schema", "is damaged: an object has one key twice"),
    "claimed": (changed("privacy", epsilon_claimed=-5.0), "schema", "epsilon_claimed"),
    "one query": (changed("privacy", epsilon_per_query=9.0), "consistency", "its epsilon for one query, 9, is above"),
    "invented metric": (changed(aggregates={"best": 1.0}, higher_is_better=None), "data", "differ in set of metrics"),
    "turned metric": (
        changed(higher_is_better={"acc": False, "acc_calibrated": False}),
        "data",
        "differ in directions of the metrics",
    ),
    "no commit": (changed("manifest", commit=None, dirty=None), "consistency", "so no commit is known"),
    "unknown changes": (changed("manifest", dirty=None), "consistency", "so no commit is known"),
    "huge": (changed("cost", tokens_read=10**400), "schema", "a whole number of 2|its cost is below 0, or 1e9 or more"),
    "huge seconds": (changed("cost", seconds={"a": 1e308}), "schema", r"cost\.seconds\.a: .*less than"),
    "negative cost": (changed("cost", tokens_read=-1), "schema", r"cost\.tokens_read: .*greater than"),
    "infinite": (
        changed("privacy", knob={"name": "n", "value": "Infinity"}),
        "schema",
        r"privacy\.knob\.value: .*valid number",
    ),
    "2^53": (changed("privacy", queries=2**53), "schema", r"a whole number of 2\^53 or more"),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_false_submission_is_refused_with_a_sentence(world: World, name: str):
    make_it, check, sentence = FALSE[name]
    make_it(world)
    (found,) = [finding for finding in world.examine().findings if finding.check == check]
    assert found.status == "failed"
    assert any(re.search(sentence, one) for one in (found.why, *found.others)), found


def test_an_honest_record_of_a_rerun_passes(world: World):
    record_again(world)
    assert world.status("reproduced") == ("ok", "1 recorded re-runs are of these results")


def test_a_huge_seed_is_one_sentence_for_the_board(world: World):
    for path in world.files:
        move_cell(path, seed=from_text(path.read_text()).cell.seed + 10**400)
    found, problems = load_submissions(world.root)
    assert found == [] and "a whole number of 2^53 or more" in problems[0]


@pytest.mark.parametrize("key", ["footnote", "unreliable"])
def test_what_maintainers_write_is_new_only_with_their_flag(committed: World, key: str):  # noqa: F811
    committed.card("tuning: none", f"tuning: none\n{key}: something")
    base = find_base(committed.folder, None)
    status, why = committed.status("history", base=base)
    assert status == "failed" and f"`{key}` in submission.yaml has changed" in why and "--maintainer" in why
    assert committed.status("history", base=base, maintainer=True)[0] == "ok"
    git(committed.root.parent, "commit", "-q", "-a", "-m", "said")
    assert committed.status("history", base=find_base(committed.folder, None))[0] == "ok"


def test_a_record_of_a_rerun_is_new_only_with_the_flag_of_maintainers(committed: World):  # noqa: F811
    record_again(committed)
    base = find_base(committed.folder, None)
    status, why = committed.status("history", base=base)
    assert status == "failed" and why.startswith("reproduced.json has changed")
    assert committed.status("history", base=base, maintainer=True)[0] == "ok"


def test_an_answer_mechanism_without_queries_is_refused():
    """Its ledger is consistent and pays for one query, and 100 were answered."""
    results, _ = Store(RESULTS, "open").load_all()
    honest = next(result for result in results if result.cell.mechanism == "voting")
    assert events_of([honest], []) and missing_texts(honest) == "" and problem_of(honest) == ""
    for queries in (None, 1, honest.released_count - 1):
        privacy = honest.privacy.model_copy(update={"queries": queries})
        false = honest.model_copy(update={"privacy": privacy, "answers": []})
        with pytest.raises(UsageError, match=rf"covers {queries or 'no'} queries, and it answered"):
            events_of([false], [])
        assert "texts and holds none" in missing_texts(false)


def test_texts_may_be_missing_only_where_the_task_withholds_them():
    results, _ = Store(RESULTS, "generation").load_all()
    withheld = next(one for one in results if one.released_count and not one.released and one.cell.mechanism == "esa")
    assert missing_texts(withheld) == ""
    public = withheld.cell.model_copy(update={"source": "synthetic"})
    assert "holds none" in missing_texts(withheld.model_copy(update={"cell": public}))


@pytest.mark.parametrize(
    "answer",
    [
        {"mechanisms": [{"mechanism": "vote", "checks": []}]},
        {"mechanisms": []},
        {"mechanisms": [{"mechanism": "other", "checks": [{"check": "budget", "status": "passed", "why": ""}]}]},
    ],
)
def test_code_that_answers_for_the_conformance_kit_with_no_checks_fails(world: World, answer: dict):
    forged = (
        f"import sys, os\nif 'check' in sys.argv:\n    print({json.dumps(answer)!r}, flush=True)\n    os._exit(0)\n"
    )
    path = world.folder / "vote.py"
    path.write_text(path.read_text().replace("\nimport ", f"\n{forged}import ", 1))
    digest = read_contents(world.folder).plugin_hash
    for file in world.files:
        move_cell(file, plugin=digest)
    found = conformance_check(read_contents(world.folder), run_code=True)
    assert found.status == "failed"
    assert "ended the program before the checks were done" in found.why


def test_strays_below_the_root_are_refused(world: World, dpicl):
    words = ["submit", world.root, "--all", "--suite", world.suite, "--results", world.results, "--json"]
    (world.root / "README.md").write_text("Submissions.\n")
    assert dpicl(*words).code == 0
    (world.root / "team_a" / "records.csv").write_text("x")
    (world.root / ".hidden").mkdir()
    (world.root / "linked").symlink_to(world.root / "team_a")
    answer = dpicl(*words)
    (places,) = [one for one in answer.json["whole"] if one["check"] == "places"]
    assert answer.code == 1 and places["status"] == "failed"
    for name in (".hidden", "linked", "team_a/records.csv"):
        assert any(one.startswith(f"{name} is no submission") for one in (places["why"], *places["others"]))


VALUES = {
    "date": ("2024-13-45", "timestamp"),
    "digits": ("1" * 5000, "int"),
    "int": ("!!int abc", "int"),
    "bool": ("!!bool abc", "bool"),
    "time": ("!!timestamp abc", "timestamp"),
    "float": ("!!float abc", "float"),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_that_is_not_what_it_looks_like_is_a_sentence_with_its_line(world: World, name: str):
    value, kind = VALUES[name]
    world.card("tuning: none", f"tuning: none\ncontact: {value}")
    assert world.status("card") == (
        "failed",
        f"submission.yaml, line 13: this is no {kind}; correct it, or put it in quotes.",
    )


def test_nothing_that_lies_in_the_working_folder_runs(tmp_path: Path):
    for name in ("yaml", "pydantic", "numpy"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the working folder ran')\n")
    words = [sys.executable, "-m", "dpicl", "submit", "nowhere"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "There is no folder nowhere" in done.stderr


@pytest.mark.parametrize("broken", [None, "ledger", "texts"])
def test_what_a_rerun_wrote_is_accounted_for_again_here(
    world: World, monkeypatch: pytest.MonkeyPatch, broken: str | None
):
    """The other process says the same score and epsilon; its ledger, or its texts, do not carry them."""
    contents = read_contents(world.folder)
    _, chosen = sample(contents, 1)

    def forged(job: dict, folder: Path, *_: object) -> list[str]:
        path = Store(folder / "results", chosen[0].suite.name).path(chosen[0].cell)
        path.parent.mkdir(parents=True)
        path.write_text(to_text(chosen[0]))
        if broken == "ledger":
            world_of_one = World(world.suite, world.results, folder)
            world_of_one.edit(lambda data: data["privacy"].update(ledger=[], event={"event": "none"}), [path])
        if broken == "texts":
            monkeypatch.setattr(rerun_module, "compared", lambda one, two: Again(one, two, True, True, ""))
            World(world.suite, world.results, folder).edit(lambda data: data.update(released=[]), [path])
        return [str(path)]

    monkeypatch.setattr(rerun_module, "ask_worker", forged)
    (again,) = rerun_module.rerun(contents, chosen, run_code=True)
    said = {
        None: "",
        "ledger": "released 2 texts and charged nothing",
        "texts": "counts 2 released texts and holds none",
    }
    assert said[broken] in again.problem and bool(again.problem) is (broken is not None)
    assert rerun_module.rerun_check(contents, [again], 0).status == ("failed" if broken else "ok")


def test_a_card_that_says_an_old_version_hides_no_current_results_from_the_board(world: World):
    world.card("suite_version: 1", "suite_version: 0")
    found, problems = load_submissions(world.root, known_suites([world.suite]))
    assert found == [] and "it is of version 1, and the card says 0; mend the card" in problems[0]
