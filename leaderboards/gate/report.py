"""What the gate found, for a terminal and as Markdown (a comment under a pull request, say)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dpicl.leaderboards.gate.examination import Examination
from dpicl.leaderboards.gate.findings import Finding
from dpicl.leaderboards.gate.table import cells_of

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
    """The text with everything escaped that Markdown or HTML would read."""
    return re.sub(r"[\\`*_\[\]<>|#]", r"\\\g<0>", text).replace("@", "@\u200b")
