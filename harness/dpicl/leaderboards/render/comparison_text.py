"""A comparison of two releases in a terminal, and as Markdown for a pull request.

Paths, labels and versions come from result files and are hostile input: control and direction characters are written
out, and in Markdown every name is a <code> element of entities, in which no markup, link, mention or table cell begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.text import Text

from dpicl.leaderboards.compare.pairing import Unmatched
from dpicl.leaderboards.compare.sides import Change
from dpicl.leaderboards.compare.verdicts import CellVerdict, Comparison, Summary
from dpicl.leaderboards.model.metrics import metric_name
from dpicl.leaderboards.model.notes import MOST_NAMED, Note, Weight, gathered, named
from dpicl.leaderboards.model.text import counted, epsilon_text, names_text, score_text, seeds_text, visible
from dpicl.leaderboards.render.console import plain_console, print_heading, print_notes, print_tables

_LONGEST_NAME, _LONGEST_NOTE = 120, 600
_STYLES = {"regression": "bold red", "improvement": "green", "not tested": "dim"}
_SUMMARY_HEAD = (
    "mechanism",
    "cells",
    "regressions",
    "improvements",
    "equivalent",
    "inconclusive",
    "not tested",
    "ε too large",
    "mean change",
)
_HEAD = [
    *("mechanism", "ε", "seeds", "base", "candidate", "change"),
    *("95% interval", "p (Holm)", "MDE (80% power)", "verdict"),
]


def render_terminal(comparison: Comparison, color: bool | None = None) -> str:
    """The comparison as text. color: None means: when standard output is a terminal."""
    console, text = plain_console(color)
    console.print(Text(_title(comparison), style="bold red" if comparison.regressed else "bold"), soft_wrap=True)
    sides = (comparison.base, comparison.candidate)
    for side in sides:
        line = f"{side.name}: {visible(side.path, _LONGEST_NAME)}, {counted(len(side.results), 'result')}"
        console.print(Text(line), soft_wrap=True)
    print_notes(console, _change_lines(comparison.changes), style="")
    for task, metric in dict.fromkeys((cell.key.task, cell.metric) for cell in comparison.cells):
        cells = [cell for cell in comparison.cells if (cell.key.task, cell.metric) == (task, metric)]
        documents = counted(max(cell.documents for cell in cells), "document")
        print_heading(console, f"{visible(task, _LONGEST_NAME)}: {_metric(cells[0])}, {documents}")
        print_tables(console, _HEAD, [_line(cell) for cell in cells], [_style(cell) for cell in cells], keep=2)
    console.print()
    print_tables(console, _SUMMARY_HEAD, [_summary_line(summary) for summary in comparison.summaries])
    print_notes(console, notes(comparison))
    return text()


def render_markdown(comparison: Comparison) -> str:
    """The comparison as GitHub-flavoured Markdown: what changed for certain first, the rest folded."""
    sides = (comparison.base, comparison.candidate)
    found = "\n".join(f"- {side.name}: {_code(side.path)}, {counted(len(side.results), 'result')}" for side in sides)
    parts = [f"### {_title(comparison)}", found]
    changed = [change for change in comparison.changes if change.changed]
    if changed:
        lines = [[_code(c.name), _codes(c.base), _codes(c.candidate)] for c in changed]
        parts.append(markdown_table(["what changed", "base", "candidate"], lines))
    certain = [cell for cell in comparison.cells if cell.fails or cell.verdict == "improvement"]
    rest = [cell for cell in comparison.cells if cell not in certain]
    if certain:
        parts.append(_cells_markdown(certain))
    if rest:
        parts.append(
            f"<details><summary>{counted(len(rest), 'cell')} equivalent, inconclusive or not tested</summary>\n\n"
            f"{_cells_markdown(rest)}\n\n</details>"
        )
    summary = [[_code(line[0]), *line[1:]] for line in map(_summary_line, comparison.summaries)]
    parts.append(markdown_table(_SUMMARY_HEAD, summary))
    parts.append("\n".join(f"- {_escaped(note)}" for note in notes(comparison)))
    return "\n\n".join(parts) + "\n"


def notes(comparison: Comparison) -> list[str]:
    """What a reader must know beside the numbers."""
    settings = comparison.settings
    found = [
        *gathered(
            Note(Weight.REFUTED, f"{cell.key} ({_proved(cell)})", f": {cell.privacy}", unit="cells")
            for cell in comparison.cells
            if cell.privacy
        ),
        *_without_partner(comparison),
        f"Regression: Holm's p over {counted(comparison.tested, 'cell')} is at most {settings.alpha:g} and the loss"
        f" at least {settings.min_effect:g}. MDE (80% power): the smallest true drop that this cell would show with"
        f" probability 0.8 at {settings.alpha:g}/{max(comparison.tested, 1)}; smaller ones may go unseen (none: no drop"
        " shows).",
    ]
    tests = sorted({cell.test.name for cell in comparison.cells if cell.test})
    if tests:
        found.append(f"Tests: {', '.join(tests)}, two-sided; intervals are not adjusted for the number of cells.")
    if any(cell.test and len(cell.seeds) == 1 and cell.key.epsilon > 0 for cell in comparison.cells):
        found.append(
            "With one seed a test is about these releases: other noise may move all documents together. Run more seeds"
            " to test the mechanism."
        )
    if any(cell.less_is_better for cell in comparison.cells):
        found.append("The change of a metric of which less is better has its sign reversed: negative is always a loss.")
    found += gathered(
        Note(Weight.SEEDS, str(cell.key), f": {cell.note}", unit="cells") for cell in comparison.cells if cell.note
    )
    return found


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
    total = comparison.summaries[-1]
    gone = {one.key for one in comparison.missing if one.whole}
    partly = {one.key for one in comparison.missing} | {cell.key for cell in comparison.cells if cell.missing}
    lacking = [f"{counted(len(gone), 'row')} missing"] if gone else []
    lacking += [f"{counted(len(partly - gone), 'row')} incomplete"] if partly - gone else []
    words = [counted(total.regressions, "regression")] if total.regressions else []
    words += [f"{total.privacy} proved ε too large"] if total.privacy else []
    words += lacking if comparison.incomplete else []
    words += [counted(total.improvements, "improvement")] if total.improvements else []
    counts = {"equivalent": total.equivalent, "inconclusive": total.inconclusive}
    words = words or [f"{number} {name}" for name, number in counts.items() if number] or ["nothing tested"]
    words += [] if comparison.incomplete else [f"{one} (allowed)" for one in lacking]
    cells = f"{counted(total.cells, 'cell')} compared ({comparison.tested} tested)"
    return f"GATE {'FAILS' if comparison.regressed else 'PASSES'}: {', '.join(words)}; {cells}"


def _style(cell: CellVerdict) -> str | None:
    return "bold red" if cell.privacy else _STYLES.get(cell.verdict)


def _line(cell: CellVerdict) -> list[str]:
    suite = f" ({cell.key.suite})" if cell.key.suite else ""
    mode = "" if cell.key.mode == "proved" else f" ({cell.key.mode})"
    test = cell.test
    return [
        cell.key.label + suite,
        epsilon_text(cell.key.epsilon) + mode,
        str(len(cell.seeds)),
        *("–" if score is None else score_text(score) for score in (cell.base, cell.candidate)),
        "–" if cell.difference is None else f"{cell.difference:+.3f}",
        "–" if test is None else f"{test.low:+.3f} to {test.high:+.3f}",
        "–" if cell.adjusted is None else "<0.001" if cell.adjusted < 0.001 else f"{cell.adjusted:.3f}",
        "–" if test is None else ("none" if test.detectable is None else f"{test.detectable:.3f}"),
        cell.verdict + (", ε too large" if cell.privacy else ""),
    ]


def _summary_line(summary: Summary) -> list[str]:
    name, *counts, mean = vars(summary).values()
    return [name, *map(str, counts), "–" if mean is None else f"{mean:+.3f}"]


def _change_lines(changes: Sequence[Change]) -> list[str]:
    changed = [change for change in changes if change.changed]
    if not changed:
        by_name = {change.name: (*change.base, *change.candidate) for change in changes}
        what = "model, weights, dtype, device, commit, Python, plug-ins, suite and packages"
        said = f"Nothing that is recorded changed: the same {what}"
        if any(len(commit.split()) > 1 for commit in by_name.get("commit", ())):
            said += f"; the commit does not say which code ran ({names_text(sorted(set(by_name['commit'])))})"
        return [f"{said}."]
    return [f"{change.name}: {_values(change.base)} → {_values(change.candidate)}" for change in changed]


def _values(values: Sequence[str]) -> str:
    return ", ".join(visible(value[:16] if _is_hash(value) else value, _LONGEST_NAME) for value in values) or "none"


def _is_hash(value: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", value) is not None


def _metric(cell: CellVerdict) -> str:
    return metric_name(cell.metric) + (" (less is better)" if cell.less_is_better else "")


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


def _codes(values: Sequence[str]) -> str:
    return ", ".join(_code(value[:16] if _is_hash(value) else value) for value in values) or "none"


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
