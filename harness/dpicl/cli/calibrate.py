"""`dpicl calibrate`: the noise of a mechanism for a given epsilon."""

from __future__ import annotations

import argparse
from typing import Any

from dpicl.api.functions import calibrate
from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, api_kwargs, epsilon, options_of
from dpicl.core.messages import rounded_down, rounded_up


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "calibrate", "dpicl calibrate tang --task agnews --epsilon 1 --delta 1e-5 --size 30000", _calibrate
    )
    parser.add_argument("mechanism", metavar="MECHANISM", help="see `dpicl list mechanisms`")
    parser.add_argument("--task", required=True, metavar="T", help="its published options are used")
    parser.add_argument("--epsilon", type=epsilon, required=True, metavar="E", help="target epsilon")
    parser.share("--delta", "--noise", "--shots", "--source", "--option", "--plugin")
    parser.count("--size", "N", "private records a class (answer mechanisms: in all; default: the task's own)")
    parser.count("--queries", "Q", "Q that the epsilon of an answer mechanism covers (default: 1)")
    parser.choice("--mode", ("proved", "paper"), "proved (default), or the accounting of the authors", default="proved")


def _calibrate(arguments: argparse.Namespace) -> int:
    options = options_of(arguments.mechanism, arguments.option)
    answer = calibrate(**api_kwargs(calibrate, arguments), options=options, plugins=arguments.plugin)
    return output.answer(arguments, answer, lambda: _show(answer))


def _show(answer: dict[str, Any]) -> None:
    proved = "proved" if answer["mode"] == "proved" else "by the authors' accounting"
    if answer["knob"] is None:
        output.emit(
            f"{answer['mechanism']} has no knob: epsilon = {rounded_up(answer['epsilon_upper'])} whatever the target."
        )
        return
    output.emit(
        f"{answer['mechanism']} on {answer['task']}: {answer['knob']} = {answer['noise']:.6g}"
        f" for epsilon = {answer['epsilon']:g} at delta = {answer['delta']:.3g}"
        f" ({proved}: {rounded_up(answer['epsilon_upper'], 5)}, neighbours:"
        f" {answer['neighbours'].replace('/', ' or ')})"
    )
    if len(set(answer["noise_by_label"].values())) > 1:
        own = ", ".join(f"{label} {value:.6g}" for label, value in answer["noise_by_label"].items())
        output.emit(f"of each label, whose epsilon is the same: {own}")
    output.emit(f"options: {' '.join(f'{name}={value}' for name, value in answer['options'].items())}")
    smallest = min(answer["sizes"].values())
    if answer["epsilon_per_query"] is not None:
        alone = f"one of them alone is proved to cost epsilon = {rounded_up(answer['epsilon_per_query'])}"
        output.emit(f"records: {smallest}; queries: {answer['queries']}, {alone}")
    else:
        groups = f"{len(answer['sizes'])} groups, the smallest of {smallest}"
        output.emit(f"records: {groups}; shots: {sum(answer['shots'].values())}")
    if answer["slack"] is not None:
        lower = answer["epsilon_upper"] / answer["slack"]
        output.emit(
            f"slack: {answer['slack']:.3f} (some mechanism with these events costs epsilon = {rounded_down(lower)})"
        )
    for name, value in answer["accountants"].items():
        output.emit(f"  {name}: {value}")
    for note in answer["notes"]:
        output.emit(f"note: {note}")
