"""`dpicl budget`: what all releases of a private set cost together; limits it, exports it."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

from dpicl.api.releases import budget
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, delta, epsilon
from dpicl.core.errors import UsageError
from dpicl.core.files import put_whole
from dpicl.core.json_text import plain
from dpicl.core.messages import rounded_up
from dpicl.own.budget import set_limit


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "budget", "dpicl budget --private-set tickets --export tickets.json", _budget)
    parser.add_argument("--private-set", metavar="NAME", help="this set alone, with each of its releases")
    parser.add_argument(
        "--total-epsilon",
        type=epsilon,
        metavar="E",
        help="what the epsilons of all releases of the set may add up to from here on ('inf' lifts the limit)",
    )
    parser.add_argument("--delta", type=delta, metavar="D", help="at which their composition is shown")
    parser.add_argument("--raise", dest="may_rise", action="store_true", help="the limit may be above the one before")
    parser.add_argument("--export", type=Path, metavar="FILE", help="write it as JSON, without anything from records")


def _budget(arguments: argparse.Namespace) -> int:
    limit = arguments.total_epsilon
    if limit is None and (arguments.may_rise or arguments.delta is not None):
        raise UsageError("--raise and --delta are about a limit; add --total-epsilon E, or leave them out.")
    if limit is not None:
        if arguments.private_set is None:
            raise UsageError("A limit is of one private set; add --private-set NAME (`dpicl budget` lists them).")
        set_limit(arguments.private_set, limit, arguments.delta, arguments.may_rise)
    found = budget(arguments.private_set)
    if arguments.export is not None:
        try:
            put_whole(arguments.export, json.dumps(plain({"private_sets": found}), indent=1) + "\n")
        except OSError as error:
            raise UsageError(
                f"{arguments.export} cannot be written ({error.strerror}); give another --export."
            ) from error
    return output.answer(arguments, {"private_sets": found}, lambda: _show(found, arguments.private_set is not None))


def _show(found: list[dict[str, Any]], whole: bool) -> None:
    if not found:
        output.emit("Nothing was released with secure noise on this machine.")
        return
    columns = ["private set", "releases", "sum of epsilons", "sum of deltas", "limit", "epsilon together", "delta"]
    output.emit_table(columns, [_row(each) for each in found])
    for each in found if whole else ():
        charges = [entry for entry in each["entries"] if entry["kind"] == "charge"]
        output.emit("")
        output.emit_table(
            ["when", "mechanism", "task", "model", "epsilon", "delta"],
            [
                [
                    entry["when"],
                    *(str(entry["what"].get(key, "")) for key in ("mechanism", "task", "model")),
                    rounded_up(entry["epsilon"]),
                    f"{entry['delta']:g}",
                ]
                for entry in charges
            ],
        )
    output.emit(
        "\nThe limit applies to the sums, which hold even where a release was chosen after looking at an earlier one."
        " epsilon together (composition) holds only if the settings of all releases were chosen beforehand."
    )
    for each in found:
        if each["total_epsilon"] is not None and each["sum_epsilon"] >= each["total_epsilon"]:
            name = each["private_set"]
            output.emit(
                f"{name}: the limit is spent, so nothing more will be released;"
                f" `dpicl budget --private-set {shlex.quote(name)} --total-epsilon E --raise` raises it."
            )


def _row(each: dict[str, Any]) -> list[str]:
    return [
        each["private_set"],
        str(each["releases"]),
        rounded_up(each["sum_epsilon"]),
        f"{each['sum_delta']:g}",
        "none" if each["total_epsilon"] is None else f"{each['total_epsilon']:g}",
        rounded_up(each["epsilon"]),
        f"{each['delta']:g}",
    ]
