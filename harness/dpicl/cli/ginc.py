"""`dpicl ginc`: `prepare` trains the model of the task ginc; `shots` shows how its accuracy rises with the number of
real demonstrations (where it does not, the model is too small)."""

from __future__ import annotations

import argparse

import numpy as np

from dpicl import models
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.models.ginc import SIZES, prepared
from dpicl.models.weights import file_sha256

_STEPS = ("prepare", "shots")
#: Numbers of demonstrations that `shots` looks at.
SHOTS = (0, 1, 2, 4, 8)
#: Draws of each number of them.
DRAWS = 5
#: A text that says nothing: one symbol, as often as a record has symbols.
REPEATED = "bv"


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "ginc", "dpicl ginc prepare --size small", _ginc)
    parser.choice("step", _STEPS, "train the model, or measure it", kind="step")
    parser.choice("--size", tuple(SIZES), "of the model (default: small)", default="small")
    parser.add_argument("--device", metavar="D", help="cpu, cuda or cuda:N (default: the GPU where there is one)")
    parser.count("--test-records", "N", "test records that `shots` asks for (default: all)")
    parser.count("--draws", "N", f"draws of the demonstrations (default: {DRAWS})")


def _ginc(arguments: argparse.Namespace) -> int:
    return _prepare(arguments) if arguments.step == "prepare" else _shots(arguments)


def _prepare(arguments: argparse.Namespace) -> int:
    if arguments.draws is not None or arguments.test_records is not None:
        raise UsageError("--draws and --test-records go with `dpicl ginc shots`; leave them out.")
    folder = prepared(arguments.size, models.device_of(arguments.device), train=True)
    digest = file_sha256(folder / "model.safetensors")
    document = {"size": arguments.size, "folder": folder, "sha256": digest}
    output.answer(arguments, document, lambda: output.emit(f"{folder}\nsha256 {digest}"))
    return 0


def _shots(arguments: argparse.Namespace) -> int:
    size = "" if arguments.size == "small" else f":{arguments.size}"
    model = models.load(f"ginc{size}", device=arguments.device)
    task = Task.load("ginc", "synthetic", limit_test=arguments.test_records)
    rows = []
    for shots in SHOTS:
        scores = []
        for draw in range((arguments.draws or DRAWS) if shots else 1):
            chosen = streams(draw).stream("ginc shots").choice(len(task.train), size=shots, replace=False)
            scores.append(evaluate(task, model, [task.train[i] for i in chosen]).scores["acc"])
        length = len(task.train[0].text.split())
        nothing = Demonstration(" ".join([REPEATED] * length), REPEATED)
        repeated = evaluate(task, model, [nothing] * shots).scores["acc"]
        numbers = {"accuracy": float(np.mean(scores)), "deviation": float(np.std(scores)), "repeated": repeated}
        rows.append({"shots": shots, **numbers})
    table = [[str(row.pop("shots")), *(f"{value:.3f}" for value in row.values())] for row in map(dict, rows)]
    heads = ["shots", "accuracy", "std over draws", "one symbol repeated"]
    output.answer(arguments, rows, lambda: output.emit_table(heads, table))
    return 0
