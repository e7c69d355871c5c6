"""Makes the commands of `dpicl` from the annotated functions of its verbs, by typer.

Of the two libraries that do this, typer shows the program's help in .2 s of CPU and cyclopts in .7 s; both read only
annotations of their own, so a flag reaches typer as text, and dpicl.api.verbs reads and checks it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
import typer.core

from dpicl.cli import output
from dpicl.cli.apart import run_apart
from dpicl.core.errors import UsageError, require_known, unknown
from dpicl.core.messages import capitalized

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
    given: Mapping[str, Any]
    json: bool = False

    @property
    def verb(self) -> Verb:
        found: Verb = vars(self.function)["verb"]
        return found

    def run(self) -> int:
        """Calls the function and shows what it returns; the exit code."""
        silence = None if self.verb.apart is None else self.verb.apart(self.given)
        return self._run() if silence is None else run_apart(self._run, silence)

    def _run(self) -> int:
        found = inspect.unwrap(self.function)(**self.given)  # its arguments were checked where they were read
        answer = found if isinstance(found, output.Answer) else self.verb.answer(found, self.given)
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


def build(verbs: Verbs, wanted: Collection[str], description: str, epilog: str, version: Callable[[], str]) -> Any:
    """The program, with the commands that are wanted; of the others it knows what they do, and their code is not
    imported."""
    app = typer.Typer(
        cls=_Program,
        rich_markup_mode=None,
        help=description,
        epilog=epilog,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    groups: dict[str, typer.Typer] = {}

    def root(shown: Annotated[bool, typer.Option("--version", help="show the version", is_eager=True)] = False) -> None:
        if shown:
            output.emit([f"dpicl {version()}"])
            raise typer.Exit

    app.callback(invoke_without_command=True)(root)
    for name, (place, help) in verbs.items():
        first, _, last = name.rpartition(" ")
        if first and first not in groups:
            groups[first] = typer.Typer(rich_markup_mode=None, help=help)
            app.add_typer(groups[first], name=first)
        owner = groups[first] if first else app
        if first in wanted or name in wanted:
            _add(owner, name, last, load(place), help)
        else:
            owner.command(last, help=help)(_not_loaded)
    program = typer.main.get_command(app)
    assert isinstance(program, _Program)
    program.order = list(dict.fromkeys(name.partition(" ")[0] for name in verbs))
    return program


class _Program(typer.core.TyperGroup):
    """Shows what each command does as a whole, in the order of the verbs."""

    order: Sequence[str] = ()

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.commands[name].help or "") for name in self.order])


def _not_loaded() -> None:
    """A command whose code nobody asked for."""


def _add(owner: typer.Typer, name: str, last: str, function: Callable[..., Any], help: str) -> None:
    from dpicl.api.verbs import parameters  # and pydantic, which `dpicl --help` does without

    known = parameters(function)
    verb: Verb = vars(function)["verb"]

    def call(**texts: Any) -> Call:
        as_json = texts.pop("json")
        written = _config(texts.pop("config"), name, known)
        written |= {key: text for key, text in texts.items() if text not in (None, False, [], ())}
        given = {key: _checked(known[key], text, name) for key, text in written.items()}
        for each in known.values():
            if (each.required or each.name in verb.needs) and each.name not in given:
                raise UsageError(f"{each.written} is missing; see `dpicl {name} --help`.")
        return Call(name, function, given, as_json)

    flags = [_typed(each, verb) for each in known.values() if not each.flag.hidden]
    own = {"config": (str | None, "--config", "FILE", CONFIG, None), "json": (bool, "--json", None, JSON, False)}
    for key, (kind, flag, metavar, said, default) in own.items():
        option = typer.Option(flag, metavar=metavar, help=said)
        flags.append(inspect.Parameter(key, _KEYWORD, default=default, annotation=Annotated[kind, option]))
    call.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in flags}
    epilog = "\b\nexample:\n" + "\n".join(f"  {line}" for line in verb.example.splitlines())
    owner.command(last, help=help, epilog=epilog)(call)


_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _typed(each: Parameter, verb: Verb) -> inspect.Parameter:
    """A parameter as typer takes it: a switch, a text, or several texts."""
    flag, kind, default = each.flag, str | None, None
    if each.switch:
        kind, default = bool, False  # type: ignore[assignment]
    elif flag.several:
        kind, default = list[str], []  # type: ignore[assignment]
    offered = None if flag.complete is None else _offering(flag.complete)
    if each.positional:
        about = typer.Argument(metavar=each.written, help=flag.help, autocompletion=offered, show_default=False)
    else:
        needed = " (required)" if each.required or each.name in verb.needs else ""
        about = typer.Option(
            each.written,
            metavar=None if each.switch else each.placeholder,
            help=flag.help + needed,
            autocompletion=offered,
            show_default=False,
        )
    return inspect.Parameter(each.name, _KEYWORD, default=default, annotation=Annotated[kind, about])


def _offering(complete: Callable[[], Iterable[str]] | str) -> Callable[[str], list[str]]:
    """What a shell offers for the beginning of a value."""

    def offer(incomplete: str) -> list[str]:
        if isinstance(complete, str):
            names = [str(row["name"]) for row in load(f"dpicl.api.lists:list_{complete}")()]
        else:
            names = list(complete())
        return [name for name in names if name.startswith(incomplete)]

    return offer


def _checked(each: Parameter, written: Any, name: str) -> Any:
    try:
        return each.checked(written)
    except ValueError as error:
        raise UsageError(f"Argument {each.written} {error}; see `dpicl {name} --help`.") from None


def _config(path: str | None, name: str, known: Mapping[str, Parameter]) -> dict[str, Any]:
    """The parameters of a file: parameter -> what is written there."""
    if path is None:
        return {}
    from dpicl.core import strict_yaml

    document = strict_yaml.read(Path(path))
    if not isinstance(document.data, dict):
        raise UsageError(f"{path} must hold parameters of `dpicl {name}`, one a line, such as `epsilon: 1`.")
    shown = [each for each in known.values() if not each.flag.hidden]
    flags = {each.name if each.positional else each.written.removeprefix("--"): each for each in shown}
    found = {}
    for key, value in document.data.items():
        word = str(key).replace("_", "-").lower()
        if word not in flags:
            raise document.error((key,), str(unknown(f"parameter of `dpicl {name}`", word, flags)))
        if flags[word].name in found:
            raise document.error((key,), f"'{word}' is given twice; keep one.")
        found[flags[word].name] = value
    return {key: value for key, value in found.items() if value is not None}


def parse(program: Any, argv: Sequence[str], verbs: Verbs) -> Call | None:
    """Reads a command line; None where help or the version was shown. Raises UsageError."""
    firsts = list(dict.fromkeys(name.partition(" ")[0] for name in verbs))
    if not argv:
        raise UsageError("A command is missing; see `dpicl --help`.")
    if argv[0] == "--" or (not argv[0].startswith("-") and argv[0] not in firsts):
        raise unknown("command", argv[0], firsts)
    in_group = [name for name in verbs if name.startswith(f"{argv[0]} ")]
    if in_group and argv[1:] and not argv[1].startswith("-"):
        require_known("command", [" ".join(argv[:2])], in_group)
    try:
        found = program.main(args=list(argv), prog_name="dpicl", standalone_mode=False)
    except typer.TyperException as error:
        _explain(error, argv)
    return found if isinstance(found, Call) else None


_EXTRA = "Got unexpected extra argument(s) ("


def _explain(error: typer.TyperException, argv: Sequence[str]) -> NoReturn:
    """Raises UsageError in our words."""
    context = getattr(error, "ctx", None)
    path = "dpicl" if context is None else context.command_path
    flags = [] if context is None else [word for each in context.command.params for word in each.opts]
    flags = [word for word in flags if word.startswith("--")]
    if hasattr(error, "possibilities"):  # only the error of an unknown flag has them
        name = str(error.option_name)  # type: ignore[attr-defined]
        written = next((word for word in argv if word.partition("=")[0] == name), name)
        if path == "dpicl" and not get_close_matches(name, flags):
            raise UsageError(
                f"'{written}' is not a flag of dpicl itself (--help and --version are); a command's flags follow it, as"
                " in `dpicl run SUITE --epsilon 1`, and `dpicl COMMAND --help` lists them."
            ) from None
        raise unknown("flag", name, [*flags, "--help"]) from None
    said = error.format_message().rstrip(".").replace("Missing argument", "Missing")
    if (extra := said.removeprefix(_EXTRA)) != said:
        said = f"unexpected words '{extra.removesuffix(')')}'"  # in quotes they are cut where they are long
    raise UsageError(f"{capitalized(said)}; see `{path} --help`.") from None


def spoken(argv: Sequence[str]) -> list[str]:
    """The command line with `help` and `version` as flags."""
    words = list(argv)
    if words[:1] == ["help"]:
        return [*words[1:], "--help"]
    return ["--version"] if words[:1] in (["-V"], ["-v"], ["version"]) else words
