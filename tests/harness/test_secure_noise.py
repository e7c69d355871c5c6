"""Secure noise: what leaves a run follows from released values and declared sizes, never from the records."""

from __future__ import annotations

import json
import logging
import re
import warnings
from pathlib import Path

import pytest

from dpicl.core import seeds
from dpicl.core.errors import Concealed, DataError, UsageError
from dpicl.core.seeds import accounted_delta, streams
from dpicl.data.concealed import concealed
from dpicl.data.config import load_config
from dpicl.data.task import Task
from dpicl.privacy.accountants import epsilon
from dpicl.privacy.events import from_json
from dpicl.run.results import from_text
from tests.harness.secure_suite import LABELS, repeated_entropy, rows_of, suite, write_records

SECRET = "the password of Ada Lovelace is swordfish"


@pytest.fixture
def world(dpicl, own_cache, tmp_path, monkeypatch):
    """world(train, suite file, name) -> (answer of `dpicl run`, texts of the result files), with repeated entropy and a
    budget of its own."""

    def run(train, path, name="results", *flags):
        monkeypatch.setenv("DPICL_CACHE", str(fresh_budget(own_cache, tmp_path / f"cache of {name}")))
        monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", train)))
        with monkeypatch.context() as patch:
            patch.setattr(seeds.secrets, "token_bytes", repeated_entropy())
            answer = dpicl("run", path, "--results", tmp_path / name, *flags)
        files = {file.name: file.read_text() for file in sorted((tmp_path / name).rglob("*.json"))}
        return answer, files

    return run


def fresh_budget(own_cache: Path, cache: Path) -> Path:
    """A cache folder that knows no private set, with the calibrations of all tests."""
    if not cache.exists():
        (own_cache / "calibration").mkdir(exist_ok=True)
        cache.mkdir()
        (cache / "calibration").symlink_to(own_cache / "calibration")
    return cache


def without_time(text: str) -> str:
    return re.sub(r'"created": "[^"]*"', "", text)


def unsampled() -> dict[str, str]:
    """One record more. In its class it comes last, and the coins of these tests do not sample it."""
    return {"text": "a wholly different last item with many more words than any other", "label": "Technology"}


@pytest.mark.parametrize("each", [30, 0])
def test_neighbouring_sets_give_the_same_files_and_the_same_output(world, tmp_path, each):
    """Also where a group has no record at all."""
    path = suite(tmp_path, "zero_shot", "tang", "pta", "prism", "voting")
    train = rows_of("train", each)
    first, files = world(train, path, "one")
    second, others = world([*train, unsampled()], path, "other")
    assert first.code == second.code == 0, first.err + second.err
    assert len(files) == 5
    assert {name: without_time(text) for name, text in files.items()} == {
        name: without_time(text) for name, text in others.items()
    }
    assert first.err == second.err
    assert first.out.replace("/one", "/other") == second.out


