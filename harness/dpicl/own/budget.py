"""The budget of private records: every release with secure noise is charged before it reads a record.

A *private set* is the records of which a ledger on this machine has hashes (dpicl.own.private_ledger). A release is
charged to the set that it names, and to **every set that has one of its records**: the same file under another name, or
with some records more, pays where it paid before. So does another file of the same people, where a field names them.
The most that a release may cost is charged, written and synced before a record is read or noise is drawn, and nothing
is ever given back: a crash or a failure costs budget, a retry costs it again unless it goes on with the same release
(dpicl.own.unfinished), and no noise is drawn that is on no ledger. One lock serialises what happens to all ledgers.

A limit bounds the **sum** of the epsilons of a set's releases, and the sum of their deltas (by one over the declared
number of records, where nothing else was stated). The sums hold however the settings of later releases were chosen
(Rogers, Roth, Ullman & Vadhan 2016). Composition gives a smaller epsilon, which is shown beside the sum and decides
nothing: it is proved for settings that were chosen before anybody looked at an earlier release, and a ledger cannot
know whether they were.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dpicl.accounting.events import to_json
from dpicl.accounting.group_privacy import of_person
from dpicl.core.cell import large_delta
from dpicl.core.errors import (
    BudgetExceeded,
    ResultError,
    UnsupportedEvent,
    UsageError,
    require_known,
)
from dpicl.core.files import hold_lock, own_folder
from dpicl.core.json_text import to_plain
from dpicl.core.messages import count, names_text, show_rounded_up
from dpicl.core.paths import private_folder, uncounted_budgets
from dpicl.core.printable import make_visible
from dpicl.core.vocabulary import Record
from dpicl.own.private_ledger import Charge, Limit, PrivateLedger, hashes_of, read_all, require_name
from dpicl.privacy.over_releases import person_total
from dpicl.releasing.release import NewRelease

_log = logging.getLogger(__name__)

#: A sum may exceed its limit by this factor, which is rounding.
_ROUNDING = 1 + 1e-9


@dataclass(frozen=True)
class ChargeTo:
    """Which set a release is charged to besides every set that has one of its records, and the limits that it states.

    name: a set that the user named. default: the name of a new set, where none was named and none has one of the
    records. total_epsilon, total_delta: what all releases of a set may add up to; None: what was stated before, if
    anything was. declared: public number of records; deltas may add up to 1 / declared where no limit is stated. None:
    unknown. allow_large_delta: whether a delta, or a limit of deltas, may be above that. rows_per_person: how many
    records of a person are used at most, where epsilon and delta protect persons; None: they protect records.
    person_field: the column that names the persons.
    """

    name: str | None = None
    default: str = "records"
    total_epsilon: float | None = None
    total_delta: float | None = None
    declared: int | None = None
    allow_large_delta: bool = False
    rows_per_person: int | None = None
    person_field: str | None = None


def charge(
    records: Sequence[Record],
    release: NewRelease,
    to: ChargeTo,
    *,
    persons: Collection[str] = (),
    number: str = "",
    trial: bool = False,
) -> tuple[str, ...]:
    """Puts a release on the ledger of every set that it concerns, and returns their names; a trial writes nothing.

    persons: whose the records are, where a field names them. A set that has a record of one of them pays.
    number: of this release; sets that have paid under it pay nothing more. '': it has none yet.

    Raises BudgetExceeded where the releases of one of them would add up to more than its limit, UsageError for a limit
    above the one that was stated, ResultError for a ledger that cannot be read or written; then nothing may be
    released.
    """
    if release.free:
        return ()
    hashes = hashes_of((record.text for record in records), persons)
    with _lock_ledgers():
        if paid := names_charged(number):
            return paid
        charged = _charge_all(hashes, release, to, number)
        for ledger in () if trial else charged:
            ledger.write()
    return tuple(ledger.name for ledger in charged)


def names_charged(number: str) -> tuple[str, ...]:
    """The sets that have paid for the release of this number."""
    ledgers = read_all() if number else []
    return tuple(
        ledger.name for ledger in ledgers if number in {charge.number for charge in ledger.charges}
    )


def set_limit(
    name: str,
    total_epsilon: float | None,
    delta: float | None,
    may_rise: bool = False,
    total_delta: float | None = None,
) -> None:
    """States what all releases of a known set may add up to, from here on.

    total_epsilon, total_delta: the limits of the sums; None: as they stand; an infinite epsilon lifts its limit. delta:
    at which the composition of the releases is shown; None: as it stands. may_rise: whether a limit may rise.
    Raises UsageError for an unknown set, and for a limit that rises although may_rise is false.
    """
    with _lock_ledgers():
        ledgers = {ledger.name: ledger for ledger in read_all()}
        require_known("private set", [name], ledgers)
        ledger = ledgers[name]
        at = delta or _compose_at(ledger)
        if not may_rise:
            _refuse_higher(ledger, total_epsilon, total_delta)
        ledger = ledger.set_limit(_new_limit(ledger, total_epsilon, total_delta, at))
        describe(ledger)  # refuses a delta at which nothing can be said
        ledger.write()


def warn_of_uncounted() -> None:
    """Says which budgets of this user's releases do not count, before anything is charged to others."""
    for folder in uncounted_budgets():
        _log.warning(
            "DPICL_CACHE is set: budgets are those in %s, and those in %s do not count.",
            private_folder(),
            folder,
        )


