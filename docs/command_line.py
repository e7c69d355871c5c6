"""Writes docs/command-line.md from the parser of `dpicl` (`make docs`)."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dpicl.program import build_parser

PAGE = Path(__file__).with_name("command-line.md")
SHARED = 3  #: a flag that so many commands have, in the same words, is explained once

HEAD = """# The command line

<!-- Written by docs/command_line.py (`make docs`). To change it, edit the help texts in the code. -->

| command | does |
|---|---|
{commands}

The commands share a few rules:

* `--json` prints one JSON document on stdout; messages and progress go to stderr. JSON has no infinity, so an
  infinite number is the text `"Infinity"`.
* Exit codes: 0 done; 1 a check failed (a regression, a refuted proof, a refused submission, something that `doctor`
  misses); 2 bad use, with one sentence on stderr that says what to do; 130 stopped with Ctrl-C or SIGTERM.
  A traceback is a bug: please report it.
* Unknown commands, flags, names, options and keys are errors with the closest known one. Nothing is ignored.
* `SUITE` is a path, or the bare name of a suite that ships with the package (`dpicl list suites`). The
  [quickstart](quickstart.md) describes suites, environment variables, and what a run does.

| flags of several commands | meaning |
|---|---|
{shared}
"""


def page() -> str:
    """The whole page."""
    commands = list(_commands())
    counts = Counter(row for _, parser in commands for row in _rows(parser))
    shared = {row for row, count in counts.items() if count >= SHARED}
    names = [
        f"| [`dpicl {name}`](#{name.replace(' ', '-')}) | {_cell(parser.description)} |" for name, parser in commands
    ]
    head = HEAD.format(commands="\n".join(names), shared="\n".join(sorted(_line(row) for row in shared if row[1])))
    return head + "".join(_section(name, parser, shared) for name, parser in commands)


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that runs something, by its full name, in the order of the help."""
    waiting = [("", build_parser())]
    while waiting:
        name, parser = waiting.pop(0)
        groups = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
        if not groups:
            yield name, parser
        waiting[:0] = [(f"{name} {word}".strip(), inner) for group in groups for word, inner in group.choices.items()]


def _section(name: str, parser: argparse.ArgumentParser, shared: set[tuple[str, str]]) -> str:
    rows = _rows(parser)
    examples = [line.strip() for line in (parser.epilog or "").removeprefix("example:").strip().splitlines()]
    own = ["| flag | meaning |", "|---|---|", *(_line(row) for row in rows if row not in shared), ""]
    also = ", ".join(f"{flag.split(' ')[0].strip('`')}" for flag, text in rows if (flag, text) in shared)
    return "\n".join(
        ["", f"## {name}", "", f"`{'`, `'.join(examples)}`. Also: `{also.replace(', ', '`, `')}`.", "", *own]
    )


def _rows(parser: argparse.ArgumentParser) -> list[tuple[str, str]]:
    """(flag with its value, meaning) of each argument."""
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        value = "" if action.nargs == 0 else f" {action.metavar or action.dest.upper()}"
        flag = f"{action.option_strings[-1]}{value}" if action.option_strings else value.strip()
        needed = " (required)" if action.required and action.option_strings else ""
        rows.append((f"`{_cell(flag)}`", f"{_cell(action.help)}{needed}"))
    return rows


def _line(row: tuple[str, str]) -> str:
    return f"| {row[0]} | {row[1]} |"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
