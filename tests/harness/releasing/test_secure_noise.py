"""Secure noise: what leaves a release follows from released values and declared sizes, never from the records."""

import json
import logging
import re
import traceback
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace, TracebackType

import numpy as np
import pytest

from dpicl import models
from dpicl.accounting.accountants import epsilon
from dpicl.accounting.events import from_json
from dpicl.core import seeds
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import Concealed, UsageError
from dpicl.core.seeds import streams
from dpicl.data.concealed import conceal
from dpicl.data.task import Task
from dpicl.mechanisms.real_demonstrations import RealDemonstrations
from dpicl.mechanisms.zero_shot import ZeroShot
from dpicl.models.base import NOT_FINITE
from dpicl.models.simulated import SimulatedLM
from dpicl.releasing.release import release
from tests.harness.local_suite import LABELS, repeated_entropy, rows_of


def entropy():
    """In the place of `secrets` for noise; names of temporary files go on with the true one."""
    return SimpleNamespace(token_bytes=repeated_entropy())


SECRET = "the password of Ada Lovelace is swordfish"
NAMED = ("--labels", ",".join(LABELS), "--size", 40)
SMALL = ("slots=4", "examples_per_slot=1", "tokens=3")
OPTIONS = {
    "tang": (*SMALL, "top_k=10"),
    "pta": SMALL,
    "prism": ("prompts=8", "tokens=3"),
    "voting": ("slots=4", "examples_per_slot=2"),
}


@pytest.fixture
def world(dpicl, own_cache, tmp_path, monkeypatch):
    """world(records, name, mechanism, flags) -> (answer of `dpicl release` or `answer`, texts of the files that it
    wrote), with repeated entropy and a budget of its own."""

    def run(rows, name, mechanism, *flags, of=NAMED):
        monkeypatch.setenv(
            "DPICL_CACHE", str(fresh_budget(own_cache, tmp_path / f"cache of {name}"))
        )
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (folder / "new.txt").write_text("where is my money\nwho won\n")
        verb = (
            ("release",)
            if mechanism in ("tang", "pta", "prism", "talks")
            else ("answer", "--queries", "new.txt")
        )
        chosen = [word for option in OPTIONS.get(mechanism, ()) for word in ("--option", option)]
        words = (
            *verb,
            mechanism,
            "--data",
            "own.jsonl",
            "--per-record",
            *of,
            "--model",
            "sim",
            "--out",
            "out.jsonl",
        )
        settings = () if "--epsilon" in flags else ("--epsilon", 1)
        with monkeypatch.context() as patch:
            patch.setattr(seeds, "secrets", entropy())
            answer = dpicl(*words, *settings, *chosen, *flags)
        return answer, {
            file.name: remove_time(file.read_text()) for file in sorted(folder.glob("out*"))
        }

    return run


def fresh_budget(own_cache: Path, cache: Path) -> Path:
    """A cache folder that knows no private set, with the calibrations of all tests."""
    if not cache.exists():
        (own_cache / "calibration").mkdir(exist_ok=True)
        cache.mkdir()
        (cache / "calibration").symlink_to(own_cache / "calibration")
    return cache


