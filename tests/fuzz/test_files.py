"""Whatever a file holds, only our own errors come out: seeded mutations of every kind of file from outside, or that
may be damaged. What a reader lets pass goes on to what uses it: a board, a page's text, prompts. What a model server
answers is mutated in tests/harness/models/test_server.py.
"""

import io
import json
import os
import random
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas
import pytest

from dpicl import answer, release
from dpicl.attacks.results import attack_from_text
from dpicl.core.errors import DataError, DpiclError, ResultError, UsageError
from dpicl.core.files import own_folder
from dpicl.core.json_text import to_plain
from dpicl.core.output_cache import OutputCache
from dpicl.core.paths import find_suite, private_folder
from dpicl.core.vocabulary import Record
from dpicl.data.config import TASKS, load_config
from dpicl.data.reading import read_records
from dpicl.data.task import Task
from dpicl.data.task_file import read_task_file
from dpicl.leaderboards.gate.card import read_card
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.evidence import build_attacks
from dpicl.leaderboards.render.as_json import board_json
from dpicl.mechanism.registry import load_mechanisms
from dpicl.own import budget
from dpicl.own.private_ledger import machine_key
from dpicl.own.records import OwnRecords, queries_of
from dpicl.plan.expand import expand
from dpicl.plan.suite_files import choice_path, load_suite
from dpicl.program import parse
from dpicl.results.fingerprints import AtHand
from dpicl.results.schema import from_text, to_text
from tests.fuzz.mutations import mutate
from tests.harness.core.test_output_cache import ask_again
from tests.harness.local_suite import LABELS, rows_of
from tests.harness.own.test_budget import ONE, records, write_ledger
from tests.leaderboards.gate.conftest import CARD
from tests.leaderboards.shown import render_attacks, render_terminal

ROOT = Path(__file__).parents[2]
SHEET = "xl/worksheets/sheet1.xml"
ROWS = pandas.DataFrame(rows_of("train", 2))
OWN = OwnRecords(labels={label: label for label in LABELS})
PREPARED = {"mechanism": "embedding_centroids", "model": "sim", "options": {"embedding": "sim"}}


def use_result(path: Path) -> None:
    with suppress(ValueError):
        result = from_text(path.read_text("utf-8"))
        board = build_board([result])
        render_terminal(board, color=False)
        json.dumps(board_json(board))
        to_text(result)


def use_attack(path: Path) -> None:
    with suppress(ValueError):
        render_attacks(build_attacks([attack_from_text(path.read_text("utf-8"))]), color=False)


def use_suite(path: Path) -> None:
    expand(load_suite(path), load_mechanisms())


def use_choice(path: Path) -> None:
    """What `dpicl tune` chose, beside its suite."""
    suite = path.with_name("suite.yaml")
    suite.write_bytes(find_suite("ginc").read_bytes())
    use_suite(suite)


def use_task(path: Path) -> None:
    """Everything that a run does with a task's file before it has a model."""
    with suppress(UnicodeDecodeError):
        config = read_task_file(path.read_text("utf-8"), "task.yaml", "agnews", built_in=False)
        records = [Record("a text", label) for label in config.labels]
        task = Task.from_records(config, records, None)
        assert config.source and task.prompts_hash and task.stop_strings and task.main_metric
        assert len(task.plan_shots(3, np.random.default_rng(0))) == 3
        for style in ("completion", "chat"):
            task.generation_prompt(task.labels[0], records[:1], style)
            task.generation_prompt(task.labels[0], (), style)
        assert task.icl_prefix(records) is not None


def use_records(path: Path) -> None:
    read_records(path, load_config("agnews").source).check()


def use_rows(path: Path) -> None:
    """A file that somebody gives to `dpicl release`: its fields are guessed, and every record is read."""
    read_records(path, OWN.spec(path)).check()


def use_ledger(path: Path) -> None:
    """What `dpicl budget` says of it, and what a release looks at."""
    os.replace(path, private_folder() / "budget-tickets.jsonl")
    for stands in budget.read_sets():
        json.dumps(to_plain(stands))
        assert stands["sum_epsilon"] >= 0


def use_key(path: Path) -> None:
    os.replace(path, own_folder() / "key")
    assert len(machine_key()) == 32


def use_outputs(path: Path) -> None:
    """Whatever happened to the file, no other answer than the model's comes from it."""
    folder = path.parent / "outputs"
    shutil.rmtree(folder, ignore_errors=True)
    OutputCache(folder).put("sim", "agnews", {b"": 0})
    os.replace(path, next(folder.iterdir()))
    ask_again(folder)


@dataclass(frozen=True)
class Kind:
    """files: sound ones. use: reads one, and what follows. errors: what its docstring promises for any other. name: of
    the file; its ending may say what it is. finish: what somebody does to a damaged file who wants to be believed."""

    files: Callable[[], list[bytes]]
    use: Callable[[Path], object]
    errors: tuple[type[Exception], ...] = (DpiclError,)
    name: str = "file"
    finish: Callable[[bytes], bytes] = bytes


