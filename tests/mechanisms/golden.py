"""What every mechanism of the package releases on the model ``sim``: texts, answers and ledgers, as hashes in a file.

``python -m tests.mechanisms.golden`` writes the file anew. On the same inputs it refuses a mechanism whose outputs
changed and whose `version` did not.
"""

import hashlib
import json
import math
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpicl import models
from dpicl.accounting.ledger import Ledger
from dpicl.core.plugins import Registered
from dpicl.core.seeds import streams
from dpicl.core.together import run_together
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import build, option_types, resolve_options
from dpicl.mechanism.outputs import skip_reason
from dpicl.mechanism.registry import load_mechanisms
from dpicl.releasing.execution import Execution

FILE = Path(__file__).parents[1] / "data" / "mechanism_outputs.json"
COMMAND = "python -m tests.mechanisms.golden"
#: One of each kind that ranks mechanisms; a mechanism does one at least.
TASKS = ("agnews", "samsum")
SHOTS, QUERIES, RECORDS = 3, 3, 120


@cache
def load_task(name: str) -> Task:
    return Task.load(name, "synthetic", limit_train=RECORDS, limit_test=QUERIES)


#: Options that a golden output has where the class's own are larger.
SMALL: dict[str, Any] = {
    "slots": 5, "examples_per_slot": 1, "prompts": 8, "tokens": 6, "candidates": 5, "public_slots": 5,
    "words": 3, "rounds": 2, "retries": 2, "variations": 1, "embedding": "sim",
}  # fmt: skip


def small_options(cls: type[Mechanism], task: str) -> dict[str, Any]:
    """A class's options, cut to `SMALL`."""
    fitting = {}
    for name in option_types(cls).keys() & SMALL.keys():
        value, usual = SMALL[name], getattr(cls, name, None)
        if type(usual) is type(value) and (isinstance(value, str) or usual > value):
            fitting[name] = value
    return resolve_options(cls, task, fitting)


def release(cls: type[Mechanism], task: Task, knob: float) -> list[Any]:
    """Everything discrete that one run releases, and what it charged to six digits: the same on every processor."""
    mechanism = build(cls, small_options(cls, task.name))
    randomness = streams(0)
    shots = mechanism.plan_shots(task.public_view(), SHOTS, randomness.stream("shots"))
    ledger = Ledger(None, math.inf)
    execution = Execution(
        mechanism,
        task.public_view(),
        models.load("sim"),
        knob,
        records=task.train,
        sizes=mechanism.public_sizes(task.keep_sizes(), shots, QUERIES),
        sampling=randomness.source("sampling"),
        noise=randomness.source("noise"),
        public=randomness.public,
        ledger=ledger,
        shots=shots,
        queries=() if shots else task.queries(),
    )
    (outcome,) = run_together([execution.run])
    shown = [[each.label, each.text] for each in outcome.prompt.demonstrations]
    return [
        outcome.prompt.instruction,
        shown,
        outcome.answers,
        json.loads(json.dumps(ledger.to_json()), parse_float=_round),
    ]


def _round(number: str) -> str:
    return f"{float(number):.6g}"


def hash_outputs(cls: type[Mechanism]) -> str:
    """sha256 over what it releases without noise, and with some of it."""
    knobs = (
        [0.0]
        if cls.knob is None
        else [
            cls.knob.non_private,
            math.sqrt(cls.knob.low * cls.knob.high),
        ]
    )
    tasks = [
        task
        for task in map(load_task, TASKS)
        if skip_reason(build(cls, {}), task.public_view()) is None
    ]
    outputs = [
        [
            task.name,
            release(cls, task, knob),
        ]
        for task in tasks
        for knob in knobs
    ]
    assert outputs, f"{cls.name} does none of {TASKS}; add a task that it does"
    return hashlib.sha256(json.dumps(outputs).encode()).hexdigest()


def hash_inputs() -> str:
    """sha256 over what the mechanisms are run on: where that changes, other outputs say nothing of a mechanism."""
    model = models.load("sim")
    text = load_task(TASKS[0]).icl_prefix(load_task(TASKS[0]).train[:2])
    row = model.next_token_log_probs([model.encode(text)])[0].numpy().round(3)
    facts = [[task.fingerprint, task.prompts_hash] for task in map(load_task, TASKS)]
    return hashlib.sha256(
        json.dumps(
            [
                facts,
                row.argsort(kind="stable")[-20:].tolist(),
            ]
        ).encode()
    ).hexdigest()


def list_mechanisms() -> dict[str, type[Mechanism]]:
    registry: dict[str, Registered[Mechanism]] = load_mechanisms()
    return {name: one.cls for name, one in sorted(registry.items()) if one.plugin_hash is None}


def read_golden() -> dict[str, dict[str, Any]]:
    golden: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))["mechanisms"]
    return golden


def read_inputs() -> str:
    return str(json.loads(FILE.read_text("utf-8"))["inputs"])


def find_problem(cls: type[Mechanism], outputs: str, golden: dict[str, dict[str, Any]]) -> str:
    """What is to be done about a mechanism, in a sentence; '' where it is as the file says."""
    known = golden.get(cls.name)
    if known == {"version": cls.version, "outputs": outputs}:
        return ""
    if known is None or known["version"] != cls.version:
        return (
            f"{cls.name} has no outputs of version {cls.version} in {FILE.name}; run `{COMMAND}`."
        )
    return (
        f"{cls.name} releases something else than its version {cls.version} did, so its results count as current and"
        f" are not: put `version = {cls.version + 1}` into class {cls.__name__}, and run `{COMMAND}`."
    )


def main() -> int:
    inputs = hash_inputs()
    golden = read_golden() if FILE.exists() and read_inputs() == inputs else {}
    new = {
        name: {"version": cls.version, "outputs": hash_outputs(cls)}
        for name, cls in list_mechanisms().items()
    }
    changed = [
        find_problem(cls, new[name]["outputs"], golden)
        for name, cls in list_mechanisms().items()
        if name in golden and golden[name]["version"] == cls.version and golden[name] != new[name]
    ]
    if changed:
        print(*changed, sep="\n", file=sys.stderr)  # noqa: T201
        return 2
    FILE.write_text(
        json.dumps({"inputs": inputs, "mechanisms": new}, indent=1) + "\n", encoding="utf-8"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
