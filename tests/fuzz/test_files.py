"""Whatever a file holds, only our own errors come out: seeded mutations of every kind of file from outside, or that
may be damaged. What a reader lets pass goes on to what uses it: a board, a page's text, prompts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpicl.attacks.results import attack_from_text
from dpicl.core.errors import DataError, DpiclError, ResultError, UsageError
from dpicl.core.files import own_folder
from dpicl.core.json_text import plain
from dpicl.core.output_cache import OutputCache
from dpicl.core.paths import private_folder
from dpicl.data import config as task_config
from dpicl.data.config import TASKS
from dpicl.data.reading import read_records
from dpicl.data.task import Record, Task
from dpicl.data.task_file import read_task_file
from dpicl.leaderboards.gate.card import read_card
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render.as_json import board_json
from dpicl.mechanism.registry import load_mechanisms
from dpicl.own import budget
from dpicl.own.private_ledger import Charge, Limit, PrivateLedger, machine_key
from dpicl.own.records import OwnRecords, queries_of
from dpicl.plan.expand import expand
from dpicl.plan.suite import load_suite
from dpicl.privacy.events import gaussian, to_json
from dpicl.results.fingerprints import AtHand
from dpicl.results.schema import from_text, to_text
from tests.fuzz.mutations import mutated
from tests.harness.test_output_cache import asked_again
from tests.leaderboards.factory import make_result
from tests.leaderboards.gate.conftest import CARD
from tests.leaderboards.shown import render_attacks, render_terminal

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def use_result(path: Path) -> None:
    with contextlib.suppress(ValueError):
        result = from_text(_text(path))
        board = build_board([result])
        render_terminal(board, color=False)
        json.dumps(board_json(board))
        to_text(result)


def use_attack(path: Path) -> None:
    with contextlib.suppress(ValueError):
        render_attacks(build_attacks([attack_from_text(_text(path))]), color=False)


def use_suite(path: Path) -> None:
    expand(load_suite(path), load_mechanisms())


def use_task(path: Path) -> None:
    """Everything that a run does with a task's file before it has a model."""
    with contextlib.suppress(UnicodeDecodeError):
        config = read_task_file(_text(path), "task.yaml", "agnews", built_in=False)
        records = [Record("a text", label) for label in config.labels]
        task = Task.of_records(config, records, None)
        assert config.source and task.prompts_hash and task.stop_strings and task.main_metric
        assert len(task.plan_shots(3, np.random.default_rng(0))) == 3
        for style in ("completion", "chat"):
            task.generation_prompt(task.labels[0], records[:1], style)
            task.generation_prompt(task.labels[0], (), style)
        assert task.icl_prefix(records) is not None


def use_records(path: Path) -> None:
    read_records(path, task_config.load_config("agnews").source).checked()


def use_rows(path: Path) -> None:
    """A file that somebody gives to `dpicl release`: its fields are guessed, and every record is read."""
    own = OwnRecords(labels={label: label for label in ("World", "Sports", "Business", "Sci/Tech")})
    read_records(path, own.spec(path)).checked()


def use_queries(path: Path) -> None:
    queries_of(path, OwnRecords(labels={"World": "World", "Sports": "Sports"}))


def use_ledger(path: Path) -> None:
    """What `dpicl budget` says of it, and what a release looks at."""
    os.replace(path, private_folder() / "budget-tickets.jsonl")
    for stands in budget.read_sets():
        json.dumps(plain(stands))
        assert stands["sum_epsilon"] >= 0


def use_key(path: Path) -> None:
    os.replace(path, own_folder() / "key")
    assert len(machine_key()) == 32


def use_outputs(path: Path) -> None:
    """Whatever happened to the file, no other answer than the model's comes from it."""
    folder = path.parent / "outputs"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    OutputCache(folder).put("sim", "agnews", {b"": 0})
    os.replace(path, next(folder.iterdir()))
    asked_again(folder)


@dataclass(frozen=True)
class Kind:
    """files: sound ones. use: reads one, and what follows. errors: what its docstring promises for any other. name: of
    the file; its ending may say what it is. finish: what somebody does to a damaged file who wants to be believed."""

    files: Callable[[], list[bytes]]
    use: Callable[[Path], object]
    errors: tuple[type[Exception], ...] = (DpiclError,)
    name: str = "file"
    finish: Callable[[bytes], bytes] = bytes


def resealed(content: bytes) -> bytes:
    """A ledger whose hashes fit its lines."""
    try:
        return write_ledger([json.loads(line) for line in content.splitlines()])
    except (ValueError, RecursionError):
        return content


