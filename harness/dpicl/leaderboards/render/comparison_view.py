"""Two releases of a model compared: the gate's verdict first, then what changed and every cell (docs/releases.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import asdict
from operator import attrgetter
from typing import Any

from dpicl.core.printable import visible
from dpicl.leaderboards.compare.pairing import Key, Unmatched
from dpicl.leaderboards.compare.sides import Change, Side
from dpicl.leaderboards.compare.verdicts import CellVerdict, Comparison
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.notes import MOST_NAMED, Note, Weight, gathered, named
from dpicl.leaderboards.model.text import counted, epsilon_text, names_text, p_number, score_text, seeds_text
from dpicl.tables.document import (
    Block,
    Column,
    Facts,
    Heading,
    Part,
    Table,
    make_table,
    notes,
    to_markdown,
    words,
)

_KINDS = {"regression": "flagged", "improvement": "first", "not tested": "end"}


def _label(cell: CellVerdict) -> str:
    return cell.key.label + (f" ({cell.key.suite})" if cell.key.suite else "")


def _epsilon(cell: CellVerdict) -> str:
    return epsilon_text(cell.key.epsilon) + ("" if cell.key.mode == "proved" else f" ({cell.key.mode})")


def _detectable(cell: CellVerdict) -> str | None:
    if cell.test is None:
        return None
    return "none" if cell.test.detectable is None else score_text(cell.test.detectable)


_CELLS = (
    Column("task", "task", attrgetter("key.task"), lambda task: visible(task, 120)),
    Column("metric", "metric", attrgetter("metric")),
    Column("row", "mechanism", _label),
    Column("epsilon", "ε", _epsilon),
    Column("seeds", "seeds", lambda cell: len(cell.seeds)),
    Column("documents", "documents", attrgetter("documents")),
    Column("base", "base", attrgetter("base"), score_text),
    Column("candidate", "candidate", attrgetter("candidate"), score_text),
    Column("difference", "change", attrgetter("difference"), "{:+.3f}".format),
    Column(
        "interval",
        "95% interval",
        lambda cell: cell.test and (cell.test.low, cell.test.high),
        lambda own: f"{own[0]:+.3f} to {own[1]:+.3f}",
    ),
    Column("p", "p (Holm)", lambda cell: cell.test and cell.test.adjusted, p_number),
    Column("mde", "MDE (80% power)", _detectable),
    Column("verdict", "verdict", lambda cell: cell.verdict + (", ε too large" if cell.privacy else ""), wide=True),
)


def comparison_blocks(comparison: Comparison) -> list[Block]:
    """What changed, and a table for each task and metric."""
    blocks: list[Block] = [words(_title(comparison), "flag" if comparison.regressed else "lead")]
    blocks += [words(f"{s.name}: {visible(s.path, 120)}, {counted(len(s.results))}") for s in _sides(comparison)]
    blocks += notes(_change_lines(comparison))
    for task, metric in dict.fromkeys((cell.key.task, cell.metric) for cell in comparison.cells):
        cells = [cell for cell in comparison.cells if (cell.key.task, cell.metric) == (task, metric)]
        less = " (less is better)" if cells[0].less_is_better else ""
        documents = counted(max(cell.documents for cell in cells), "document")
        blocks.append(Heading(f"{visible(task, 120)}: {metric_name(metric)}{less}, {documents}"))
        shown = tuple(one for one in _CELLS if one.key not in ("task", "metric", "documents"))
        blocks.append(make_table(task, shown, cells, kind=_kind, keep=2))
    return [*blocks, *notes(_notes(comparison))]


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown: what changed for certain first, the rest folded."""
    blocks: list[Block] = [Heading(_title(comparison))]
    blocks.append(Facts({f"{side.name}, {counted(len(side.results))}": side.path for side in _sides(comparison)}))
    changed = [one for one in comparison.changes if one.changed]
    columns = (
        Column("name", "what changed", attrgetter("name")),
        Column("base", "base", lambda one: ", ".join(_short(one)[0]) or "none"),
        Column("candidate", "candidate", lambda one: ", ".join(_short(one)[1]) or "none"),
    )
    if changed:
        blocks.append(make_table("what changed", columns, changed, keep=3))
    certain = [cell for cell in comparison.cells if cell.fails or cell.verdict == "improvement"]
    if certain:
        blocks.append(_cells_table(certain))
    if rest := [cell for cell in comparison.cells if cell not in certain]:
        summary = f"{counted(len(rest), 'cell')} equivalent, inconclusive or not tested"
        blocks.append(Part((_cells_table(rest),), summary))
    return to_markdown([*blocks, *notes(_notes(comparison))])


def _sides(comparison: Comparison) -> tuple[Side, Side]:
    return comparison.base, comparison.candidate


def _cells_table(cells: list[CellVerdict]) -> Table:
    shown = (one for one in _CELLS if one.key != "documents")
    return make_table("cells", shown, cells, kind=_kind, keep=3)


