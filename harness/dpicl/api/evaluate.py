"""`dpicl.evaluate`: runs cells from a program or a notebook, as `dpicl run` does (docs/python.md)."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from dpicl.api import parameters as p
from dpicl.api.tables import Results
from dpicl.core.errors import DpiclError, UsageError
from dpicl.engines.local import make_engine
from dpicl.engines.session import run_missing
from dpicl.mechanism.given import GivenMechanism, entries_of, given_mechanism
from dpicl.plan.selection import Selection, selection_of
from dpicl.plan.suite_files import suite_of_program


@p.check_arguments
def evaluate(
    mechanism: Annotated[GivenMechanism | Sequence[GivenMechanism], p.OneMechanism],
    *,
    task: p.SomeNames,
    model: p.SomeNames = "embedded",
    epsilon: p.Epsilons = 1.0,
    seeds: p.Seeds = 1,
    delta: p.Delta = 1e-5,
    shots: p.Shots = 4,
    source: p.SourceName = "auto",
    test_records: p.Count | None = None,
    train_records: p.Count | None = None,
    queries: p.Count | None = None,
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    results: p.OnePath | None = None,
    engine: str = "inline",
    workers: p.Count | None = None,
    progress: bool = True,
) -> Results:
    """Every mechanism on every task, at every target epsilon and seed: one finished cell each, at a proved epsilon.

    mechanism: names, classes, instances or files of plug-ins. seeds: their number, or a list of them. options: of every
        mechanism given that has them. queries: Q that the epsilon of an answer mechanism covers; None: the test
        records. test_records, train_records (of a class): None means all.
    plugins: files and folders with further mechanisms, tasks and models.
    results: a folder that keeps finished cells and goes on from there; None keeps nothing. engine, workers: as
        `dpicl run --engine --workers`. progress: whether it shows how far it has come (a bar on a terminal, lines
        elsewhere; on stderr).
    Raises UsageError for what does not fit, and the error of the first cell that fails where none succeeds.
    """
    files = p.as_list(plugins)
    mechanisms_given = [given_mechanism(each, files) for each in p.as_list(mechanism)]
    entries = entries_of(mechanisms_given, options or {})
    if engine != "inline" and any(each.here for each in mechanisms_given):
        raise UsageError(
            "A class of this program runs with engine='inline' alone; put it into a file for the others."
        )
    if results is not None and (here := [each.name for each in mechanisms_given if each.here]):
        raise UsageError(
            f"{here[0]} is defined in no file, so results in a folder could not tell its versions apart; put it into a"
            " file of its own, or leave `results` out."
        )
    files = list(
        dict.fromkeys(
            [*files, *(each.plugin for each in mechanisms_given if each.plugin is not None)]
        )
    )
    suite = suite_of_program(
        source=source,
        models=p.as_list(model),
        seeds=seeds,
        epsilons=p.as_list(epsilon),
        delta=delta,
        shots=shots,
        test_records=test_records,
        train_records=train_records,
        queries=queries,
        tasks=p.as_list(task),
        mechanisms=entries,
    )
    with tempfile.TemporaryDirectory() if results is None else nullcontext(results) as folder:
        return run_selection(selection_of(suite, Path(folder), files), engine, workers, progress)


def run_selection(
    selection: Selection, engine: str, workers: int | None, progress: bool
) -> Results:
    """Runs what is missing of a selection. Raises as `evaluate`."""
    chosen_engine = make_engine(engine, workers)
    _, done = run_missing(
        selection, chosen_engine, "give another `results` folder", progress=progress
    )
    ended = [each for each in done if each.status in ("failed", "skipped")]
    results = [
        result for cell in selection.cells if (result := selection.store.read(cell)) is not None
    ]
    failed = [each.message for each in ended if each.status == "failed"]
    if failed and not results:
        raise DpiclError(failed[0])
    notes = [
        f"{each.status}: {each.cell.label} on {each.cell.task}: {each.message}" for each in ended
    ]
    return Results(
        results,
        tuple(f"{note} ({n} cells)" if n > 1 else note for note, n in Counter(notes).items()),
    )
