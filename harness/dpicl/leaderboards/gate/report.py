"""What the gate found of a submission: the reviewer's table, and everything for a terminal, as JSON and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from statistics import fmean
from typing import Any

from dpicl.core.messages import epsilon_text
from dpicl.core.printable import visible
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.gate.case import Case, Finding
from dpicl.leaderboards.gate.contents import Contents
from dpicl.leaderboards.gate.rerun import RerunCell
from dpicl.leaderboards.model.board import build_board
from dpicl.leaderboards.model.rows import score_of
from dpicl.leaderboards.model.text import recovery_text, score_text
from dpicl.tables.document import Column, Table, make_table

#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}
#: A row of the reviewer's table, as JSON has it.
Line = dict[str, Any]


@dataclass(frozen=True)
class Examination:
    """What the gate found. lines: rows as the board would show them. seed: of the sample of re-run cells."""

    contents: Contents
    findings: tuple[Finding, ...]
    lines: tuple[Line, ...] = ()
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
            "rows": [*self.lines],
            "rerun_seed": self.seed,
        }


def lines_of(case: Case, reruns: Sequence[RerunCell]) -> list[Line]:
    """One line a row, as the board would show it. reruns: those of this run.

    rank, rivals: place by score among the rows of this task and epsilon that are ranked. change: of the mean score
    since the earlier copy. marks: what weakens its proved ε. reproduced: cells that somebody else ran again.
    """
    earlier = () if case.before is None else case.before.results.values()
    before = {one.cell_id: score_of(one) for one in earlier}
    again = [one.reproduction("this run") for one in reruns]
    same = ("task", "epsilon", "seeds", "score", "low", "high", "recovery", "proved", "claimed", "reported")
    lines = []
    for section in build_board(case.reference, submissions=[case.contents.submission()]).sections:
        for table, row in ((own, row) for own in section.tables for row in (*own.rows, *own.paper)):
            if row.submission is None:
                continue
            rivals = [one.worth for one in table.rows if one.epsilon == row.epsilon and not one.unranked]
            ids = [result.cell_id for result in row.results]
            then = [before[one] for one in ids if one in before]
            made = {one.cell_id: one for one in (*row.reproduced, *again) if one.cell_id in ids}
            own = {
                "model": visible(section.group.model, 60),
                "row": visible(row.label, 100),
                "recovery_note": visible(row.recovery_note),
                "marks": [mark.name for mark in row.marks],
                "rank": None if row.unranked else 1 + sum(worth > row.worth for worth in rivals),
                "rivals": len(rivals),
                "change": row.score - fmean(then) if then else None,
                "reproduced": [asdict(one) for one in made.values()],
            }
            lines.append({**{name: getattr(row, name) for name in same}, **own})
    return lines


def _again(line: Line) -> str | None:
    """Cells that somebody else ran again."""
    texts = (
        f"seed {one['seed']}: {score_text(one['reported'])} → {score_text(one['reproduced'])}"
        f"{' (identical)' if one['identical'] else ''}"
        for one in line["reproduced"]
    )
    return ", ".join(texts) or None


def _proved(line: Line) -> str:
    return epsilon_text(line["proved"]) + (f" ({'; '.join(line['marks'])})" if line["marks"] else "")


_COLUMNS = (
    Column("task", "task", itemgetter("task")),
    Column("epsilon", "ε", itemgetter("epsilon"), epsilon_text),
    Column("row", "row", itemgetter("row")),
    Column("model", "model", itemgetter("model"), model_name),
    Column("seeds", "seeds", lambda line: len(line["seeds"])),
    Column("score", "score", itemgetter("score"), score_text),
    Column("interval", "95% interval", lambda line: f"{line['low']:.3f}–{line['high']:.3f}"),
    Column("recovery", "recovery", lambda line: recovery_text(line["recovery"])),
    Column("proved", "proved ε", _proved, wide=True),
    Column("claimed", "claimed ε", lambda line: epsilon_text(line["claimed"])),
    Column("rank", "rank", lambda line: None if line["rank"] is None else f"{line['rank']} of {line['rivals']}"),
    Column("change", "change", lambda line: "new" if line["change"] is None else f"{line['change']:+.3f}"),
    Column("paper", "paper", itemgetter("reported"), score_text, optional=True),
    Column("reproduced", "reported → reproduced", _again, wide=True, optional=True),
)


def reviewers_table(examination: Examination) -> Table:
    """The rows of a submission, as the board would show them."""
    return make_table("", _COLUMNS, examination.lines)


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
        table = reviewers_table(one)
        rows = [[column.name for column in table.columns], *map(table.texts, table.lines)] if table.lines else []
        lines = [ending(one), "", findings_text(one.findings), "", *map(" | ".join, rows)]
        blocks.append("\n".join(lines).rstrip())
    blocks += [f"the whole\n\n{findings_text(extra)}"] if extra else []
    return "".join(f"```text\n{block.replace('`', chr(39))}\n```\n" for block in blocks)
