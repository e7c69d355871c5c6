"""`dpicl budget`: shows and limits the total cost of all releases from a private set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Annotated, Any

from dpicl.api.parameters import Delta, Epsilon, Flag, verb
from dpicl.cli.output import Answer
from dpicl.core.errors import UsageError, require_known
from dpicl.core.field_types import TargetDelta
from dpicl.core.messages import show_rounded_up
from dpicl.own.budget import read_sets, set_limit
from dpicl.tables.document import Block, notes, text_table

_SETS = [
    *("private set", "releases", "sum of epsilons", "limit", "sum of deltas", "limit of deltas"),
    *("epsilon together", "delta"),
]
_RELEASES = ["when", "mechanism", "task", "model", "epsilon", "delta", "protects"]
#: What all releases of a set protect.
_UNITS = {
    "record": "epsilon and delta are those of a record.",
    "person": "epsilon and delta are those of a person, with all of their rows that were used.",
    "mixed": "its releases do not all protect the same (a record, or the people of one column), so the sums are those"
    " of a record, for which a release that protects a person counts twice: without one row of a person another one may"
    " be used; `dpicl budget --private-set NAME` says which is which.",
}
_MEANING = (
    "The limits apply to the sums, which hold even where a release was chosen after looking at an earlier one; without"
    " --total-delta the deltas may add up to one over the declared number of records. epsilon together (composition)"
    " holds only if the settings of all releases were chosen beforehand."
)


def _row(each: dict[str, Any]) -> list[str]:
    return [
        each["private_set"],
        str(each["releases"]),
        show_rounded_up(each["sum_epsilon"]),
        "none" if each["total_epsilon"] is None else f"{each['total_epsilon']:g}",
        f"{each['sum_delta']:g}",
        "none" if each["total_delta"] is None else f"{each['total_delta']:g}",
        show_rounded_up(each["epsilon"]),
        f"{each['delta']:g}",
    ]


def _release(entry: dict[str, Any]) -> list[str]:
    facts = [str(entry["what"].get(key, "")) for key in ("mechanism", "task", "model")]
    rows = entry.get("rows_per_person")
    unit = "a record" if rows is None else "a person" if rows == 1 else f"a person, {rows} rows"
    return [entry["when"], *facts, show_rounded_up(entry["epsilon"]), f"{entry['delta']:g}", unit]


def _answer(
    sets: list[dict[str, Any]],
    arguments: Mapping[str, Any],
) -> Answer:
    document = {"private_sets": sets}
    if not sets:
        return Answer(document, ["Nothing was released with secure noise on this machine."])
    blocks: list[Block] = [text_table(_SETS, map(_row, sets))]
    for each in sets if arguments.get("private_set") is not None else ():
        blocks.append(
            text_table(
                _RELEASES, [_release(one) for one in each["entries"] if one["kind"] == "charge"]
            )
        )
    spent = [
        f"{each['private_set']}: the limit is spent, so nothing more will be released; `dpicl budget --private-set"
        f" {shlex.quote(each['private_set'])} --total-epsilon E --raise` raises it."
        for each in sets
        if each["total_epsilon"] is not None and each["sum_epsilon"] >= each["total_epsilon"]
    ]
    spent += [
        f"{each['private_set']}: the limit of deltas is spent, so nothing more will be released; `dpicl budget"
        f" --private-set {shlex.quote(each['private_set'])} --total-delta D --raise` raises it."
        for each in sets
        if each["total_delta"] is not None and each["sum_delta"] >= each["total_delta"]
    ]
    units = [f"{each['private_set']}: {_UNITS[each['unit']]}" for each in sets]
    return Answer(document, [*blocks, *notes([_MEANING, *units, *spent])])


@verb("dpicl budget --private-set tickets", answer=_answer)
def budget(
    private_set: Annotated[str | None, Flag(name="--private-set", metavar="NAME")] = None,
    *,
    total_epsilon: Epsilon | None = None,
    total_delta: Annotated[TargetDelta | None, Flag(metavar="D")] = None,
    delta: Delta | None = None,
    may_rise: Annotated[bool, Flag(name="--raise")] = False,
) -> list[dict[str, Any]]:
    """What the releases of every private set of this machine (or of one) cost together, as `dpicl budget --json` says.

    Raises UsageError for a set that is not known, ResultError for a ledger that is damaged.

    private_set: this set alone, with each of its releases.
    total_epsilon: what the epsilons of all releases of the set may add up to from here on ('inf' lifts the limit).
    total_delta: what their deltas may add up to (default: one over the declared number of records).
    delta: at which their composition is shown.
    may_rise: the limit may be above the one before.
    """
    states_limit = total_epsilon is not None or total_delta is not None
    if not states_limit and (may_rise or delta is not None):
        raise UsageError(
            "--raise and --delta are about a limit; add --total-epsilon E, or leave them out."
        )
    if states_limit:
        if private_set is None:
            raise UsageError(
                "A limit is of one private set; add --private-set NAME (`dpicl budget` lists them)."
            )
        set_limit(private_set, total_epsilon, delta, may_rise, total_delta)
    every = {each["private_set"]: each for each in read_sets()}
    require_known("private set", [] if private_set is None else [private_set], every)
    return list(every.values()) if private_set is None else [every[private_set]]
