"""The page of a row: settings, other rows beside it, what it released and spent, attacks, how to reproduce it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.attacks import options_text
from dpicl.leaderboards.model.board import Section
from dpicl.leaderboards.model.columns import words
from dpicl.leaderboards.model.comparability import Group
from dpicl.leaderboards.model.pairs import Pairs
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import names_text, queries_words
from dpicl.leaderboards.render.site.addresses import Addresses
from dpicl.results.schema import LedgerRow, Result
from dpicl.results.store import Store

#: Rows that the page of a row is compared with, those with the nearest scores; `dpicl compare` has the others. Fewer
#: where the table of its task is so long that these tables would be most of the site.
MOST_RIVALS, FEW_RIVALS, LONG_TABLE = 40, 10, 200
#: The same where rows have no pages of their own.
FEWEST_RIVALS = 5
#: Test records whose released answers the page shows of a row; result files hold them all.
MOST_ANSWERS = 30
#: The packages whose versions the page shows; result files hold them all.
_PACKAGES = ("torch", "transformers", "lm_eval", "lm-eval", "dp-accounting", "prv-accountant")


def beside(pairs: Pairs, row: Row, addresses: Addresses) -> list[dict[str, Any]]:
    """The rows of its task that a row stands beside, best first: each with the difference, and what it says."""
    most = FEWEST_RIVALS if addresses.together else FEW_RIVALS if pairs.rows > LONG_TABLE else MOST_RIVALS
    rivals = sorted(pairs.rivals(row), key=lambda one: abs(one.score - row.score))[:most]
    rivals.sort(key=lambda one: one.score if row.lower_is_better(row.metric) else -one.score)
    found = [(one, pairs.difference(row, one)) for one in rivals]
    return [
        {
            "page": addresses.page(one),
            "row": one,
            "found": difference,
        }
        for one, difference in found
    ]


def row_view(
    section: Section,
    table: TaskTable,
    row: Row,
    addresses: Addresses,
    frozen: bool,
    rivals: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """Everything that the template shows of a row. frozen: it belongs to a retired version of the suite. rivals: see
    `beside`."""
    first = row.results[0]
    others = sorted({_commit(result) for result in row.results} - {_commit(first)})
    return {
        "section": section,
        "table": table,
        "row": row,
        "frozen": frozen,
        "rivals": rivals,
        "mechanism_page": addresses.mechanism(row.label),
        "facts": _facts(row),
        "privacy_notes": list(dict.fromkeys(note for result in row.results for note in result.privacy.notes)),
        "seeds": [_seed(result) for result in row.results],
        "folder": _folder(row),
        "ledger": [_ledger_entry(entry) for entry in first.privacy.ledger],
        "ledgers_differ": any(_sorted_ledger(result) != _sorted_ledger(first) for result in row.results),
        "accountants": {f"accountant: {name}": _said(one) for name, one in sorted(first.privacy.accountants.items())},
        "answers_queries": row.results[0].kind != "demonstrations",
        "released": [(result.cell.seed, result) for result in row.results if result.texts and not result.answers],
        "answers": _answers(row),
        "withheld": sum(result.released_count for result in row.results if not result.texts),
        "manifest": _manifest(first) | ({"other seeds": f"code {names_text(others)}"} if others else {}) | _cost(row),
        "command": command(section.group, row),
    }


def short_view(section: Section, row: Row, addresses: Addresses, rivals: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the page of its mechanism shows of a row that has no page of its own."""
    spent: dict[tuple[int, str], list[str]] = {}
    for records, count, event, _ in map(_ledger_entry, row.results[0].privacy.ledger):
        spent.setdefault((count, event), []).append(records)
    return {
        "row": row,
        "identity": addresses.of(row),
        "rivals": rivals,
        "options": options_text(row.results[0].cell.options, none="none"),
        "seeds": [_seed(result) for result in row.results],
        "folder": _folder(row),
        "spent": [(count, names_text(records), event) for (count, event), records in spent.items()],
        "command": command(section.group, row),
    }


def command(group: Group, row: Row) -> str:
    """The command that reproduces a row. That of a submitted row runs the submitted code.

    Options from the command line are part of the label, as 'row+name=value' (see dpicl.plan.expand).
    """
    cell, submission = row.results[0].cell, row.submission
    said = ["dpicl", "run", group.asked]
    if submission is None:
        label, *options = cell.label.split("+")
    else:
        label = cell.mechanism
        options = [f"{label}.{name}={json.dumps(value)}" for name, value in sorted(cell.options.items())]
        if submission.plugin is not None:
            said += ["--plugin", f"leaderboards/submissions/{submission.name}/{submission.plugin.name}"]
    said += ["--task", cell.task, "--mechanism", label, "--model", cell.model, "--source", group.source]
    said += [] if row.is_baseline else ["--epsilon", f"{cell.epsilon:g}"]
    said += [] if cell.test_records is None else ["--limit", str(cell.test_records)]
    return shlex.join([*said, *(word for option in options for word in ("--option", option))])


def _cost(row: Row) -> dict[str, str]:
    """Time, tokens and memory in words."""
    costs = [result.cost for result in row.results]
    seconds = fmean(sum(cost.seconds.values()) for cost in costs)
    tokens, memory = fmean(cost.tokens_read for cost in costs), max(cost.peak_memory_mb for cost in costs)
    return {"cost": f"{seconds:.0f} s and {tokens:,.0f} tokens read a seed, at most {memory:,.0f} MB"}