def test_answers_to_generation_tasks_are_the_same_too(dpicl, own_cache, tmp_path, monkeypatch):
    text = (
        "name: private\nversion: 1\nsource: local\nmodel: sim\nseeds: [0]\nepsilons: [1]\nnoise: secure\n"
        "test_records: 4\nsizes: {samsum: 900}\ntasks: [samsum]\nmechanisms:\n"
        "  - {name: esa, options: {slots: 4, examples_per_slot: 2, embedding: sim, candidates: 4}}\n"
    )
    (tmp_path / "private.yaml").write_text(text)
    rows = [{"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."} for i in range(1990)]
    seen = []
    for train in (rows, [*rows, {"dialogue": "Eve: a new one\nAda: yes", "summary": "Eve is new."}]):
        folder = tmp_path / f"data{len(train)}" / "samsum"
        folder.mkdir(parents=True)
        for split, own in (
            ("train", train),
            ("test", [{"dialogue": f"T: ask {i}", "summary": "A."} for i in range(5)]),
        ):
            (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
        monkeypatch.setenv("DPICL_DATA", str(folder.parent))
        monkeypatch.setenv("DPICL_CACHE", str(fresh_budget(own_cache, tmp_path / f"cache{len(train)}")))
        task = Task.load("samsum", "local", sizes={"": 900})
        with monkeypatch.context() as patch:
            patch.setattr(seeds.secrets, "token_bytes", repeated_entropy())
            answer = dpicl("run", tmp_path / "private.yaml", "--results", tmp_path / f"r{len(train)}")
        assert answer.code == 0, answer.err
        (file,) = (tmp_path / f"r{len(train)}").rglob("*.json")
        seen.append((len(task.train), without_time(file.read_text()), answer.err))
    assert seen[0][0] + 1 == seen[1][0]  # the lots leave the new record in the private part
    assert seen[0][1:] == seen[1][1:]


def test_the_first_private_record_beside_a_public_part_does_not_show(monkeypatch, tmp_path):
    """With declared sizes a file that is no longer than its public part leaves a private set without records."""
    public = load_config("samsum")["metadata"]["data"]["public"]["local"]
    rows = [
        {"dialogue": f"Ann: line {i}\nBob: reply {i}", "summary": f"They talk about {i}."} for i in range(public + 1)
    ]
    (tmp_path / "samsum").mkdir()
    monkeypatch.setenv("DPICL_DATA", str(tmp_path))
    (tmp_path / "samsum" / "test.jsonl").write_text('{"dialogue": "T: ask", "summary": "A."}\n')
    for private in (0, 1):
        text = "".join(json.dumps(row) + "\n" for row in rows[: public + private])
        (tmp_path / "samsum" / "train.jsonl").write_text(text)
        task = Task.load("samsum", "local", sizes={"": 900})
        assert (len(task.train), len(task.public), task.size) == (private, public, 900)
        if not private:
            with pytest.raises(DataError, match="public part"):
                Task.load("samsum", "local")


@pytest.mark.parametrize(("noise", "each"), [("secure", 7), ("seeded", 12)])
def test_rates_sizes_and_events_come_from_the_declared_sizes(world, tmp_path, noise, each):
    answer, files = world(rows_of("train", each), suite(tmp_path, "prism", noise=noise))
    assert answer.code == 0, answer.err
    (result,) = [from_text(text) for text in files.values()]
    assert result.manifest.data.sizes == result.cell.sizes == dict.fromkeys(LABELS, 40)
    assert '"rate": 0.2' in json.dumps(result.privacy.event)  # 8 of 40, and not of 7
    assert (result.manifest.data.fingerprint == "withheld") is (noise == "secure")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ("", ["noise: secure needs", "agnews: {World: N, Sports: N, Business: N, Technology: N}"]),
        ("sizes: {agnews: {World: 40}}", ["do not fit the classes", "Technology: N"]),
        ("sizes: {agnews: {World: 40, Sports: 40, Business: 40, Sience: 40}}", ["do not fit the classes"]),
        ("sizes: {agnews: 0}", ["'sizes, agnews'", "whole number"]),
        ("sizes: {agnews: many}", ["'sizes, agnews'", "whole number"]),
        ("sizes: {agnews: {World: 1e400, Sports: 1, Business: 1, Technology: 1}}", ["line 12", "too large"]),
        (f"sizes: {{agnews: {10**400}}}", ["line 12", "too large"]),
        ("sizes: {agnevs: 40}", ["agnevs", "agnews"]),
    ],
)
@pytest.mark.parametrize("command", ["run", "plan"])
def test_sizes_that_are_missing_or_do_not_fit_are_refused_with_what_to_write(dpicl, tmp_path, sizes, words, command):
    path = suite(tmp_path, "prism", sizes=sizes)
    answer = dpicl(command, path, "--results", tmp_path / "results")
    assert answer.code == 2
    assert all(word in answer.err for word in words), answer.err
    assert "Traceback" not in answer.err and not (tmp_path / "results").exists()


@pytest.mark.parametrize(("rows", "epsilon"), [(("prism", "real"), "1"), (("prism",), ".inf")])
@pytest.mark.parametrize("command", ["run", "plan"])
def test_rows_without_noise_need_a_flag(world, dpicl, tmp_path, rows, epsilon, command):
    path = suite(tmp_path, *rows, epsilon=epsilon)
    answer = dpicl(command, path, "--results", tmp_path / "results")
    assert answer.code == 2 and "--reveal-records" in answer.err
    assert not (tmp_path / "results").exists()
    answer, files = world(rows_of("train", 30), path, "results", "--reveal-records")
    assert answer.code == 0, answer.err
    assert len(files) == len(rows)


def test_a_board_of_private_records_has_no_recovery_and_asks_for_no_row_without_noise(world, dpicl, tmp_path):
    path = suite(tmp_path, "zero_shot", "prism", "real")
    assert world(rows_of("train", 30), path, "results", "--reveal-records")[0].code == 0
    for flags in ([], ["--json"]):
        answer = dpicl("board", path, "--results", tmp_path / "results", "--html", tmp_path / "site", *flags)
        assert answer.code == 0, answer.err
    board = dpicl("board", path, "--results", tmp_path / "results", "--json").json
    (table,) = board["sections"][0]["tasks"]
    assert [row["recovery"] for row in table["rows"]] == [None, None, None]
    assert "secure noise" in table["rows"][1]["recovery_note"]
    for standing in (one for ranking in board["sections"][0]["rankings"] for one in ranking["standings"]):
        assert standing["recovery"] is None
    for file in (tmp_path / "results").rglob("*.json"):
        if "real_demonstrations" in str(file):
            file.unlink()
    board = dpicl("board", path, "--results", tmp_path / "results", "--json").json
    assert board["sections"][0]["tasks"][0]["missing"] == []
    assert "real_demonstrations" not in dpicl("board", path, "--results", tmp_path / "results").out


