"""What a prepared mechanism released, saved and used again: it costs nothing, says nothing else, and trusts no file."""

import json
import os
import pickle
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest

import dpicl as package
from dpicl.conformance.checking import QUICK, CheckEvidence
from dpicl.conformance.checks.replay import post_processing, public_labels
from dpicl.conformance.kit import set_up
from dpicl.core import json_text
from dpicl.core.errors import PluginError
from dpicl.mechanism.outputs import check_state
from dpicl.mechanisms.embedding_centroids import EmbeddingCentroids, Linear
from tests.harness.helpers import refuse
from tests.harness.own.desk import LABELS, read_card, read_rows

SIM = ("--model", "sim", "--option", "embedding=sim")
RELEASE = ("release", "embedding_centroids", "--data", "tickets.csv", "--labels", ",".join(LABELS), "--size", 20,
           "--epsilon", 1, *SIM)  # fmt: skip
ANSWER = ("answer", "embedding_centroids", "--queries", "new.txt", *SIM)
QUERIES = ["where is my money", "number 3 on billing", "technical"]


@pytest.fixture
def state(desk, dpicl) -> Path:
    """desk.json, the state of a secure release."""
    (desk / "new.txt").write_text("\n".join(QUERIES))
    answer = dpicl(*RELEASE, "--out", "desk.json")
    assert answer.code == 0 and "--state desk.json" in answer.out and "--model sim" in answer.out, (
        answer.err
    )
    return desk / "desk.json"


def test_later_queries_cost_nothing(dpicl, desk, state):
    spent = dpicl("budget", "--json").json
    assert spent["private_sets"][0]["releases"] == 1
    (desk / "tickets.csv").unlink()  # no record is needed any more
    answer = dpicl(*ANSWER, "--state", "desk.json", "--out", "answers.jsonl", "--json").succeed()
    rows = read_rows(desk / "answers.jsonl")
    assert [row["text"] for row in rows] == QUERIES
    assert {row["answer"] for row in rows} <= set(LABELS)
    card = answer.json["card"]
    first = read_card("desk")
    assert card.pop("state_sha256") and card == first and card["privacy"]["queries"] is None
    assert card["manifest"]["embedding"]["name"] == "sim" and answer.json["budgets"] == []
    assert "no further cost" in (desk / "answers.card.md").read_text()
    assert dpicl("budget", "--json").json == spent and "swordfish" not in state.read_text()


@pytest.mark.parametrize("options", [{}, {"head": "logistic", "steps": 2}])
def test_a_state_answers_as_the_release_did(desk, options):
    settings = {"data": "tickets.csv", "labels": LABELS, "model": "sim", "noise": "seeded"}
    options = {"embedding": "sim", **options}
    at_once = package.answer("embedding_centroids", queries=QUERIES, options=options, **settings)
    released = package.release("embedding_centroids", options=options, out="desk.json", **settings)
    assert released.state == Path("desk.json").read_text()
    assert released.answers == {}
    assert not released.demonstrations
    later = package.answer(
        "embedding_centroids", state="desk.json", queries=QUERIES, model="sim", options=options
    )
    assert later.answers == at_once.answers
    assert later.card["warning"] == released.card["warning"] is not None


def test_a_state_is_used_as_it_was_made(dpicl, state):
    used = (*ANSWER, "--state", "desk.json", "--out", "x.jsonl")
    refuse(dpicl(*used, "--data", "tickets.csv"), "--data", "--state")
    refuse(dpicl(*used, "--epsilon", 1), "--epsilon")
    refuse(dpicl(*ANSWER, "--out", "x.jsonl"), "--data", "--state")
    refuse(dpicl(*used, "--option", "head=logistic"), "--option head=centroid")
    refuse(dpicl(*RELEASE, "--out", "y.json", "--format", "messages-openai"), "--format")
    refuse(dpicl("answer", "voting", *used[2:]), "prepares nothing")
    refuse(dpicl("answer", "tang", *used[2:]), "tang releases demonstrations", "{text}", "no cost")
    (state.parent / "prompt.txt").write_text("Text: {text}\nCategory:\n")
    refuse(
        dpicl("answer", *ANSWER[2:], "--state", "prompt.txt", "--out", "x.jsonl"),
        "prompt.txt",
        "{text}",
        "no cost",
    )
    refuse(dpicl(*ANSWER, "--state", "nothing.json", "--out", "x.jsonl"), "nothing.json")
    assert not list(state.parent.glob("x.*"))
    assert not list(state.parent.glob("y.*"))


