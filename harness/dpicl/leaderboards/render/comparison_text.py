"""A comparison of two releases in a terminal, as Markdown for a pull request, and as JSON (docs/releases.md).

Paths, labels and versions come from result files and are hostile input: control and direction characters are written
out, and in Markdown every name is a <code> element of entities, in which no markup, link, mention or table cell begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.text import Text

from dpicl.leaderboards.compare.pairing import Key, Unmatched
from dpicl.leaderboards.compare.sides import Change, Side
from dpicl.leaderboards.compare.verdicts import CellVerdict, Comparison
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.notes import MOST_NAMED, Note, Weight, gathered, named
from dpicl.leaderboards.model.text import counted, epsilon_text, names_text, p_number, score_text, seeds_text, visible
from dpicl.leaderboards.render.console import plain_console, print_heading, print_notes, print_tables

_LONGEST_NAME, _LONGEST_NOTE = 120, 600
_STYLES = {"regression": "bold red", "improvement": "green", "not tested": "dim"}
_HEAD = [
    *("mechanism", "ε", "seeds", "base", "candidate", "change"),
    *("95% interval", "p (Holm)", "MDE (80% power)", "verdict"),
]


def render_terminal(comparison: Comparison, color: bool | None = None) -> str:
    """The comparison as text. color: None means: when standard output is a terminal."""
    console, text = plain_console(color)
    console.print(Text(_title(comparison), style="bold red" if comparison.regressed else "bold"), soft_wrap=True)
    for side in (comparison.base, comparison.candidate):
        line = f"{side.name}: {visible(side.path, _LONGEST_NAME)}, {counted(len(side.results), 'result')}"
        console.print(Text(line), soft_wrap=True)
    print_notes(console, _change_lines(comparison.changes), style="")
    for task, metric in dict.fromkeys((cell.key.task, cell.metric) for cell in comparison.cells):
        cells = [cell for cell in comparison.cells if (cell.key.task, cell.metric) == (task, metric)]
        less = " (less is better)" if cells[0].less_is_better else ""
        documents = counted(max(cell.documents for cell in cells), "document")
        print_heading(console, f"{visible(task, _LONGEST_NAME)}: {metric_name(metric)}{less}, {documents}")
        styles = ["bold red" if cell.privacy else _STYLES.get(cell.verdict) for cell in cells]
        print_tables(console, _HEAD, [_line(cell) for cell in cells], styles, keep=2)
    print_notes(console, _notes(comparison))
    return text()


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown: what changed for certain first, the rest folded."""
    sides = (comparison.base, comparison.candidate)
    found = "\n".join(f"- {side.name}: {_code(side.path)}, {counted(len(side.results), 'result')}" for side in sides)
    parts = [f"### {_title(comparison)}", found]
    if changed := [one for one in comparison.changes if one.changed]:
        lines = [[_code(one.name), *(", ".join(map(_code, side)) or "none" for side in _short(one))] for one in changed]
        parts.append(markdown_table(["what changed", "base", "candidate"], lines))
    certain = [cell for cell in comparison.cells if cell.fails or cell.verdict == "improvement"]
    rest = [cell for cell in comparison.cells if cell not in certain]
    if certain:
        parts.append(_cells_markdown(certain))
    if rest:
        summary = f"<summary>{counted(len(rest), 'cell')} equivalent, inconclusive or not tested</summary>"
        parts.append(f"<details>{summary}\n\n{_cells_markdown(rest)}\n\n</details>")
    parts.append("\n".join(f"- {_escaped(note)}" for note in _notes(comparison)))
    return "\n\n".join(parts) + "\n"


def comparison_json(comparison: Comparison) -> dict[str, Any]:
    """Everything that the terminal and Markdown show. Infinity is left to the writer (`output.plain`)."""
    return {
        "base": _side_json(comparison.base),
        "candidate": _side_json(comparison.candidate),
        "settings": asdict(comparison.settings),
        "changes": [{**asdict(change), "changed": change.changed} for change in comparison.changes],
        **{name: getattr(comparison, name) for name in ("tested", "regressed", "incomplete")},
        "cells": [_cell_json(cell) for cell in comparison.cells],
        "missing": [_unmatched_json(one) for one in comparison.missing],
        "unmatched": [_unmatched_json(one) for one in comparison.unmatched],
    }