def test_what_is_published_has_no_recovery(world, tmp_path):
    from dpicl.leaderboards.publish.publish import plan

    path = suite(tmp_path, "zero_shot", "prism", "real")
    _, files = world(rows_of("train", 30), path, "results", "--reveal-records")
    rows = plan([from_text(text) for text in files.values()]).rows
    said = json.dumps([[row.rows, row.summary] for row in rows])
    assert '"score"' in said and "recovery" not in said


def test_noise_is_calibrated_below_delta_and_the_target_is_reported(world, tmp_path):
    _, files = world(rows_of("train", 30), suite(tmp_path, "prism"))
    (result,) = [from_text(text) for text in files.values()]
    event = from_json(result.privacy.event)
    assert result.privacy.delta == result.cell.delta == 1e-5
    assert epsilon(event, 1e-5 - 1e-7).upper == result.privacy.epsilon_proved <= 1
    assert epsilon(event, 1e-5).upper < result.privacy.epsilon_proved


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_delta_that_is_too_small_for_secure_noise_is_refused(dpicl, tmp_path, command):
    answer = dpicl(command, suite(tmp_path, "prism", delta="9e-7"), "--results", tmp_path / "results")
    assert answer.code == 2 and "at least 1e-06" in answer.err
    assert accounted_delta(1e-9, "seeded") == 1e-9
    with pytest.raises(UsageError, match="1e-06"):
        accounted_delta(9e-7, "secure")


def test_a_run_that_floating_point_may_cost_too_much_is_refused_before_a_record_is_read(world, tmp_path):
    answer, files = world(rows_of("train", 30), suite(tmp_path, "tang", epsilon="70"))
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
    """Says what it read, in every way there is."""
    name = "talks"
    knob = Knob("noise_multiplier", low=0.05, high=1000.0, non_private=0.0)
    way: str = "none"

    def events(self, knob, sizes):
        return dp.PoissonSampledDpEvent(0.2, dp.GaussianDpEvent(knob))

    def release(self, private, context):
        sample = private.poisson_slots(8, None, partition="World", releases=dp.GaussianDpEvent(context.knob)).draw()
        text = "{secret}"
        sample.spend(dp.GaussianDpEvent(context.knob)).noisy_sum(np.zeros(3), 1.0)
        print(text); print(text, file=sys.stderr)
        warnings.warn(text); logging.getLogger("dpicl.talks").error(text)
        if self.way == "error":
            raise type(text.replace(" ", "_"), (RuntimeError,), {{}})(text)
        if self.way == "usage":
            from dpicl.core.errors import UsageError
            raise UsageError(text)
        if self.way == "exit":
            raise SystemExit(text)
        if self.way == "shape":
            return text
        if self.way == "free":
            return [Demonstration(text, "free", 1)]
        return [Demonstration("text", label, 1) for label in context.shots]
