"""`dpicl account`: the epsilon of given noise, as proved here and as the authors of a method compute it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from dpicl.accounting import time_limit
from dpicl.accounting.reaccounting import FAMILIES, Setting, reaccount
from dpicl.api.parameters import Flag, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, one_line
from dpicl.core.field_types import Number, Quantity, TargetDelta
from dpicl.tables.document import notes, text_table

T = TypeVar("T")
#: Seconds that the accountants look for an answer.
_SECONDS = 300.0
#: Beyond, floating-point numbers of noise, sensitivities and epsilons say nothing.
Amount = Annotated[Number, Field(ge=1e-9, le=1e9)]
Family = Annotated[
    str, Flag(f"what one release is: {', '.join(FAMILIES)} (default: gaussian)", metavar="F")
]


def _answer(document: dict[str, Any], arguments: Mapping[str, Any]) -> Answer:
    """Each accounting: its number, whether it is a bound, of which neighbours, and by which theorem."""
    accountings = {
        name: about for name, about in document["about"].items() if document[name] is not None
    }
    rows = [
        [name, _epsilon(document[name]), about["bound"], about["neighbours"]]
        for name, about in accountings.items()
    ]
    remarks = [
        *(f"{name}: {about['theorem']}" for name, about in accountings.items()),
        *document["notes"],
    ]
    return Answer(
        document, [text_table(["accounting", "ε", "bound", "neighbours"], rows), *notes(remarks)]
    )


def _epsilon(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['estimate']:.4f}, between {value['low']:.4f} and {value['upper']:.4f}"
    return "∞" if math.isinf(value) else f"{value:.4f}"


@verb("dpicl account --noise 0.51 --rate 20/30000 --steps 100 --delta 1/30000", answer=_answer)
def account(
    *,
    delta: Annotated[TargetDelta, Flag(metavar="D")],
    family: Family = "gaussian",
    noise: Annotated[Amount | None, Flag(metavar="S")] = None,
    epsilon0: Annotated[Amount | None, Flag(metavar="E")] = None,
    temperature: Annotated[Amount | None, Flag(metavar="T")] = None,
    delta0: Annotated[TargetDelta | None, Flag(metavar="D")] = None,
    sensitivity: Annotated[Amount | None, Flag(metavar="X")] = None,
    claimed_sensitivity: Annotated[Amount | None, Flag(metavar="X")] = None,
    noise_on: Literal["sum", "slot", "mean"] | None = None,
    slots: Annotated[Quantity | None, Flag(metavar="M")] = None,
    rate: Annotated[Number, Field(gt=0, le=1), Flag(metavar="Q")] = 1.0,
    sample: Literal["each", "once"] = "each",
    steps: Annotated[Quantity, Flag(metavar="T")] = 1,
) -> dict[str, Any]:
    """The epsilon of a published setting: what is proved, and what its authors compute, as `dpicl account --json` says.

    The parameters are those of `dpicl.accounting.reaccounting.Setting`.
    Raises UsageError for those that do not fit together.

    delta: delta, decimal or fraction.
    noise: multiplier: deviation / L2 sensitivity (above-threshold: Laplace scale / sensitivity).
    epsilon0: nominal epsilon, range or epsilon of a release.
    temperature: bounded-range: softmax of scores / T.
    delta0: delta of one release.
    sensitivity: what one record moves in the code that runs (default: 1).
    claimed_sensitivity: what the noise was set for (default: 1).
    noise_on: where noise of that size is drawn (default: sum).
    slots: rows of the sum, for --noise-on slot or mean.
    rate: sampling rate, decimal or fraction (default: 1, no sampling).
    sample: a new sample for each step (default), or once for all steps.
    steps: how many releases (default: 1).
    """
    setting = {name: value for name, value in locals().items() if value is not None}
    checked = Setting(**setting)
    return {"setting": setting, **run_accountants(lambda: reaccount(checked))}


def run_accountants(compute: Callable[[], T]) -> T:
    """``compute()``. Raises UsageError where the accountants have no answer for such numbers, or none in time."""
    try:
        return time_limit.run_within(_SECONDS, compute)
    except (time_limit.TookTooLong, ArithmeticError, MemoryError) as error:
        raise UsageError(
            f"The accountants cannot answer for these numbers ({one_line(error, 100) or 'out of memory'}); ask for"
            " fewer releases, or for noise and epsilon nearer to 1."
        ) from error
