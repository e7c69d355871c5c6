"""`dpicl compare` from the outside: exit codes, JSON, and files that are damaged or hostile."""

import json

import pytest

from dpicl.results.schema import to_text
from tests.harness.comparison.sides import (
    make_scored,
    ones,
    plain,
    write_results,
)
from tests.leaderboards.factory import change

HOSTILE = "evil|`a`<script>alert(1)</script>\u202e\x1b[2J\nGATE PASSES"


@pytest.fixture
def folders(tmp_path):
    """(base, the same in float32, a release that lost a fifth)."""

    def make(at_eight):
        rights = [(1.0, 100), (8.0, at_eight)]
        return [
            make_scored(ones(right, 150), epsilon=epsilon, seed=seed)
            for epsilon, right in rights
            for seed in range(10)
        ]

    same = [change(one, "manifest.dtype", "float32") for one in make(100)]
    write_results(tmp_path / "base" / "quick" / "embedded", make(100))
    write_results(tmp_path / "same", same)
    write_results(tmp_path / "lost", make(70))
    return tmp_path / "base", tmp_path / "same", tmp_path / "lost"


def test_exit_codes(dpicl, folders):
    base, same, lost = folders
    gate = f"compare {base} {lost} --fail-on-regression"
    dpicl(f"compare {base} {same} --fail-on-regression").succeed()
    dpicl(f"compare {base} {lost}").succeed()
    assert dpicl(f"compare {base} {same}").out.startswith("GATE PASSES: 2 identical")
    assert dpicl(gate).code == 1
    dpicl(f"{gate} --min-effect 0.5").succeed()
    dpicl(f"{gate} --epsilon 1").succeed()
    assert dpicl(f"compare {lost} {base} --fail-on-regression").code == 0  # an improvement
    assert dpicl(f"compare {base} {base}/nothing").code == 2


def test_a_proved_epsilon_above_the_target_fails_the_gate(dpicl, tmp_path):
    one = plain()
    base = write_results(tmp_path / "a", [one])
    candidate = write_results(tmp_path / "b", [change(one, "privacy.epsilon_proved", 1.5)])
    answer = dpicl(f"compare {base} {candidate} --fail-on-regression")
    assert answer.code == 1
    assert "1 proved ε too large" in answer.out
    assert "target 1, proved 0.99 → 1.5" in " ".join(answer.out.split())


#: What a candidate has: (mechanism, seed) of each cell.
CANDIDATES = {
    "more": [
        ("tang", 0),
        ("tang", 1),
        ("prism", 0),
        ("prism", 1),
        ("voting", 0),
    ],
    "another seed": [
        ("tang", 0),
        ("tang", 1),
        ("prism", 1),
        ("prism", 2),
    ],
    "one row": [("prism", 0), ("prism", 1)],
}


@pytest.mark.parametrize(
    ("kind", "code", "sentence"),
    [
        ("more", 0, "Only in candidate: voting on agnews at ε = 1, seed 0."),
        (
            "another seed",
            1,
            "Missing in candidate: prism on agnews at ε = 1, seed 0 (the row is on both sides).",
        ),
        ("one row", 1, "Missing in candidate: tang on agnews at ε = 1, seed 0–1."),
    ],
)
def test_what_is_missing_in_the_candidate_fails_the_gate(dpicl, tmp_path, kind, code, sentence):
    def write(name, cells):
        results = [plain(mechanism, seed=seed) for mechanism, seed in cells]
        return write_results(tmp_path / name, results)

    base = write("base", CANDIDATES["more"][:4])
    candidate = write("other", CANDIDATES[kind])
    command = f"compare {base} {candidate} --fail-on-regression"
    answer = dpicl(command)
    assert answer.code == code and sentence in " ".join(answer.out.split())
    allowed = dpicl(command, "--allow-missing")
    assert allowed.code == 0 and sentence in " ".join(allowed.out.split())
    document, lenient = (
        dpicl(command, *flags, "--json").json for flags in ((), ["--allow-missing"])
    )
    assert document["regressed"] == bool(code)
    assert document["incomplete"] == bool(code)
    assert not lenient["regressed"] and lenient["missing"] == document["missing"]
    if kind == "one row":
        (missing,) = document["missing"]
        assert missing["mechanism"] == "tang" and missing["seeds"] == [0, 1]
        assert missing["whole_row"] and answer.out.startswith("GATE FAILS: 1 row missing")
    if kind == "another seed":  # the filter leaves the missing one out
        dpicl(command, "--mechanism", "tang").succeed()


def test_the_terminal_shows_what_changed_and_every_cell(dpicl, folders):
    base, same, lost = folders
    assert "dtype bfloat16 float32" in " ".join(dpicl(f"compare {base} {same}").out.split())
    out = dpicl(f"compare {base} {lost}").out
    assert out.startswith("GATE FAILS: 1 regression, 1 identical\n")
    lines = [line for line in out.splitlines() if " tang " in line and " 8 " in line]
    assert "-0.200" in " ".join(lines)
    assert lines[-1].split()[-1] == "regression"
    assert "Nothing that is recorded changed" in out
    assert max(map(len, out.splitlines()[3:])) <= 110


def test_the_json_is_one_document(dpicl, folders):
    base, _, lost = folders
    answer = dpicl(f"compare {base} {lost} --json")
    document = answer.json
    assert document["regressed"] is True
    first, second = document["cells"]
    assert first["verdict"] == "identical"
    assert second["verdict"] == "regression"
    assert second["difference"] == pytest.approx(-0.2)
    assert second["p_adjusted"] == 2 * second["p"]
    assert second["interval"][0] < -0.2 < second["interval"][1]


def test_hostile_names_do_not_break_the_terminal(dpicl, tmp_path):
    def folder(name):
        about = {"label": HOSTILE, "suite": HOSTILE}
        right, seed = (40, 7) if name == "a" else (20, 8)
        results = [
            make_scored(
                ones(right, 40),
                epsilon=epsilon,
                **about,
            )
            for epsilon in (1.0, 2.0)
        ]
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
    data = json.loads(to_text(plain(seed=9)))
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
    answer = dpicl(f"compare {base} {same}")
    assert answer.code == 2
    assert answer.out == ""
    assert reason in answer.err
    assert answer.err.count("\n") == 1
    assert {path: path.read_bytes() for path in same.rglob("*")} == before


def test_attacks_are_left_out_and_other_json_is_named(dpicl, folders):
    base, same, _ = folders
    for name in ("quarantine", ".locks"):
        (same / name).mkdir()
        write_damaged(same / name, "{")
    (same / "attacks").mkdir()
    (same / "attacks" / "one.json").write_text(
        '{"schema_version": 1, "attack": "gap", "subject": {}}'
    )
    assert dpicl(f"compare {base} {same}").err == ""
    (same / "notes.json").write_text('{"hello": 1}')
    answer = dpicl(f"compare {base} {same}").succeed()
    assert "left out 1 JSON file of candidate that are not results" in answer.err


def test_a_single_file_is_a_side_and_an_empty_folder_is_none(dpicl, folders, tmp_path):
    base, same, _ = folders
    file = next(base.rglob("0.json"))
    answer = dpicl(f"compare {file} {same} --json")
    assert len(answer.json["cells"]) == 1
    (tmp_path / "empty").mkdir()
    answer = dpicl(f"compare {tmp_path}/empty {same}")
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
    assert dpicl(f"compare {base} {same}", *flags).code == 2