def _side_json(side: Side) -> dict[str, Any]:
    return {"path": side.path, "results": len(side.results), "foreign": [str(path) for path in side.foreign]}


def _unmatched_json(one: Unmatched) -> dict[str, Any]:
    return {"side": one.side, **_key_json(one.key), "seeds": one.seeds, "whole_row": one.whole}


def _key_json(key: Key) -> dict[str, Any]:
    return {"task": key.task, "mechanism": key.label, "epsilon": key.epsilon, "mode": key.mode, "suite": key.suite}


def _cell_json(cell: CellVerdict) -> dict[str, Any]:
    test = cell.test
    names = ("metric", "less_is_better", "seeds", "documents", "base", "candidate", "difference", "verdict", "note")
    return {
        **_key_json(cell.key),
        **{name: getattr(cell, name) for name in (*names, "privacy")},
        "interval": test and [test.low, test.high],
        "p": test and test.p,
        "p_adjusted": test and test.adjusted,
        "excluded": test and test.excluded,
        "detectable_drop": test and test.detectable,
        "metric_missing": cell.missing,
        "proved_epsilon": {"base": cell.proved[0], "candidate": cell.proved[1]},
    }


def _notes(comparison: Comparison) -> Iterator[str]:
    """What a reader must know beside the numbers."""
    settings, cells = comparison.settings, comparison.cells
    too_large = [
        Note(Weight.REFUTED, f"{cell.key} ({_proved(cell)})", f": {cell.privacy}", unit="cells")
        for cell in cells
        if cell.privacy
    ]
    yield from gathered(too_large)
    yield from _without_partner(comparison)
    yield (
        f"Regression: Holm's p over {counted(comparison.tested, 'cell')} is at most {settings.alpha:g} and the loss"
        f" at least {settings.min_effect:g}; intervals are not adjusted. MDE (80% power): the smallest true drop that"
        f" this cell would show with probability 0.8 at {settings.alpha:g}/{max(comparison.tested, 1)} (none: no drop"
        " shows)."
    )
    if any(cell.test and len(cell.seeds) == 1 and cell.key.epsilon > 0 for cell in cells):
        yield (
            "With one seed a test is about these releases: other noise may move all documents together. Run more seeds"
            " to test the mechanism."
        )
    if any(cell.less_is_better for cell in cells):
        yield "The change of a metric of which less is better has its sign reversed: negative is always a loss."
    yield from gathered(Note(Weight.SEEDS, str(c.key), f": {c.note}", unit="cells") for c in cells if c.note)


def _without_partner(comparison: Comparison) -> Iterator[str]:
    """What one side lacks; first the base's, since a row that is not there may be the one that got worse."""
    lacking = [f"{cell.metric} of {cell.key}" for cell in comparison.cells if cell.missing]
    lacking += [_lone(one) for one in comparison.missing]
    extra = [_lone(one) for one in comparison.unmatched if one.side == "candidate"]
    for head, found in (("Missing in candidate", lacking), ("Only in candidate", extra)):
        if found:
            more = "; --json lists them all" if len(found) > MOST_NAMED else ""
            yield f"{head}{f' ({len(found)})' if len(found) > 1 else ''}: {named(found)}{more}."
    if comparison.incomplete:
        yield "What is missing fails the gate; --allow-missing leaves it out."


def _lone(one: Unmatched) -> str:
    return f"{one.key}, seed {seeds_text(one.seeds)}" + ("" if one.whole else " (the row is on both sides)")


