"""`dpicl diagnose`: log-loss and hit rate of token mechanisms on held-out texts."""

from __future__ import annotations

import argparse

from dpicl.harness.api.diagnosis import Diagnosis, diagnose
from dpicl.harness.cli import output
from dpicl.harness.cli.arguments import Subparsers, add_command, passed
from dpicl.harness.core.vocabulary import model_name
from dpicl.harness.evaluation.log_loss import PairedDifference, RowScores


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers, "diagnose", "dpicl diagnose tang pta prism --task agnews --epsilon 1 --epsilon 8", _diagnose
    )
    parser.add_argument("mechanism", nargs="*", metavar="MECHANISM", help="see `dpicl list mechanisms`")
    parser.add_argument("--task", required=True, metavar="T", help="whose test records are the held-out texts")
    parser.add_argument("--suite", metavar="SUITE", help="rows, options, epsilons, delta and shots of a suite")
    parser.count("--texts", "N", "test records that are looked at (default: 32)", least=2, default=32)
    parser.count("--tokens", "T", "of each text (default: 20, or fewer where a mechanism writes fewer)")
    parser.count("--draws", "R", "of public randomness, where a mechanism uses any (default: 32)", least=2, default=32)
    parser.share("--epsilon", "--seed", "--noise", "--option", "--plugin")
    parser.share("--model", "--source", "--delta", "--shots", default=None)


def _diagnose(arguments: argparse.Namespace) -> int:
    given = {f"{owner}.{name}" if owner else name: value for owner, name, value in arguments.option}
    arguments.epsilon = arguments.epsilon or None
    found = diagnose(**passed(diagnose, arguments), options=given, plugins=arguments.plugin)
    return output.answer(arguments, found.document(), lambda: _show(found))


def _show(found: Diagnosis) -> None:
    setup = found.setup
    title = (
        f"{setup['task']} ({setup['source']}), {model_name(setup['model'])},"
        f" {output.count(setup['texts'], 'text')} of at most"
        f" {output.count(setup['tokens'], 'token')}, δ = {setup['delta']:g}, seed {setup['seed']}"
    )
    output.emit_table(("row", "ε", "L (nats a token)", "H (hit rate)", "knob"), list(map(_row, found)), title=title)
    output.emit("")
    columns = ("ε", "difference", "L", "95% interval", "H", "95% interval")
    output.emit_table(columns, list(map(_difference, found.differences)), title="paired over texts: mean ± SE")
    for note in found.notes:
        output.emit(f"note: {note}")


def _row(item: RowScores) -> list[str]:
    loss, rate = (f"{getattr(item, name).mean():.3f} ± {item.error(name):.3f}" for name in ("log_loss", "hit_rate"))
    return [item.row, f"{item.epsilon:g}", loss, rate, "-" if item.knob is None else f"{item.knob:.4g}"]


def _difference(item: PairedDifference) -> list[str]:
    def said(mean: float, error: float, interval: tuple[float, float]) -> tuple[str, str]:
        return f"{mean:+.3f} ± {error:.3f}", f"{interval[0]:+.3f} to {interval[1]:+.3f}"

    return [
        f"{item.epsilon:g}",
        f"{item.first} - {item.second}",
        *said(item.log_loss, item.log_loss_error, item.log_loss_interval),
        *said(item.hit_rate, item.hit_rate_error, item.hit_rate_interval),
    ]
