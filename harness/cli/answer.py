"""`dpicl answer`: answers to a file of queries from private records, with a privacy card."""

from __future__ import annotations

import argparse
from pathlib import Path

from dpicl.harness.api.releases import answer
from dpicl.harness.cli.arguments import Subparsers, add_command
from dpicl.harness.cli.release import add_flags, answered


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "answer",
        "dpicl answer embedding_centroids --data tickets.csv --labels billing,technical,refund --size 100"
        " --queries new.txt --epsilon 1 --delta 1e-6 --out answers.jsonl",
        _answer,
    )
    add_flags(parser)
    parser.add_argument(
        "--queries",
        type=Path,
        required=True,
        metavar="FILE",
        help="public texts: JSONL or a table with the text's field (and `id`), or .txt with one a line",
    )


def _answer(arguments: argparse.Namespace) -> int:
    return answered(arguments, answer, "jsonl")
