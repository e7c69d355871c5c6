"""`dpicl doctor`: what is there, what is missing and how to get it. Exit code 1 when the default run cannot work."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command
from dpicl.harness.cli.diagnosis import examine


def add(subparsers: Subparsers) -> None:
    parser = add_command(subparsers, "doctor", "dpicl doctor --json", _doctor)
    parser.share("--results", help="results folder to look at (default: results)")


def _doctor(arguments: argparse.Namespace) -> int:
    checks = examine(arguments.results)
    good = all(check.ok for check in checks)
    if arguments.json:
        output.emit_json({"ok": good, "checks": [asdict(check) for check in checks]})
    else:
        rows = [["ok" if check.ok else "MISSING", check.name, check.found, check.remedy] for check in checks]
        output.emit_table(["", "what", "found", "to change it"], rows)
        output.emit("Everything that the default run needs is there." if good else "Something is missing; see above.")
    return 0 if good else 1
