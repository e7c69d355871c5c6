"""`dpicl release`: one release of demonstrations, or of a prepared mechanism's state, with its privacy card."""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpicl.api.releases import release
from dpicl.cli import output
from dpicl.cli.arguments import Parser, Subparsers, add_command, api_kwargs, epsilon, options_of, whole
from dpicl.core.errors import UsageError
from dpicl.core.messages import rounded_up
from dpicl.core.paths import private_folder
from dpicl.own.budget import SetStanding, read_standings
from dpicl.own.card import NOT_MEASURED, describe_proof
from dpicl.own.released import FORMATS, PrivateRelease, UnsavedRelease


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "release",
        "dpicl release tang --data tickets.csv --labels billing,technical,refund --size 100 --epsilon 1 --delta 1e-6"
        " --out demos.jsonl",
        _release,
    )
    add_flags(parser)
    parser.share("--shots")
    parser.choice(
        "--format",
        FORMATS,
        "of the file: JSONL of texts and labels (default), a prompt, or a chat's messages; what a prepared mechanism"
        " releases has a format of its own",
    )


def add_flags(parser: Parser, required: bool = True) -> None:
    """What a release and answers have in common. required: whether records must be given."""
    parser.add_argument("mechanism", metavar="MECHANISM", help="see `dpicl list mechanisms`")
    parser.add_argument(
        "--data",
        type=Path,
        required=required,
        metavar="FILE",
        help="CSV, JSON Lines, JSON, Excel or Parquet; all of it is private",
    )
    parser.share("--labels")
    parser.add_argument("--task", metavar="T", help="a known task with its labels and prompts, instead of --labels")
    parser.add_argument("--text-is", metavar="WORDS", help="what a text is, for prompts: 'support ticket'")
    parser.share("--text-field", "--label-field")
    parser.add_argument(
        "--public", type=Path, metavar="FILE", help="records that everybody may know, where a task needs some"
    )
    parser.add_argument(
        "--public-test",
        type=Path,
        metavar="FILE",
        help="public records like the private ones: measures the utility on them first, at no cost in privacy",
    )
    parser.add_argument(
        "--epsilon", type=epsilon, required=required, metavar="E", help="proved epsilon of this release"
    )
    parser.share("--delta", default=None, help="delta (default: 1e-6)")
    parser.add_argument(
        "--allow-large-delta",
        action="store_true",
        help="release also where delta is above one over the declared number of records; the card says so",
    )
    parser.repeated(
        "--size", "N", "declared private records of each class, or LABEL=N for one class; a public number", size
    )
    parser.share("--model", "--option", "--plugin", "--total-epsilon")
    parser.share("--seed", default=None)
    parser.add_argument(
        "--private-set", metavar="NAME", help="name of the set that is charged (default: that of --data)"
    )
    parser.share(
        "--noise", default=None, help="secure (default); seeded is for trying on public records, and not private"
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="FILE", help="the released file; its card goes beside it"
    )


def size(text: str) -> tuple[str | None, int]:
    """'100' or 'billing=100'."""
    label, _, number = text.rpartition("=")
    return (label or None), whole(1)(number)


def common(arguments: argparse.Namespace, function: Any) -> dict[str, Any]:
    """The arguments of a function of the API. Raises UsageError for sizes that contradict each other."""
    sizes = arguments.size
    if len(sizes) > 1 and (len({label for label, _ in sizes}) < len(sizes) or None in dict(sizes)):
        raise UsageError("Give --size N once, for all classes, or --size LABEL=N once for each label.")
    size = None if not sizes else sizes[0][1] if sizes[0][0] is None else dict(sizes)
    return {**api_kwargs(function, arguments), "size": size, **code(arguments)}


def code(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of the mechanism, and the plug-ins."""
    return {
        "options": options_of(Path(arguments.mechanism).stem, arguments.option),
        "plugins": arguments.plugin,
    }


def _release(arguments: argparse.Namespace) -> int:
    return released(arguments, lambda: release(**common(arguments, release)), arguments.format or "jsonl")


def released(arguments: argparse.Namespace, make: Callable[[], PrivateRelease], form: str) -> int:
    """Makes the release and says what it cost. One that cannot be written is put on stdout: it was paid for."""
    _show_stages()
    try:
        made = make()
    except UnsavedRelease as error:
        output.emit(error.release.text(form))
        output.emit_json(error.release.card)
        raise
    budgets = [stands for _, stands in read_standings() if stands.private_set in made.charged_to]
    document = {"out": arguments.out, "card": made.card, "budgets": [asdict(each) for each in budgets]}
    return output.answer(arguments, document, lambda: _show(arguments, made, budgets))


class _Stages(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        output.message(record.getMessage())


def _show_stages() -> None:
    """What a release is doing, on stderr."""
    log = logging.getLogger("dpicl.own.job")
    if not log.handlers:
        log.addHandler(_Stages())
        log.setLevel(logging.INFO)
        log.propagate = False


def _show(arguments: argparse.Namespace, made: PrivateRelease, budgets: Sequence[SetStanding]) -> None:
    privacy, card = made.card["privacy"], arguments.out.with_name(f"{arguments.out.stem}.card.md")
    if not made.card["private"]:
        output.message(f"dpicl: {made.card['warning']}")
    count = output.count(len(made.answers), "answer") if made.queries else output.count(len(made.prompt.texts), "text")
    what = f"The state of {made.card['mechanism']}" if made.state is not None else count
    output.emit(
        f"{what} in {arguments.out}; epsilon = {rounded_up(privacy['epsilon_proved'])} {describe_proof(privacy)} at"
        f" delta = {privacy['delta']:g}; card: {card}"
    )
    if made.card["utility"] is None:
        output.emit(f"{NOT_MEASURED[0].upper()}{NOT_MEASURED[1:]}.")
    if made.state is not None:
        words = ["dpicl", "answer", arguments.mechanism, "--state", str(arguments.out), "--queries", "FILE"]
        words += [word for _, name, value in arguments.option for word in ("--option", f"{name}={value}")]
        words += [] if arguments.model == "embedded" else ["--model", arguments.model]
        words += [word for plugin in arguments.plugin for word in ("--plugin", str(plugin))]
        output.emit(f"It answers any number of queries at no further cost: {shlex.join([*words, '--out', 'FILE'])}")
    if "state_sha256" in made.card:
        output.emit("Nothing was charged: the answers follow from what was released before.")
    for each in budgets:
        limit = "" if each.limit is None else f" of {each.limit:g}"
        output.emit(
            f"Private set '{each.private_set}': {output.count(each.releases, 'release')}, epsilon in all ="
            f" {rounded_up(each.sum_epsilon)}{limit} (delta = {each.sum_delta:g}). See: dpicl budget --private-set"
            f" {each.private_set}"
        )
        if each.releases == 1:
            output.emit(f"This budget is new; it is kept in {private_folder()}")
