"""`dpicl plan`: shows what `dpicl run` would do for a suite, and which sample sizes detect a difference."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from typing import Annotated, Any, Unpack

from pydantic import Field

from dpicl import models
from dpicl.api.parameters import Cells, Flag, SuiteName, verb
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.cli.selecting import Shard, select_cells
from dpicl.core.cell import Cell
from dpicl.core.errors import UsageError
from dpicl.core.field_types import Number
from dpicl.core.grouping import group_by
from dpicl.core.messages import (
    count,
    duration,
    epsilon_text,
    join_names,
    message,
    names_text,
    score_text,
)
from dpicl.core.vocabulary import model_name
from dpicl.data.sources import SOURCES
from dpicl.evaluation.statistics import FEWEST_SEEDS, LEVEL
from dpicl.plan import sizing
from dpicl.plan.costs import CostEstimate, Costs
from dpicl.plan.headroom import HEADROOM_COLUMNS, Headroom, gain_text, headrooms
from dpicl.plan.presence import (
    Presence,
    describe_stale,
    find_presence,
    find_releases,
    find_skipped,
    select_current,
    which_of,
)
from dpicl.plan.selection import Selection
from dpicl.plan.suite_files import AS_IT_IS
from dpicl.plan.tuning import choices_in_use, tuning_table
from dpicl.results.fingerprints import Fingerprints
from dpicl.results.schema import Result
from dpicl.results.store import report_damaged
from dpicl.tables.document import Block, Column, make_table, notes, text_table, words

#: Rows of several tasks that are shown one by one.
_FEW = 24
_MEANING = (
    "Headroom: from public to real demonstrations, by the metric of record; where its interval includes 0 a task does"
    " not reward private data. MDE: the difference of two rows found with 80% power (median pair, as on the board)."
)
_READ = attrgetter("model", "task")
_ROW = ("model", "task", "label", "epsilon")


@verb("dpicl plan quick --epsilon 1")
def plan(
    suite: SuiteName,
    *,
    shard: Shard | None = None,
    detect: Annotated[Number, Field(gt=0, lt=1), Flag(metavar="DIFFERENCE")] | None = None,
    power: Annotated[Number, Field(ge=0.5, lt=1), Flag(metavar="P")] | None = None,
    **cells: Unpack[Cells],
) -> Answer:
    """What `run` would do: cells, which of them are done, what the rest costs. Or, with `detect`, how many seeds.

    Raises UsageError for what is not known or does not fit.

    detect: say how many seeds find such a difference of scores (0.03) between any two rows.
    power: the probability with which --detect finds it (default: 0.8).
    """
    if power is not None and detect is None:
        raise UsageError("--power goes with --detect; add --detect 0.03, or leave it out.")
    selection = select_cells(suite, cells, shard)
    results, damaged = selection.store.load_all()
    report_damaged(damaged)
    if detect is not None:
        return _sizes(selection, results, detect, 0.8 if power is None else power)
    return _cells(selection, results, str(suite))


@dataclass(frozen=True)
class _Progress:
    """What of a selection is there. skipped, reasons: by the id of a cell; status: of every cell that is not missing.
    to_run: cells that are missing or stale; to_score: those whose release an earlier run made."""

    selection: Selection
    presence: Presence
    skipped: Mapping[str, str]
    status: Mapping[str, str]
    reasons: Mapping[str, str]
    to_run: list[Cell]
    to_score: Collection[str]
    estimates: Mapping[str, CostEstimate]

    @property
    def seconds(self) -> float:
        """Of the cells to run whose time is known."""
        return sum(self.estimates[cell.id].seconds or 0 for cell in self.to_run)

    @property
    def unmeasured(self) -> list[str]:
        """Models of which no cell has run on this machine."""
        unknown = (cell for cell in self.to_run if self.estimates[cell.id].seconds is None)
        return list(dict.fromkeys(cell.model for cell in unknown))


def _find_progress(selection: Selection, results: Sequence[Result]) -> _Progress:
    records = Fingerprints()
    presence = find_presence(selection.cells, results, records, selection.mechanisms)
    skipped_cells = find_skipped(presence.missing, selection.mechanisms)
    skipped = {cell.id: reason for cell, reason in skipped_cells}
    status = {
        **{cell.id: "present" for cell in presence.there},
        **dict.fromkeys(skipped, "skipped"),
        **{each.cell.id: "stale" for each in presence.stale},
    }
    reasons = {**{each.cell.id: each.reason for each in presence.stale}, **skipped}
    done = ("present", "skipped")
    to_run = [cell for cell in selection.cells if status.get(cell.id) not in done]
    to_score = find_releases(presence.missing, results, records, selection.mechanisms, {}).keys()
    costs = Costs(results, selection.mechanisms)
    estimates = {**costs.estimates(selection.cells), **costs.estimates(to_run, to_score)}
    return _Progress(selection, presence, skipped, status, reasons, to_run, to_score, estimates)


def _cells(selection: Selection, results: Sequence[Result], suite: str) -> Answer:
    """Every cell of a selection, whether it is done, and what it costs."""
    progress = _find_progress(selection, results)
    _require_models(progress.to_run)
    standing, _ = _select_standing(selection, results)
    gains = headrooms(standing)
    mde = sizing.find_mde(standing)
    tuned = choices_in_use(selection.suite)
    document = {
        **_count_cells(progress),
        "untuned": untuned_rows(selection),
        "headroom": [{**asdict(one), "rewards": one.rewards} for one in gains],
        "mde": [
            {**dict(zip(sizing.SHARED, shared, strict=True)), "mde": value}
            for shared, value in mde.items()
        ],
        "tuned": tuned.model_dump(mode="json")["tasks"],
        "cells": [_cell_json(progress, cell) for cell in selection.cells],
    }
    cells = [cell for cell in selection.cells if cell.id not in progress.skipped]
    columns = _count_columns(progress.status, progress.estimates)
    overview, details = _tables(cells, columns, gains, mde)
    others = {one.source for one in gains} - {cell.source for cell in cells}
    shown: list[Block | str] = [
        _totals(document, progress.seconds, progress.unmeasured),
        *overview,
    ]
    if others:
        sources = names_text(sorted(others))
        shown += notes([f"Headroom and MDE are of results on {sources} records; none are at hand."])
    if tuned.tasks:
        shown.append(tuning_table(tuned))
    shown += [*details, *_describe_skipped(progress)]
    if progress.presence.unknown:
        shown.append(progress.presence.unknown)
    return Answer(document, [*shown, *_next_steps(progress, suite, bool(others))])


def _require_models(to_run: Sequence[Cell]) -> None:
    """Raises UsageError for a model's folder that is not there; what runs may have the others, and no hub is asked."""
    for model in dict.fromkeys(cell.model for cell in to_run):
        kind, _, rest = model.partition(":")
        if kind in ("hf", "vllm") and rest.startswith(("/", ".", "~")):
            models.require_there(model)


