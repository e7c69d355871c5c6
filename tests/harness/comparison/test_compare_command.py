"""`dpicl compare` from the outside: exit codes, JSON, and files that are damaged or hostile."""

from __future__ import annotations

import json

import pytest

from dpicl.results.schema import to_text
from tests.harness.comparison.sides import (
    make_scored,
    ones,
    write_results,
)
from tests.leaderboards.factory import change

HOSTILE = "evil|`a`<script>alert(1)</script>\u202e\x1b[2J\nGATE PASSES"


@pytest.fixture
def folders(tmp_path):
    """(base, the same in float32, a release that lost a fifth)."""
    base = [
        make_scored(ones(100, 150), epsilon=epsilon, seed=seed)
        for epsilon in (1.0, 8.0)
        for seed in range(10)
    ]
    lost = [
        make_scored(ones(100 - 30 * (epsilon == 8), 150), epsilon=epsilon, seed=seed)
        for epsilon in (1.0, 8.0)
        for seed in range(10)
    ]
    return (
        write_results(tmp_path / "base" / "quick" / "embedded", base).parent,
        write_results(
            tmp_path / "same", [change(one, "manifest.dtype", "float32") for one in base]
        ),
        write_results(tmp_path / "lost", lost),
    )


def test_exit_codes(dpicl, folders):
    base, same, lost = folders
    assert dpicl("compare", base, same, "--fail-on-regression").code == 0
    assert dpicl("compare", base, lost).code == 0
    assert dpicl("compare", base, same).out.startswith("GATE PASSES: 2 identical")
    assert dpicl("compare", base, lost, "--fail-on-regression").code == 1
    assert dpicl("compare", base, lost, "--fail-on-regression", "--min-effect", "0.5").code == 0
    assert dpicl("compare", base, lost, "--fail-on-regression", "--epsilon", "1").code == 0
    assert dpicl("compare", lost, base, "--fail-on-regression").code == 0  # an improvement
    assert dpicl("compare", base, base / "nothing").code == 2


def test_a_proved_epsilon_above_the_target_fails_the_gate(dpicl, tmp_path):
    one = make_scored(ones(20, 40))
    base, candidate = (
        write_results(tmp_path / "a", [one]),
        write_results(tmp_path / "b", [change(one, "privacy.epsilon_proved", 1.5)]),
    )
    answer = dpicl("compare", base, candidate, "--fail-on-regression")
    assert answer.code == 1
    assert "1 proved ε too large" in answer.out
    assert "target 1, proved 0.99 → 1.5" in " ".join(answer.out.split())


def test_what_is_missing_in_the_candidate_fails_the_gate(dpicl, tmp_path):
    base = write_results(
        tmp_path / "a",
        [make_scored(ones(20, 40), name, seed=s) for name in ("tang", "prism") for s in (0, 1)],
    )
    rows = {
        "all": [("tang", 0), ("tang", 1), ("prism", 0), ("prism", 1), ("voting", 0)],
        "seed": [("tang", 0), ("tang", 1), ("prism", 1), ("prism", 2)],
        "row": [("prism", 0), ("prism", 1)],
    }
    folders = {
        kind: write_results(
            tmp_path / kind, [make_scored(ones(20, 40), name, seed=seed) for name, seed in found]
        )
        for kind, found in rows.items()
    }

    def gate(kind, *flags):
        return dpicl("compare", base, folders[kind], "--fail-on-regression", *flags)

    assert gate("all").code == 0
    assert "Only in candidate: voting on agnews at ε = 1, seed 0." in gate("all").out
    answer = gate("row")
    assert answer.code == 1
    assert answer.out.startswith("GATE FAILS: 1 row missing or incomplete, 1 identical\n")
    assert "Missing in candidate: tang on agnews at ε = 1, seed 0–1." in " ".join(
        answer.out.split()
    )
    answer = gate("seed")
    assert answer.code == 1
    lines = " ".join(answer.out.split())
    assert (
        "Missing in candidate: prism on agnews at ε = 1, seed 0 (the row is on both sides)."
        in lines
    )
    assert gate("seed", "--mechanism", "tang").code == 0  # the filter leaves the missing seed out
    for kind in ("seed", "row"):
        assert gate(kind, "--allow-missing").code == 0
        assert "Missing in candidate" in gate(kind, "--allow-missing").out
    document = gate("row", "--json").json
    assert (document["regressed"], document["incomplete"]) == (True, True)
    assert [(one["mechanism"], one["seeds"], one["whole_row"]) for one in document["missing"]] == [
        ("tang", [0, 1], True)
    ]
    document = gate("row", "--json", "--allow-missing").json
    assert (document["regressed"], document["incomplete"], len(document["missing"])) == (
        False,
        False,
        1,
    )


