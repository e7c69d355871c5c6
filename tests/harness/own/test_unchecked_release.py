"""A plug-in that has not passed the kit on this machine releases nothing with secure noise, unless it is asked to; then
the card, whatever shows it, begins with that."""

import json
from pathlib import Path

import pytest

import dpicl as package
from dpicl.core.errors import UsageError
from dpicl.mechanism import checked, registry
from dpicl.mechanism.registry import load_plugin
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids
from dpicl.own.card import UNCHECKED, PrivacyCard
from dpicl.own.card_pages import card_markdown
from tests.harness.helpers import refuse
from tests.harness.own.desk import ALWAYS, LABELS, assert_nothing_charged, read_card

LEAKY = """
import sys
from pathlib import Path

import numpy as np
from dpicl import Demonstration, DemonstrationMechanism, Knob, gaussian

class Leaky(DemonstrationMechanism):
    name = "leaky"
    knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)

    def events(self, knob, sizes):
        return gaussian(knob)

    def release(self, private, context):
        sample = private.poisson_slots(20, None, partition="billing", releases=gaussian(context.knob)).draw()
        sample.spend(gaussian(context.knob)).noisy_sum(np.zeros(2), 1.0)
        count = sum(len(slot) for slot in sample.slots)
        return [Demonstration(f"a true count: {count}", label) for label in context.shots]
"""
WORDS = ("leaky", "--plugin", "leaky.py", "--data", "tickets.csv", *ALWAYS)


@pytest.fixture
def plugin(desk: Path, no_plugins_before) -> Path:
    path = desk / "leaky.py"
    path.write_text(LEAKY)
    return path


def mark_checked(plugin: Path, passed: bool = True) -> str:
    digest = load_plugin(plugin)[0].plugin_hash
    assert digest is not None
    checked.note(digest, passed)
    return digest


def test_it_is_released_after_the_check_alone(dpicl, desk, plugin):
    refuse(
        dpicl("release", *WORDS, "--out", "x.jsonl"),
        "leaky",
        "dpicl check FILE",
        "--allow-unchecked",
    )
    mark_checked(plugin, passed=False)
    refuse(dpicl("release", *WORDS, "--out", "x.jsonl"), "leaky", "--allow-unchecked")
    assert_nothing_charged(dpicl)
    assert not list(desk.glob("x.*"))
    mark_checked(plugin)
    answer = dpicl("release", *WORDS, "--out", "x.jsonl", "--json").succeed()
    assert answer.json["card"]["private"]
    assert answer.json["card"]["warning"].startswith("WORTH NOTHING")
    plugin.write_text(LEAKY + "# edited\n")
    refuse(dpicl("release", *WORDS, "--out", "y.jsonl"), "leaky", "as it is now")


def test_every_output_says_first_that_nobody_checked_the_code(dpicl, desk, plugin):
    answer = dpicl("release", *WORDS, "--out", "x.jsonl", "--allow-unchecked")
    assert answer.code == 0 and f"dpicl: {UNCHECKED}" in answer.err, answer.err
    assert "declared by code that nobody checked" in answer.out and " proved" not in answer.out
    title, first, *rest = (desk / "x.card.md").read_text().split("\n\n")
    assert title == "# Privacy card: leaky, protects one record" and first.startswith(
        "**NOBODY CHECKED THE CODE: "
    )
    assert rest[1].startswith("If the code does what it declares: whatever somebody believed")
    assert any(
        each.startswith("If its code does what it declares, this release is (") for each in rest
    )
    card = read_card("x")
    assert card["warning"].startswith(UNCHECKED) and card["private"] is False
    released = package.release(plugin, **python_words(), allow_unchecked=True)
    assert released.card["warning"].startswith(UNCHECKED) and not released.card["private"]


def test_seeded_noise_needs_no_check(plugin):
    released = package.release(plugin, **python_words(), noise="seeded")
    assert released.card["warning"].startswith("NOT PRIVATE")


def python_words() -> dict[str, object]:
    return {"data": "tickets.csv", "labels": LABELS, "size": 20, "model": "sim"}


class OwnCentroids(EmbeddingCentroids):
    """A class of the program that calls."""

    name = "own_centroids"


def test_a_class_of_a_program_is_a_plugin(desk, no_plugins_before):
    words = {**python_words(), "options": {"embedding": "sim"}}
    with pytest.raises(UsageError, match="own_centroids is a plug-in that has not passed"):
        package.release(OwnCentroids, **words, out="desk.json")
    try:
        package.release(OwnCentroids, **words, out="desk.json", allow_unchecked=True)
        later = package.answer(
            OwnCentroids,
            state="desk.json",
            queries=["ticket"],
            model="sim",
            options={"embedding": "sim"},
        )
    finally:
        registry.forget()
    assert later.card["warning"].startswith(UNCHECKED) and later.card["state_sha256"]
    old = json.loads(Path("desk.json").read_text())["card"] | {
        "private": True,
        "warning": None,
    }  # before it was said
    assert (
        card_markdown(PrivacyCard.model_validate(old).say_unchecked().model_dump(mode="json"))
        .split("\n\n")[1]
        .startswith("**NOBODY")
    )
