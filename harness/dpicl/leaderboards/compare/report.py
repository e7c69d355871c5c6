"""Two releases of a model compared: the gate's verdict first, then what changed and every cell (docs/releases.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from dpicl.core.messages import MOST_NAMED, count, epsilon_text, named, names_text, score_text
from dpicl.core.printable import visible
from dpicl.leaderboards.compare.releases import CellVerdict, Comparison, Unmatched
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.text import gathered, p_number, seeds_text
from dpicl.tables.document import Block, Column, Facts, Heading, Part, Table, make_table, notes, to_markdown
from dpicl.tables.shown import Shown

if TYPE_CHECKING:
    import pandas as pd

_KINDS = {"regression": "flagged", "improvement": "first", "not tested": "end"}


def _detectable(cell: CellVerdict) -> str | None:
    if cell.test is None:
        return None
    return "none" if cell.test.detectable is None else score_text(cell.test.detectable)


_CELLS = (
    Column("task", "task", attrgetter("key.task"), lambda task: visible(task, 120)),
    Column("row", "mechanism", attrgetter("key.row")),
    Column(
        "epsilon",
        "ε",
        lambda cell: epsilon_text(cell.key.epsilon) + ("" if cell.key.mode == "proved" else f" ({cell.key.mode})"),
    ),
    Column("metric", "metric", lambda cell: metric_name(cell.metric) + (" ↓" if cell.less_is_better else "")),
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
_CHANGES = (
    Column("name", "what changed", attrgetter("name")),
    Column("base", "base", lambda one: _short(one.base), wide=True),
    Column("candidate", "candidate", lambda one: _short(one.candidate), wide=True),
)


@dataclass(frozen=True, repr=False)
class ReleasesCompared(Shown):
    """Two releases cell by cell. compared: the numbers."""

    compared: Comparison

    def blocks(self) -> list[Block]:
        """The gate's verdict, what changed, and every cell: regressions and improvements first, the others folded."""
        found = self.compared
        blocks: list[Block] = [Heading(_title(found))]
        sides = (found.base, found.candidate)
        blocks.append(
            Facts({f"{side.name}, {count(len(side.results), 'result')}": visible(side.path, 120) for side in sides})
        )
        if changed := [one for one in found.changes if one.changed]:
            blocks.append(make_table("what changed", _CHANGES, changed, keep=1))
        else:
            blocks += notes(_unchanged(found))
        certain = [cell for cell in found.cells if cell.fails or cell.verdict == "improvement"]
        blocks += [_cells_table(certain)] if certain else []
        if rest := [cell for cell in found.cells if cell not in certain]:
            summary = f"{count(len(rest), 'cell')} without a change that counts"
            blocks.append(Part((_cells_table(rest),), summary))
        return [*blocks, *notes(_notes(found))]

    def markdown(self) -> str:
        """The same as GitHub-flavoured Markdown."""
        return to_markdown(self.blocks())

    def to_frame(self) -> pd.DataFrame:
        """One row a cell."""
        import pandas as pd

        return pd.DataFrame(self.document()["cells"])

    def document(self) -> Any:
        """What --json prints: everything that the terminal shows. Infinity is left to the writer."""
        found = self.compared
        sides = (found.base, found.candidate)
        return {
            **{
                side.name: {"path": side.path, "results": len(side.results), "foreign": list(map(str, side.foreign))}
                for side in sides
            },
            "settings": asdict(found.settings),
            "changes": [{**asdict(change), "changed": change.changed} for change in found.changes],
            **{name: getattr(found, name) for name in ("tested", "regressed", "incomplete")},
            "cells": [_cell_json(cell) for cell in found.cells],
            "missing": [_unmatched_json(one) for one in found.missing],
            "unmatched": [_unmatched_json(one) for one in found.unmatched],
        }


def _unchanged(comparison: Comparison) -> list[str]:
    commits = next((one.base for one in comparison.changes if one.name == "commit"), ())
    said = ["Nothing that is recorded changed: model, weights, dtype, device, code, Python, plug-ins, suite, packages."]
    if any(len(commit.split()) > 1 for commit in commits):
        said.append(f"The commit does not say which code ran: {names_text(commits)}.")
    return said