def remove_time(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT[\d:]+\+00:00", "", text)


@pytest.mark.parametrize(
    ("mechanism", "labels"),
    [
        *((mechanism, LABELS) for mechanism in OPTIONS),
        ("tang", LABELS[:3]),
        ("voting", LABELS[:3]),
    ],
)
def test_neighbouring_sets_give_the_same_files_and_output(world, mechanism, labels):
    """Also where a group has no record at all. The record more comes last, and the coins here do not sample it."""
    more = {
        "text": "a wholly different last item with many more words than any other",
        "label": "Technology",
    }
    rows = [row for row in rows_of("train", 30) if row["label"] in labels]
    first, files = world(rows, "one", mechanism)
    second, others = world([*rows, more], "two", mechanism)
    assert first.code == second.code == 0, first.err + second.err
    assert len(files) == 4 and files == others
    streams = [text.replace("cache of one", "cache of two") for text in (first.out, first.err)]
    assert streams == [second.out, second.err]


@pytest.mark.parametrize("mechanism", ["voting", "tang"])
def test_how_many_slots_failed_is_told_nowhere(world, monkeypatch, mechanism):
    read, failures = SimulatedLM.log_probs_after, list[int]()

    def fail_on_records(model, prompt):
        if "story" not in model.decode(prompt):
            return read(model, prompt)
        failures.append(len(prompt))
        return np.full(model.vocab_size, np.nan)

    monkeypatch.setattr(SimulatedLM, "log_probs_after", fail_on_records)
    answer, files = world(rows_of("train", 30), "one", mechanism)
    assert answer.code == 0 and failures, answer.err
    everything = "".join([answer.out, answer.err, *files.values()])
    assert not [word for word in ("failures", "abstained", NOT_FINITE) if word in everything]


def test_answers_to_generation_tasks_are_the_same_too(world, tmp_path):
    rows = [
        {"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."}
        for i in range(900)
    ]
    (tmp_path / "public.jsonl").write_text(
        json.dumps({"dialogue": "Ed: hello", "summary": "Ed greets."}) + "\n"
    )
    known = ("--task", "samsum", "--size", 900, "--public", tmp_path / "public.jsonl")
    options = [
        f"--option={each}"
        for each in ("slots=4", "examples_per_slot=2", "embedding=sim", "candidates=4")
    ]
    more = {"dialogue": "Eve: a new one\nAda: yes", "summary": "Eve is new."}
    first, files = world(rows, "one", "esa", *options, of=known)
    second, others = world([*rows, more], "two", "esa", *options, of=known)
    assert first.code == second.code == 0, first.err + second.err
    assert len(files) == 4 and files == others


def test_rates_come_from_declared_sizes_and_noise_spares_delta(world):
    answer, files = world(rows_of("train", 7), "one", "prism")
    assert answer.code == 0, answer.err
    card = json.loads(files["out.card.json"])
    assert card["manifest"]["data"]["sizes"] == dict.fromkeys(LABELS, 40)
    assert card["manifest"]["data"]["fingerprint"] == "withheld"
    assert card["manifest"]["data"]["dropped"] == {}
    assert '"rate": 0.2' in json.dumps(card["privacy"]["event"])  # 8 of 40, and not of 7
    event = from_json(card["privacy"]["event"])
    delta, proved = card["privacy"]["delta"], card["privacy"]["epsilon_proved"]
    assert epsilon(event, delta - 1e-7).upper == proved <= 1
    assert epsilon(event, delta).upper < proved


def test_a_release_too_dear_in_floating_point_is_refused_first(world):
    answer, files = world(rows_of("train", 30), "one", "tang", "--epsilon", 70)
    assert answer.code == 2 and "floating point" in answer.err and "1e-07" in answer.err
    assert files == {}


PLUGIN = '''
import logging, sys, warnings
import numpy as np
from dataclasses import dataclass
from dp_accounting import dp_event as dp
from dpicl.mechanism.bases import Demonstration, DemonstrationMechanism, Knob

@dataclass(frozen=True)
class Talks(DemonstrationMechanism):
    """Says that it has read a record, in every way there is."""
    name = "talks"
    knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)
    way: str = "none"

    def events(self, knob, sizes):
        return dp.PoissonSampledDpEvent(0.2, dp.GaussianDpEvent(knob))

    def release(self, private, context):
        sample = private.poisson_slots(8, None, partition="World", releases=dp.GaussianDpEvent(context.knob)).draw()
        text, way = ("SECRET", self.way) if sample.slots else ("nothing", "none")
        sample.spend(dp.GaussianDpEvent(context.knob)).noisy_sum(np.zeros(3), 1.0)
        if text != "nothing":
            print(text); print(text, file=sys.stderr)
            warnings.warn(text); logging.getLogger("dpicl.talks").error(text)
        if way == "error":
            raise type(text.replace(" ", "_"), (RuntimeError,), {})(text)
        if way == "usage":
            from dpicl.core.errors import UsageError
            raise UsageError(text)
        if way == "exit":
            raise SystemExit(text)
        if way == "shape":
            return text
        if way == "free":
            return [Demonstration(text, "free", 1)]
        return [Demonstration("text", label, 1) for label in context.shots]
'''


@pytest.mark.parametrize("way", ["error", "usage", "exit", "shape", "free", "none"])
def test_nothing_that_a_mechanism_says_leaves_a_release(world, tmp_path, way):
    (tmp_path / "talks.py").write_text(PLUGIN.replace("SECRET", SECRET))
    flags = ("--plugin", tmp_path / "talks.py", "--allow-unchecked", "--option", f"way={way}")
    answer, files = world(rows_of("train", 30), "one", "talks", *flags)
    assert answer.code == (0 if way == "none" else 2), answer.err
    assert way == "none" or "--noise seeded" in answer.err  # how to see the error
    everything = answer.out + answer.err + "".join(files.values())
    assert "swordfish" not in everything and "Traceback" not in everything
    seeded, _ = world(rows_of("train", 30), "two", "talks", *flags, "--noise", "seeded")
    assert "swordfish" in seeded.out + seeded.err or way == "free"  # there is something to hide


def test_a_concealed_error_holds_no_old_one_and_no_frames():
    def fail():
        private = SECRET
        raise ValueError(private)

    with pytest.raises(Concealed) as caught, conceal(True):
        fail()
    error = caught.value
    assert error.__context__ is None and error.__cause__ is None
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    assert len(frames) == 2  # of this test, and of what conceals
    assert not any(
        isinstance(value, ValueError | TracebackType) for value in frames[1].f_locals.values()
    )
    with pytest.raises(ValueError, match="swordfish"), conceal(False):
        fail()


def test_after_silence_the_process_speaks_as_before(caplog):
    with conceal(True):
        logging.getLogger("dpicl").warning("unheard")
    logging.getLogger("dpicl").warning("heard")
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def test_a_release_that_nobody_is_charged_for_is_refused(own_cache):
    task = replace(
        Task.load("agnews", "synthetic", limit_train=20, limit_test=4),
        declared=dict.fromkeys(LABELS, 20),
    )
    with pytest.raises(UsageError, match="charged"):
        release(
            ZeroShot(),
            task,
            models.load("sim"),
            ReleaseConfig(epsilon=1.0, delta=1e-5, noise="secure"),
        )


def test_counted_sizes_and_no_noise_are_refused_from_python(own_cache):
    task = Task.load("agnews", "synthetic", limit_train=20, limit_test=4)
    with pytest.raises(UsageError, match="declared sizes"):
        release(
            ZeroShot(),
            task,
            models.load("sim"),
            ReleaseConfig(epsilon=1.0, delta=1e-5, noise="secure"),
        )
    known = replace(
        Task.load("agnews", "synthetic", limit_train=20, limit_test=4),
        declared=dict.fromkeys(LABELS, 20),
    )
    config = ReleaseConfig(epsilon=float("inf"), delta=1e-5, noise="secure")
    with pytest.raises(UsageError, match="not private"):
        release(RealDemonstrations(), known, models.load("sim"), config)


def test_calibrate_for_secure_noise_needs_declared_sizes(dpicl):
    flags = "calibrate prism --task agnews --epsilon 1 --option tokens=5 --noise secure"
    assert "give a size" in dpicl(flags).err
    assert "1e-06" in dpicl(flags, "--size", 400, "--delta", 1e-7).err
    answer = dpicl(flags, "--size", 400, "--option", "prompts=40", "--json").succeed()
    assert answer.json["delta"] == 1e-5
    assert answer.json["accounted_delta"] == 1e-5 - 1e-7


def test_the_noise_is_that_of_the_stub(monkeypatch):
    """Else the tests above would compare nothing."""
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(seeds, "secrets", entropy())
        drawn.append(streams(0, "secure").source("noise").gaussian(1.0, 5).tolist())
    assert drawn[0] == drawn[1]