def _kind(cell: CellVerdict) -> str:
    return "flagged" if cell.fails else _KINDS.get(cell.verdict, "")


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the terminal and Markdown show. Infinity is left to the writer (`json_text.plain`)."""
    return {
        **{
            side.name: {"path": side.path, "results": len(side.results), "foreign": list(map(str, side.foreign))}
            for side in _sides(comparison)
        },
        "settings": asdict(comparison.settings),
        "changes": [{**asdict(change), "changed": change.changed} for change in comparison.changes],
        **{name: getattr(comparison, name) for name in ("tested", "regressed", "incomplete")},
        "cells": [_cell_json(cell) for cell in comparison.cells],
        "missing": [_unmatched_json(one) for one in comparison.missing],
        "unmatched": [_unmatched_json(one) for one in comparison.unmatched],
    }


def _unmatched_json(one: Unmatched) -> dict[str, Any]:
    return {"side": one.side, **_key_json(one.key), "seeds": one.seeds, "whole_row": one.whole}


def _key_json(key: Key) -> dict[str, Any]:
    return {"task": key.task, "mechanism": key.label, "epsilon": key.epsilon, "mode": key.mode, "suite": key.suite}


def _cell_json(cell: CellVerdict) -> dict[str, Any]:
    test = cell.test
    names = ("metric", "less_is_better", "seeds", "documents", "base", "candidate", "difference", "verdict", "note")
    return {
        **_key_json(cell.key),
        **{name: getattr(cell, name) for name in (*names, "privacy")},
        "interval": test and [test.low, test.high],
        "p": test and test.p,
        "p_adjusted": test and test.adjusted,
        "excluded": test and test.excluded,
        "detectable_drop": test and test.detectable,
        "metric_missing": cell.missing,
        "proved_epsilon": {"base": cell.proved[0], "candidate": cell.proved[1]},
    }


def _notes(comparison: Comparison) -> Iterator[str]:
    """What a reader must know beside the numbers."""
    settings, cells = comparison.settings, comparison.cells
    too_large = [
        Note(Weight.REFUTED, f"{cell.key} ({_proved(cell)})", f": {cell.privacy}", unit="cells")
        for cell in cells
        if cell.privacy
    ]
    yield from gathered(too_large)
    yield from _without_partner(comparison)
    yield (
        f"Regression: Holm's p over {counted(comparison.tested, 'cell')} is at most {settings.alpha:g} and the loss"
        f" at least {settings.min_effect:g}; intervals are not adjusted. MDE (80% power): the smallest true drop that"
        f" this cell would show with probability 0.8 at {settings.alpha:g}/{max(comparison.tested, 1)} (none: no drop"
        " shows)."
    )
    if any(cell.test and len(cell.seeds) == 1 and cell.key.epsilon > 0 for cell in cells):
        yield (
            "With one seed a test is about these releases: other noise may move all documents together. Run more seeds"
            " to test the mechanism."
        )
    if any(cell.less_is_better for cell in cells):
        yield "The change of a metric of which less is better has its sign reversed: negative is always a loss."
    yield from gathered(Note(Weight.SEEDS, str(c.key), f": {c.note}", unit="cells") for c in cells if c.note)


def _without_partner(comparison: Comparison) -> Iterator[str]:
    """What one side lacks; first the base's, since a row that is not there may be the one that got worse."""
    lacking = [f"{cell.metric} of {cell.key}" for cell in comparison.cells if cell.missing]
    lacking += [_lone(one) for one in comparison.missing]
    extra = [_lone(one) for one in comparison.unmatched if one.side == "candidate"]
    for head, found in (("Missing in candidate", lacking), ("Only in candidate", extra)):
        if found:
            more = "; --json lists them all" if len(found) > MOST_NAMED else ""
            yield f"{head}{f' ({len(found)})' if len(found) > 1 else ''}: {named(found)}{more}."
    if comparison.incomplete:
        yield "What is missing fails the gate; --allow-missing leaves it out."


def _lone(one: Unmatched) -> str:
    return f"{one.key}, seed {seeds_text(one.seeds)}" + ("" if one.whole else " (the row is on both sides)")


def _title(comparison: Comparison) -> str:
    """The verdict of the gate first, and why: 'GATE FAILS: 8 rows missing; 2 cells compared (2 tested)'."""
    gone = {one.key for one in comparison.missing if one.whole}
    partly = {one.key for one in comparison.missing} | {cell.key for cell in comparison.cells if cell.missing}
    lacking = [f"{counted(len(gone), 'row')} missing"] if gone else []
    lacking += [f"{counted(len(partly - gone), 'row')} incomplete"] if partly - gone else []
    worse, better = comparison.count("regression"), comparison.count("improvement")
    too_large = sum(bool(cell.privacy) for cell in comparison.cells)
    said = [counted(worse, "regression")] if worse else []
    said += [f"{too_large} proved ε too large"] if too_large else []
    said += lacking if comparison.incomplete else []
    said += [counted(better, "improvement")] if better else []
    counts = ((comparison.count(name), name) for name in ("equivalent", "inconclusive"))
    said = said or [f"{number} {name}" for number, name in counts if number] or ["nothing tested"]
    said += [] if comparison.incomplete else [f"{one} (allowed)" for one in lacking]
    cells = f"{counted(len(comparison.cells), 'cell')} compared ({comparison.tested} tested)"
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(said)}; {cells}"


def _change_lines(comparison: Comparison) -> list[str]:
    changed = [change for change in comparison.changes if change.changed]
    if not changed:
        commits = next((one.base for one in comparison.changes if one.name == "commit"), ())
        what = "model, weights, dtype, device, commit, Python, plug-ins, suite and packages"
        unclear = any(len(commit.split()) > 1 for commit in commits)
        more = f"; the commit does not say which code ran ({names_text(commits)})" if unclear else ""
        return [f"Nothing that is recorded changed: the same {what}{more}."]
    return [
        f"{one.name}: " + " → ".join(", ".join(visible(v, 120) for v in side) or "none" for side in _short(one))
        for one in changed
    ]


def _short(change: Change) -> list[list[str]]:
    """The values on either side, hashes by their beginning."""
    sides = (change.base, change.candidate)
    return [[v[:16] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", v) else v for v in side] for side in sides]


def _proved(cell: CellVerdict) -> str:
    base, candidate = map(epsilon_text, cell.proved)
    return f"target {epsilon_text(cell.key.epsilon)}, proved {base} → {candidate}"
