"""`dpicl release`: one release of demonstrations from private records, with its privacy card."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dpicl.harness.api.releases import PrivateRelease, UnsavedRelease, release
from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Parser, Subparsers, add_command, epsilon, options_of, passed, whole
from dpicl.harness.core.errors import UsageError
from dpicl.harness.run.budget import SetStanding, standings
from dpicl.harness.run.formats import FORMATS


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
        "--format", FORMATS, "of the file: JSONL of texts and labels (default), a prompt, or a chat's messages"
    )


def add_flags(parser: Parser) -> None:
    """What a release and answers have in common."""
    parser.add_argument("mechanism", metavar="MECHANISM", help="see `dpicl list mechanisms`")
    parser.add_argument(
        "--data",
        type=Path,
        required=True,
        metavar="FILE",
        help="CSV, JSON Lines, JSON or Parquet; all of it is private",
    )
    parser.share("--labels")
    parser.add_argument("--task", metavar="T", help="a known task with its labels and prompts, instead of --labels")
    parser.add_argument("--text-is", metavar="WORDS", help="what a text is, for prompts: 'support ticket'")
    parser.share("--text-field", "--label-field")
    parser.add_argument(
        "--public", type=Path, metavar="FILE", help="records that everybody may know, where a task needs some"
    )
    parser.add_argument("--epsilon", type=epsilon, required=True, metavar="E", help="proved epsilon of this release")
    parser.share("--delta", default=1e-6, help="delta (default: 1e-6)")
    parser.repeated(
        "--size", "N", "declared private records of each class, or LABEL=N for one class; a public number", size
    )
    parser.share("--model", "--option", "--plugin", "--seed", "--total-epsilon")
    parser.add_argument(
        "--private-set", metavar="NAME", help="name of the set that is charged (default: that of --data)"
    )
    parser.share(
        "--noise", default="secure", help="secure (default); seeded is for trying on public records, and not private"
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
    given = passed(function, arguments)
    given["size"] = None if not sizes else sizes[0][1] if sizes[0][0] is None else dict(sizes)
    given["options"] = options_of(Path(arguments.mechanism).stem, arguments.option)
    return {**given, "plugins": arguments.plugin}


def _release(arguments: argparse.Namespace) -> int:
    return answered(arguments, release, arguments.format or "jsonl")


def answered(arguments: argparse.Namespace, function: Any, form: str) -> int:
    """Makes the release and says what it cost. One that cannot be written is put on stdout: it was paid for."""
    try:
        made: PrivateRelease = function(**common(arguments, function))
    except UnsavedRelease as error:
        output.emit(error.release.text(form))
        output.emit_json(error.release.card)
        raise
    budgets = [stands for _, stands in standings() if stands.private_set in made.made.charged_to]
    document = {"out": arguments.out, "card": made.card, "budgets": [asdict(each) for each in budgets]}
    return output.answer(arguments, document, lambda: _show(arguments, made, budgets))


def _show(arguments: argparse.Namespace, made: PrivateRelease, budgets: Sequence[SetStanding]) -> None:
    privacy, card = made.card["privacy"], arguments.out.with_name(f"{arguments.out.stem}.card.md")
    if not made.card["private"]:
        output.message(f"dpicl: {made.card['warning']}")
    count = (
        output.count(len(made.answers), "answer") if made.answers else output.count(len(made.made.prompt.texts), "text")
    )
    output.emit(
        f"{count} in {arguments.out}; epsilon = {float(privacy['epsilon_proved']):.4g} proved at delta ="
        f" {privacy['delta']:g}; card: {card}"
    )
    for each in budgets:
        limit = "" if each.limit is None else f" of {each.limit:g}"
        output.emit(
            f"Private set '{each.private_set}': {output.count(each.releases, 'release')}, which add up to epsilon ="
            f" {each.sum_epsilon:.4g}{limit} (delta = {each.sum_delta:g}). See: dpicl budget --private-set"
            f" {each.private_set}"
        )
