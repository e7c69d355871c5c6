"""Attack results for people: what the attack can find at all, a row a result, and which proved epsilon is refuted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from dpicl.attacks.power import NO_POWER, Power
from dpicl.attacks.results import AttackResult, Estimate
from dpicl.core.messages import rounded_down, rounded_up
from dpicl.tables.document import Block, notes, text_table

#: Headings of measures and counts in the table.
_TITLES = {
    "auc": "AUC",
    "tpr_at_fpr_0.01": "TPR@1%",
    "tpr_at_fpr_0.001": "TPR@0.1%",
    "advantage": "advantage",
    "unexplained_addresses": "addresses",
    "unexplained_phones": "phones",
}
#: Counts that the table of an attack without AUC shows.
_COUNTS = ("texts", "unexplained_addresses", "unexplained_phones")


def shown_results(results: Sequence[AttackResult], known: Mapping[str, Power]) -> Iterator[Block | str]:
    """known: id of a result -> the power of its attack."""
    yield from dict.fromkeys(str(known[result.id]) for result in results if result.id in known)
    several = len({(r.subject.model, r.subject.task) for r in results}) > 1
    names = list(dict.fromkeys(name for result in results for name in result.measures))
    counts = [] if "auc" in names else [name for name in _COUNTS if name in results[0].counts]
    shown = [name for name in names if not name.startswith("baseline_")]
    bounds = any(result.bound for result in results)
    rows = []
    for result in results:
        row = [result.subject.model, result.subject.task] if several else []
        row += [result.subject.mechanism, f"{result.subject.epsilon:g}", _number(result.privacy.epsilon_proved)]
        row += [_measured(result, name, known.get(result.id)) for name in shown]
        row += [str(result.counts.get(name, "-")) for name in counts]
        row += [rounded_down(result.bound.epsilon, 3) if result.bound else "-"] if bounds else []
        rows.append(row)
    heads = [*(["model", "task"] if several else []), "mechanism", "epsilon", "proved"]
    heads += [*(_TITLES.get(name, name) for name in (*shown, *counts)), *(["audited epsilon"] if bounds else [])]
    yield text_table(heads, rows, keep=4 if several else 2)
    yield from notes(f"{note}." for note in _notes(results))
    for result in results:
        if result.bound and result.bound.epsilon > result.privacy.epsilon_proved:
            yield f"{result.subject.mechanism}: the proved epsilon is refuted; look at it with `dpicl check`."


def _notes(results: Sequence[AttackResult]) -> list[str]:
    """What a reader of the table must know; what does not hold for all of it names the mechanisms."""
    found: dict[str, list[str]] = {}
    for result in results:
        own = [f"{_TITLES.get(name, name)}: {each.note}" for name, each in result.measures.items() if each.note]
        if (bound := result.bound) is not None:
            own.append(f"audited epsilon: a lower bound at confidence {bound.confidence:g}, delta {bound.delta:g}")
        for note in (*own, *result.notes):
            found.setdefault(note, []).append(result.subject.mechanism)
    everybody = {result.subject.mechanism for result in results}
    return [
        note if set(names) == everybody else f"{', '.join(dict.fromkeys(names))}: {note}"
        for note, names in found.items()
    ]


def headline(result: AttackResult) -> str:
    """One number for a line of progress, whatever the attack's power."""
    name = "auc" if "auc" in result.measures else next(iter(result.measures))
    return f"{_TITLES.get(name, name)} {result.measures[name].value:.3f}"


def _measured(result: AttackResult, name: str, power: Power | None) -> str:
    if power is not None and power.hides(result):
        return NO_POWER if name == power.measure else "-"
    return _interval(result.measures.get(name))


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    ends = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.3f}{ends}"


def _number(value: float) -> str:
    return "inf" if math.isinf(value) else rounded_up(value)
