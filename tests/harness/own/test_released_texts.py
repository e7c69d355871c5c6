"""What is plainly wrong with released texts is said on the terminal and on the card."""

from collections import Counter

import pytest

from dpicl.cli.release import _tell
from dpicl.core.messages import COMMAND
from dpicl.core.vocabulary import Demonstration
from dpicl.data.concealed import conceal
from dpicl.own.texts import labels_without_text, read_texts
from tests.harness.helpers import refuse
from tests.harness.own.desk import (
    ALWAYS,
    LABELS,
    SMALL,
    assert_nothing_charged,
    read_card,
    read_rows,
    release,
)


def test_texts_that_repeat_are_cut_or_broken_are_counted():
    texts = [
        Demonstration("Billing!", "billing", 2),
        Demonstration("the app fails", "technical", 30),
        Demonstration("The app, fails", "technical", 4),
        Demonstration("broken \ufffd byte", "technical", 3),
    ]
    sentences = read_texts(texts, LABELS, 30)
    assert [sentence.partition(" texts ")[0] for sentence in sentences[:4]] == ["1 of 4"] * 4
    assert [
        "earlier" in sentences[0],
        "label" in sentences[1],
        "UTF-8" in sentences[2],
        "30 tokens" in sentences[3],
    ] == [True] * 4
    assert sentences[4] == "No text is of the label refund; --shots-per-label 1 writes one each."
    assert read_texts([Demonstration("a sound one", "refund", 3)], ("refund",), 30) == []
    assert (
        labels_without_text([Demonstration("a", "text")], LABELS) == ""
    )  # a mechanism without labels


def test_the_terminal_says_it_before_anything_is_charged(dpicl, desk):
    answer = release(dpicl, "--shots", 2).succeed()
    before, _, _ = answer.err.partition("charging")
    assert "No text is of the label" in before and "No text is of the label" in answer.out
    assert "--public-test FILE --measure-only" in before
    card = read_card()
    assert any("No text is of the label" in sentence for sentence in card["texts"])
    assert "## What the texts look like" in (desk / "demos.card.md").read_text()


def test_progress_is_said_while_private_records_are_held(capsys):
    token = COMMAND.set(("release",))
    try:
        tell = _tell()
        with conceal(True):
            print("a record")  # noqa: T201
            tell("releasing: for 10 s")
    finally:
        COMMAND.reset(token)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err == "releasing: for 10 s\n"


# --- how many texts of which label


def label_counts(path: str = "demos.jsonl") -> dict[str, int]:
    return dict(Counter(row["label"] for row in read_rows(path)))


def test_numbers_of_texts_by_label_are_paid_for_as_such(dpicl, desk):
    release(dpicl, "--shots", "billing=3,refund=1").succeed()
    assert label_counts() == {"billing": 3, "refund": 1}
    card = read_card()
    assert {row["partition"] for row in card["privacy"]["ledger"]} == {"billing", "refund"}
    assert card["privacy"]["epsilon_proved"] <= 1
    assert "No text is of the label technical" in " ".join(card["texts"])


def test_labels_with_commas_and_equals_signs_have_numbers(dpicl, desk):
    rows = "".join(f'text {n},"{label}"\n' for n in range(18) for label in ("a, b", "c=d"))
    (desk / "odd.csv").write_text(f"text,label\n{rows}")
    (desk / "labels.txt").write_text("a, b\nc=d\n")
    words = ("--labels-file", "labels.txt", "--model", "sim", "--epsilon", 1, *SMALL)
    numbers = ("--size", "a, b=20,c=d=18", "--shots", "a, b=2", "--shots", "c=d=1")
    dpicl(
        "release", "tang", "--data", "odd.csv", *words, *numbers, "--out", "demos.jsonl"
    ).succeed()
    assert label_counts() == {"a, b": 2, "c=d": 1}
    sizes = read_card()["manifest"]["data"]["sizes"]
    assert sizes == {"a, b": 20, "c=d": 18}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--shots", "billing=1,sales=2"), "sales"),
        (("--shots", "billing=1,2"), "--shots N once"),
        (("--shots", "billing=0"), "greater than or equal to 1"),
        (("--shots", 2, "--shots-per-label", 2), "one of the two"),
    ],
)
def test_numbers_of_texts_that_do_not_fit_cost_nothing(dpicl, desk, flags, words):
    answer = release(dpicl, *flags)
    assert answer.code == 2 and words in answer.err
    assert not list(desk.glob("demos*"))
    assert_nothing_charged(dpicl)


def test_a_prepared_mechanism_has_no_numbers_of_texts(dpicl, desk):
    words = (
        "release",
        "embedding_centroids",
        "--data",
        "tickets.csv",
        *ALWAYS,
        "--option",
        "embedding=sim",
    )
    refuse(dpicl(*words, "--out", "s.json", "--shots", "billing=1"), "releases no texts of labels")