def of(*contents: str | bytes) -> Callable[[], list[bytes]]:
    return lambda: [each.encode() if isinstance(each, str) else each for each in contents]


def reseal(content: bytes) -> bytes:
    """A ledger whose hashes fit its lines."""
    with suppress(ValueError, RecursionError):
        content = write_ledger([json.loads(line) for line in content.splitlines()])
    return content


def pack(sheet: bytes) -> bytes:
    """The workbook with this sheet."""
    with zipfile.ZipFile(WORKBOOK) as old, zipfile.ZipFile(new := io.BytesIO(), "w") as file:
        for name in old.namelist():
            file.writestr(name, sheet if name == SHEET else old.read(name))
    return new.getvalue()


def read_committed(pattern: str) -> Callable[[], list[bytes]]:
    paths = sorted((ROOT / "results").glob(pattern))
    return of(*(path.read_bytes() for path in paths[:: len(paths) // 8]))


def _ledgers() -> list[bytes]:
    for limit in (None, 9.0):
        budget.charge(records(0, 3), ONE, budget.ChargeTo("tickets", total_epsilon=limit))
    return [(private_folder() / "budget-tickets.jsonl").read_bytes()]


def _states() -> list[bytes]:
    return [
        release(
            **PREPARED,
            data=ROWS,
            labels=LABELS,
            noise="seeded",
        ).state.encode()
    ]


def _outputs() -> list[bytes]:
    folder = private_folder().with_name("sound outputs")
    ask_again(folder)
    return [path.read_bytes() for path in folder.iterdir()]


LINES = ROWS.to_json(orient="records", lines=True)
TABLES = {
    "json": ROWS.to_json(orient="records"),
    "csv": ROWS.to_csv(index=False),
    "parquet": ROWS.to_parquet(),
}
ROWS.to_excel(WORKBOOK := io.BytesIO(), index=False)
TABLES["xlsx"] = WORKBOOK.getvalue()
KINDS = {
    "result": Kind(read_committed("[!a]*/**/*.json"), use_result),
    "attack": Kind(read_committed("attacks/**/*.json"), use_attack),
    "suite": Kind(
        of((ROOT / "tests/data/sim_suite.yaml").read_text()),
        use_suite,
        (UsageError,),
    ),
    "choice": Kind(
        of(choice_path(find_suite("ginc")).read_bytes()),
        use_choice,
        (UsageError,),
        "suite.tuned.yaml",
    ),
    "parameters": Kind(
        of("limit: 3\nepsilon: [1, .inf]\ntask: agnews\noption: {prism.prompts: 6}\n"),
        lambda path: parse(["plan", "quick", "--config", str(path)]),
        (UsageError,),
    ),
    "task": Kind(of((TASKS / "agnews/task.yaml").read_bytes()), use_task),
    "records": Kind(of(LINES), use_records, (DataError,), "file.jsonl"),
    **{
        f"records in {end}": Kind(of(rows), use_rows, (DataError,), f"file.{end}")
        for end, rows in TABLES.items()
    },
    "a sheet of records": Kind(
        of(zipfile.ZipFile(WORKBOOK).read(SHEET)), use_rows, (DataError,), "file.xlsx", pack
    ),
    "queries": Kind(
        of(LINES),
        lambda path: queries_of(path, OWN),
        (DataError,),
        "file.jsonl",
    ),
    "state": Kind(
        _states,
        lambda path: answer(
            **PREPARED,
            state=path,
            queries=["a text"],
        ),
    ),
    "card": Kind(of(CARD), read_card, (UsageError,)),
    "ledger": Kind(_ledgers, use_ledger, finish=reseal),
    "key": Kind(of("ab" * 32), use_key, (ResultError,)),
    "noted records": Kind(
        of(json.dumps({"fingerprint": "0" * 64, "test": "1" * 64})), AtHand.read, ()
    ),
    "output cache": Kind(_outputs, use_outputs, ()),
}


@pytest.mark.parametrize(
    ("count", "seed"),
    [
        (30, 0),
        pytest.param(1250, 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_only_our_own_errors_come_out(
    kind: str, fresh_cache: Path, tmp_path: Path, count: int, seed: int
) -> None:
    one, rng, longest = KINDS[kind], random.Random(f"{kind} {seed}"), 0
    path = tmp_path / one.name
    files = one.files()
    for content in files:  # sound ones
        path.write_bytes(one.finish(content))
        one.use(path)
    for _ in range(count):
        content = one.finish(mutate(rng.choice(files), rng))
        path.write_bytes(content)
        try:
            one.use(path)
        except one.errors as error:
            longest = max(longest, len(str(error)))
        except Exception as error:
            (tmp_path / "kept").write_bytes(content)
            raise AssertionError(
                f"{type(error).__name__} for a {kind}: {content[:3000]!r}"
            ) from error
    assert longest < 3000
