"""`dpicl ginc`: `prepare` trains the model of the task ginc; `shots` shows how its accuracy rises with the number of
real demonstrations (where it does not, the model is too small)."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from dpicl import models
from dpicl.api.parameters import Count, Flag, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Demonstration
from dpicl.data.task import Task
from dpicl.evaluation.lm_eval_bridge import evaluate
from dpicl.models.ginc import prepared
from dpicl.models.weights import file_sha256
from dpicl.tables.document import text_table

#: Numbers of demonstrations that `shots` looks at.
SHOTS = (0, 1, 2, 4, 8)
#: Draws of each number of them.
DRAWS = 5
#: A text that says nothing: one symbol, as often as a record has symbols.
REPEATED = "bv"


@verb("dpicl ginc prepare --size small")
def ginc(
    step: Literal["prepare", "shots"],
    *,
    size: Literal["small", "4", "12", "16"] = "small",
    device: Annotated[str | None, Flag(metavar="D")] = None,
    test_records: Count | None = None,
    draws: Count | None = None,
) -> Answer:
    """Trains the model of the task ginc, or measures its accuracy by the number of real demonstrations.

    step: train the model, or measure it.
    size: of the model (default: small).
    device: cpu, cuda or cuda:N (default: the GPU where there is one).
    test_records: test records that `shots` asks for (default: all).
    draws: draws of the demonstrations (default: 5).
    """
    if step == "shots":
        return _shots(size, device, test_records, draws or DRAWS)
    if draws is not None or test_records is not None:
        raise UsageError("--draws and --test-records go with `dpicl ginc shots`; leave them out.")
    folder = prepared(size, models.device_of(device), train=True)
    digest = file_sha256(folder / "model.safetensors")
    document = {"size": size, "folder": folder, "sha256": digest}
    return Answer(document, [str(folder), f"sha256 {digest}"])


def _shots(size: str, device: str | None, test_records: int | None, draws: int) -> Answer:
    suffix = "" if size == "small" else f":{size}"
    model = models.load(f"ginc{suffix}", device=device)
    task = Task.load("ginc", "synthetic", limit_test=test_records)
    rows = []
    for shots in SHOTS:
        scores = []
        for draw in range(draws if shots else 1):
            chosen = streams(draw).stream("ginc shots").choice(len(task.train), size=shots, replace=False)
            scores.append(evaluate(task, model, [task.train[i] for i in chosen]).scores["acc"])
        length = len(task.train[0].text.split())
        nothing = Demonstration(" ".join([REPEATED] * length), REPEATED)
        repeated = evaluate(task, model, [nothing] * shots).scores["acc"]
        numbers = {"accuracy": float(np.mean(scores)), "deviation": float(np.std(scores)), "repeated": repeated}
        rows.append({"shots": shots, **numbers})
    table = [[str(row["shots"]), *(f"{row[key]:.3f}" for key in numbers)] for row in rows]
    return Answer(rows, [text_table(["shots", "accuracy", "std over draws", "one symbol repeated"], table)])
