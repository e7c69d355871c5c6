"""`dpicl run --wandb`: rows go to W&B as their cells finish. It never stops a run: a warning at most."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence

from dpicl.cli import output
from dpicl.core.cell import Cell
from dpicl.leaderboards.api import load_evidence, submissions_of
from dpicl.leaderboards.cli.publish import check_simulated
from dpicl.leaderboards.publish.live import Live
from dpicl.leaderboards.publish.runs import Plan, plan
from dpicl.leaderboards.publish.sink import Sink, destination
from dpicl.plan.selection import Selection


class LiveWandb(Live):
    """Publishes during one run. missing: the cells that will be run. Raises UsageError for flags that make no sense."""

    def __init__(self, arguments: argparse.Namespace, selection: Selection, missing: Sequence[Cell]) -> None:
        check_simulated(selection.cells, arguments.wandb_project, "--wandb-project")
        models = {cell.model for cell in selection.cells}
        flags = {name: getattr(arguments, f"wandb_{name}") for name in ("project", "entity", "mode")}

        known = load_evidence(arguments.results, selection.mechanisms, output.message)
        submitted = submissions_of(None, output.message, None)

        def load() -> Plan:
            results, _ = selection.store.load_all()
            own = [one for one in results if one.suite.hash == selection.suite.hash and one.cell.model in models]
            return plan(own, known, submitted)

        def failed(reason: str) -> None:
            words = ["dpicl", "publish", "wandb", str(arguments.results)]
            words += [word for name, value in flags.items() if value for word in (f"--{name}", value)]
            output.message(f"dpicl: {reason} The run goes on and no result is lost; later run `{shlex.join(words)}`.")

        def connect() -> Sink:
            to = destination(**flags, folder=None)
            if to.sentence:
                output.message(to.sentence)
            return Sink(to)

        super().__init__(missing, load, connect, failed)

    def finish(self) -> None:
        """After the run."""
        super().finish()
        if not self.failure:
            for sentence in (f"W&B: {output.count(self.sent, 'run')} published.", *self.advice):
                output.message(sentence)