def _facts(row: Row) -> dict[str, str]:
    first = row.results[0]
    knob, shown = first.privacy.knob, words(row)
    return {
        "mechanism": first.cell.mechanism,
        "options": options_text(first.cell.options, none="none"),
        "knob": str(knob) if knob else "none",
        **shown,
        "recovery": shown["recovery"] + (f" = {row.recovery_sum}" if row.recovery_sum else ""),
        "privacy": f"ε = {shown['proved ε']} proved, δ = {first.privacy.delta:g}, {first.privacy.neighbours}",
        "accounting": row.mode,
        "marks": ", ".join(f"{mark.sign} {mark.name}" for mark in row.marks) or "none",
        "covers": queries_words(row.queries),
        "noise": first.cell.noise,
        "shots": str(first.cell.shots),
    }


def _seed(result: Result) -> dict[str, Any]:
    knob = result.privacy.knob
    return {
        "seed": result.cell.seed,
        "score": result.scores[result.main_metric],
        "proved": result.privacy.epsilon_proved,
        "knob": None if knob is None else knob.value,
        "seconds": f"{sum(result.cost.seconds.values()):.0f}",
        "created": result.created,
        "file": f"{result.cell_id}.json",
    }


def _folder(row: Row) -> str:
    """Where the results are, below the folder of results; "" for a submission, which has a folder of its own."""
    cell = row.results[0].cell
    return "" if row.submission is not None else Store(Path("."), cell.suite).path(cell).parent.as_posix()


def _said(value: Any) -> str:
    """What an accountant said: a number, words, or what it did in several steps."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def _sorted_ledger(result: Result) -> list[str]:
    return sorted(entry.model_dump_json() for entry in result.privacy.ledger)


def _answers(row: Row) -> dict[str, Any] | None:
    """The first answers, a line a test record and a column a seed, and how many records were answered in all."""
    by_seed = [(result.cell.seed, {one.id: one.text for one in result.answers}) for result in row.results]
    by_seed = [(seed, answers) for seed, answers in by_seed if answers]
    if not by_seed:
        return None
    ids = list(dict.fromkeys(name for _, answers in by_seed for name in answers))
    shown = [(name, [answers.get(name) for _, answers in by_seed]) for name in ids[:MOST_ANSWERS]]
    return {"seeds": [seed for seed, _ in by_seed], "shown": shown, "total": len(ids)}


def _ledger_entry(entry: LedgerRow) -> tuple[str, int, str, str]:
    """(which records, how often, event in words, note)."""
    records = "all records" if entry.partition is None else f"records of '{entry.partition}'"
    return records, entry.count, describe(entry.event), entry.note


def _commit(result: Result) -> str:
    manifest = result.manifest
    commit = "not a checkout" if manifest.commit is None else manifest.commit[:12]
    return commit + (", with changes" if manifest.dirty else "")


def _manifest(result: Result) -> dict[str, str]:
    manifest = result.manifest
    model, data = manifest.model, manifest.data
    packages = [f"{name} {manifest.packages[name]}" for name in _PACKAGES if name in manifest.packages]
    dropped = ", ".join(f"{count} {reason}" for reason, count in data.dropped.items() if count)
    private = sum(data.sizes.values())
    return {
        "model": f"{model_name(model.name)}, {model.parameters:,} parameters, {manifest.dtype}, {manifest.device}",
        "weights": model.sha256 or model.revision or "no fingerprint",
        "records": f"{data.source}, {private:,} private, {data.public_records:,} public, {data.test_records:,} test",
        "fingerprint": f"sha256 {data.fingerprint}",
        "dropped": dropped or "none",
        "prompts": f"sha256 {manifest.prompts_hash}",
        "code": _commit(result),
        "packages": ", ".join(packages),
        "machine": f"{manifest.machine.cpu}, {manifest.machine.cores} cores, Python {manifest.python}",
    }


def describe(event: Mapping[str, Any]) -> str:
    """An event in a few words, from the JSON of dpicl.privacy.events; of an unknown kind as its JSON."""
    match event:
        case {"event": "none"}:
            return "nothing private"
        case {"event": "non_private"}:
            return "records shown as they are"
        case {"event": "gaussian" | "laplace" as kind, "noise_multiplier": noise}:
            return f"{kind.capitalize()} noise, multiplier {noise:.4g}"
        case {"event": "zcdp", "rho": rho}:
            return f"zero-concentrated, ρ = {rho:.4g}"
        case {"event": "epsilon_delta", "epsilon": epsilon, "delta": delta}:
            return f"({epsilon:.4g}, {delta:.3g})-private"
        case {"event": "poisson", "rate": rate, "of": inner}:
            return f"Poisson sample, rate {rate:.4g}, of [{describe(inner)}]"
        case {"event": "fixed_size", "size": size, "sample": sample, "of": inner}:
            return f"{sample:,} of {size:,} records without replacement, of [{describe(inner)}]"
        case {"event": "repeat", "count": count, "of": inner}:
            return f"{count:,} × [{describe(inner)}]"
        case {"event": "compose", "of": parts}:
            return " and ".join(describe(part) for part in parts)
        case {"event": "parallel", "of": branches}:
            return "; ".join(f"{name}: {describe(branch)}" for name, branch in branches.items())
    return json.dumps(event)
