"""What the terminal says of submitted rows: a mark at the name, and notes under the table."""

from __future__ import annotations

from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.standings import TaskTable
from dpicl.leaderboards.model.text import names_text, score_text, visible

FOOTNOTE = "†"
UNRELIABLE = "?"


def labelled(row: Row) -> str:
    """The row's label, with † for a footnote and ? for a row that the maintainers do not trust."""
    if row.submission is None:
        return row.label
    marks = (FOOTNOTE if row.submission.footnote else "") + (UNRELIABLE if row.submission.unreliable else "")
    return f"{row.label} {marks}".rstrip()


def submission_notes(table: TaskTable) -> list[str]:
    """Who sent rows of this table, their footnotes, and what was reported and reproduced; each once."""
    notes: dict[str, None] = {}
    for row in table.all_rows:
        one = row.submission
        if one is None:
            continue
        paper = "" if one.paper.lower().startswith("none") else f"; {visible(one.paper, 200)}"
        notes[f"{visible(row.label)}: submitted by {visible(names_text(one.authors), 200)}{paper}."] = None
        if one.footnote:
            notes[f"{FOOTNOTE} {visible(one.name)}: {visible(one.footnote)}"] = None
        if row.reported is not None:
            notes[
                f"{visible(row.title)}: the paper reports {score_text(row.reported)}; measured {score_text(row.score)}."
            ] = None
        for again in row.reproduced:
            same = ", identical" if again.identical else ""
            numbers = f"{score_text(again.reported)} reported, {score_text(again.reproduced)} reproduced{same}"
            notes[f"{visible(row.title)}, seed {again.seed}: {numbers} (by {visible(again.by, 100)})."] = None
    return list(notes)
