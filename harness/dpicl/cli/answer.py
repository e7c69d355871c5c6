"""`dpicl answer`: answers to a file of queries, from private records or from what was released before."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.api.releases import answer, answer_from
from dpicl.cli.arguments import Parser, Subparsers, add_command, api_kwargs
from dpicl.cli.release import add_flags, code, common, released
from dpicl.core.errors import UsageError

#: Flags of both ways; all others are about private records.
_ALWAYS = {"mechanism", "queries", "out", "model", "text_field", "option", "plugin", "json", "state"}


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "answer",
        "dpicl answer embedding_centroids --data tickets.csv --labels billing,technical,refund --size 100"
        " --queries new.txt --epsilon 1 --delta 1e-6 --out answers.jsonl\n"
        "  dpicl answer embedding_centroids --state desk.json --queries new.txt --out answers.jsonl",
        _answer,
    )
    add_flags(parser, required=False)
    parser.add_argument(
        "--state",
        type=Path,
        metavar="FILE",
        help="what `dpicl release` wrote for a prepared mechanism, in place of --data and all that goes with it: costs"
        " nothing more",
    )
    parser.add_argument(
        "--queries",
        type=Path,
        required=True,
        metavar="FILE",
        help="public texts: JSONL or a table with the text's field (and `id`), or .txt with one a line",
    )


def _was_given(arguments: argparse.Namespace, name: str) -> bool:
    value = getattr(arguments, name, None)  # 0 may be one
    return value is not None and value is not False and value != []


def _answer(arguments: argparse.Namespace) -> int:
    owner: Parser = arguments.parser
    if arguments.state is None:
        if missing := [flag for flag in ("--data", "--epsilon") if getattr(arguments, flag[2:]) is None]:
            raise UsageError(
                f"{' and '.join(missing)} must be given, to answer from private records; or --state FILE, to answer"
                " from what was released before."
            )
        return released(arguments, lambda: answer(**common(arguments, answer)), "jsonl")
    others = {flag[2:].replace("-", "_"): flag for flag in owner.flags()}
    if given := [flag for name, flag in others.items() if name not in _ALWAYS and _was_given(arguments, name)]:
        raise UsageError(f"--state answers from what was released before, and reads no record; leave out {given[0]}.")
    return released(
        arguments, lambda: answer_from(**{**api_kwargs(answer_from, arguments), **code(arguments)}), "jsonl"
    )
