"""Other settings: what is tried, and what is left out."""

import itertools
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal

from dpicl.conformance.bench import set_up
from dpicl.conformance.kit import check_mechanism
from dpicl.conformance.scales import ORDINARY, scales
from dpicl.conformance.variants import cover_pairs, variants
from dpicl.core.errors import UsageError
from dpicl.mechanism.options import option_types
from tests.harness.conformance.sound import SoundOwnSlots, SoundTokens, SoundVoting


@dataclass(frozen=True)
class Many(SoundVoting):
    name = "many"
    first: bool = False
    second: bool = True
    way: Literal["a", "b", "c"] = "a"
    mode: str = "plain"
    rate: float | None = None
    most: int | None = 7
    power: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if self.mode not in ("plain", "fancy"):
            raise UsageError("no such mode")


def test_flags_choices_numbers_and_what_is_off_are_tried():
    tried = [dict(variant.changes) for variant in variants(Many, "agnews", {})]
    assert {"first": True} in tried and {"second": False} in tried
    assert {"way": "b"} in tried
    assert {"way": "c"} in tried
    assert {"way": "a"} not in tried
    assert {"rate": 0.5} in tried and {"record_tokens": 3} in tried
    assert {"mode": "fancy"} in tried and {"mode": "plain"} not in tried
    assert not any("sampling_seed" in change for change in tried)
    for first, second in (
        ({"first": True}, {"second": False}),
        ({"way": "c"}, {"power": 0.5}),
        ({"most": None}, {"rate": 0.5}),
    ):
        assert any({**change, **first, **second} == change for change in tried)
    assert {"power": 2.0} in tried


def test_any_two_options_have_any_two_values_in_some_row():
    @dataclass(frozen=True)
    class Picky(Many):
        name = "picky"

        def __post_init__(self):
            super().__post_init__()
            if self.first and self.way == "b":
                raise UsageError("not together")

    levels: dict[str, list[Any]] = {
        "first": [False, True],
        "second": [True, False],
        "way": ["a", "b", "c"],
        "power": [1.0, 0.5, 2.0],
    }
    usual = {name: values[0] for name, values in levels.items()}
    rows = [{**usual, **row} for row in cover_pairs(Picky, levels, {})]
    assert not any(row["first"] and row["way"] == "b" for row in rows)
    for a, b in itertools.combinations(levels, 2):
        expected = {*itertools.product(levels[a], levels[b])} - {(usual[a], usual[b])}
        assert {(row[a], row[b]) for row in rows} >= expected - {(True, "b")}
    assert len(rows) <= 11


def test_scales_have_many_of_everything_and_other_classes():
    assert {scale.title for scale in scales(SoundVoting, "agnews", {})} == {
        "many queries, demonstrations and records",
        "its own sizes, many slots and records",
        "two classes of unequal size, and sums above 256",
        "sums of 128",
    }
    many, large, limits, long, words = (
        set_up(SoundTokens, "agnews", {}, 0, scale) for scale in scales(SoundTokens, "agnews", {})
    )
    assert len(many.queries) > 65
    assert len(many.shots) >= 9
    assert len(many.task.train) >= 2000
    assert large.mechanism.slots > 64 and len(large.task.train) >= 2000
    assert len(large.task.labels) == 14
    assert any(large.task.labels.index(label) >= 4 for label in large.shots)
    smallest, *_, largest = sorted(large.task.group_sizes.values())
    assert largest >= 10 * smallest
    assert len(limits.task.labels) == 2
    assert {*limits.task.group_sizes} == {*limits.task.labels}
    assert long.mechanism.tokens > 70 and words.model.vocab_size > 50_257
    (limited,) = (scale for scale in scales(SoundOwnSlots, "agnews", {}) if scale.limits)
    bench = set_up(SoundOwnSlots, "agnews", {}, 0, limited)
    assert bench.task.size == 256 == bench.mechanism.slots  # every record is in every sample


def test_sizes_exceed_the_codes_numbers_and_tasks_are_its_names():
    @dataclass(frozen=True)
    class Numbers(SoundTokens):
        name = "numbers"
        published = {"trec": {"slots": 7}}

        def should_stop(self, rows, model):
            return len(rows) > 90 or len(rows) == 130 or len(rows) == 5000

    module = ModuleType("numbers_of_a_plugin")
    module.Numbers = Numbers
    Numbers.__module__ = Numbers.should_stop.__module__ = module.__name__
    sys.modules[module.__name__] = module
    try:
        by_title = {scale.title: scale for scale in scales(Numbers, "agnews", {})}
    finally:
        del sys.modules[module.__name__]
    assert by_title["many queries, demonstrations and records"].queries == 131
    large = by_title["its own sizes, many slots and records"]
    assert large.least == {"slots": 131, "prompts": 131, "examples_per_slot": 6}
    assert large.least_records == 2000
    assert by_title["the sizes of trec"].options(Numbers, "trec", {})["slots"] == 7


def test_options_that_are_given_stay():
    assert not any(
        {"first", "way"} & set(v.changes)
        for v in variants(Many, "agnews", {"first": True, "way": "b"})
    )


def test_a_refused_setting_is_no_failure_and_a_broken_one_is():
    @dataclass(frozen=True)
    class Fragile(SoundVoting):
        name = "fragile"
        refused: bool = False
        broken: bool = False

        def __post_init__(self):
            super().__post_init__()
            if self.refused:
                raise UsageError("not this one")

        def winner(self, counts, sample, context):
            if self.broken:
                raise KeyError("not there")
            return super().winner(counts, sample, context)

    fixed = option_types(Fragile).keys() - {"refused", "broken"}
    options = {
        name: value
        for name, value in ORDINARY.options(Fragile, "agnews", {}).items()
        if name in fixed
    }
    findings = {
        f.check: f.why for f in check_mechanism(Fragile, "agnews", options) if f.status == "failed"
    }
    assert list(findings) == ["no-crash"], findings
    assert "With option broken=True: On ordinary records" in findings["no-crash"]
