"""Was a submission measured on the same records, prompts, test records and model as the results of record?

The reference baselines (`zero_shot`, `real_demonstrations`) set the standard: every recovery on the board is a place
between those two. Records do not depend on the seed (dpicl.harness.run.fingerprints), so one result stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpicl.harness.run.results import Result
from dpicl.harness.run.store import Store
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, by_sentence, verdict
from dpicl.leaderboards.model.comparability import BASELINES, REAL_DATA, REFERENCE, ZERO_SHOT, differing
from dpicl.leaderboards.model.text import names_text


def load_reference(results: Path, suite: str, version: object, suite_hash: str | None) -> list[Result]:
    """All results of record of one version of a suite; damaged files are left out.

    suite_hash: of the suite as it ships, which leaves out trials with other settings (`--limit`, say). None: any.
    """
    found, _ = Store(results, suite).load_all()
    same = [result for result in found if str(result.suite.version) == str(version)]
    return [result for result in same if suite_hash in (None, result.suite.hash)]


def data_check(contents: Contents, reference: Sequence[Result]) -> Finding:
    """Every result against the newest result of a reference baseline on its task and model."""
    oldest_first = sorted(reference, key=lambda one: one.created)
    baselines = {(one.cell.task, one.cell.model): one for one in oldest_first if one.cell.mechanism in BASELINES}
    wrong, missing = [], set()
    for name, result in contents.results.items():
        cell = result.cell
        baseline = baselines.get((cell.task, cell.model))
        if baseline is None:
            missing.add((cell.suite, cell.task, cell.model))
        elif differs := differing(result, baseline, REFERENCE):
            said = f"the results of record for {cell.task} and {cell.model} differ in {names_text(differs)}"
            wrong.append((name, f"{said}; run it with this version of the project and its data."))
    problems = by_sentence(wrong)
    for suite, task, model in sorted(missing):
        problems.append(
            f"There is no result of record for {task} and {model} to compare with; make it with `dpicl run {suite}"
            f" --task {task} --model {model} --mechanism {ZERO_SHOT} --mechanism {REAL_DATA}`."
        )
    count = len({(result.cell.task, result.cell.model) for result in contents.results.values()})
    good = f"records, prompts, test records and weights are those of the results of record ({count} of task and model)"
    return verdict("data", problems, good)
