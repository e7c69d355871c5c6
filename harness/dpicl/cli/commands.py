"""Makes the commands of `dpicl` from the annotated functions of its verbs, by typer.

Of the two libraries that do this, typer shows the program's help in .2 s of CPU and cyclopts in .7 s; both read only
annotations of their own, so a flag reaches typer as text, and dpicl.api.verbs reads and checks it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from dpicl.cli import output
from dpicl.cli.apart import run_apart
from dpicl.core.errors import UsageError, unknown_name

if TYPE_CHECKING:
    from dpicl.api.verbs import Parameter, Verb

#: Name -> (module:function, what it does).
Verbs = Mapping[str, tuple[str, str]]
JSON = "one JSON document on stdout, messages on stderr"
CONFIG = "YAML file with parameters, by the names of their flags; flags that are given win"


@dataclass(frozen=True)
class Call:
    """A command line that was read: what it calls, with which arguments."""

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Any]
    json: bool = False

    @property
    def verb(self) -> Verb:
        verb: Verb = vars(self.function)["verb"]
        return verb

    def run(self) -> int:
        """Calls the function and shows what it returns; the exit code."""
        silence = None if self.verb.apart is None else self.verb.apart(self.arguments)
        return self._run() if silence is None else run_apart(self._run, silence)

    def _run(self) -> int:
        # its arguments were checked where they were read
        returned = inspect.unwrap(self.function)(**self.arguments)
        answer = (
            returned
            if isinstance(returned, output.Answer)
            else self.verb.answer(returned, self.arguments)
        )
        if self.json:
            output.emit_json(answer.document)
        else:
            output.emit(answer.shown)
        return answer.code


def load(place: str) -> Callable[..., Any]:
    """'module:function' -> the function."""
    module, _, name = place.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return function


def build(
    verbs: Verbs,
    loaded: Collection[str],
    description: str,
    epilog: str,
    version: Callable[[], str],
) -> Any:
    """The program, with the commands that are wanted; of the others it knows what they do, and their code is not
    imported."""
    app = typer.Typer(
        cls=_Program,
        rich_markup_mode=None,
        help=description,
        epilog=epilog,
        context_settings={"help_option_names": ["--help", "-h"]},
    )

    def root(
        shown: Annotated[
            bool,
            typer.Option(
                "--version",
                "-V",
                help="show the version",
                is_eager=True,
            ),
        ] = False,
    ) -> None:
        if shown:
            output.emit([f"dpicl {version()}"])
            raise typer.Exit

    app.callback(invoke_without_command=True)(root)
    for name, (place, help) in verbs.items():
        if name in loaded:
            _add(app, name, load(place), help)
        else:
            app.command(name, help=help)(_refuse_unloaded)
    return typer.main.get_command(app)


class _Program(typer.core.TyperGroup):
    """Shows what each command does as a whole."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.help or "") for name, each in self.commands.items()])


def _refuse_unloaded() -> None:
    """A command whose code nobody asked for."""