def read_sets() -> list[dict[str, Any]]:
    """Every private set of this machine, as `describe` has it. Raises ResultError for a damaged ledger."""
    return [describe(ledger) for ledger in read_all()]


def describe(ledger: PrivateLedger) -> dict[str, Any]:
    """A private set as JSON: what its releases cost, with every release and limit; no hash of a record is in it.

    sum_epsilon, sum_delta: the sums, which hold however later settings were chosen. total_epsilon, total_delta: their
    limits; left, left_delta: what remains of these. None where no limit was stated; the limit of delta is then 1 over
    the declared number of records, if one was declared.
    epsilon, delta: of all releases together by composition, which holds for settings that were chosen beforehand. The
    delta is that of the limit, else the smallest of a release; where composition proves nothing smaller, these are the
    sums.
    unit: whom all this protects; 'mixed' where releases protect records as well as persons, or persons of different
    columns: then the numbers are those of a record (`_sums`).
    """
    sum_epsilon, sum_delta = _sums(ledger)
    limit, delta_limit = _limit(ledger), _delta_limit(ledger)
    composed_epsilon, composed_delta = _compose(ledger)
    return {
        "private_set": ledger.name,
        "releases": len(ledger.charges),
        "unit": unit_of(ledger),
        "epsilon": composed_epsilon,
        "delta": composed_delta,
        "sum_epsilon": sum_epsilon,
        "sum_delta": sum_delta,
        "total_epsilon": limit,
        "left": None if limit is None else max(0.0, limit - sum_epsilon),
        "total_delta": delta_limit,
        "left_delta": None if delta_limit is None else max(0.0, delta_limit - sum_delta),
        "entries": [_describe_entry(entry) for entry in ledger.entries],
    }


def _describe_entry(entry: Charge | Limit) -> dict[str, Any]:
    kind = "charge" if isinstance(entry, Charge) else "limit"
    return {"kind": kind, **entry.model_dump(exclude={"records", "number"})}


def _charge_all(
    hashes: frozenset[bytes], release: NewRelease, to: ChargeTo, number: str
) -> list[PrivateLedger]:
    """The ledgers of all sets that pay, with the charge on them but not yet written. Raises as `charge` does."""
    entry = Charge(
        when=_now(),
        what=to_plain(release.what),
        event=to_json(release.event),
        epsilon=release.epsilon,
        delta=release.delta,
        declared=to.declared,
        rows_per_person=to.rows_per_person,
        person_field=to.person_field,
        number=number or None,
    )
    chosen = _choose_ledgers(read_all(), hashes, to)
    ledgers = [_lower_limits(ledger, to, release.delta) for ledger in chosen]
    for ledger in ledgers:
        _refuse_other_unit(ledger, entry, to)
    charged = [ledger.add_charge(entry, hashes) for ledger in ledgers]
    for ledger in charged:
        refusal = _refusal(ledger, to)
        if refusal:
            raise BudgetExceeded(refusal)
    return charged


def _choose_ledgers(
    there: Sequence[PrivateLedger], hashes: frozenset[bytes], to: ChargeTo
) -> list[PrivateLedger]:
    """The sets that pay: the named one and all that have one of the records; a new one where there is none."""
    chosen = [
        ledger for ledger in there if ledger.name == to.name or not hashes.isdisjoint(ledger.hashes)
    ]
    name = to.name or (None if chosen else to.default)
    if name is None or any(ledger.name == name for ledger in chosen):
        return chosen
    folded = require_name(name).casefold()
    known = [ledger for ledger in there if ledger.name.casefold() == folded]
    if known and known[0].name != name:
        raise UsageError(
            f"There is a private set '{known[0].name}' already, which some file systems do not tell from '{name}';"
            " give another name with --private-set."
        )
    return [*chosen, *(known or [PrivateLedger.begin(name, _now())])]


