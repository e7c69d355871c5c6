"""Which sizes of passes are chosen, and whether rows are then read alike, by the kernels of several processors.

    python -m benchmarks.row_independence            # here, as a run finds it
    python -m benchmarks.row_independence --shapes   # each set of instructions, number of threads and dtype

--shapes measures in child processes: ONEDNN_MAX_CPU_ISA keeps oneDNN from instructions that this processor has and
others lack, so one machine shows what several would choose. `dpicl.models.pass_shapes` says how sizes are chosen, and
`dpicl.models.readers` how it is seen that no row changes a bit of another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import torch

from benchmarks._report import main
from dpicl import models
from dpicl.models import readers
from dpicl.models.transformers import TransformersLM

#: What ONEDNN_MAX_CPU_ISA may be -> a set of instructions that the processor must have for it.
ISAS = {
    "AVX2": "avx2",
    "AVX512_CORE": "avx512_f",
    "AVX512_CORE_BF16": "avx512_bf16",
    "AVX512_CORE_AMX": "amx_tile",
}
THREADS, DTYPES = ("1", "2"), ("float32", "bfloat16")


def isas() -> list[str]:
    """Those that this processor has."""
    return [isa for isa, needed in ISAS.items() if torch.cpu.get_capabilities().get(needed)]


def run(shapes: bool = False, dtype: str | None = None) -> dict[str, Any]:
    """A row for this process, or one for each child process."""
    settings = [(isa, threads, dtype) for isa in isas() for threads in THREADS for dtype in DTYPES]
    rows = [_child(*each) for each in settings] if shapes else [_here(dtype)]
    return {"name": "row_independence", "agreement": all(row["alike"] for row in rows), "rows": rows}


def _here(dtype: str | None) -> dict[str, Any]:
    model = models.load("embedded", device="cpu", dtype=dtype)
    assert isinstance(model, TransformersLM)
    found = readers.measured(model)
    isa, threads = os.environ.get("ONEDNN_MAX_CPU_ISA", "all"), torch.get_num_threads()
    about = {"isa": isa, "threads": threads, "dtype": model.identity.dtype}
    return {**about, "body": found.body, "output": found.output, "alike": found.alone}


def _child(isa: str, threads: str, dtype: str) -> dict[str, Any]:
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa, "OMP_NUM_THREADS": threads}
    command = [sys.executable, "-m", "benchmarks.row_independence", "--json", "--dtype", dtype]
    made = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True)
    (row,) = json.loads(made.stdout)["rows"]
    return {str(name): value for name, value in row.items()}


def describe(result: dict[str, Any]) -> str:
    """A table in Markdown."""
    lines = [
        "| instructions | threads | dtype | sizes of a pass | of the output layer | rows alike |",
        "|---" * 6 + "|",
    ]
    for row in result["rows"]:
        body, output = (", ".join(map(str, row[name])) for name in ("body", "output"))
        alike = "yes" if row["alike"] else "no"
        lines.append(f"| {row['isa']} | {row['threads']} | {row['dtype']} | {body} | {output} | {alike} |")
    return "\n".join(lines)


if __name__ == "__main__":
    every = {"action": "store_true", "help": "each set of instructions, number of threads and dtype"}
    sys.exit(main(run, __doc__, describe, shapes=every, dtype={"choices": DTYPES, "help": "of the model, here"}))
