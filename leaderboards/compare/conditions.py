"""What must be equal before two results may be compared, and what may differ because it is what is compared."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.harness.run.fingerprints import fingerprint_of
from dpicl.harness.run.results import Result
from dpicl.leaderboards.compare.sides import weights


@dataclass(frozen=True)
class Condition:
    """Something that must be equal. remedy: what to do when it is not."""

    name: str
    of: Callable[[Result], Any]
    remedy: str


_DATA = "give both runs the same records (`--source`, DPICL_DATA)"
_SUITE = "run both sides with the same suite file and the same flags"
_CODE = "run the base again with the code of the candidate"

CONDITIONS: tuple[Condition, ...] = (
    Condition("source of records", lambda r: (r.cell.source, r.manifest.data.source), _DATA),
    Condition("data fingerprint", fingerprint_of, _DATA),
    Condition("task version", lambda r: r.cell.task_version, _CODE),
    Condition("prompts hash", lambda r: r.manifest.prompts_hash, _CODE),
    Condition("main metric", lambda r: r.main_metric, _CODE),
    Condition("mechanism", lambda r: r.cell.mechanism, _SUITE),
    Condition("δ", lambda r: (r.cell.delta, r.privacy.delta), _SUITE),
    Condition("number of shots", lambda r: r.cell.shots, _SUITE),
    Condition("options", lambda r: json.dumps(r.cell.options, sort_keys=True), _SUITE),
    Condition("number of queries", lambda r: (r.cell.queries, r.privacy.queries), _SUITE),
    Condition("number of private records", lambda r: r.cell.train_records, _SUITE),
    Condition("declared sizes", lambda r: r.cell.sizes, _SUITE),
    Condition("kind of noise", lambda r: r.cell.noise, _SUITE),
)
_DOCUMENTS = "run both sides on the same test records (`--limit`, DPICL_DATA)"


def differing(one: Result, other: Result, metric: str | None = None) -> list[tuple[Condition, str, str]]:
    """(condition, its value in one, in the other) for every one that differs; metric: whose documents are compared."""
    found = [
        (condition, _text(condition.of(one)), _text(condition.of(other)))
        for condition in CONDITIONS
        if condition.of(one) != condition.of(other)
    ]
    mine, theirs = ({*_ids(result, metric)} for result in (one, other))
    if mine != theirs:
        shared = f"{len(mine & theirs)} shared"
        condition = Condition("set of test documents", lambda r: sorted(_ids(r, metric)), _DOCUMENTS)
        found.append((condition, f"{len(mine)} documents", f"{len(theirs)} documents, {shared}"))
    return found


def _ids(result: Result, metric: str | None) -> Sequence[str]:
    documents = result.documents.get(metric or result.main_metric) or result.documents.get(result.main_metric)
    return documents.ids if documents else ()


@dataclass(frozen=True)
class Change:
    """Something that may differ: its values on either side, sorted; equal where nothing changed."""

    name: str
    base: tuple[str, ...]
    candidate: tuple[str, ...]

    @property
    def changed(self) -> bool:
        return self.base != self.candidate


def changes(base: Sequence[Result], candidate: Sequence[Result]) -> tuple[Change, ...]:
    """What the two sides were made with: model, weights, dtype, device, commit, packages, plug-ins, noise."""
    named: tuple[tuple[str, Callable[[Result], str]], ...] = (
        ("model", lambda r: r.cell.model),
        ("model name", lambda r: r.manifest.model.name),
        ("weights", weights),
        ("dtype", lambda r: r.manifest.dtype),
        ("device", lambda r: r.manifest.device),
        ("commit", lambda r: (r.manifest.commit or "not a checkout") + (" with changes" if r.manifest.dirty else "")),
        ("Python", lambda r: r.manifest.python),
        ("plug-in files", lambda r: r.cell.plugin or ""),
        ("suite", lambda r: f"{r.suite.name}, version {r.suite.version}"),
    )
    found = [Change(name, _values(base, of), _values(candidate, of)) for name, of in named]
    packages = {name for result in (*base, *candidate) for name in result.manifest.packages}
    for name in sorted(packages):

        def version(result: Result, name: str = name) -> str:
            return result.manifest.packages.get(name, "")

        found.append(Change(name, _values(base, version), _values(candidate, version)))
    return tuple(found)


def _values(results: Sequence[Result], of: Callable[[Result], str]) -> tuple[str, ...]:
    return tuple(sorted({of(result) for result in results} - {""}))


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        parts = list(dict.fromkeys(map(str, value)))
        return " / ".join(parts)
    text = str(value)
    return text if len(text) <= 80 else text[:77] + "…"
