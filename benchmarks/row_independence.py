"""How far one record moves the answers of *other* slots: not at all, in any number format.

    python -m benchmarks.row_independence --json
    python -m benchmarks.row_independence --shapes

Sixteen prompts with one record each are read twice; in between the first one's record is replaced by a longer one.
Reported for bfloat16 and float32: the largest L2 move of another prompt's next-token distribution, and of the sum over
the other prompts, beside sqrt(2), by which the replaced one may move. Reading the prompts one by one is the reference:
it costs more time. The answers agree when no other row moves, and each is what it is when it is read by itself.

With --shapes, the sizes of passes that are chosen (`dpicl.models.pass_shapes`) are printed instead, as a table
of docs/accounting.md: for the kernels of every set of instructions that this processor has, with one and two threads.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch

from benchmarks._report import main, report, timed
from dpicl import models
from dpicl.data.task import Task
from dpicl.models.base import LanguageModel

#: What ONEDNN_MAX_CPU_ISA may be -> a set of instructions that the processor must have for it.
ISAS = {
    "AVX2": "avx2",
    "AVX512_CORE": "avx512_f",
    "AVX512_CORE_BF16": "avx512_bf16",
    "AVX512_CORE_AMX": "amx_tile",
}
_CHOSEN = """
from dpicl import models
from dpicl.models import pass_shapes
from dpicl.models.reading import OUTPUT_SHAPES, SHAPES
model, groups = models.load("embedded", dtype="{dtype}"), []
last = model.model.get_output_embeddings()
for modules, sizes in ((set(model.model.modules()) - {{last}}, SHAPES), ([last], OUTPUT_SHAPES)):
    classes = pass_shapes.classes(pass_shapes.probes(model.model, modules), sizes)
    groups.append(" ".join("{{" + ", ".join(map(str, group)) + "}}" for group in classes))
said = "yes" if model.identity.batch_invariant else "no"
print(*groups, model.shapes.body, model.shapes.output, said, model.identity.arithmetic, sep=" | ")
"""
LABEL = "Village"
PROMPTS = 16


def run() -> dict[str, Any]:
    """Moves in both number formats, and what one batch saves over single prompts."""
    task = Task.load("dbpedia", "auto", limit_train=200, limit_test=1)
    records = sorted((r for r in task.train if r.label == LABEL), key=lambda r: len(r.text))
    middle = len(records) // 2
    usual, longer = records[middle : middle + PROMPTS], records[-len(records) // 4]
    moves: dict[str, dict[str, float]] = {}
    seconds = {}
    for dtype in ("bfloat16", "float32"):
        model = models.load("embedded", dtype=dtype)
        before = [model.encode(task.generation_prompt(LABEL, [record])) for record in usual]
        after = [model.encode(task.generation_prompt(LABEL, [longer])), *before[1:]]
        distributions, seconds[dtype] = timed(partial(_probabilities, model, before))
        change = (_probabilities(model, after) - distributions)[1:]
        moves[dtype] = {
            "largest_of_another_row": float(change.norm(dim=1).max()),
            "of_the_sum_of_the_others": float(change.sum(dim=0).norm()),
            "share_of_sqrt_2": float(change.sum(dim=0).norm()) / math.sqrt(2),
        }
    single, alone = timed(lambda: torch.cat([_probabilities(model, [prompt]) for prompt in before]))
    still = all(move["largest_of_another_row"] == 0 for move in moves.values())
    agreement = still and bool((single == distributions).all())
    return report("row_independence", seconds["float32"], alone, agreement, moves=moves, source=task.source)


def isas() -> list[str]:
    """Those whose kernels this processor can run."""
    there = torch.cpu.get_capabilities()
    return [isa for isa, needed in ISAS.items() if there.get(needed)]


def shapes() -> Iterator[str]:
    """The lines of the table: each of a process of its own, since oneDNN looks at its settings once."""
    head = ("kernels", "threads", "dtype", "classes", "of the output layer", "chosen", "output", "alone", "arithmetic")
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for isa in isas():
        for threads in ("1", "2"):
            for dtype in ("bfloat16", "float32"):
                environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": threads}
                command = [sys.executable, "-c", _CHOSEN.format(dtype=dtype)]
                said = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
                yield f"| {isa} | {threads} | {dtype} | {said.strip().splitlines()[-1]} |"


def _probabilities(model: LanguageModel, prompts: list[list[int]]) -> torch.Tensor:
    """float64[B, V]."""
    return model.next_token_log_probs(prompts).double().exp()


if __name__ == "__main__":
    if "--shapes" in sys.argv:
        for line in shapes():
            print(line, flush=True)
    else:
        main(run)