def write_ledger(lines: list[Any]) -> bytes:
    """The lines of a ledger, each with the hash of those before it."""
    text = ""
    for number, line in enumerate(lines):
        if isinstance(line, dict) and number and line.get("before") is not None:
            line = {**line, "before": hashlib.sha256(text.encode()).hexdigest()}
        if isinstance(line, dict) and number == len(lines) - 1:
            line["lines"] = text.count("\n") if type(line.get("lines")) is int else line.get("lines")
        text += json.dumps(line) + "\n"
    return text.encode()


def _some(pattern: str, most: int) -> list[bytes]:
    found = sorted(RESULTS.glob(pattern), key=lambda path: (path.stat().st_size, path.name))
    return [path.read_bytes() for path in found[:: max(1, len(found) // most)]][:most]


RECORDS = "".join(
    json.dumps({"text": f"story {i}", "label": label, "id": i}) + "\n"
    for i, label in enumerate(("World", "Sports", "Business", "Sci/Tech") * 2)
)


CSV = "id,text,label\n" + "".join(f'{i},"story, {i}",{("World", "Sports")[i % 2]}\n' for i in range(6))


def _results() -> list[bytes]:
    made = [make_result(), make_result("zero_shot"), make_result("real_demonstrations")]
    return [*(to_text(result).encode() for result in made), *_some("[!a]*/**/*.json", 5)]


def _ledgers() -> list[bytes]:
    charge = Charge(when=WHEN, what={"mechanism": "tang"}, event=to_json(gaussian(4.0)), epsilon=1.0, delta=1e-5)
    ledger = PrivateLedger.begun("tickets", WHEN).charged(charge, frozenset([b"0" * 12]))
    ledger = ledger.limited(Limit(when=WHEN, total_epsilon=3.0, delta=1e-5)).charged(charge, frozenset([b"1" * 12]))
    ledger.write()
    return [(private_folder() / "budget-tickets.jsonl").read_bytes()]


WHEN = "2026-01-02T03:04:05+00:00"
QUERIES = b"".join(json.dumps({"text": f"query {i}", "id": i}).encode() + b"\n" for i in range(4))


def _outputs() -> list[bytes]:
    folder = private_folder().with_name("sound outputs")
    asked_again(folder)
    return [path.read_bytes() for path in folder.iterdir()]


_NOTED = json.dumps({"fingerprint": "0" * 64, "test": "1" * 64}).encode()
KINDS = {
    "result": Kind(_results, use_result),
    "attack": Kind(lambda: _some("attacks/**/*.json", 8), use_attack),
    "suite": Kind(lambda: [(ROOT / "tests/data/sim_suite.yaml").read_bytes()], use_suite, (UsageError,)),
    "task": Kind(lambda: [(TASKS / "agnews/task.yaml").read_bytes()], use_task),
    "records": Kind(lambda: [RECORDS.encode()], use_records, (DataError,), "file.jsonl"),
    "records in JSON": Kind(
        lambda: [f"[{','.join(RECORDS.splitlines())}]".encode()], use_rows, (DataError,), "file.json"
    ),
    "records in CSV": Kind(lambda: [CSV.encode()], use_rows, (DataError,), "file.csv"),
    "queries": Kind(lambda: [QUERIES], use_queries, (DataError,), "file.jsonl"),
    "card": Kind(lambda: [CARD.encode()], read_card, (UsageError,)),
    "ledger": Kind(_ledgers, use_ledger, finish=resealed),
    "key": Kind(lambda: [b"ab" * 32], use_key, (ResultError,)),
    "noted records": Kind(lambda: [_NOTED], AtHand.read, ()),
    "output cache": Kind(_outputs, use_outputs, ()),
}


@pytest.mark.parametrize(("count", "seed"), [(30, 0), pytest.param(1250, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_only_our_own_errors_come_out(kind: str, fresh_cache: Path, tmp_path: Path, count: int, seed: int):
    rng, longest = random.Random(f"{kind} {seed}"), 0
    one = KINDS[kind]
    path = tmp_path / one.name
    files = one.files()
    for content in files:  # sound ones
        path.write_bytes(content)
        one.use(path)
    for _ in range(count):
        content = one.finish(mutated(rng.choice(files), rng))
        path.write_bytes(content)
        try:
            one.use(path)
        except one.errors as error:
            longest = max(longest, len(str(error)))
        except Exception as error:
            (tmp_path / "kept").write_bytes(content)
            raise AssertionError(f"{type(error).__name__} for a {kind}: {content[:3000]!r}") from error
    assert longest < 3000