'''


@pytest.mark.parametrize("way", ["error", "usage", "exit", "shape", "free", "none"])
def test_nothing_that_a_mechanism_says_leaves_a_run(world, tmp_path, way):
    (tmp_path / "talks.py").write_text(PLUGIN.format(secret=SECRET))
    path = suite(tmp_path, "zero_shot")
    path.write_text(path.read_text().replace("{name: zero_shot}", f"{{name: talks, options: {{way: {way}}}}}"))
    answer, _ = world(rows_of("train", 30), path, "results", "--plugin", tmp_path / "talks.py")
    assert answer.code == (0 if way == "none" else 2)
    assert way == "none" or "noise: seeded" in answer.err  # how to see the error
    assert_silent(tmp_path, answer.out + answer.err)


@pytest.mark.slow
def test_a_worker_process_says_nothing_either(dpicl_process, tmp_path, monkeypatch):
    (tmp_path / "talks.py").write_text(PLUGIN.format(secret=SECRET))
    path = suite(tmp_path, "zero_shot")
    row = "{name: talks, label: WAY, options: {way: WAY}}"
    rows = "\n  - ".join(row.replace("WAY", way) for way in ("none", "error"))
    path.write_text(path.read_text().replace("{name: zero_shot}", rows))
    monkeypatch.setenv("DPICL_DATA", str(write_records(tmp_path / "data", rows_of("train", 30))))
    flags = ("--engine", "local", "--workers", 1, "--plugin", tmp_path / "talks.py")
    process = dpicl_process("run", path, "--results", tmp_path / "results", *flags)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "noise: seeded" in err, err
    assert len(list((tmp_path / "results").rglob("*.json"))) == 1
    assert_silent(tmp_path, out + err)


def assert_silent(folder: Path, said: str) -> None:
    assert "swordfish" not in said and "Traceback" not in said
    for file in (folder / "results").rglob("*"):
        assert not file.is_file() or "swordfish" not in file.read_text()


def test_a_concealed_error_holds_neither_the_old_one_nor_its_frames():
    def fails():
        private = SECRET
        raise ValueError(private)

    with pytest.raises(Concealed) as caught:
        concealed(True, fails)
    error = caught.value
    assert error.__context__ is None and error.__cause__ is None
    with pytest.raises(ValueError, match="swordfish"):
        concealed(False, fails)


def test_after_silence_the_process_speaks_as_before(caplog):
    assert concealed(True, lambda: 3) == 3
    logging.getLogger("dpicl").warning("heard")
    with pytest.warns(UserWarning, match="heard"):
        warnings.warn("heard", stacklevel=1)


def test_a_line_that_is_no_record_tells_nothing(world, dpicl, tmp_path, monkeypatch):
    path = suite(tmp_path, "prism")
    answer, files = world([*rows_of("train", 3), {"text": SECRET, "label": "Weather"}], path)
    assert answer.code == 2 and files == {}
    assert not re.search(r"line \d|Weather|swordfish", answer.err), answer.err
    assert "noise: seeded" in answer.err


def test_a_release_with_counted_sizes_is_refused_from_python(own_cache):
    from dpicl import models
    from dpicl.core.cell import ReleaseConfig
    from dpicl.mechanisms.real_demonstrations import RealDemonstrations
    from dpicl.mechanisms.zero_shot import ZeroShot
    from dpicl.run.releasing import release

    task = Task.load("agnews", "synthetic", limit_train=20, limit_test=4)
    with pytest.raises(UsageError, match="declared sizes"):
        release(ZeroShot(), task, models.load("sim"), ReleaseConfig(epsilon=1.0, delta=1e-5, noise="secure"))
    known = Task.load("agnews", "synthetic", limit_train=20, limit_test=4, sizes=dict.fromkeys(LABELS, 20))
    config = ReleaseConfig(epsilon=float("inf"), delta=1e-5, noise="secure")
    with pytest.raises(UsageError, match="reveal-records"):
        release(RealDemonstrations(), known, models.load("sim"), config)


@pytest.mark.slow
def test_lm_eval_with_secure_noise_needs_sizes_and_shows_no_row_without_noise(dpicl, monkeypatch):
    for name in ("DPICL_SOURCE", "DPICL_NOISE"):
        monkeypatch.setenv(name, "")  # the command sets them
    flags = ("--tasks", "dpicl_agnews", "--limit", 5, "--model", "sim", "--source", "synthetic", "--noise", "secure")
    for more, word in (
        (("--mechanism", "voting", "--epsilon", 1), "--size"),
        (("--mechanism", "voting", "--epsilon", 1, "--delta", "1e-7", "--size", 2000), "1e-06"),
        (("--mechanism", "voting", "--epsilon", "inf", "--size", 2000), "--reveal-records"),
        (("--mechanism", "real_demonstrations", "--epsilon", "inf", "--size", 2000), "--reveal-records"),
    ):
        answer = dpicl("lm-eval", *more, *flags)
        assert answer.code == 2 and word in answer.err, answer.err
    answer = dpicl("lm-eval", "--mechanism", "voting", "--epsilon", 1, "--size", 2000, *flags, "--json")
    assert answer.code == 0, answer.err
    assert answer.json["config"]["dpicl"]["dpicl_agnews"]["epsilon_proved"] <= 1


def test_calibrate_for_secure_noise_needs_declared_sizes(dpicl):
    flags = ("calibrate", "prism", "--task", "agnews", "--epsilon", 1, "--option", "tokens=5", "--noise", "secure")
    assert "give a size" in dpicl(*flags).err
    assert "1e-06" in dpicl(*flags, "--size", 400, "--delta", 1e-7).err
    answer = dpicl(*flags, "--size", 400, "--option", "prompts=40", "--json")
    assert answer.code == 0, answer.err
    assert (answer.json["delta"], answer.json["accounted_delta"]) == (1e-5, 1e-5 - 1e-7)


def test_the_sampling_coins_and_the_noise_are_those_of_the_stub(monkeypatch):
    """Else the tests above would compare nothing."""
    drawn = []
    for _ in range(2):
        monkeypatch.setattr(seeds.secrets, "token_bytes", repeated_entropy())
        drawn.append(streams(0, "secure").source("noise").gaussian(1.0, 5).tolist())
    assert drawn[0] == drawn[1]
