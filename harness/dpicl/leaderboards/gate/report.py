"""What the gate found of a submission: the reviewer's table, and everything for a terminal, as JSON and as Markdown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.findings import Finding
from dpicl.leaderboards.gate.rerun import RerunCell
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.submissions import Reproduction
from dpicl.leaderboards.model.text import epsilon_text, recovery_text, score_text, visible
from dpicl.leaderboards.render.document import markdown_table
from dpicl.results.schema import Result

#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}


@dataclass(frozen=True)
class Line:
    """A row as the board would show it. rank, rivals: place by score among the rows of this task and epsilon that are
    ranked; None: no rank. change: of the mean score since the base, None for a row that was not there.

    reproduced: cells that somebody else ran again, before or in this run.
    """

    model: str
    row: Row
    rank: int | None
    rivals: int
    change: float | None
    reproduced: tuple[Reproduction, ...]

    def as_json(self) -> dict[str, Any]:
        """Names and numbers. marks: what weakens its proved ε, in words. reported: by the paper."""
        row = self.row
        same = ("task", "epsilon", "seeds", "score", "low", "high", "recovery", "proved", "claimed", "reported")
        return {
            **{name: getattr(row, name) for name in same},
            "model": visible(self.model, 60),
            "row": visible(row.label, 100),
            "recovery_note": visible(row.recovery_note),
            "marks": [mark.name for mark in row.marks],
            **{name: getattr(self, name) for name in ("rank", "rivals", "change")},
            "reproduced": [asdict(one) for one in self.reproduced],
        }


@dataclass(frozen=True)
class Examination:
    """What the gate found. seed: of the sample of re-run cells."""

    contents: Contents
    findings: tuple[Finding, ...]
    lines: tuple[Line, ...]
    reruns: tuple[RerunCell, ...] = ()
    seed: int | None = None

    @property
    def good(self) -> bool:
        return all(finding.status != "failed" for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Names, sentences and numbers; no text of the results."""
        return {
            "submission": self.contents.name,
            "ok": self.good,
            "hash": self.contents.hash,
            "plugin": self.contents.plugin_hash,
            "checks": [asdict(finding) for finding in self.findings],
            "rows": [line.as_json() for line in self.lines],
            "rerun_seed": self.seed,
        }


def lines_of(
    contents: Contents,
    reference: Sequence[Result],
    before: Mapping[str, float],
    reruns: Sequence[Reproduction] = (),
) -> list[Line]:
    """One line a row, as the board would show it. before: cell id -> score in the base. reruns: those of this run."""
    return [
        _line(section.group.model, row, table, before, reruns)
        for section in build_board(reference, submissions=[contents.submission()]).sections
        for table in section.tables
        for row in (*table.rows, *table.paper)
        if row.submission is not None
    ]


def _line(model: str, row: Row, table: TaskTable, before: Mapping[str, float], reruns: Sequence[Reproduction]) -> Line:
    rivals = [one.score for one in table.rows if one.epsilon == row.epsilon and not one.unranked]
    ids = [result.cell_id for result in row.results]
    then = [before[one] for one in ids if one in before]
    return Line(
        model=model,
        row=row,
        rank=None if row.unranked else 1 + sum(score > row.score for score in rivals),
        rivals=len(rivals),
        change=row.score - fmean(then) if then else None,
        reproduced=tuple({one.cell_id: one for one in (*row.reproduced, *reruns) if one.cell_id in ids}.values()),
    )


def cells_of(line: Line) -> dict[str, str]:
    """Column -> text."""
    row = line.row
    marks = "; ".join(mark.name for mark in row.marks)
    return {
        "task": row.task,
        "ε": epsilon_text(row.epsilon),
        "row": visible(row.label, 100),
        "model": visible(model_name(line.model), 60),
        "seeds": str(len(row.seeds)),
        "score": score_text(row.score),
        "95% interval": f"{row.low:.3f}–{row.high:.3f}",
        "recovery": recovery_text(row.recovery),
        "proved ε": epsilon_text(row.proved) + (f" ({marks})" if marks else ""),
        "claimed ε": epsilon_text(row.claimed),
        "rank": "–" if line.rank is None else f"{line.rank} of {line.rivals}",
        "change": "new" if line.change is None else f"{line.change:+.3f}",
        "paper": "–" if row.reported is None else score_text(row.reported),
        "reported → reproduced": ", ".join(map(_scores, line.reproduced)) or "–",
    }


def _scores(one: Reproduction) -> str:
    same = " (identical)" if one.identical else ""
    return f"seed {one.seed}: {score_text(one.reported)} → {score_text(one.reproduced)}{same}"


def sentences(finding: Finding) -> list[str]:
    """The sentence of a finding and some of its further ones."""
    more = list(finding.others[:_SHOWN])
    if len(finding.others) > _SHOWN:
        more.append(f"... and {len(finding.others) - _SHOWN} more (--json has all)")
    return [finding.why, *more]


def findings_text(findings: Sequence[Finding]) -> str:
    """One line a check, further sentences below it."""
    lines = []
    for finding in findings:
        first, *more = sentences(finding)
        lines.append(f"  {finding.check:<16} {_MARKS[finding.status]:<12} {first}")
        lines += [f"  {'':<29} {text}" for text in more]
    return "\n".join(lines)


def rows_of(examination: Examination) -> tuple[list[str], list[list[str]]]:
    """(columns, rows) of the reviewer's table; columns that are empty everywhere are left out."""
    rows = [cells_of(line) for line in examination.lines]
    optional = ("paper", "reported → reproduced")
    used = [name for name in (rows[0] if rows else ()) if name not in optional or any(row[name] != "–" for row in rows)]
    return used, [[row[name] for name in used] for row in rows]


def ending(examination: Examination) -> str:
    """One sentence: may it stand on the board?"""
    failed, left = (
        ", ".join(one.check for one in examination.findings if one.status == status)
        for status in ("failed", "not checked")
    )
    if failed:
        return f"{examination.contents.name} is refused: {failed}."
    return f"{examination.contents.name} passes{f'; not checked: {left}' if left else ''}."


def markdown(examinations: Sequence[Examination], extra: Sequence[Finding] = ()) -> str:
    """The whole report as Markdown."""
    blocks = []
    for one in examinations:
        blocks += [f"## {_plain(one.contents.name)}", _plain(ending(one)), _findings(one.findings)]
        columns, rows = rows_of(one)
        blocks += [_table(columns, rows)] if rows else []
    if extra:
        blocks += ["## The whole", _findings(extra)]
    return "\n\n".join(blocks) + "\n"


def _findings(findings: Sequence[Finding]) -> str:
    rows = [[one.check, _MARKS[one.status], " ".join(sentences(one))] for one in findings]
    return _table(["check", "", "seen"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return markdown_table([*map(_plain, head)], [[*map(_plain, row)] for row in rows])


def _plain(text: str) -> str:
    """The text with everything escaped that Markdown or HTML would read."""
    return re.sub(r"[\\`*_\[\]<>|#]", r"\\\g<0>", text).replace("@", "@\u200b")