def _lower_limits(ledger: PrivateLedger, to: ChargeTo, delta: float) -> PrivateLedger:
    """The ledger with the limits that the release states. Raises UsageError for a limit above the one that stands, and
    for a large delta that was not allowed."""
    _refuse_higher(ledger, to.total_epsilon, to.total_delta)
    _refuse_large_delta(to)
    stated = ledger.limit
    # at which the composition is shown: the stated one, else the smallest of a release
    deltas = [stated.delta] if stated else [delta, *(charge.delta for charge in ledger.charges)]
    limit = _new_limit(ledger, to.total_epsilon, to.total_delta, min(deltas))
    is_stated = to.total_epsilon is not None or to.total_delta is not None
    is_new = stated is None or _totals(limit) != _totals(stated)
    return ledger.set_limit(limit) if is_stated and is_new else ledger


def _totals(limit: Limit) -> tuple[float, float | None]:
    return limit.total_epsilon, limit.total_delta


def _new_limit(
    ledger: PrivateLedger, total_epsilon: float | None, total_delta: float | None, delta: float
) -> Limit:
    """The limit that stands, with the totals that are not None in place of its own."""
    stated = ledger.limit
    if total_epsilon is None:
        total_epsilon = math.inf if stated is None else stated.total_epsilon
    if total_delta is None and stated is not None:
        total_delta = stated.total_delta
    return Limit(when=_now(), total_epsilon=total_epsilon, delta=delta, total_delta=total_delta)


def _refuse_higher(
    ledger: PrivateLedger, total_epsilon: float | None, total_delta: float | None
) -> None:
    """Raises UsageError for a limit above the one that stands."""
    stated = ledger.limit
    limits = [
        ("epsilon", total_epsilon, None if stated is None else stated.total_epsilon),
        ("delta", total_delta, _delta_limit(ledger)),
    ]
    for name, total, limit in limits:
        if total is not None and limit is not None and total > limit * _ROUNDING:
            raise UsageError(
                f"All releases of private set '{ledger.name}' may add up to {name} = {limit:g}, and --total-{name}"
                f" {total:g} is more; to raise it, say so: dpicl budget --private-set {ledger.name} --total-{name}"
                f" {total:g} --raise"
            )


def _refuse_other_unit(ledger: PrivateLedger, entry: Charge, to: ChargeTo) -> None:
    """Raises UsageError where the limit of epsilon was stated for others (records, or persons of one column) than the
    release protects, unless the release states the limit again."""
    stated = ledger.limit
    units = {charge.unit for charge in ledger.charges}
    if stated is None or math.isinf(stated.total_epsilon) or not units or units == {entry.unit}:
        return
    if to.total_epsilon is None:
        raise UsageError(
            f"The limit of private set '{ledger.name}' was stated for {_name_units(units)}, and this release protects"
            f" {_name_units({entry.unit})}: all releases together would protect single records alone. If that is"
            f" what you want, state the limit again, for a record: --total-epsilon {stated.total_epsilon:g}."
        )


def _name_units(units: Collection[str | None]) -> str:
    """'single records and the people of the column customer_id'; units: as `Charge.unit`, None for records."""
    columns = sorted(make_visible(unit, 60) for unit in units if unit is not None)
    named = [f"the people of the column {column}" if column else "people" for column in columns]
    return names_text([*(["single records"] if None in units else []), *named])


def _refuse_large_delta(to: ChargeTo) -> None:
    """Raises UsageError for a sum of deltas that promises nothing to one of the declared records, unless allowed."""
    if to.total_delta is None or to.declared is None or to.allow_large_delta:
        return
    if reason := large_delta(to.total_delta, to.declared):
        raise UsageError(f"--total-delta: {reason}; lower it, or give --allow-large-delta.")


def unit_of(ledger: PrivateLedger) -> str:
    """Whom all releases protect: 'record', 'person', or 'mixed', where some protect others than the rest."""
    units = {charge.unit for charge in ledger.charges}
    if len(units) > 1:
        return "mixed"
    return "record" if units <= {None} else "person"


