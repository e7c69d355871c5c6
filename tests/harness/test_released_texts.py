"""What is plainly wrong with released texts is said on the terminal and on the card."""

from __future__ import annotations

import json

from dpicl.core.vocabulary import Demonstration
from dpicl.own.texts import labels_without_text, read_texts
from tests.harness.test_release_command import LABELS, desk, release  # noqa: F401


def test_texts_that_repeat_are_cut_or_broken_are_counted():
    texts = [
        Demonstration("Billing!", "billing", 2),
        Demonstration("the app fails", "technical", 30),
        Demonstration("The app, fails", "technical", 4),
        Demonstration("broken \ufffd byte", "technical", 3),
    ]
    said = read_texts(texts, LABELS, 30)
    assert [sentence.partition(" texts ")[0] for sentence in said[:4]] == ["1 of 4"] * 4
    assert ["earlier" in said[0], "label" in said[1], "UTF-8" in said[2], "30 tokens" in said[3]] == [True] * 4
    assert said[4] == "No text is of the label refund; --shots 3 writes one each."
    assert read_texts([Demonstration("a sound one", "refund", 3)], ("refund",), 30) == []
    assert labels_without_text([Demonstration("a", "text")], LABELS) == ""  # a mechanism without labels


def test_the_terminal_says_it_before_anything_is_charged_and_the_card_after(dpicl, desk):  # noqa: F811
    answer = release(dpicl, "--shots", 2)
    assert answer.code == 0, answer.err
    before, _, _ = answer.err.partition("charging")
    assert "No text is of the label" in before and "No text is of the label" in answer.out
    card = json.loads((desk / "demos.card.json").read_text())
    assert any("No text is of the label" in sentence for sentence in card["texts"])
    assert "## What the texts look like" in (desk / "demos.card.md").read_text()
