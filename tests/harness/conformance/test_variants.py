"""Other settings: what is tried, and what is left out."""

from dataclasses import dataclass
from typing import Literal

from dpicl.conformance.bench import set_up, small_options
from dpicl.conformance.kit import check_mechanism
from dpicl.conformance.variants import variants
from dpicl.core.errors import UsageError
from dpicl.mechanism.options import option_types
from tests.harness.conformance.sound import SoundTokens, SoundVoting


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
    assert {"first": True} in tried and {"second": False} in tried and {"first": True, "second": False} in tried
    assert {"way": "b"} in tried and {"way": "c"} in tried and {"way": "a"} not in tried
    assert {"rate": 0.5} in tried and {"record_tokens": 3} in tried
    assert {"mode": "fancy"} in tried and {"mode": "plain"} not in tried
    assert any(change.get("power") == 0.5 and change.get("most") == 8 for change in tried)
    assert {"most": None} in tried
    assert not any("sampling_seed" in change for change in tried)


def test_a_long_run_is_tried_and_a_large_vocabulary_where_the_model_is_seen():
    assert [variant.long for variant in variants(SoundVoting, "agnews", {})].count(True) == 1
    assert not any(variant.words for variant in variants(SoundVoting, "agnews", {}))
    (long, large) = (v for v in variants(SoundTokens, "agnews", {}) if v.long or v.words)
    bench = set_up(SoundTokens, "agnews", long.changes, 0, long.long)
    assert bench.mechanism.tokens > 10 and set(bench.shots) == set(bench.task.labels)
    assert len(set_up(SoundVoting, "agnews", {}, 0, long=True).queries) > 12
    assert set_up(SoundTokens, "agnews", {}, 0, words=large.words).model.vocab_size > 50_257


def test_options_that_are_given_stay():
    assert not any({"first", "way"} & set(v.changes) for v in variants(Many, "agnews", {"first": True, "way": "b"}))


def test_a_setting_that_the_mechanism_refuses_is_no_failure_and_one_that_breaks_is():
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
    options = {name: value for name, value in small_options(Fragile, "agnews", {}).items() if name in fixed}
    found = {f.check: f.why for f in check_mechanism(Fragile, "agnews", options) if f.status == "failed"}
    assert list(found) == ["no-crash"], found
    assert "With option broken=True: On ordinary records" in found["no-crash"]