def test_a_state_names_its_mechanism_and_no_code(dpicl, state):
    used = ("answer", *ANSWER[2:], "--state", "desk.json", "--out")
    dpicl(*used, "a.jsonl").succeed()
    dpicl(*ANSWER, "--state", "desk.json", "--out", "b.jsonl").succeed()
    assert (state.parent / "a.jsonl").read_text() == (state.parent / "b.jsonl").read_text()
    (state.parent / "evil.py").write_text("open('owned', 'w')")
    content = json.loads(state.read_text())
    for name in ("evil.py", "none"):
        state.write_bytes(change(content, "card", "mechanism", to=name))
        refuse(dpicl(*used, "x.jsonl"), name, "--plugin")
    assert not (state.parent / "owned").exists()
    refuse(
        dpicl("answer", *ANSWER[2:], "--data", "tickets.csv", "--epsilon", 1, "--out", "x.jsonl"),
        "MECHANISM",
    )


def change(content: dict, *path: str | int, to: object) -> bytes:
    *inner, last = path
    place = content
    for key in inner:
        place = place[key]
    place[last] = to
    return json.dumps(content).encode()


HOSTILE = {
    "pickle": lambda it: pickle.dumps(it),
    "cut": lambda it: json.dumps(it).encode()[:-20],
    "a card": lambda it: json.dumps(it["card"]).encode(),
    "deep": lambda it: b"[" * 10_000,
    "newer": lambda it: change(it, "schema_version", to=2),
    "another mechanism": lambda it: change(it, "card", "mechanism", to="sga"),
    "a model that would be loaded": lambda it: change(
        it, "card", "options", "embedding", to="st:/evil"
    ),
    "an unknown task": lambda it: change(it, "task", to="../../etc"),
    "other labels": lambda it: change(it, "task", to="agnews"),
    "labels of two lines": lambda it: change(
        it,
        "card",
        "task",
        "labels",
        to=["a\nb", "c", "d"],
    ),
    "no vectors": lambda it: change(it, "state", to={}),
    "no classes": lambda it: change(
        it,
        "state",
        "classes",
        to={"shape": [], "values": [1.0]},
    ),
    "an unknown class": lambda it: change(it, "state", "classes", "values", 0, to=7.0),
    "a number too few": lambda it: change(it, "state", "vectors", "shape", to=[3, 63]),
    "another dimension": lambda it: change(
        it,
        "state",
        "vectors",
        to={
            "shape": [3, 1],
            "values": [1.0, 1.0, 1.0],
        },
    ),
    "an absurd shape": lambda it: change(
        it,
        "state",
        "vectors",
        to={
            "shape": [0, 2**52, 2**52],
            "values": [],
        },
    ),
    "no number": lambda it: change(
        it,
        "state",
        "vectors",
        "values",
        0,
        to=float("nan"),
    ),
    "a truth value": lambda it: change(it, "state", "vectors", "values", 0, to=True),
    "epsilon as a text": lambda it: change(it, "card", "privacy", "epsilon_proved", to="0.1"),
    "numbers too large to multiply": lambda it: change(
        it, "state", "vectors", "values", to=[1.7e308] * len(it["state"]["vectors"]["values"])
    ),
    "not private, without a warning": lambda it: change(it, "card", "private", to=False),
    "words that no prompt takes": lambda it: change(it, "text_is", to="a{text}\x1b[31m"),
    "more keys": lambda it: change(it, "code", to="import os"),
}


def test_a_state_from_somebody_else_is_refused_in_a_sentence(dpicl, state):
    sound = state.read_text()
    for how, make_hostile in HOSTILE.items():
        state.write_bytes(make_hostile(json.loads(sound)))
        answer = dpicl(*ANSWER, "--state", "desk.json", "--out", "x.jsonl")
        assert answer.code == 2, how
        refuse(answer)
        assert not list(state.parent.glob("x.*"))
        assert "--labels" not in answer.err and "--text-is" not in answer.err


