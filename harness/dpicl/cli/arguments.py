"""Reading the command line: a parser that explains, and the types and flags that several commands share."""

from __future__ import annotations

import argparse
import inspect
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpicl.cli import meanings
from dpicl.core import strict_yaml
from dpicl.core.errors import UsageError, require_known, unknown
from dpicl.core.field_types import parse_number
from dpicl.core.json_text import WHOLE
from dpicl.core.messages import capitalized, message
from dpicl.core.paths import DEFAULT_RESULTS, shipped_suites

if TYPE_CHECKING:
    from dpicl.plan.selection import Selection

SOURCES = ("auto", "hub", "local", "synthetic")
_NOISES = ("seeded", "secure")

#: What each command does, in the order of `dpicl --help`.
HELP = {
    "run": "run what is missing of a suite",
    "plan": "show what `run` would do: cells, which of them are done, what the rest costs",
    "tune": "choose the options that papers tuned, for all rows of a suite by one protocol, into SUITE.tuned.yaml",
    "slurm": "print a script for sbatch that runs a suite as a job array, a part of it (`run --shard`) in each job",
    "board": "show the leaderboard of a suite; SUITE 'all' lists all suites, 'attacks' shows every attack and audit",
    "plot": "draw privacy against utility for a paper: a panel for each task, a line for each mechanism",
    "compare": "two rows of a board: which is better and how sure; two result folders: a gate for regressions",
    "track": "show scores across releases of a model and commits of the code",
    "publish": "send results to Weights & Biases",
    "submit": "check a submission to the board: files, records, epsilon, history; or begin one",
    "release": "make one release from private records of your own: demonstrations as a prompt, and a privacy card",
    "answer": "answer a file of queries from private records of your own, with a privacy card",
    "budget": "show what all releases of a private set cost together, limit it, export it",
    "list": "show what there is: tasks, mechanisms, attacks, models or suites",
    "calibrate": "the noise of a mechanism for a proved epsilon",
    "account": "epsilon of given noise: what is proved, and what authors compute",
    "attack": "attack mechanisms, with zero-shot and real demonstrations as the reference baselines",
    "audit": "a lower bound on the epsilon of a mechanism, from runs with and without a canary",
    "check": "test a mechanism for the usual privacy bugs",
    "new": "write a working example to start from: a mechanism, a task, an attack, a model or a suite",
    "lm-eval": "run lm-evaluation-harness's own command with a mechanism as its model; other flags are lm-eval's",
    "ginc": "train the model of the task ginc, or measure how it learns from demonstrations",
    "cache": "list or clear collected model outputs (derived from private records) and what killed processes left",
    "data": "count records, labels, lengths, repeats and errors of a task or of a file, before anything runs",
    "doctor": "show what is installed and what is missing",
}