def _cells_table(cells: list[CellVerdict]) -> Table:
    return make_table(
        "cells", _CELLS, cells, kind=lambda cell: "flagged" if cell.fails else _KINDS.get(cell.verdict, ""), keep=3
    )


def _unmatched_json(one: Unmatched) -> dict[str, Any]:
    return {"side": one.side, **_key_json(one), "seeds": one.seeds, "whole_row": one.whole}


def _key_json(one: CellVerdict | Unmatched) -> dict[str, Any]:
    own = vars(one.key)
    return {"mechanism" if name == "label" else name: value for name, value in own.items()}


def _cell_json(cell: CellVerdict) -> dict[str, Any]:
    test = cell.test
    names = ("metric", "less_is_better", "seeds", "documents", "base", "candidate", "difference", "verdict", "note")
    return {
        **_key_json(cell),
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
    for cell in (cell for cell in cells if cell.privacy):
        base, candidate = map(epsilon_text, cell.proved)
        target = epsilon_text(cell.key.epsilon)
        yield f"{cell.privacy}: {cell.key} (target {target}, proved {base} → {candidate})."
    yield from _without_partner(comparison)
    yield (
        f"Regression: Holm's p over {count(comparison.tested, 'cell')} is at most {settings.alpha:g} and the loss"
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
    yield from gathered((cell.note, str(cell.key)) for cell in cells if cell.note)


def _without_partner(comparison: Comparison) -> Iterator[str]:
    """What one side lacks; first the base's, since a row that is not there may be the one that got worse."""

    def lone(one: Unmatched) -> str:
        return f"{one.key}, seed {seeds_text(one.seeds)}" + ("" if one.whole else " (the row is on both sides)")

    lacking = [f"{cell.metric} of {cell.key}" for cell in comparison.cells if cell.missing]
    lacking += [lone(one) for one in comparison.missing]
    extra = [lone(one) for one in comparison.unmatched if one.side == "candidate"]
    for head, found in (("Missing in candidate", lacking), ("Only in candidate", extra)):
        if found:
            more = "; --json lists them all" if len(found) > MOST_NAMED else ""
            yield f"{head}{f' ({len(found)})' if len(found) > 1 else ''}: {named(found)}{more}."
    if comparison.incomplete:
        yield "What is missing fails the gate; --allow-missing leaves it out."


def _title(comparison: Comparison) -> str:
    """The verdict of the gate first, and why: 'GATE FAILS: 8 rows missing; 2 cells compared (2 tested)'."""
    gone = {one.key for one in comparison.missing if one.whole}
    partly = {one.key for one in comparison.missing} | {cell.key for cell in comparison.cells if cell.missing}
    lacking = [f"{count(len(gone), 'row')} missing"] if gone else []
    lacking += [f"{count(len(partly - gone), 'row')} incomplete"] if partly - gone else []
    worse, better = comparison.count("regression"), comparison.count("improvement")
    too_large = sum(bool(cell.privacy) for cell in comparison.cells)
    said = [count(worse, "regression")] if worse else []
    said += [f"{too_large} proved ε too large"] if too_large else []
    said += lacking if comparison.incomplete else []
    said += [count(better, "improvement")] if better else []
    counts = [(comparison.count(name), name) for name in ("equivalent", "identical", "inconclusive")]
    said = said or [f"{number} {name}" for number, name in counts if number] or ["nothing tested"]
    said += [] if comparison.incomplete else [f"{one} (allowed)" for one in lacking]
    cells = f"{count(len(comparison.cells), 'cell')} compared ({comparison.tested} tested)"
    if comparison.count("identical") == len(comparison.cells):
        cells += ", identical: the same scores in every cell"
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(said)}; {cells}"


def _short(values: Sequence[str]) -> str:
    """The values of a side, hashes by their beginning."""
    shown = (one[:16] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", one) else one for one in values)
    return ", ".join(visible(one, 120) for one in shown) or "none"
