"""`dpicl run --wandb`: rows go to W&B as their cells finish. It never stops a run: a warning at most."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from typing import Any

from dpicl.harness.cli import output
from dpicl.harness.core.cell import Cell
from dpicl.harness.run.results import Result
from dpicl.harness.run.selection import Selection
from dpicl.leaderboards.api import load_evidence, submissions_of
from dpicl.leaderboards.cli.publish import check_simulated
from dpicl.leaderboards.publish import tracker, wandb_settings
from dpicl.leaderboards.publish.publish import Live


class LiveWandb:
    """Publishes during one run. missing: the cells that will be run. Raises UsageError for flags that make no sense."""

    def __init__(self, arguments: argparse.Namespace, selection: Selection, missing: Sequence[Cell]) -> None:
        self._arguments = arguments
        self._warned = False
        check_simulated(selection.cells, arguments.wandb_project, "--wandb-project")
        models = {cell.model for cell in selection.cells}

        def load() -> list[Result]:
            results, _ = selection.store.load_all()
            return [one for one in results if one.suite.hash == selection.suite.hash and one.cell.model in models]

        def connect() -> Any:
            to = wandb_settings.destination(arguments.wandb_project, arguments.wandb_entity, arguments.wandb_mode, None)
            return tracker.WandbSink(to)

        known = load_evidence(arguments.results, selection.mechanisms, output.message)
        self._live = Live(missing, load, known, connect, submissions_of(None, output.message, None))
        self._warn()

    def finished(self, cell: Cell) -> None:
        """After each cell."""
        self._live.finished(cell)
        self._warn()

    def finish(self) -> None:
        """After the run."""
        self._live.finish()
        self._warn()
        if not self._live.failure:
            sent = output.count(self._live.outcomes["sent"], "run")
            for sentence in (f"W&B: {sent} published.", *self._live.advice):
                output.message(sentence)

    def _warn(self) -> None:
        if not self._live.failure or self._warned:
            return
        self._warned = True
        words = ["dpicl", "publish", "wandb", str(self._arguments.results)]
        for flag in ("project", "entity", "mode"):
            value = getattr(self._arguments, f"wandb_{flag}")
            words += [f"--{flag}", value] if value else []
        output.message(
            f"dpicl: {self._live.failure} The run goes on and no result is lost; later run `{shlex.join(words)}`."
        )