def _count_cells(progress: _Progress) -> dict[str, Any]:
    suite = progress.selection.suite
    presence = progress.presence
    return {
        "suite": suite.name,
        "version": suite.version,
        "present": len(presence.there),
        "stale": len(presence.stale),
        "skipped": len(progress.skipped),
        "missing": len(presence.missing) - len(progress.skipped),
        "to_score": len(progress.to_score),
        "tokens": sum(progress.estimates[cell.id].tokens for cell in progress.to_run),
        "seconds": None if progress.unmeasured else progress.seconds,
        "unknown": presence.unknown or None,
    }


def _cell_json(progress: _Progress, cell: Cell) -> dict[str, Any]:
    return {
        **cell_json(cell),
        "options": cell.options,
        "status": progress.status.get(cell.id, "missing"),
        "reason": progress.reasons.get(cell.id),
        **asdict(progress.estimates[cell.id]),
        "path": progress.selection.store.path(cell),
    }


def _describe_skipped(progress: _Progress) -> list[str]:
    """A sentence for each row that cannot do some tasks, and why."""
    tasks = defaultdict[tuple[str, str], list[str]](list)
    for cell in progress.selection.cells:
        if cell.id in progress.skipped:
            tasks[cell.label, progress.skipped[cell.id]].append(cell.task)
    return [
        f"Skipped: {row} on {', '.join(dict.fromkeys(names))}: {reason}"
        for (row, reason), names in tasks.items()
    ]


def _next_steps(progress: _Progress, suite: str, other_records: bool) -> list[str]:
    """What to do next. other_records: whether there are results on records that are not at hand."""
    selection = progress.selection
    if progress.presence.stale:
        return [
            f"Stale, not made from what is here now: {describe_stale(progress.presence.stale)}.",
            f"Next: {stale_advice(suite)}.",
        ]
    untuned = describe_untuned(selection)
    if untuned:
        return [untuned]
    if not progress.to_run:
        return [f"Next: {selection.command('board')}"]
    run = shlex.join(["dpicl", "run", *call.words(suite)])
    if other_records:
        run = f"DPICL_DATA=FOLDER {run} goes on with those results; without it, all cells run anew"
    return [f"Next: {run}"]


