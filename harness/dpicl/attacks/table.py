"""The table of attacks and audits that `dpicl attack`, `dpicl audit` and the boards show."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpicl.attacks.power import CONTROLS, NO_POWER, Power
from dpicl.attacks.results import ATTAINED, EXACT, GROUP, AttackResult, Estimate
from dpicl.core.messages import bound_text, confidence_text, count, epsilon_text, queries_words
from dpicl.core.vocabulary import model_name
from dpicl.tables.document import Column, Table, make_table

#: The reference mechanisms that bracket what an attack can find.
ENDS = ("zero_shot", *CONTROLS)
_OF_THE_BOUND = "how far the canary moves releases, as a share of what is paid for"
_LABEL_ONLY = "audited ε where only the winner of every vote is seen"
_EXACT = f"exact: {ATTAINED}; of the bound: {_OF_THE_BOUND}; label only: {_LABEL_ONLY}"
_CAPITALS = {
    "auc": "AUC",
    "tpr": "TPR",
    "fpr": "FPR",
    "pii": "PII",
    "dp": "DP",
    "gdp": "GDP",
}
_RATE = re.compile(r"tpr_at_fpr_(0\.\d+)")


def measure_name(name: str) -> str:
    """'auc' is 'AUC', 'tpr_at_fpr_0.001' is 'TPR at 0.1% FPR', and underscores are spaces."""
    if match := _RATE.fullmatch(name):
        return f"TPR at {100 * float(match[1]):g}% FPR"
    return " ".join(_CAPITALS.get(word, word) for word in name.split("_"))


def estimate_text(estimate: Estimate) -> str:
    """'0.61 [0.48, 0.73]', '0.61' without an interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:z.2f}"
    return f"{estimate.value:z.2f} [{estimate.low:z.2f}, {estimate.high:z.2f}]"


def trials_text(result: AttackResult) -> str:
    """'50 + 50': runs with and without the record behind the bound; '64 canaries': those of an audit in one run."""
    if result.bound is None:
        return "–"
    if decision := result.bound.decision:
        return f"{decision.trials_in:,} + {decision.trials_out:,}"
    candidates = result.details.get("candidates")
    return f"{candidates:,} canaries" if isinstance(candidates, int) else "–"


def sizes_text(result: AttackResult) -> str:
    """'16 records, 1 query': what was attacked."""
    return f"{count(result.subject.members, 'record')}, {queries_words(result.privacy.queries)}"


def options_text(options: Mapping[str, Any], none: str = "defaults") -> str:
    """'slots = 4, tokens = 8'. none: stands where there is no option."""
    return ", ".join(f"{name} = {value}" for name, value in sorted(options.items())) or none


@dataclass(frozen=True)
class Attacked:
    """An attack on something, which has a label and an epsilon. on: what it was made on."""

    label: str
    epsilon: float
    attack: AttackResult
    on: str
    power: Power | None = None


def _confidence(one: Attacked) -> str | None:
    bound = one.attack.bound
    return None if bound is None else confidence_text(bound.confidence)


def _describe_measures(one: Attacked) -> str | None:
    """Copies of a canary; every measure, or that there is no power where neither the attack nor its control beats
    chance; then counts."""
    attack, power = one.attack, one.power
    texts = {name: estimate_text(estimate) for name, estimate in attack.measures.items()}
    if power is not None and power.is_inconclusive(attack):
        texts = {name: NO_POWER for name in texts if name == power.measure}
    copies = attack.settings.get("copies")
    parts = [f"copies {copies}"] if copies else []
    parts += [f"{measure_name(name)} {text}" for name, text in texts.items()]
    parts += [f"{name} {count:,}" for name, count in attack.counts.items()]
    return "; ".join(parts) or None


def _model(one: Attacked) -> str:
    model = one.attack.manifest.model
    weights = model.sha256 or model.revision or ""
    return f"{model_name(model.name)} ({weights[:12] or 'no fingerprint'})"


def _share_of_bound(one: Attacked) -> float | None:
    """Root mean square over the releases of an exact audit."""
    shares = one.attack.details.get("share_of_bound")
    mean = shares.get("root_mean_square") if isinstance(shares, dict) else None
    return mean if isinstance(mean, float) else None


def _label_only(one: Attacked) -> float | None:
    epsilon = one.attack.details.get("label_only")
    return epsilon if isinstance(epsilon, float) else None


_COLUMNS = (
    Column("row", "mechanism", "label"),
    Column("epsilon", "ε", "epsilon", epsilon_text),
    Column("task", "task", "attack.subject.task"),
    Column("attack", "attack", "attack.attack", wide=True),
    Column("access", "access", "attack.access"),
    Column(
        "proved",
        "proved ε",
        "attack.privacy.epsilon_proved",
        epsilon_text,
        "upper bound, from the ledger of that run",
    ),
    Column(
        "audited",
        "audited ε",
        "attack.audited",
        bound_text,
        "lower bound that the attack proves",
    ),
    Column("confidence", "confidence", _confidence, help="of the audited ε, by itself"),
    Column("trials", "trials", lambda one: trials_text(one.attack), wide=True),
    Column(
        "share_of_bound",
        "of the bound",
        _share_of_bound,
        "{:.3f}".format,
        _OF_THE_BOUND,
        optional=True,
    ),
    Column("label_only", "label only", _label_only, bound_text, _LABEL_ONLY, optional=True),
    Column("measured", "measured", _describe_measures, wide=True, optional=True),
    Column("on", "made on", lambda one: one.on or None, wide=True, optional=True),
    Column("records", "records", "attack.subject.source", optional=True, page=True),
    Column("model", "model", _model, wide=True, page=True),
    Column("source", "source", "attack.id", wide=True),
)


def pair_with_settings(
    results: Sequence[AttackResult],
    known: Mapping[str, Power],
) -> list[Attacked]:
    """With what they were made on. known: id of a result -> the power of its attack."""
    attacked = []
    for result in results:
        subject = result.subject
        on = f"{sizes_text(result)}, {options_text(subject.options)}"
        attacked.append(
            Attacked(subject.mechanism, subject.epsilon, result, on, known.get(result.id))
        )
    return attacked


def attacks_table(title: str, attacked: Sequence[Attacked], heading: bool = True) -> Table:
    """A line an attack, and what they and their controls say about their measures."""
    notes: list[str] = []
    for one in attacked:
        attack = one.attack
        if attack.attack in (EXACT, GROUP):
            notes.append(_EXACT)
        if one.power is not None:
            notes.append(str(one.power))
        notes += attack.notes
        for name, estimate in attack.measures.items():
            if estimate.note:
                notes.append(f"{measure_name(name)}: {estimate.note}")
    return make_table(
        title,
        _COLUMNS,
        attacked,
        kind=lambda one: "end" if one.attack.subject.mechanism in ENDS else "",
        keep=3,
        heading=heading,
        notes=tuple(dict.fromkeys(notes)),
    )
