"""Was a submission measured on the same records, prompts, test records and model as the results of record?

The reference is what both ends of the scale were measured on (`zero_shot`, `real_demonstrations`): every recovery on
the board is a place between those two. Records do not depend on the seed (dpicl.harness.run.fingerprints): one
reference serves all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dpicl.harness.run.results import Result
from dpicl.harness.run.store import Store
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding, by_sentence, not_checked, verdict
from dpicl.leaderboards.model.rows import REAL_DATA, ZERO_SHOT
from dpicl.leaderboards.model.text import names_text

Facts = Mapping[str, object]


def load_reference(results: Path, suite: str, version: object, suite_hash: str | None) -> list[Result]:
    """All results of record of one version of a suite; damaged files are none.

    suite_hash: of the suite as it ships; results with other settings (`--limit`, say) are somebody's trials. None: any.
    """
    found, _ = Store(results, suite).load_all()
    same = [result for result in found if str(result.suite.version) == str(version)]
    return [result for result in same if suite_hash in (None, result.suite.hash)]


def facts_of(result: Result) -> Facts:
    """What must be equal before two results may be compared."""
    manifest = result.manifest
    return {
        "suite hash": result.suite.hash,
        "task version": result.cell.task_version,
        "source of records": manifest.data.source,
        "hash of the records": manifest.data.fingerprint,
        "sizes of the private classes": tuple(sorted(manifest.data.sizes.items())),
        "hash of the prompts": manifest.prompts_hash,
        "hash of the model's weights": manifest.model.sha256 or manifest.model.revision,
        "metric": result.main_metric,
        "set of metrics": (sorted(result.scores), sorted(result.aggregates), sorted(result.skipped_metrics)),
        "test records": {metric: sorted(documents.ids) for metric, documents in result.documents.items()},
    }


def data_check(contents: Contents, reference: Sequence[Result]) -> Finding:
    """Every result against the newest result of an end of the scale on its task and model."""
    if not contents.results:
        return not_checked("data", "there is no result")
    ends: dict[tuple[str, str], Result] = {}
    for result in sorted(reference, key=lambda one: one.created):
        if result.cell.mechanism in (ZERO_SHOT, REAL_DATA):
            ends[result.cell.task, result.cell.model] = result
    differing, missing = [], set()
    for name, result in contents.results.items():
        cell = result.cell
        end = ends.get((cell.task, cell.model))
        if end is None:
            missing.add((cell.suite, cell.task, cell.model))
            continue
        own, wanted = facts_of(result), facts_of(end)
        if differs := [key for key in wanted if own[key] != wanted[key]]:
            said = (
                f"the {names_text(differs)} {'is' if len(differs) == 1 else 'are'} not what the results of record have"
            )
            mend = "run it with this version of the project and its data"
            differing.append((name, f"{said} for {cell.task} and {cell.model}; {mend}."))
    problems = by_sentence(differing)
    for suite, task, model in sorted(missing):
        problems.append(
            f"There is no result of record for {task} and {model} to compare with; make it with `dpicl run {suite}"
            f" --task {task} --model {model} --mechanism {ZERO_SHOT} --mechanism {REAL_DATA}`."
        )
    count = len({(result.cell.task, result.cell.model) for result in contents.results.values()})
    good = f"records, prompts, test records and weights are those of the results of record ({count} of task and model)"
    return verdict("data", problems, good)
