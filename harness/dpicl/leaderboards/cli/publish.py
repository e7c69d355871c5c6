"""`dpicl publish wandb`: results to Weights & Biases. Results stay as they are: after any failure the same command
sends them again. While cells run, dpicl.leaderboards.cli.live publishes."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from dpicl.cli import output
from dpicl.cli.arguments import HELP, Parser, Subparsers, add_command
from dpicl.core.cell import Cell
from dpicl.core.errors import DpiclError, ResultError, UsageError, require_known
from dpicl.core.paths import shipped_suites
from dpicl.leaderboards.api import load_evidence, submissions_of
from dpicl.leaderboards.publish import runs, weave_board
from dpicl.leaderboards.publish.runs import Plan, Published
from dpicl.leaderboards.publish.sink import Sink, destination
from dpicl.mechanism.registry import load_mechanisms
from dpicl.results.schema import Result
from dpicl.results.store import Store

MODES = ("online", "offline")
#: Folders of a results folder that hold no suite.
_NO_SUITES = ("attacks", "external")


def add(subparsers: Subparsers) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "publish",
        help=HELP["publish"],
        description=HELP["publish"],
        epilog="example:\n  dpicl publish wandb results --mode offline",
    )
    parser.set_defaults(parser=parser)
    trackers = parser.add_subparsers(title="trackers", metavar="TRACKER", required=True)
    wandb = add_command(
        trackers,
        "wandb",
        "dpicl publish wandb results --project dp-icl --mode offline",
        _publish,
        help="one W&B run for each row and task, and one for each board",
    )
    wandb.add_argument(
        "what",
        metavar="RESULTS",
        help="a results folder, a suite's folder in it, or the name of a shipped suite (then see --results)",
    )
    wandb.share("--results", help="results folder of a suite that is given by name (default: results)")
    wandb.repeated("--suite", "S", "suite")
    wandb.repeated("--model", "X", "model")
    wandb.add_argument("--dry-run", action="store_true", help="show what would be sent, and send nothing")
    wandb.share("--plugin")
    add_wandb_flags(wandb)
    wandb.add_argument(
        "--dir", type=Path, metavar="DIR", help="wandb's files go to DIR/wandb (default: WANDB_DIR, or here)"
    )
    wandb.add_argument("--weave", action="store_true", help="also publish a Weave leaderboard (online; extra weave)")


def add_wandb_flags(parser: Parser, prefix: str = "") -> None:
    """--project, --entity and --mode, or --wandb-project and so on."""
    parser.add_argument(f"--{prefix}project", metavar="P", help="W&B project (default: WANDB_PROJECT, or dpicl-bench)")
    parser.add_argument(f"--{prefix}entity", metavar="E", help="W&B user or team (default: WANDB_ENTITY, or the key's)")
    parser.choice(
        f"--{prefix}mode",
        MODES,
        "default: WANDB_MODE, else online where an API key is configured, else offline",
        kind="mode",
    )


def _publish(arguments: argparse.Namespace) -> int:
    plan = _plan(arguments)
    if arguments.dry_run:
        return _show(plan.runs, plan.notes, arguments.json)
    to = destination(arguments.project, arguments.entity, arguments.mode, arguments.dir)
    if to.mode == "offline" and arguments.weave:
        raise UsageError("--weave needs --mode online: W&B keeps Weave objects on its server.")
    if to.sentence:
        output.message(to.sentence)
    export = weave_board.exporter(plan.boards, to) if arguments.weave else None
    sink = Sink(to)
    try:
        sink.publish(plan.runs)
        advice = sink.close() + ([export()] if export else [])
    except DpiclError as error:
        done = f"{len(sink.sent)} of {output.count(len(plan.runs), 'run')} published; no result is lost."
        raise type(error)(f"{error} {done} Run `{shlex.join(['dpicl', *arguments.argv])}` again later.") from error
    if arguments.json:
        known = {"tracker": "wandb", "mode": to.mode, "project": to.project}
        output.emit_json({**known, "runs": [*sink.sent], "notes": plan.notes, "advice": advice})
        return 0
    verb = "written" if to.mode == "offline" else "sent"
    boards = sum(run.job_type == "board" for run in plan.runs)
    what = f"{output.count(len(plan.runs) - boards, 'row')} and {output.count(boards, 'board')}"
    output.emit("\n".join([f"{output.count(len(plan.runs), 'run')} {verb}: {what}, project {to.project}.", *advice]))
    return 0


def _show(found: Sequence[Published], notes: Sequence[str], as_json: bool) -> int:
    if as_json:
        output.emit_json({"runs": [asdict(run) for run in found], "notes": list(notes)})
        return 0
    lines = [[run.name, run.group, run.job_type, str(len(run.table))] for run in found]
    output.emit_table(["run", "group", "type", "lines"], lines)
    output.emit(f"\n{output.count(len(found), 'run')} would be sent; nothing was.")
    return 0


def _plan(arguments: argparse.Namespace) -> Plan:
    """What there is to publish. Raises ResultError for nothing, UsageError for what must not be mixed."""
    folder, suites = _place(arguments)
    results: list[Result] = []
    for suite in suites:
        found, damaged = Store(folder, suite).load_all()
        output.report_damaged(damaged, moved=False)
        results += found
    for kind, wanted, name_of in (
        ("suite", arguments.suite, lambda result: result.suite.name),
        ("model", arguments.model, lambda result: result.cell.model),
    ):
        if results:
            require_known(f"{kind} of {folder}:", wanted, {name_of(result) for result in results})
        results = [result for result in results if not wanted or name_of(result) in wanted]
    if not results:
        raise ResultError(f"There is no such result under {folder}; run `dpicl run quick`, or name another folder.")
    check_simulated((result.cell for result in results), arguments.project, "--project")
    proof = load_evidence(folder, load_mechanisms(arguments.plugin), output.message)
    plan = runs.plan(results, proof, submissions_of(None, output.message, None))
    for note in plan.notes:
        output.message(note)
    return plan


def check_simulated(cells: Iterable[Cell], project: str | None, flag: str) -> None:
    """Raises UsageError where all cells are of the simulated model and no project is named for them."""
    if project is None and all(cell.model.partition(":")[0] == "sim" for cell in cells):
        raise UsageError(
            f"Numbers of the simulated model never stand beside real ones; name a project for them with {flag}."
        )


def _place(arguments: argparse.Namespace) -> tuple[Path, list[str]]:
    """(results folder, folders of suites in it)."""
    path = Path(arguments.what)
    if not path.exists() and path.name == arguments.what:
        require_known("results folder or suite", [arguments.what], shipped_suites())
        return arguments.results, [arguments.what]
    if not path.is_dir():
        raise ResultError(f"{path} is no folder; give a results folder, a suite's folder in it, or a suite's name.")
    if next(path.glob("*/*/*/*.json"), None) is not None:  # <model>/<row>/<task>/<cell>.json
        return path.parent, [path.resolve().name]
    found = [one.name for one in sorted(path.iterdir()) if one.is_dir() and one.name not in _NO_SUITES]
    return path, [name for name in found if not name.startswith(".")]
