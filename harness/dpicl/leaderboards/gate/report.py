"""What the gate found of a submission, in a terminal, as JSON and Markdown; its rows as the board would show them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from statistics import fmean
from typing import Any

from dpicl.core.messages import score_text
from dpicl.core.printable import visible
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.gate.case import Case, Finding
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.rerun import RerunCell
from dpicl.leaderboards.model.board import Section, build_board
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.submissions import Reproduction
from dpicl.leaderboards.render.columns import record, row_columns
from dpicl.tables.document import Column, Table, make_table

#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}
#: Where a row stands.
Place = tuple[Section, TaskTable, Row]


@dataclass(frozen=True)
class Examination:
    """What the gate found. rows: as the board would show them. earlier: cell id -> its score in the earlier copy. seed:
    of the sample of re-run cells."""

    contents: Contents
    findings: tuple[Finding, ...]
    rows: tuple[Place, ...] = ()
    earlier: Mapping[str, float] = field(default_factory=dict)
    reruns: tuple[RerunCell, ...] = ()
    seed: int | None = None

    @property
    def good(self) -> bool:
        return all(finding.status != "failed" for finding in self.findings)

    def change(self, row: Row) -> float | None:
        """Of its mean score since the earlier copy; None where it is new."""
        then = [self.earlier[one.cell_id] for one in row.results if one.cell_id in self.earlier]
        return row.score - fmean(then) if then else None

    def reproduced(self, row: Row) -> list[Reproduction]:
        """Its cells that somebody else ran again, or that were run again now."""
        ids = {result.cell_id for result in row.results}
        now = (one.reproduction("this run") for one in self.reruns if one.reported.cell_id in ids)
        return [*{one.cell_id: one for one in (*row.reproduced, *now)}.values()]

    def as_json(self) -> dict[str, Any]:
        """Names, sentences and numbers; no text of the results. Rows have the keys of board.csv."""
        return {
            "submission": self.contents.name,
            "ok": self.good,
            "plugin": self.contents.plugin_hash,
            "checks": [asdict(finding) for finding in self.findings],
            "rows": [self._row_json(*place) for place in self.rows],
            "rerun_seed": self.seed,
        }

    def _row_json(self, section: Section, table: TaskTable, row: Row) -> dict[str, Any]:
        own = record(section, table, row)
        plain = {key: visible(value, 200) if isinstance(value, str) else value for key, value in own.items()}
        return {**plain, "change": self.change(row), "reproduced": [asdict(one) for one in self.reproduced(row)]}

    def table(self) -> Table:
        """Its rows in the columns of the board, and what a reviewer asks for besides."""

        def reproduced(row: Row) -> str | None:
            texts = (
                f"seed {one.seed}: {score_text(one.reported)} → {score_text(one.reproduced)}"
                f"{' (identical)' if one.identical else ''}"
                for one in self.reproduced(row)
            )
            return ", ".join(texts) or None

        name, *columns = row_columns()
        ours = (
            Column("task", "task", attrgetter("task")),
            name,
            Column("model", "model", lambda row: model_name(row.results[0].cell.model)),
            *columns,
            Column("marks", "marks", lambda row: "; ".join(mark.name for mark in row.marks) or None, optional=True),
            Column("change", "change", self.change, "{:+.3f}".format, optional=True),
            Column("reported", "paper", attrgetter("reported"), score_text, optional=True),
            Column("reproduced", "reported → reproduced", reproduced, wide=True, optional=True),
        )
        return make_table("", ours, [row for _, _, row in self.rows], keep=2)


def submitted_rows(case: Case) -> list[Place]:
    """The rows of a submission, where the board would show them."""
    board = build_board(case.reference, submissions=[case.contents.submission()])
    places = ((section, table) for section in board.sections for table in section.tables)
    return [(*place, row) for place in places for row in place[1].all_rows if row.submission is not None]


def _sentences(finding: Finding) -> list[str]:
    """The sentence of a finding and some of its further ones."""
    left = len(finding.others) - _SHOWN
    return [finding.why, *finding.others[:_SHOWN], *([f"... and {left} more (--json has all)"] if left > 0 else [])]


def findings_text(findings: Sequence[Finding]) -> str:
    """One line a check, further sentences below it."""
    lines = []
    for finding in findings:
        first, *more = _sentences(finding)
        lines.append(f"  {finding.check:<16} {_MARKS[finding.status]:<12} {first}")
        lines += [f"  {'':<29} {text}" for text in more]
    return "\n".join(lines)


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
    """The whole report as Markdown: what strangers wrote stands in blocks of code, and is shown as it is."""
    blocks = []
    for one in examinations:
        table = one.table()
        rows = [[column.name for column in table.columns], *map(table.texts, table.lines)] if table.lines else []
        lines = [ending(one), "", findings_text(one.findings), "", *(visible(" | ".join(row)) for row in rows)]
        blocks.append("\n".join(lines).rstrip())
    blocks += [f"the whole\n\n{findings_text(extra)}"] if extra else []
    return "".join(f"```text\n{block.replace('`', chr(39))}\n```\n" for block in blocks)
