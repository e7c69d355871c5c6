"""Which attack stands on which row, and what a refuted row loses."""

import pytest

from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import Evidence
from dpicl.leaderboards.render.as_json import board_json
from tests.leaderboards.attack_factory import AUC, make_attack, rule
from tests.leaderboards.factory import change, ends, make_result, repeat
from tests.leaderboards.shown import render_terminal

OTHER = {
    "task version": {"task_version": 2},
    "source of records": {"source": "local"},
    "model weights": {"weights": "0" * 64},
    "δ": {"delta": 1e-6},
    "plug-in file": {"plugin": "e" * 64},
}


def board(results, attacks=(), defaults=None):
    return build_board(results, evidence=Evidence(tuple(attacks), lambda *_: defaults or {}))


def row_of(built, label, epsilon=1.0, task="agnews"):
    rows = [row for section in built.sections for table in section.tables for row in table.in_order]
    return next(row for row in rows if (row.label, row.epsilon, row.task) == (label, epsilon, task))


def ranks(built):
    return {
        (row.label, row.epsilon): row.rank and str(row.rank)
        for row in built.sections[0].tables[0].rows
    }


def test_an_attack_stands_on_its_row_and_on_no_other():
    results = [
        *ends(),
        make_result("tang", 0.6),
        make_result("tang", 0.6, epsilon=8.0),
        make_result("pta", 0.5),
    ]
    built = board(
        results, [make_attack(audited=0.4), make_attack("zero_shot", audited=0.0, attack="gap")]
    )
    assert row_of(built, "tang").audit.epsilon == 0.4
    assert row_of(built, "zero_shot", 0.0).audit.epsilon == 0.0
    assert row_of(built, "tang", 8.0).audit.epsilon is None
    assert row_of(built, "pta").audit.epsilon is None


@pytest.mark.parametrize("what", OTHER)
def test_attacks_on_another_version_are_left_out_and_named(what):
    built = board(
        repeat([*ends(), make_result("tang", 0.6)]), [make_attack(audited=5.0, **OTHER[what])]
    )
    assert row_of(built, "tang").audit.attacks == ()
    assert built.notes == (f"Left out attacks with another {what}: tang at ε = 1 on agnews.",)
    assert "Left out attacks" in render_terminal(built)
    assert "Left out attacks" not in render_terminal(built, full=False)
    assert ranks(built)["tang", 1.0] == "1"


def test_attacks_on_what_has_no_row_leave_no_note():
    attacks = [make_attack("pta"), make_attack(task="enron")]
    assert board([*ends(), make_result("tang", 0.6)], attacks).notes == ()


def test_sizes_may_differ_and_are_shown():
    result = make_result("tang", 0.6, options={"slots": 16, "style": "chat"})
    attack = make_attack(options={"slots": 8, "tokens": 4}, members=8, queries=1)
    built = board([*ends(), result], [attack], defaults={"tokens": 50, "style": "chat"})
    audit = row_of(built, "tang").audit
    assert audit.epsilon == 0.4
    assert (
        audit.settings[attack.id] == "8 records, 1 query, slots = 8 (row: 16), tokens = 4 (row: 50)"
    )
    assert "(row: 16)" in render_terminal(built, attacks=True)


def test_an_exact_audit_stands_on_the_rows_it_was_made_on():
    options = {"slots": 16}
    rows = [
        make_result("tang", 0.6, options=options),
        make_result("tang", 0.6, label="small", options={"slots": 4}),
    ]
    sizes = rows[0].manifest.data.sizes
    attack = make_attack(options=options, method="exact", confidence=1.0, attack="exact_audit")
    attack = change(attack, "subject.shots", rows[0].cell.shots)
    attack = change(attack, "manifest.data.sizes", sizes)
    built = board([*ends(), *rows], [attack])
    assert (
        row_of(built, "tang").audit.kind == "exact" and row_of(built, "small").audit.epsilon is None
    )
    assert not [note for note in built.notes if note.startswith("Left out")]
    assert "0.4 exact" in render_terminal(built)
    other = change(attack, "manifest.data.sizes", {"": 7})
    assert row_of(board([*ends(), *rows], [other]), "tang").audit.epsilon is None


