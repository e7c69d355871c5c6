"""A mechanism whose outputs change has another version, by which its results are known to be old."""

from dataclasses import dataclass

import pytest

from dpicl.mechanisms.voting import Voting
from tests.mechanisms import golden

MECHANISMS = golden.list_mechanisms()


@pytest.mark.parametrize("name", MECHANISMS)
def test_outputs_are_those_of_the_version(name: str) -> None:
    cls = MECHANISMS[name]
    assert golden.find_problem(cls, golden.hash_outputs(cls), golden.read_golden()) == ""


def test_the_mechanisms_run_on_what_the_file_was_made_on() -> None:
    message = f"the model sim or a synthetic corpus changed, which says nothing of mechanisms; run `{golden.COMMAND}`"
    assert golden.read_inputs() == golden.hash_inputs(), message


def test_the_file_has_the_mechanisms_of_the_package_and_no_other() -> None:
    assert golden.read_golden().keys() == MECHANISMS.keys()


def test_only_changed_outputs_need_another_version() -> None:
    @dataclass(frozen=True)
    class Rewritten(Voting):
        def answer(self, query, sample, context):
            answer = super().answer(query, sample, context)
            return answer

    @dataclass(frozen=True)
    class Shouting(Voting):
        def answer(self, query, sample, context):
            return f"{super().answer(query, sample, context)}!"

    @dataclass(frozen=True)
    class Raised(Shouting):
        version = 2

    known = golden.read_golden()
    assert golden.find_problem(Rewritten, golden.hash_outputs(Rewritten), known) == ""
    assert "put `version = 2` into class Shouting" in golden.find_problem(
        Shouting, golden.hash_outputs(Shouting), known
    )
    assert golden.find_problem(Raised, golden.hash_outputs(Raised), known).endswith(
        f"run `{golden.COMMAND}`."
    )