def _totals(
    plan: Mapping[str, Any],
    seconds: float,
    unmeasured: Sequence[str],
) -> Block:
    """How many cells are done and left, and what these cost. unmeasured: models of which no cell has run
    on this machine; seconds: of all others."""
    parts = [
        f"{plan['present']} done",
        *(f"{plan[key]} {key}" for key in ("stale", "skipped") if plan[key]),
    ]
    cost = ""
    if plan["missing"] or plan["stale"]:
        which = " with the stale ones" if plan["stale"] else ""
        time = f", about {duration(seconds)} in one process" if seconds or not unmeasured else ""
        cost = f" ({plan['tokens'] / 1e6:,.3g} million tokens{which}{time})"
        if unmeasured:
            cost += f". No time is known of {names_text(map(model_name, unmeasured))}: no cell of it has run here"
    to_score = f" ({plan['to_score']:,} only to be scored)" if plan["to_score"] else ""
    to_do = f"{plan['missing']:,} to do{to_score}"
    return words(f"{count(len(plan['cells']), 'cell')}: {', '.join(parts)}, {to_do}{cost}.")


def _count_columns(
    status: Mapping[str, str],
    costs: Mapping[str, CostEstimate],
) -> list[Column]:
    """How many cells a line has, and what they cost, done or not."""

    def time(cells: Sequence[Cell]) -> float | None:
        spent = [costs[cell.id].seconds for cell in cells]
        return None if None in spent else sum(filter(None, spent))

    return [
        Column("cells", "cells", len),
        Column(
            "done",
            "done",
            lambda cells: sum(status.get(cell.id) == "present" for cell in cells),
        ),
        Column(
            "tokens",
            "tokens",
            lambda cells: sum(costs[c.id].tokens for c in cells),
            lambda n: f"{n / 1e6:.2f} M",
        ),
        Column("time", "time", time, duration, optional=True),
    ]


def _tables(
    cells: Sequence[Cell],
    counted: Sequence[Column],
    gains: Sequence[Headroom],
    mde: Mapping[sizing.Shared, float],
) -> tuple[list[Block], list[Block]]:
    """(of every model a line a task; headroom by every metric and a line a row, or how to get them)."""
    first = {(one.model, one.task): one for one in reversed(gains)}
    detectable = {
        (model, task, epsilon): value
        for (model, task, _, epsilon), value in reversed([*mde.items()])
    }
    gain = Column(
        "headroom",
        "headroom (95%)",
        lambda line: first.get(_READ(line[0])),
        gain_text,
        optional=True,
    )

    def power(epsilon: float) -> Column:
        name = f"MDE, ε={epsilon:g}"
        return Column(
            name,
            name,
            lambda line: detectable.get((*_READ(line[0]), epsilon)),
            score_text,
            optional=True,
        )

    task = Column("task", "task", lambda line: line[0].task)
    whole = [task, *counted, gain, *map(power, sorted({epsilon for *_, epsilon in detectable}))]
    every = [
        *(Column(name, name) for name in ("task", "metric")),
        *HEADROOM_COLUMNS,
    ]
    label = Column("label", "mechanism", lambda line: line[0].label, wide=True)
    rows = [
        task,
        label,
        Column("epsilon", "ε", lambda line: line[0].epsilon, epsilon_text),
        *counted,
    ]
    overview, details = list[Block](), list[Block]()
    few = len(group_by(cells, "task")) == 1 or len(group_by(cells, *_ROW)) <= _FEW
    for model, line in group_by(cells, "model").items():
        name, sources = model_name(model), names_text(group_by(line, "source"))
        overview.append(
            make_table(
                f"{name}, {sources} records",
                whole,
                group_by(line, "task").values(),
                heading=True,
            )
        )
        if few and (mine := [one for one in gains if one.model == model]):
            details.append(
                make_table(f"Headroom by every metric, {name}", every, mine, keep=2, heading=True)
            )
        if few:
            details.append(
                make_table(
                    f"Rows, {name}",
                    rows,
                    group_by(line, *_ROW).values(),
                    keep=3,
                    heading=True,
                )
            )
    if gains:
        overview += notes([_MEANING])
    return overview, details or [words("A line a row, and headroom by every metric: --task TASK.")]


