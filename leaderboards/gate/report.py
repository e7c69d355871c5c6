"""What the gate found, for a terminal and as Markdown (a comment under a pull request, say)."""

from __future__ import annotations

from collections.abc import Sequence

from dpicl.leaderboards.gate.examination import Examination
from dpicl.leaderboards.gate.findings import Finding
from dpicl.leaderboards.gate.table import COLUMNS, cells_of

#: Further sentences of one check that are shown; JSON has all.
_SHOWN = 5
_MARKS = {"ok": "ok", "failed": "FAILED", "not checked": "not checked"}


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
    used = [i for i, name in enumerate(COLUMNS) if name not in ("paper", COLUMNS[-1]) or any(r[i] != "–" for r in rows)]
    return [COLUMNS[i] for i in used], [[row[i] for i in used] for row in rows]


def ending(examination: Examination) -> str:
    """One sentence: may it stand on the board?"""
    findings = examination.findings
    failed = [finding.check for finding in findings if finding.status == "failed"]
    if failed:
        return f"{examination.contents.name} is refused: {', '.join(failed)}."
    left = [finding.check for finding in findings if finding.status == "not checked"]
    rest = f"; not checked: {', '.join(left)}" if left else ""
    return f"{examination.contents.name} passes{rest}."


def markdown(examinations: Sequence[Examination], extra: Sequence[Finding] = ()) -> str:
    """The whole report as Markdown."""
    blocks = []
    for examination in examinations:
        columns, rows = rows_of(examination)
        lines = [f"## {_plain(examination.contents.name)}", "", _plain(ending(examination)), ""]
        lines += _table(examination.findings)
        if rows:
            lines += ["", _row(columns), "|" + "---|" * len(columns), *map(_row, rows)]
        blocks.append("\n".join(lines))
    if extra:
        blocks.append("\n".join(["## The whole", "", *_table(extra)]))
    return "\n\n".join(blocks) + "\n"


def _table(findings: Sequence[Finding]) -> list[str]:
    rows = (_row([finding.check, _MARKS[finding.status], " ".join(sentences(finding))]) for finding in findings)
    return ["| check | | seen |", "|---|---|---|", *rows]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _plain(text: str) -> str:
    """Nothing in it is Markdown or HTML."""
    for character in "\\`*_[]<>|#":
        text = text.replace(character, "\\" + character)
    return text.replace("@", "@\u200b")