def test_an_attack_is_about_rows_of_the_same_words_and_switches():
    """Numbers are sizes; a word or a switch chooses another algorithm, and its default counts as given."""
    rows = [
        make_result("voting", 0.6, options={"slots": 4}),
        make_result("voting", 0.6, label="voting_once", options={"partition": "once"}),
    ]
    attack = make_attack("voting", options={"slots": 99, "partition": "per_query"})
    built = board([*ends(), *rows], [attack], defaults={"partition": "per_query", "slots": 20})
    assert row_of(built, "voting").audit.attacks == (attack,)
    assert row_of(built, "voting_once").audit.attacks == ()
    other = make_attack(
        "voting", options={"calibrate": False}
    )  # the only row takes it, and shows the difference
    built = board([*ends(), make_result("voting", 0.6, options={"calibrate": True})], [other])
    assert "calibrate = False (row: True)" in row_of(built, "voting").audit.settings[other.id]


def test_a_refuted_row_has_no_rank_and_the_next_one_moves_up():
    results = [
        *ends(),
        make_result("tang", 0.62),
        make_result("pta", 0.6),
        make_result("tang", 0.7, epsilon=8.0),
    ]
    results = repeat(results)
    assert ranks(board(results)) == {("tang", 8.0): "1", ("tang", 1.0): "1–2", ("pta", 1.0): "1–2"}
    built = board(results, [make_attack(audited=2.1)])
    assert ranks(built) == {("tang", 8.0): "1", ("tang", 1.0): None, ("pta", 1.0): "1"}
    assert any(
        "tang at ε = 1" in note and "audited ε 2.1" in note for note in built.sections[0].notes
    )


def test_a_row_that_is_refuted_on_one_task_has_no_rank_anywhere():
    results = [
        r for task in ("agnews", "trec") for r in (*ends(task), make_result("tang", 0.7, task=task))
    ]
    results += [make_result("pta", 0.6, task=task) for task in ("agnews", "trec")]
    built = board(repeat(results), [make_attack(audited=2.1)])
    assert [row.label for table in built.sections[0].tables for row in table.rows if row.rank] == [
        "pta",
        "pta",
    ]
    assert row_of(built, "tang", task="trec").unranked.startswith(
        "on agnews its audited ε 2.1 exceeds"
    )


def test_doubts_are_noted_and_the_row_stays():
    attacks = [make_attack(audited=2.1), make_attack(audited=0.0, access="black-box")]
    built = board(repeat([*ends(), make_result("tang", 0.6)]), attacks)
    assert ranks(built)["tang", 1.0] == "1"
    (doubt,) = [
        note for note in built.sections[0].notes if note.startswith("In doubt: audited ε 2.1")
    ]
    assert doubt.endswith("tang at ε = 1 on agnews.")


def test_the_terminal_shows_attacks_and_the_command_for_one():
    prism = make_result("prism", 0.5, options={"style": "completion"})
    results = [*ends(), make_result("tang", 0.6), prism]
    built = board(results, [make_attack(audited=0.4567, measures=AUC)])
    lines = render_terminal(built, color=False, attacks=True).splitlines()
    assert any(line.split()[:1] == ["tang"] and "0.456 sampled" in line for line in lines)
    (command,) = [line for line in lines if "dpicl audit" in line]
    assert "dpicl audit prism" in command and "--epsilon 1 " in command
    assert "--option style=completion" in command


def test_the_command_names_words_that_are_no_default():
    options = {"slots": 10, "calibrate": True, "partition": "once", "candidates": "spans"}
    results = [
        *ends(delta=1e-6),
        make_result("voting", 0.6, options=options, epsilon=8.0, delta=1e-6),
    ]
    built = board(
        results, defaults={"partition": "per_query", "candidates": "spans", "calibrate": False}
    )
    assert row_of(built, "voting", 8.0).audit.command == (
        "dpicl audit voting --task agnews --epsilon 8 --model embedded --source synthetic --delta 1e-06"
        " --option calibrate=true --option partition=once"
    )


def test_json_carries_claimed_proved_and_audited():
    sampled = make_attack(audited=0.4, measures=AUC, decision=rule(0.6, 0.4, trials=50))
    attacks = [sampled, make_attack(audited=0.1, access="black-box")]
    built = board([*ends(), make_result("tang", 0.6, claimed=1.7)], attacks)
    rows = board_json(built)["sections"][0]["tasks"][0]["rows"]
    row = next(row for row in rows if row["label"] == "tang")
    assert (row["claimed"], row["proved"]) == (1.7, 0.99)
    audited = row["audited"]
    assert (audited["epsilon"], audited["confidence"]) == (0.4, 0.95)
    assert (audited["attack"], audited["access"], audited["flag"]) == ("audit", "white-box", "")
    assert audited["trials"] == "50 + 50"
    assert [one["epsilon"] for one in audited["attacks"]] == [0.4, 0.1]
    assert audited["attacks"][0]["measures"]["auc"]["value"] == 0.61
    assert rows[0]["audited"]["epsilon"] is None