def untuned_rows(selection: Selection) -> list[str]:
    """The selected rows that `dpicl tune` has yet to choose options for."""
    selected = {cell.label for cell in selection.cells}
    return [row for row in selection.suite.untuned if row in selected]


def describe_untuned(selection: Selection) -> str:
    """A sentence about `untuned_rows`; '' where there are none."""
    if not (rows := untuned_rows(selection)):
        return ""
    command = replace(selection, changes=AS_IT_IS).command("tune")
    return f"Run `{command}` first: it chooses the options of {count(len(rows), 'row')} ({join_names(rows, 3)})."


def stale_advice(suite: str) -> str:
    """What to do about stale results."""
    words = [word for word in call.words(suite) if word != "--rerun-stale"]
    again = shlex.join(["dpicl", "run", *words, "--rerun-stale"])
    return f"`{again}` runs them again and keeps the old files in quarantine/, another --results folder keeps both"


def cell_json(cell: Cell) -> dict[str, Any]:
    keys = (
        "task",
        "mechanism",
        "label",
        "model",
        "epsilon",
        "delta",
        "seed",
        "source",
        "test_records",
    )
    return {"id": cell.id, **{key: getattr(cell, key) for key in keys}}


def _select_standing(
    selection: Selection,
    results: Iterable[Result],
) -> tuple[list[Result], list[str]]:
    """The results of its cells as on a board, those from the records of the cells first; notes on others."""
    suite = selection.suite
    to_have = {(cell.task, cell.source) for cell in selection.cells}
    sources = SOURCES if suite.source == "auto" else (suite.source,)
    selected = set(map(which_of, selection.cells))
    eligible = [
        one
        for one in results
        if one.suite == selection.reference and which_of(one.cell) in selected
    ]
    eligible = [one for one in eligible if one.cell.source in sources]
    eligible.sort(key=lambda one: (one.cell.task, one.cell.source) not in to_have)
    return select_current(eligible, Fingerprints(download=False))


def _sizes(
    selection: Selection,
    results: Sequence[Result],
    detect: float,
    power: float,
) -> Answer:
    """What `plan --detect` says: seeds and test records of least cost for every task and epsilon."""
    suite = selection.suite
    eligible, left_out = _select_standing(selection, results)
    if results and not eligible:
        message(
            f"{count(len(results), 'result')} with other suite settings, model or options left out."
        )
    for note in left_out:
        message(note)
    sized = sizing.tables(eligible, detect, power)
    if without := {
        cell.task: None
        for cell in selection.cells
        if cell.task not in {table.task for table in sized}
    }:
        message(f"No two rows have results at two common seeds on {', '.join(without)}.")
    document = {
        "suite": suite.name,
        "version": suite.version,
        "detect": detect,
        "power": power,
        "tables": [asdict(table) for table in sized],
    }
    mde = sizing.find_mde(eligible)
    tables = [
        text_table(
            _SIZES,
            [_size_row(one, mde) for one in sized if one.model == model],
            model_name(model),
            keep=2,
        )
        for model in dict.fromkeys(table.model for table in sized)
    ]
    return Answer(
        document,
        [
            *tables,
            *notes([_sizes_meaning(sized, detect, power)]),
        ],
    )


_SIZES = ("task", "ε", "rows", "records", "sd", "seeds now", "MDE", "needs", "costs")


def _size_row(
    table: sizing.Table,
    mde: Mapping[sizing.Shared, float],
) -> list[str]:
    difference = mde.get((table.model, table.task, table.source, table.epsilon))
    return [
        table.task,
        f"{table.epsilon:g}",
        str(table.rows),
        str(table.documents),
        f"{table.deviation:.3f}",
        str(table.seeds),
        score_text(difference) if difference else "none",
        count(table.needed, "seed") if table.needed else f"more than {sizing.MOST_SEEDS:,}",
        duration(table.seconds) if table.seconds is not None else "",
    ]


def _sizes_meaning(sized: Sequence[sizing.Table], detect: float, power: float) -> str:
    made_from = {f"{table.task}: {table.source}": None for table in sized}
    return (
        f"Records: {', '.join(made_from)}. So many seeds find a difference of {detect:g} between any two rows of a"
        f" table with probability {power:g}, at a family-wise error of {1 - LEVEL:.2g}, by Student's t of sd, the"
        " deviation of a difference from seed to seed with as many test records as now. Costs are of one process, all"
        " rows. MDE: what the results at hand find with 80% power, of the median pair, as on the board; none below"
        f" {FEWEST_SEEDS} seeds."
    )
