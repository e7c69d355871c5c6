"""Runs some cells of a submission again, and puts what comes out beside what was reported.

The cells are drawn with a seed from the submission's content, so nobody chooses them. On the same processor, device,
dtype and packages everything must be identical: noise is seeded. Elsewhere rounding moves a token now and then, and
with it everything after it; then scores must agree within 2 standard errors of one cell, or 0.02 if that is larger.
"""

from __future__ import annotations

import math
import os
import random
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import pstdev

from dpicl.harness.core.errors import PluginError, UsageError
from dpicl.harness.run.results import Result, from_text
from dpicl.leaderboards.gate.code import ask_worker, may_run, plugins, trusting, workplace
from dpicl.leaderboards.gate.consistency import contradiction
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, verdict
from dpicl.leaderboards.gate.folder import LARGEST_FILE, read_plain
from dpicl.leaderboards.gate.ledgers import SAME, problem_of
from dpicl.leaderboards.model.submissions import Reproduction

#: Seconds for one cell; smallest difference of scores that counts on another machine.
CELL_SECONDS = 3600.0
SLACK = 0.02
_HUB = "HF_HUB_CACHE"


@dataclass(frozen=True)
class Again:
    """One cell twice. problem: what is wrong with the second, or "". same_place: see the module."""

    reported: Result
    reproduced: Result
    same_place: bool
    identical: bool
    problem: str

    def reproduction(self, by: str) -> Reproduction:
        """As reproduced.json has it."""
        cell, again = self.reported.cell, self.reproduced
        return Reproduction(
            cell_id=self.reported.cell_id,
            task=cell.task,
            epsilon=cell.epsilon,
            seed=cell.seed,
            reported=_score(self.reported),
            reproduced=_score(again),
            identical=self.identical,
            by=by,
            created=again.created,
            commit=again.manifest.commit,
        )


def sample(contents: Contents, count: int, seed: int | None = None) -> tuple[int, list[Result]]:
    """(seed, cells): drawn without replacement from all cells, in the order of their ids."""
    seed = int(contents.hash[:8], 16) if seed is None else seed
    results = sorted(contents.results.values(), key=lambda result: result.cell_id)
    return seed, random.Random(seed).sample(results, min(count, len(results)))


def rerun(contents: Contents, chosen: list[Result], run_code: bool, seconds: float = CELL_SECONDS) -> list[Again]:
    """Runs the cells again. Raises UsageError where their code may not run, PluginError where it fails."""
    if reason := may_run(contents, run_code):
        raise UsageError(f"{contents.name} cannot be run again: {reason}.")
    suite = chosen[0].suite
    with workplace() as folder:
        job = {
            "kind": "rerun",
            "plugins": plugins(contents, folder),
            "suite": suite.model_dump(mode="json"),
            "cells": [result.cell.model_dump(mode="json") for result in chosen],
            "results": str(folder / "results"),
        }
        written = ask_worker(job, folder, seconds * len(chosen), _needed(chosen))
        names = written if isinstance(written, list) and len(written) == len(chosen) else [""] * len(chosen)
        again = []
        for result, name in zip(chosen, names, strict=True):
            one = compared(result, _written(folder / "results", name))
            again.append(one if one.problem else replace(one, problem=_unsound(one.reproduced)))
    return again


def _written(results: Path, name: object) -> Result:
    """The result at a place that the process named; it ran what was sent. Raises PluginError."""
    path = Path(str(name))
    try:
        if not path.resolve().is_relative_to(results.resolve()):
            raise ValueError("not in the folder that it was given")
        return from_text((read_plain(path, LARGEST_FILE) or b"").decode())
    except (ValueError, RecursionError, OSError):
        raise PluginError("The mechanism's process wrote no result; run it with `dpicl run --plugin`.") from None


def _unsound(found: Result) -> str:
    """What this process finds wrong with what the other one wrote: its ledger accounted for again, and in itself."""
    problem = problem_of(found) or contradiction(_from_a_commit(found), datetime.now(UTC))
    return f"the result of the re-run is unsound, {problem.rstrip('.')}" if problem else ""


def _from_a_commit(result: Result) -> Result:
    """The result as if it had been run from a clean commit: which code re-runs is the business of `--record`."""
    manifest = result.manifest.model_copy(update={"commit": "0" * 40, "dirty": False})
    return result.model_copy(update={"manifest": manifest})


def _needed(chosen: list[Result]) -> dict[str, str]:
    """What a run needs of the environment: records of a local source, and models that were downloaded before."""
    more = {}
    if any(result.cell.source == "local" for result in chosen) and "DPICL_DATA" in os.environ:
        more["DPICL_DATA"] = str(Path(os.environ["DPICL_DATA"]).expanduser().absolute())
    if any(result.cell.model.startswith("hf:") for result in chosen):
        hub = os.environ.get(_HUB) or Path(os.environ.get("HF_HOME", "~/.cache/huggingface")).expanduser() / "hub"
        more[_HUB] = str(hub)  # the models alone: tokens lie beside this folder
    return more


def compared(reported: Result, again: Result) -> Again:
    """Both results of one cell."""
    same_place = _place(reported) == _place(again)
    same_texts = (reported.released, reported.answers) == (again.released, again.answers)
    same_outcomes = reported.documents[reported.main_metric] == again.documents.get(reported.main_metric)
    identical = same_texts and same_outcomes and again.cell_id == reported.cell_id
    difference = abs(_score(again) - _score(reported))
    allowed = allowed_difference(reported)
    problem = ""
    if again.cell_id != reported.cell_id:
        problem = "another cell came out"
    elif abs(again.privacy.epsilon_proved - reported.privacy.epsilon_proved) > SAME * reported.privacy.epsilon_proved:
        problem = "another epsilon is proved"
    elif same_place and not identical:
        problem = "on the same processor, device, dtype and packages it is not identical"
    elif difference > allowed:
        problem = f"the scores differ by {difference:.3f}, more than {allowed:.3f}"
    return Again(reported, again, same_place, identical, problem)


def allowed_difference(result: Result) -> float:
    """What a score may differ by on another machine: 2 standard errors of the cell, or `SLACK` if that is larger."""
    outcomes = result.documents[result.main_metric].outcomes
    return max(SLACK, 2 * pstdev(outcomes) / math.sqrt(len(outcomes)))


def _place(result: Result) -> tuple[object, ...]:
    manifest = result.manifest
    packages = {name: version for name, version in manifest.packages.items() if name != "dpicl-bench"}
    return manifest.dtype, manifest.device, manifest.python, tuple(sorted(packages.items())), manifest.machine.cpu


def rerun_check(contents: Contents, cells: list[Again], seed: int) -> Finding:
    """Whether what was reported came out again."""
    problems = [
        f"{one.reported.cell}: reported {_score(one.reported):.3f}, now {_score(one.reproduced):.3f}: {one.problem}."
        for one in cells
        if one.problem
    ]
    identical = sum(one.identical for one in cells)
    drawn = f"{len(cells)} of {len(contents.results)} cells (drawn with seed {seed})"
    good = f"{drawn} came out again, {identical} identical{trusting(contents)}"
    return verdict("rerun", problems, good)


def _score(result: Result) -> float:
    return result.scores[result.main_metric].value
