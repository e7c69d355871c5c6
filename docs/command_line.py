"""Writes docs/command-line.md from the verbs of `dpicl` (`make docs`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from dpicl.api.verbs import Verb, parameters
from dpicl.cli.commands import CONFIG, JSON, load
from dpicl.program import VERBS

PAGE = Path(__file__).with_name("command-line.md")
SHARED = 3  #: a flag that so many commands have, in the same words, is explained once

HEAD = """# The command line

<!-- Written by docs/command_line.py (`make docs`). To change it, edit the annotations and VERBS in the code. -->

| command | does |
|---|---|
{commands}

The commands share a few rules:

* `--json` prints one JSON document on stdout; messages and progress go to stderr. JSON has no infinity, so an
  infinite number is the text `"Infinity"`.
* `--config FILE.yaml` holds parameters by the names of their flags (`epsilon: [1, 8]`); flags that are given win.
* Exit codes: 0 done; 1 a check failed (a regression, a refuted proof, a refused submission, something that `doctor`
  misses); 2 bad use, with one sentence on stderr that says what to do; 130 stopped with Ctrl-C or SIGTERM.
  A traceback is a bug: please report it.
* Unknown commands, flags, names, options and keys are errors with the closest known one. Nothing is ignored.
* `SUITE` is a path, or the bare name of a suite that ships with the package (`dpicl list suites`). The
  [quickstart](quickstart.md) describes suites, environment variables, and what a run does.
* `dpicl --install-completion` completes commands, flags and names in your shell.
* The same functions are the [Python API](python.md): `dpicl.board("quick", task="agnews")` is
  `dpicl board quick --task agnews`.

| flags of several commands | meaning |
|---|---|
{shared}
"""


def page() -> str:
    """The whole page."""
    rows = {name: list(_rows(name)) for name in VERBS}
    counts = Counter(row for own in rows.values() for row in own)
    shared = {row for row, count in counts.items() if count >= SHARED}
    names = [f"| [`dpicl {name}`](#{name.replace(' ', '-')}) | {_cell(does)} |" for name, (_, does) in VERBS.items()]
    head = HEAD.format(commands="\n".join(names), shared="\n".join(sorted(_line(row) for row in shared if row[1])))
    return head + "".join(_section(name, own, shared) for name, own in rows.items())


def _section(name: str, rows: list[tuple[str, str]], shared: set[tuple[str, str]]) -> str:
    verb: Verb = vars(load(VERBS[name][0]))["verb"]
    own = ["| flag | meaning |", "|---|---|", *(_line(row) for row in rows if row not in shared), ""]
    also = "`, `".join(flag.split(" ")[0].strip("`") for flag, text in rows if (flag, text) in shared)
    examples = "`, `".join(verb.example.splitlines())
    return "\n".join(["", f"## {name}", "", f"`{examples}`. Also: `{also}`.", "", *own])


def _rows(name: str) -> Iterator[tuple[str, str]]:
    """(flag with its value, meaning) of each parameter."""
    function = load(VERBS[name][0])
    verb: Verb = vars(function)["verb"]
    for each in parameters(function).values():
        if not each.flag.hidden:
            value = "" if each.positional or each.switch else f" {each.placeholder}"
            needed = " (required)" if (each.required and not each.positional) or each.name in verb.needs else ""
            yield f"`{_cell(each.written + value)}`", _cell(each.flag.help) + needed
    yield "`--config FILE`", _cell(CONFIG)
    yield "`--json`", _cell(JSON)


def _line(row: tuple[str, str]) -> str:
    return f"| {row[0]} | {row[1]} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