def test_the_terminal_shows_what_changed_and_every_cell(dpicl, folders):
    base, same, lost = folders
    assert "dtype bfloat16 float32" in " ".join(dpicl("compare", base, same).out.split())
    out = dpicl("compare", base, lost).out
    assert out.startswith("GATE FAILS: 1 regression, 1 identical\n")
    lines = [line for line in out.splitlines() if " tang " in line and " 8 " in line]
    assert lines[-1].split()[-1] == "regression"
    assert "-0.200" in " ".join(lines)
    assert "Nothing that is recorded changed" in out
    assert max(map(len, out.splitlines()[3:])) <= 110


def test_the_json_is_one_document(dpicl, folders):
    base, _, lost = folders
    answer = dpicl("compare", base, lost, "--json")
    document = answer.json
    assert document["regressed"] is True
    first, second = document["cells"]
    assert (first["verdict"], second["verdict"]) == ("identical", "regression")
    assert second["difference"] == pytest.approx(-0.2)
    assert second["p_adjusted"] == 2 * second["p"]
    assert second["interval"][0] < -0.2 < second["interval"][1]


def test_hostile_names_do_not_break_the_terminal(dpicl, tmp_path):
    def folder(name):
        about = {"label": HOSTILE, "suite": HOSTILE}
        right, seed = (40, 7) if name == "a" else (20, 8)
        results = [make_scored(ones(right, 40), epsilon=epsilon, **about) for epsilon in (1.0, 2.0)]
        extra = make_scored(ones(right, 40), seed=seed, **about)
        return write_results(
            tmp_path / name,
            [change(one, "manifest.model.name", HOSTILE) for one in (*results, extra)],
        )

    answer = dpicl("compare", folder("a"), folder("b"))
    assert answer.code == 0 and "evil" in answer.out
    assert [line[:10] for line in answer.out.splitlines() if line.startswith("GATE")] == [
        "GATE FAILS"
    ]
    assert "\x1b" not in answer.out and "\u202e" not in answer.out


def write_damaged(folder, content):
    (folder / "bad.json").write_text(content, encoding="utf-8")


def break_result(change):
    """A sound result's text with something in it changed."""
    data = json.loads(to_text(make_scored(ones(20, 40), seed=9)))
    change(data)
    return json.dumps(data)


DAMAGED = {
    "cut": ('{"schema_version": 1, "ce', "not complete JSON"),
    "newer": ('{"schema_version": 99}', "newer version of dpicl"),
    "edited": (break_result(lambda d: d["cell"].update(seed=10)), "does not fit the cell"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_file_is_one_sentence_and_exit_code_2(dpicl, folders, kind):
    base, same, _ = folders
    content, reason = DAMAGED[kind]
    write_damaged(same, content)
    before = {path: path.read_bytes() for path in same.rglob("*")}
    answer = dpicl("compare", base, same)
    assert (answer.code, answer.out) == (2, "")
    assert reason in answer.err
    assert answer.err.count("\n") == 1
    assert {path: path.read_bytes() for path in same.rglob("*")} == before


def test_what_the_store_does_not_read_and_attacks_are_left_out_and_other_json_is_named(
    dpicl, folders
):
    base, same, _ = folders
    for name in ("quarantine", ".locks"):
        (same / name).mkdir()
        write_damaged(same / name, "{")
    (same / "attacks").mkdir()
    (same / "attacks" / "one.json").write_text(
        '{"schema_version": 1, "attack": "gap", "subject": {}}'
    )
    assert dpicl("compare", base, same).err == ""
    (same / "notes.json").write_text('{"hello": 1}')
    answer = dpicl("compare", base, same)
    assert answer.code == 0
    assert "left out 1 JSON file of candidate that are not results" in answer.err


def test_a_single_file_is_a_side_and_an_empty_folder_is_none(dpicl, folders, tmp_path):
    base, same, _ = folders
    file = next(base.rglob("0.json"))
    answer = dpicl("compare", file, same, "--json")
    assert len(answer.json["cells"]) == 1
    (tmp_path / "empty").mkdir()
    answer = dpicl("compare", tmp_path / "empty", same)
    assert answer.code == 2
    assert "no result file under" in answer.err


@pytest.mark.parametrize(
    "flags",
    [
        ("--alpha", "0"),
        ("--alpha", "1"),
        ("--min-effect", "-0.1"),
        ("--epsilon", "-1"),
        ("--bass",),
    ],
)
def test_flags_that_make_no_sense_are_exit_code_2(dpicl, folders, flags):
    base, same, _ = folders
    assert dpicl("compare", base, same, *flags).code == 2
