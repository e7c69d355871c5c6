"""Whatever a plug-in raises, wherever it raises it, is a failed check: no traceback, no pass."""

import pytest
from dp_accounting import dp_event

from dpicl.conformance.bench import set_up
from dpicl.conformance.checking import QUICK, CheckEvidence
from dpicl.conformance.kit import check_mechanism, check_on_one_bench
from dpicl.core.errors import PluginError
from tests.harness.conformance.sound import SoundVoting

RAISED = [kind() for kind in (SystemExit, MemoryError, StopIteration, GeneratorExit)]


class Unreadable(Exception):
    def __str__(self):
        raise TypeError("nor this")


def raising(error):
    def method(self, *arguments, **options):
        raise error

    return method


def failures(cls, task="agnews"):
    return {
        finding.check: finding.why
        for finding in check_mechanism(cls, task=task)
        if finding.status != "not applicable"
    }


@pytest.mark.parametrize(
    "error", [*RAISED, Unreadable(), ValueError("\udc80 \x1b[31m\n")], ids=repr
)
def test_an_answer_that_raises_anything_fails_one_check(error):
    cls = type("Raises", (SoundVoting,), {"name": "raises", "answer": raising(error)})
    findings = failures(cls)
    assert list(findings) == ["no-crash"]
    assert type(error).__name__ in findings["no-crash"]
    assert findings["no-crash"].isprintable()
    assert findings["no-crash"].isascii()


@pytest.mark.parametrize(
    ("method", "error"),
    [
        ("events", SystemExit(3)),
        ("skip", RuntimeError("no")),
        ("release", RuntimeError("no")),
        ("__post_init__", SystemExit(3)),
    ],
)
def test_any_method_that_raises_is_a_failure(method, error):
    cls = type("Raises", (SoundVoting,), {"name": "raises", method: raising(error)})
    assert type(error).__name__ in " ".join(failures(cls).values())


@pytest.mark.parametrize(
    "reason",
    [3, True, "", ["no"]],
    ids=repr,
)
def test_a_reason_to_skip_that_is_no_text_is_an_error(reason):
    cls = type(
        "Odd",
        (SoundVoting,),
        {"name": "odd", "skip": lambda self, task: reason},
    )
    with pytest.raises(PluginError, match="skip"):
        check_mechanism(cls)


def test_events_that_are_nested_without_end_are_a_failure():
    def events(self, knob, sizes):
        event = SoundVoting.events(self, knob, sizes)
        for _ in range(5000):
            event = dp_event.ComposedDpEvent([event])
        return event

    assert "RecursionError" in " ".join(
        failures(
            type(
                "Deep",
                (SoundVoting,),
                {"name": "deep", "events": events},
            )
        ).values()
    )


@pytest.mark.parametrize(
    "claim",
    [
        raising(SystemExit()),
        lambda *_: "1",
        lambda *_: -1.0,
    ],
)
def test_a_claim_that_raises_or_is_no_number_fails_the_budget(claim):
    cls = type("Claims", (SoundVoting,), {"name": "claims", "paper_epsilon": claim})
    verdicts = check_on_one_bench(
        CheckEvidence(set_up(cls, "agnews", {}, seed=0), QUICK), ["budget"]
    )
    assert verdicts["budget"].status == "failed"


def test_a_mechanism_that_computes_for_ever_is_stopped(monkeypatch):
    def answer(self, query, sample, context):
        while True:
            try:
                sum(range(1000))
            except Exception:
                continue

    monkeypatch.setattr("dpicl.conformance.bench.RUN_SECONDS", 0.2)
    cls = type("Endless", (SoundVoting,), {"name": "endless", "answer": answer})
    assert "more than 0.2 s of processor time" in failures(cls)["no-crash"]