def _add(
    app: typer.Typer,
    name: str,
    function: Callable[..., Any],
    help: str,
) -> None:
    from dpicl.api.verbs import parameters  # and pydantic, which `dpicl --help` does without

    known = parameters(function)
    verb: Verb = vars(function)["verb"]

    def call(**texts: Any) -> Call:
        as_json = texts.pop("json")
        written = _config(texts.pop("config"), name, known)
        written |= {key: text for key, text in texts.items() if text not in (None, False, [], ())}
        arguments = {key: _check(known[key], text, name) for key, text in written.items()}
        for each in known.values():
            if (each.required or each.name in verb.needs) and each.name not in arguments:
                raise UsageError(f"{each.written} is missing; see `dpicl {name} --help`.")
        return Call(name, function, arguments, as_json)

    flags = [_to_typer(each, verb) for each in known.values() if not each.flag.hidden]
    shared = {
        "config": (str | None, "--config", "FILE", CONFIG, None),
        "json": (bool, "--json", None, JSON, False),
    }
    for key, (kind, flag, metavar, about, default) in shared.items():
        option = typer.Option(flag, metavar=metavar, help=about)
        flags.append(
            inspect.Parameter(
                key,
                _KEYWORD,
                default=default,
                annotation=Annotated[kind, option],
            )
        )
    call.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in flags}
    epilog = "\b\nexample:\n" + "\n".join(f"  {line}" for line in verb.example.splitlines())
    app.command(name, help=help, epilog=epilog)(call)


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _to_typer(each: Parameter, verb: Verb) -> inspect.Parameter:
    """A parameter as typer takes it: a switch, a text, or several texts."""
    flag, kind, default = each.flag, str | None, None
    if each.switch:
        kind, default = bool, False  # type: ignore[assignment]
    elif flag.several:
        kind, default = list[str], []  # type: ignore[assignment]
    offered = None if flag.complete is None else _offer(flag.complete)
    if each.positional:
        about = typer.Argument(
            metavar=each.written,
            help=flag.help,
            autocompletion=offered,
            show_default=False,
        )
    else:
        needed = " (required)" if each.required or each.name in verb.needs else ""
        about = typer.Option(
            each.written,
            metavar=None if each.switch else each.placeholder,
            help=flag.help + needed,
            autocompletion=offered,
            show_default=False,
        )
    return inspect.Parameter(
        each.name, _KEYWORD, default=default, annotation=Annotated[kind, about]
    )


def _offer(complete: Callable[[], Iterable[str]] | str) -> Callable[[str], list[str]]:
    """What a shell offers for the beginning of a value."""

    def offer(incomplete: str) -> list[str]:
        if isinstance(complete, str):
            names = [str(row["name"]) for row in load(f"dpicl.api.lists:list_{complete}")()]
        else:
            names = list(complete())
        return [name for name in names if name.startswith(incomplete)]

    return offer


def _check(each: Parameter, written: Any, name: str) -> Any:
    try:
        return each.validate(written)
    except ValueError as error:
        raise UsageError(f"Argument {each.written} {error}; see `dpicl {name} --help`.") from None


def _config(
    path: str | None,
    name: str,
    known: Mapping[str, Parameter],
) -> dict[str, Any]:
    """The parameters of a file: parameter -> what is written there."""
    if path is None:
        return {}
    from dpicl.core import strict_yaml
    from dpicl.models.server_settings import address_problem

    document = strict_yaml.read(Path(path))
    if not isinstance(document.data, dict):
        raise UsageError(
            f"{path} must hold parameters of `dpicl {name}`, one a line, such as `epsilon: 1`."
        )
    shown = [each for each in known.values() if not each.flag.hidden]
    flags = {
        each.name if each.positional else each.written.removeprefix("--"): each for each in shown
    }
    values = {}
    for key, value in document.data.items():
        word = str(key).replace("_", "-").lower()
        if word not in flags:
            raise document.error(
                (key,), str(unknown_name(f"parameter of `dpicl {name}`", word, flags))
            )
        if flags[word].name in values:
            raise document.error((key,), f"'{word}' is given twice; keep one.")
        for text in value if isinstance(value, list) else [value]:
            for part in str(text).split(","):
                if problem := address_problem(part):
                    raise document.error((key,), problem)
        values[flags[word].name] = value
    return {key: value for key, value in values.items() if value is not None}


def parse(program: Any, argv: Sequence[str]) -> Call | None:
    """Reads a command line; None where help or the version was shown. Raises UsageError, in typer's words."""
    if not argv:
        raise UsageError("A command is missing; see `dpicl --help`.")
    try:
        called = program.main(args=list(argv), prog_name="dpicl", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        path = "dpicl" if context is None else context.command_path
        problem = f"{error.format_message():.400}"
        raise UsageError(
            f"{problem}{'' if problem.endswith(('.', '?')) else '.'} See `{path} --help`."
        ) from None
    return called if isinstance(called, Call) else None