def test_what_is_suggested_from_a_state_is_safe_in_a_shell(dpicl, state):
    content = json.loads(state.read_text())
    state.write_bytes(change(content, "card", "options", "clip", to="$(touch owned)"))
    used = (*ANSWER, "--state", "desk.json", "--out", "x.jsonl")
    refuse(dpicl(*used), "--option 'clip=$(touch owned)'")
    state.write_bytes(change(content, "card", "options", "`id`", to=1))
    refuse(dpicl(*used), "other options ('`id`')")
    state.write_bytes(change(content, "card", "options", to={}))
    assert "=None" not in dpicl(*used).err


def test_a_state_too_large_to_read_is_found_before_it_is_paid(desk, monkeypatch):
    monkeypatch.setattr(json_text, "LARGEST", 1000)
    monkeypatch.setattr(json_text.loads, "__defaults__", (1000, True))
    with pytest.raises(PluginError, match="1,000 is the most"):
        package.release("embedding_centroids", data="tickets.csv", labels=LABELS, size=20, model="sim", out="x.json",
                        options={"embedding": "sim"})  # fmt: skip
    assert package.budget() == [] and not list(desk.glob("x.*"))


def test_queries_that_are_no_text_file(dpicl, state):
    used = (
        "answer",
        "embedding_centroids",
        *SIM,
        "--state",
        "desk.json",
        "--out",
        "x.jsonl",
        "--queries",
    )
    os.mkfifo("pipe.txt")
    Path("zero.txt").symlink_to("/dev/zero")
    Path("wide.txt").write_text("hello", encoding="utf-16")
    refuse(dpicl(*used, "pipe.txt"), "not a regular file")  # it was waited for
    refuse(dpicl(*used, "zero.txt"), "not a regular file")  # it was read without an end
    refuse(dpicl(*used, "wide.txt"), "UTF-8")
    Path("lines.txt").write_text("one\u2028still one\x0cand so on\r\ntwo\n")
    dpicl(*used, "lines.txt").succeed()
    assert len(Path("x.jsonl").read_text().splitlines()) == 2


class Asks(EmbeddingCentroids):
    """Prepares what cannot be saved."""

    name = "asks"

    def prepare(self, private, context):
        prepared = super().prepare(private, context)

        class Answers:
            def answer(self, query):
                return prepared.answer(query)

        return Answers()


def test_what_cannot_be_saved_is_said_before_it_is_paid(desk):
    with pytest.raises(PluginError, match="state"):
        package.release(
            Asks(embedding="sim"),
            data="tickets.csv",
            labels=LABELS,
            size=20,
            model="sim",
            out="x.json",
            allow_unchecked=True,
        )
    assert package.budget() == [] and not list(desk.glob("x.*"))


class Forgets(EmbeddingCentroids):
    """Restores something else."""

    name = "forgets"

    def restore(self, state, context):
        return super().restore({**state, "vectors": -state["vectors"]}, context)


class Tells(EmbeddingCentroids):
    """Saves how many records it read."""

    name = "tells"

    def prepare(self, private, context):
        prepared = super().prepare(private, context)
        read = len(
            private.poisson_slots(
                30, None, partition="World", releases=self._releases(context.knob)
            )
            .draw()
            .slots
        )

        @dataclass(frozen=True)
        class Counted(Linear):
            def state(self):
                return {**super().state(), "records": np.array([read])}

        return Counted(prepared.vectors, prepared.labels, prepared.context, prepared.embedding)


@pytest.mark.parametrize(
    ("cls", "check"),
    [(Forgets, public_labels), (Tells, post_processing)],
)
def test_the_kit_looks_at_what_is_saved(cls, check):
    evidence = CheckEvidence(set_up(cls, "agnews", MappingProxyType({}), 0), QUICK)
    assert check(evidence).status == "failed"


@pytest.mark.parametrize(
    "state",
    [
        None,
        {"vectors": np.array([np.nan])},
        {"vectors": np.array(["a"])},
        {1: np.ones(1)},
    ],
)
def test_a_state_that_no_file_can_hold_is_refused(state):
    class Odd:
        def answer(self, query):
            return "a"

        def state(self):
            return state

    with pytest.raises(PluginError):
        check_state(EmbeddingCentroids(), Odd())
