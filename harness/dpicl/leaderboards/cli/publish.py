"""`dpicl publish wandb`: sends results to Weights & Biases. After a failure the same command sends them again."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

from dpicl.api.parameters import Flag, Models, Names, OnePath, Plugins, SourceName, as_list, verb
from dpicl.attacks.store import ATTACKS
from dpicl.cli import call
from dpicl.cli.output import Answer
from dpicl.core.errors import DpiclError, ResultError, UsageError, require_known
from dpicl.core.grouping import group_by
from dpicl.core.messages import count, message, names_text
from dpicl.core.vocabulary import is_simulated
from dpicl.leaderboards.api import load_evidence, submissions_of
from dpicl.leaderboards.compare.reading import choose
from dpicl.leaderboards.publish import runs
from dpicl.leaderboards.publish.sink import Sink, destination
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.schema import Result
from dpicl.results.store import Store, list_suites, report_damaged
from dpicl.tables.document import text_table


@verb("dpicl publish wandb results --project dp-icl --mode offline")
def publish(
    tracker: Literal["wandb"],
    results: Annotated[str | Path, Flag(metavar="RESULTS")],
    *,
    suite: Annotated[Names, Flag("suite; may be repeated (or A,B)", metavar="S")] = (),
    model: Models = (),
    source: SourceName | None = None,
    texts: bool = False,
    plugins: Plugins = (),
    dry_run: bool = False,
    project: Annotated[str | None, Flag(metavar="P")] = None,
    entity: Annotated[str | None, Flag(metavar="E")] = None,
    mode: Literal["online", "offline"] | None = None,
    dir: Annotated[OnePath | None, Flag(metavar="DIR")] = None,
) -> Answer:
    """Sends results to Weights & Biases. Raises ResultError for nothing to send, UsageError for what is not mixed.

    tracker: where to.
    results: folder of results (--suite, --model and --source choose).
    texts: also send the released texts that the result files hold.
    dry_run: show what would be sent, and send nothing.
    project: W&B project (default: WANDB_PROJECT, or dpicl-bench).
    entity: W&B user or team (default: WANDB_ENTITY, or the key's).
    mode: default: WANDB_MODE, else online where an API key is configured, else offline.
    dir: wandb's files go to DIR/wandb (default: WANDB_DIR, or here).
    """
    folder = Path(results)
    every: list[Result] = []
    for name in list_suites(folder):
        if name != ATTACKS:
            of_suite, damaged = Store(folder, name).load_all()
            report_damaged(damaged)
            every += of_suite
    if not every:
        raise ResultError(
            f"No suite has results in {folder}; name the folder that `dpicl run` wrote (its --results)."
        )
    if source is not None:
        require_known("source", [source], {result.cell.source for result in every})
        every = [result for result in every if result.cell.source == source]
    chosen = choose(every, str(folder), suites=as_list(suite), models=as_list(model))
    if project is None and all(is_simulated(result.cell.model) for result in chosen):
        raise UsageError(
            "Numbers of the simulated model never stand beside real ones; name a project for them with --project."
        )
    evidence = load_evidence(folder, load_mechanisms(as_list(plugins)))
    plan = runs.plan(chosen, evidence, submissions_of(None, None), texts)
    for note in plan.notes:
        message(note)
    if dry_run:
        document = {"runs": [asdict(run) for run in plan.runs], "notes": plan.notes}
        rows = [[run.name, run.group, run.job_type, str(len(run.table))] for run in plan.runs]
        end = f"{count(len(plan.runs), 'run')} would be sent; nothing was."
        return Answer(document, [text_table(["run", "group", "type", "lines"], rows), end])
    to = destination(project, entity, mode, None if dir is None else Path(dir))
    if to.address:
        message(f"W&B: sending to {to.address}, project {to.project}.")
    sink = Sink(to)
    try:
        sink.publish(plan.runs)
        advice = sink.close()
    except DpiclError as error:
        progress = (
            f"{len(sink.sent)} of {count(len(plan.runs), 'run')} published; no result is lost."
        )
        command = call.line(f"dpicl publish wandb {results}")
        raise type(error)(f"{error} {progress} Run `{command}` again later.") from error
    document = {
        "tracker": "wandb",
        "mode": to.mode,
        "project": to.project,
        "runs": [*sink.sent],
        "notes": plan.notes,
        "advice": advice,
    }
    verb = "written" if to.mode == "offline" else "sent"
    kinds = names_text(
        count(len(runs_of_type), job_type)
        for job_type, runs_of_type in group_by(plan.runs, "job_type").items()
    )
    line = f"{count(len(plan.runs), 'run')} {verb}: {kinds}, project {to.project}."
    return Answer(document, [line, *advice])