def _compose(ledger: PrivateLedger) -> tuple[float, float]:
    """(epsilon, delta) of all releases together: their composition, or their sums where these are smaller, or where
    nothing is proved of the composition."""
    charges, at, sums = ledger.charges, _compose_at(ledger), _sums(ledger)
    if len(charges) == 1 and charges[0].delta <= at:  # nothing to compose
        return charges[0].epsilon, at
    if unit_of(ledger) == "mixed":
        return sums
    rows = max((charge.rows_per_person or 1 for charge in charges), default=1)
    try:
        composed = person_total([charge.dp_event for charge in charges], at, rows)
    except UnsupportedEvent:
        composed = math.inf
    is_smaller = composed <= sums[0] or (at < sums[1] and math.isfinite(composed))
    return (composed, at) if is_smaller else sums


def _compose_at(ledger: PrivateLedger) -> float:
    """The delta at which releases are composed: that of the limit, else the smallest of a release."""
    if ledger.limit:
        return ledger.limit.delta
    return min((charge.delta for charge in ledger.charges), default=1e-5)


def _sums(ledger: PrivateLedger) -> tuple[float, float]:
    """(sum of epsilons, sum of deltas) of all releases, for a person or a record as `unit_of` says.

    In a mixed set they are those of a record, and a release that protects persons counts there for two steps
    (`of_person`): where one row of a person is missing, another row of theirs may be used in its place, which is as if
    the person left with the one row and came back with the other.
    """
    bounds = [(charge.epsilon, charge.delta) for charge in ledger.charges]
    if unit_of(ledger) == "mixed":
        bounds = [
            of_person(*bound, 2) if charge.rows_per_person else bound
            for charge, bound in zip(ledger.charges, bounds, strict=True)
        ]
    return math.fsum(epsilon for epsilon, _ in bounds), math.fsum(delta for _, delta in bounds)


def _limit(ledger: PrivateLedger) -> float | None:
    """What the epsilons of a set may add up to; None where nothing was stated, or the limit was lifted."""
    stated = ledger.limit
    return None if stated is None or math.isinf(stated.total_epsilon) else stated.total_epsilon


def _delta_limit(ledger: PrivateLedger) -> float | None:
    """What the deltas of a set may add up to: what was stated, else 1 over the largest declared number of records; None
    where neither was."""
    if ledger.limit is not None and ledger.limit.total_delta is not None:
        return ledger.limit.total_delta
    declared = max((charge.declared or 0 for charge in ledger.charges), default=0)
    return 1 / declared if declared else None


def _refusal(ledger: PrivateLedger, to: ChargeTo) -> str:
    """Why the last charge of a set breaks one of its limits; '' where it breaks none."""
    limit, delta_limit, (epsilon, delta) = _limit(ledger), _delta_limit(ledger), _sums(ledger)
    named = to.name or to.default
    known = (
        ""
        if ledger.name == named
        else f" These are records of private set '{ledger.name}', not only '{named}'."
    )
    releases = f"With this, {count(len(ledger.charges), 'release')} of private set '{ledger.name}' would add up to"
    shows = f"(dpicl budget --private-set {ledger.name} shows what is left).{known}"
    if limit is not None and epsilon > limit * _ROUNDING:
        return (
            f"{releases} epsilon = {show_rounded_up(epsilon)} (delta = {delta:g}), and its limit is {limit:g}. Nothing"
            f" was released or charged; ask for a smaller epsilon {shows}"
        )
    is_stated = ledger.limit is not None and ledger.limit.total_delta is not None
    if delta_limit is None or delta <= delta_limit * _ROUNDING:
        return ""
    # the user allowed this delta, and only the declared number of records speaks against it
    is_large_alone = ledger.charges[-1].delta > delta_limit * _ROUNDING
    if is_large_alone and to.allow_large_delta and not is_stated:
        return ""
    which = "" if is_stated else ", one over the declared number of records"
    return (
        f"{releases} delta = {delta:g} (epsilon = {show_rounded_up(epsilon)}), and its limit is {delta_limit:g}{which}."
        f" Nothing was released or charged; ask for a smaller delta, or raise the limit with dpicl budget --total-delta"
        f" D --raise {shows}"
    )


@contextmanager
def _lock_ledgers() -> Iterator[None]:
    """Holds the lock of all ledgers, so that no other process charges one meanwhile. Raises ResultError."""
    try:
        lock = own_folder() / "budget.lock"
        with hold_lock(lock, wait=True, private=True):
            yield
    except OSError as error:
        raise ResultError(
            f"{private_folder()} cannot be used ({error.strerror}); fix that (another folder would begin another"
            " budget)."
        ) from error


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