def _title(comparison: Comparison) -> str:
    """The verdict of the gate first, and why: 'GATE FAILS: 8 rows missing; 2 cells compared (2 tested)'."""
    gone = {one.key for one in comparison.missing if one.whole}
    partly = {one.key for one in comparison.missing} | {cell.key for cell in comparison.cells if cell.missing}
    lacking = [f"{counted(len(gone), 'row')} missing"] if gone else []
    lacking += [f"{counted(len(partly - gone), 'row')} incomplete"] if partly - gone else []
    worse, better = comparison.count("regression"), comparison.count("improvement")
    too_large = sum(bool(cell.privacy) for cell in comparison.cells)
    words = [counted(worse, "regression")] if worse else []
    words += [f"{too_large} proved ε too large"] if too_large else []
    words += lacking if comparison.incomplete else []
    words += [counted(better, "improvement")] if better else []
    counts = ((comparison.count(name), name) for name in ("equivalent", "inconclusive"))
    words = words or [f"{number} {name}" for number, name in counts if number] or ["nothing tested"]
    words += [] if comparison.incomplete else [f"{one} (allowed)" for one in lacking]
    cells = f"{counted(len(comparison.cells), 'cell')} compared ({comparison.tested} tested)"
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(words)}; {cells}"


def _line(cell: CellVerdict) -> list[str]:
    suite = f" ({cell.key.suite})" if cell.key.suite else ""
    mode = "" if cell.key.mode == "proved" else f" ({cell.key.mode})"
    test = cell.test
    numbers = ["–", "–", "–"]
    if test is not None:
        detectable = "none" if test.detectable is None else score_text(test.detectable)
        numbers = [f"{test.low:+.3f} to {test.high:+.3f}", p_number(test.adjusted), detectable]
    return [
        cell.key.label + suite,
        epsilon_text(cell.key.epsilon) + mode,
        str(len(cell.seeds)),
        *("–" if score is None else score_text(score) for score in (cell.base, cell.candidate)),
        "–" if cell.difference is None else f"{cell.difference:+.3f}",
        *numbers,
        cell.verdict + (", ε too large" if cell.privacy else ""),
    ]


def _change_lines(changes: Sequence[Change]) -> list[str]:
    changed = [change for change in changes if change.changed]
    if not changed:
        commits = next((one.base for one in changes if one.name == "commit"), ())
        what = "model, weights, dtype, device, commit, Python, plug-ins, suite and packages"
        unclear = any(len(commit.split()) > 1 for commit in commits)
        more = f"; the commit does not say which code ran ({names_text(commits)})" if unclear else ""
        return [f"Nothing that is recorded changed: the same {what}{more}."]
    return [
        f"{one.name}: "
        + " → ".join(", ".join(visible(v, _LONGEST_NAME) for v in side) or "none" for side in _short(one))
        for one in changed
    ]


def _short(change: Change) -> list[list[str]]:
    """The values on either side, hashes by their beginning."""
    sides = (change.base, change.candidate)
    return [[v[:16] if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", v) else v for v in side] for side in sides]


def _proved(cell: CellVerdict) -> str:
    base, candidate = map(epsilon_text, cell.proved)
    return f"target {epsilon_text(cell.key.epsilon)}, proved {base} → {candidate}"


def _cells_markdown(cells: Sequence[CellVerdict]) -> str:
    lines = []
    for cell in cells:
        label, *numbers, verdict = _line(cell)
        bold = f"**{verdict}**" if cell.fails else verdict
        lines.append([_code(cell.key.task), _code(cell.metric), _code(label), *map(_escaped, numbers), bold])
    return markdown_table(["task", "metric", *_HEAD], lines)


def markdown_table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A table of GitHub-flavoured Markdown. Cells are escaped already."""
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _code(name: str) -> str:
    return f"<code>{_escaped(visible(name, _LONGEST_NAME))}</code>"


def _escaped(text: str) -> str:
    """The text with entities for every character of Markdown, HTML, links and tables.

    A comment behind @ and # keeps GitHub from reading a mention or an issue where names stand outside of <code>.
    """

    def entity(match: re.Match[str]) -> str:
        return f"&#{ord(match[0])};" + ("<!-- -->" if match[0] in "@#" else "")

    text = re.sub(r"[&<>|`*_\[\]\\~@#$\"'{}]|:(?=/)", entity, visible(text, _LONGEST_NOTE))
    return re.sub(r"(?i)(www)\.", r"\1&#46;", text)