#: What `add_subparsers` returns; argparse keeps the class private.
Subparsers = Any
Command = Callable[[argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """Raises UsageError, with a suggestion, where argparse would print its usage and exit."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{capitalized(message)}; see `{self.prog} --help`.")

    def share(self, *flags: str, **changes: Any) -> None:
        """Adds flags that several commands have. changes: what is other about them here."""
        for flag in flags:
            action = self.add_argument(flag, **{**_SHARED[flag], **changes})
            if flag in _COMPLETED:
                _complete(action, _COMPLETED[flag])

    def count(self, flag: str, metavar: str, what: str, least: int = 1, default: int | None = None) -> None:
        """Adds a flag that is a whole number."""
        self.add_argument(flag, type=whole(least), default=default, metavar=metavar, help=what)

    def repeated(
        self,
        flag: str,
        metavar: str,
        what: str,
        type: Callable[[str], Any] = str,
        split: bool = True,
        **more_settings: Any,
    ) -> None:
        """Adds a flag whose values are collected in a list. split: whether commas divide several in one."""
        settings = (_listed(type) if split else _several(type=type)) | more_settings
        more = " (or A,B)" if split else ""
        action = self.add_argument(flag, metavar=metavar, help=f"{what}; may be repeated{more}", **settings)
        if flag in _COMPLETED:
            _complete(action, _COMPLETED[flag])

    def choice(self, flag: str, choices: Sequence[str], help: str, kind: str = "", **settings: Any) -> None:
        """Adds a flag, or an argument, that is one of a few words. kind: what a message calls it."""
        kind, words = kind or flag.removeprefix("--"), "|".join(choices)
        action = self.add_argument(flag, type=one_of(kind, choices), metavar=words, help=help, **settings)
        _complete(action, lambda: choices)

    def flags(self) -> list[str]:
        """Every long flag."""
        return [flag for action in self._actions for flag in action.option_strings if flag.startswith("--")]


def add_command(subparsers: Subparsers, name: str, example: str, run: Command, help: str = "") -> Parser:
    """A new command with `--json`, a help text (that of `HELP`) with an example, and the function that runs it."""
    help = help or HELP[name]
    parser: Parser = subparsers.add_parser(name, help=help, description=help, epilog=f"example:\n  {example}")
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout, messages on stderr")
    parser.set_defaults(run=run, parser=parser)
    return parser


def parse(parser: Parser, argv: Sequence[str], commands: Sequence[str]) -> argparse.Namespace:
    """Parses the command line. Raises UsageError with the command or flag that is meant for one that there is not."""
    if argv and not argv[0].startswith("-") and argv[0] not in commands:
        raise _meant("command", argv[0], commands, meanings.COMMANDS)
    if argv and argv[0].startswith("--") and (first := argv[0].partition("=")[0]) not in parser.flags():
        if get_close_matches(first, parser.flags()):
            raise unknown("flag", first, parser.flags())
        raise UsageError(
            f"'{argv[0]}' is not a flag of dpicl itself (--help and --version are); a command's flags follow it, as in"
            " `dpicl run SUITE --epsilon 1`, and `dpicl COMMAND --help` lists them."
        )
    if said := meanings.GONE.get(" ".join(argv[:2])):
        raise UsageError(said)
    arguments, extra = parser.parse_known_args(argv)
    if getattr(arguments, "passes_on", False):
        arguments.rest = extra
    elif extra:
        owner: Parser = getattr(arguments, "parser", parser)
        flag = next((item for item in extra if item.startswith("-")), None)
        if flag is None:
            raise UsageError(f"Unexpected argument '{extra[0]}'; see `{owner.prog} --help`.")
        raise _meant("flag", flag.split("=")[0], owner.flags(), meanings.FLAGS)
    return arguments


def _renamed(word: str, command: str) -> str:
    """A word of the command line with the present name of a flag that had another one, which is said on stderr."""
    flag, equals, value = word.partition("=")
    if not (name := meanings.RENAMED.get((command, flag))):
        return word
    message(f"dpicl: {flag} is now called {name}; the old name will go in the next release.")
    return name + equals + value


def _meant(kind: str, name: str, known: Sequence[str], meanings: Mapping[str, str]) -> UsageError:
    """`unknown`, with what somebody means who writes the name: a name of ours, or a sentence."""
    meaning = meanings.get(name.lower(), "")
    if meaning in known:
        return UsageError(f"Unknown {kind} '{name}'. Did you mean '{meaning}'? Known: {', '.join(sorted(known))}.")
    if " " in meaning:
        return UsageError(f"Unknown {kind} '{name}'. {meaning} Known: {', '.join(sorted(known))}.")
    return unknown(kind, name, known)


def spoken(argv: Sequence[str], commands: Sequence[str]) -> list[str]:
    """The command line with what other programs, or earlier versions, call a flag in our words."""
    words = list(argv)
    if words[:1] == ["help"]:
        return [*words[1:2], "--help"] if words[1:2] and words[1] in commands else ["--help"]
    if words[:1] in (["-V"], ["-v"], ["version"]):
        return ["--version"]
    return [_renamed(word, words[0]) for word in words]


def number(text: str) -> float:
    """A decimal or a fraction such as 20/30000; 'inf' is infinity."""
    try:
        return parse_number(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"'{text}' is not a number (write a decimal, or a fraction such as 1/30000)"
        ) from None


def numeric(fits: Callable[[float], bool], otherwise: str) -> Callable[[str], float]:
    """Reads a number; the sentence ``otherwise`` refuses one that does not fit, NaN included."""

    def read(text: str) -> float:
        value = number(text)
        if not fits(value):
            raise argparse.ArgumentTypeError(f"{otherwise}, not {text}")
        return value

    return read


positive = numeric(lambda value: 0 < value < math.inf, "it must be a finite number above 0")
epsilon = numeric(lambda value: value > 0, "epsilon must be above 0 ('inf' for no privacy)")
delta = numeric(lambda value: 0 < value < 1, "delta must lie between 0 and 1, both excluded")
rate = numeric(lambda value: 0 < value <= 1, "a sampling rate lies in (0, 1]")
confidence = numeric(lambda value: 0.5 <= value < 1, "a confidence lies in [0.5, 1)")


def whole(least: int) -> Callable[[str], int]:
    """A whole number of at least `least`, which every program can hold exactly."""

    def read(text: str) -> int:
        if not text.removeprefix("-").isdecimal() or len(text) > 17 or not least <= int(text) < WHOLE:
            raise argparse.ArgumentTypeError(
                f"it must be a whole number of at least {least} and below 2^53, not '{text[:40]}'"
            )
        return int(text)

    return read


def one_of(kind: str, choices: Sequence[str]) -> Callable[[str], str]:
    """One of a few words, with a suggestion for any other."""

    def read(text: str) -> str:
        require_known(kind, [text], choices)
        return text

    return read


def option(text: str) -> tuple[str | None, str, Any]:
    """'slots=5' or 'tang.slots=5' -> (row or mechanism, option, value); the value is read as in a suite."""
    name, equals, value = text.partition("=")
    target, dot, short = name.rpartition(".")
    if not equals or not (short if dot else name):
        raise argparse.ArgumentTypeError(f"write NAME=VALUE or MECHANISM.NAME=VALUE, not '{text}'")
    try:
        parsed = strict_yaml.parse(value, Path("--option")).data
    except UsageError:
        parsed = value
    return (target or None), short, parsed


def shard_of(text: str) -> tuple[int, int]:
    """'2/8' -> (2, 8): the second of eight parts."""
    found = re.fullmatch("([0-9]{1,6})/([0-9]{1,6})", text)  # int() takes digits of every script
    number, of = map(int, found.groups()) if found else (0, 0)
    if not 1 <= number <= of:
        raise argparse.ArgumentTypeError(
            f"write I/N, the I-th of N parts from 1/N to N/N, such as 2/8, not '{text[:40]}'"
        )
    return number, of


def label_names(text: str) -> dict[str, str]:
    """'billing,refund' or '0=billing,1=refund' -> label as a file has it -> label word, with single spaces."""
    found: dict[str, str] = {}
    for part in text.split(","):
        written, _, word = part.partition("=") if "=" in part else (part, "", part)
        written, word = written.strip(), " ".join(word.split())
        if not written or not word or written in found:
            said = f"'{written}' is given twice" if written in found else f"'{part}' lacks a label or its name"
            raise argparse.ArgumentTypeError(f"{said}; write billing,refund or 0=billing,1=refund")
        found[written] = word
    return found


def _flag(**settings: Any) -> dict[str, Any]:
    """What `add_argument` is given for a flag."""
    return settings


def _several(**settings: Any) -> dict[str, Any]:
    """The same for a flag that may be repeated."""
    return {"action": "append", "default": [], **settings}


def _listed(type: Callable[[str], Any], **settings: Any) -> dict[str, Any]:
    """The same for one that may be repeated, or have several values, divided by commas."""

    def read(text: str) -> list[Any]:
        return [type(part.strip()) for part in text.split(",") if part.strip()] or [type(text)]

    return {"action": "extend", "default": [], "type": read, **settings}


def _complete(action: argparse.Action, choices: Callable[[], Iterable[str]]) -> None:
    """What argcomplete offers as a value."""
    action.completer = lambda **_: list(choices())  # type: ignore[attr-defined]


def _names_of(kind: str) -> Callable[[], Iterable[str]]:
    """The names of what `dpicl list KIND` shows; found only while somebody completes one."""

    def names() -> Iterable[str]:
        from dpicl.api import lists

        return [str(row["name"]) for row in getattr(lists, f"list_{kind}")()]

    return names


#: Flag -> what may stand there.
_COMPLETED: dict[str, Callable[[], Iterable[str]]] = {
    "--source": lambda: SOURCES,
    "--noise": lambda: _NOISES,
    "--model": _names_of("models"),
    "--task": _names_of("tasks"),
    "--mechanism": _names_of("mechanisms"),
}


_SOURCES = "|".join(SOURCES)
_SHARED = {
    "--results": _flag(type=Path, default=DEFAULT_RESULTS, metavar="DIR", help="results folder (default: results)"),
    "--source": _flag(type=one_of("source", SOURCES), default="auto", metavar=_SOURCES, help="where records come from"),
    "--model": _flag(default="embedded", metavar="X", help="model as in a suite (default: embedded)"),
    "--delta": _flag(type=delta, default=1e-5, metavar="D", help="delta (default: 1e-5)"),
    "--seed": _flag(type=whole(0), default=0, metavar="S", help="root seed (default: 0)"),
    "--shots": _flag(type=whole(1), default=4, metavar="K", help="demonstrations (default: 4)"),
    "--noise": _flag(
        type=one_of("noise", _NOISES),
        default="seeded",
        metavar="|".join(_NOISES),
        help="secure: for private records, from the operating system's entropy; needs --size",
    ),
    "--total-epsilon": _flag(
        type=positive,
        metavar="E",
        help="private records: refuse what would bring the sum over releases of one set above this; stays in force",
    ),
    "--plugin": _several(
        type=Path,
        metavar="PATH",
        help="Python file with a mechanism, attack or model, or folder with a task.yaml; may be repeated",
    ),
    "--option": _several(
        type=option, metavar="K=V", help="option of the mechanisms that have it (or MECHANISM.K=V); may be repeated"
    ),
    "--shard": _flag(
        type=shard_of,
        metavar="I/N",
        help="only the I-th of N parts of the cells, always the same ones; results of all parts make the suite",
    ),
    "--text-field": _flag(metavar="NAME", help="field of a file's text (default: text, or another usual name)"),
    "--label-field": _flag(metavar="NAME", help="field of a file's label (default: label, or another usual name)"),
    "--labels": _flag(
        type=label_names,
        metavar="LIST",
        help="label words, as billing,refund or, where a file has other labels, 0=billing,1=refund",
    ),
    "--epsilon": _listed(epsilon, metavar="E", help="target epsilon ('inf' too); may be repeated (or 1,8)"),
}


def add_results_flags(parser: Parser) -> None:
    """Where results are, and which of them."""
    suite = parser.add_argument("suite", metavar="SUITE", help="a suite file, or the name of a shipped suite")
    _complete(suite, lambda: [*shipped_suites(), *map(str, Path().glob("*.yaml"))])
    parser.share("--results", "--plugin")
    parser.share("--source", default=None)
    parser.count("--limit", "N", "test records of each task")
    parser.repeated("--model", "X", "model")


def add_selection_flags(parser: Parser) -> None:
    """Which cells; each flag stands in for the suite's own list, and may be repeated."""
    add_results_flags(parser)
    parser.share("--epsilon", "--option")
    parser.repeated("--task", "T", "task")
    parser.repeated("--mechanism", "M", "row of the suite, or any mechanism")
    parser.repeated("--seed", "S", "seed", whole(0))


def api_kwargs(function: Callable[..., Any], arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags that a function of the API takes under the same name; a flag that was not given and has no default is
    left to the function."""
    names = inspect.signature(function).parameters
    return {name: value for name, value in vars(arguments).items() if name in names and value is not None}


def options_of(mechanism: str, options: Sequence[tuple[str | None, str, Any]]) -> dict[str, Any]:
    """The options given to the one mechanism of a command. Raises UsageError for one that names another mechanism."""
    require_known("mechanism", [target for target, _, _ in options if target is not None], [mechanism])
    return {name: value for _, name, value in options}


def selected(arguments: argparse.Namespace) -> Selection:
    """What the flags of a command select.

    Raises UsageError for anything that is not known or does not fit.
    """
    from dpicl.plan.selection import select, shard
    from dpicl.plan.suite import Changes, OptionChange

    changes = Changes(
        tasks=getattr(arguments, "task", []),
        mechanisms=getattr(arguments, "mechanism", []),
        models=arguments.model,
        epsilons=getattr(arguments, "epsilon", []),
        seeds=getattr(arguments, "seed", []),
        source=arguments.source,
        test_records=arguments.limit,
    )
    options = [OptionChange(*item) for item in getattr(arguments, "option", [])]
    found = select(arguments.suite, arguments.results, arguments.plugin, changes, options)
    part = getattr(arguments, "shard", None)
    return found if part is None else replace(found, cells=shard(found.cells, *part))
