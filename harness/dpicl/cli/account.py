"""`dpicl account`: the epsilon of given noise, by what is proved and by what the authors of a method compute."""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
from typing import Any

from dpicl.api.functions import account
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, delta, one_of, positive, rate
from dpicl.core.errors import UsageError
from dpicl.reaccounting.settings import FAMILIES, NOISE_ON, SAMPLES, Setting

#: Flag, metavar, type and help of the numbers that only some families have.
_NUMBERS = (
    ("--noise", "S", positive, "multiplier: deviation / L2 sensitivity (above-threshold: Laplace scale / sensitivity)"),
    ("--epsilon0", "E", positive, "nominal epsilon, range or epsilon of a release"),
    ("--temperature", "T", positive, "bounded-range: softmax of scores / T"),
    ("--delta0", "D", delta, "delta of one release"),
    ("--sensitivity", "X", positive, "what one record moves in the code that runs (default: 1)"),
    ("--claimed-sensitivity", "X", positive, "what the noise was set for (default: 1)"),
)


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "account", "dpicl account --noise 0.51 --rate 20/30000 --steps 100 --delta 1/30000", _account
    )
    parser.add_argument(
        "--family",
        type=one_of("family", tuple(FAMILIES)),
        default="gaussian",
        metavar="F",
        help=f"what one release is: {', '.join(FAMILIES)} (default: gaussian)",
    )
    for flag, metavar, kind, what in _NUMBERS:
        parser.add_argument(flag, type=kind, metavar=metavar, help=what)
    parser.choice("--noise-on", NOISE_ON, "where noise of that size is drawn (default: sum)", kind="place of noise")
    parser.count("--slots", "M", "rows of the sum, for --noise-on slot or mean")
    sampling = "sampling rate, decimal or fraction (default: 1, no sampling)"
    parser.add_argument("--rate", type=rate, default=1.0, metavar="Q", help=sampling)
    sample = "a new sample for each step (default), or once for all steps"
    parser.choice("--sample", SAMPLES, sample, kind="way of sampling", default="each")
    parser.count("--steps", "T", "how many releases (default: 1)", default=1)
    parser.add_argument("--delta", type=delta, required=True, metavar="D", help="delta, decimal or fraction")


def _account(arguments: argparse.Namespace) -> int:
    names = [field.name for field in dataclasses.fields(Setting)]
    try:
        answer = account(**{name: value for name in names if (value := getattr(arguments, name)) is not None})
    except UsageError as error:  # which names the arguments of the function
        flags = {f"'{name}'": f"--{name.replace('_', '-')}" for name in names}
        raise UsageError(re.sub("|".join(flags), lambda found: flags[found[0]], str(error))) from None
    return output.answer(arguments, answer, lambda: _show(answer))


def _show(answer: dict[str, Any]) -> None:
    """One line for each accounting: its number, whether it is a bound, the theorem and the neighbours."""
    for name, about in answer["about"].items():
        value = answer[name]
        if value is None:
            continue
        note = f"{about['bound']}; {about['theorem']}; {about['neighbours']}"
        if isinstance(value, dict):
            shown = f"{value['estimate']:.4f}, between {value['low']:.4f} and {value['upper']:.4f}"
        else:
            shown = "infinity" if math.isinf(value) else f"{value:.4f}"
        output.emit(f"{name:<20}  epsilon = {shown} ({note})")
    for note in answer["notes"]:
        output.emit(f"note: {note}")
