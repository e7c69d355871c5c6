"""The page of a mechanism, or of a method that was submitted: what it is, and all of its rows over tasks and ε."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence

from dpicl.attacks.table import attacks_table
from dpicl.core.messages import names_text
from dpicl.core.plugins import Registered
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.board import Board
from dpicl.leaderboards.model.rows import Row
from dpicl.leaderboards.model.submissions import Submission
from dpicl.leaderboards.render.addresses import Addresses
from dpicl.leaderboards.render.attacks_view import on_rows
from dpicl.leaderboards.render.board_tables import submitted_table
from dpicl.leaderboards.render.columns import row_columns, row_kind
from dpicl.tables.document import Block, Column, Facts, Heading, Link, make_table, words

_ARXIV = re.compile(r"\b\d{4}\.\d{4,5}\b")
#: What names a row there.
_TASK = Column(
    "task",
    "task",
    lambda row: row.task + ("" if row.mode == "proved" else " (paper accounting)"),
    help="its link leads to what the row released and spent",
)


def mechanism_blocks(board: Board, label: str, places: Addresses, mechanisms: Mapping[str, Registered]) -> list[Block]:
    """What a mechanism is, and its rows. mechanisms: the registry; what is not in it has no documentation."""
    own = [(one, [row for row in one.rows if row.label == label]) for one in board.sections]
    parts = [(section, rows) for section, rows in own if rows]
    first = parts[0][1][0]
    blocks: list[Block] = [Heading(label, 1)]
    if first.mechanism != label:
        blocks.append(words(f"A row of the mechanism {first.mechanism}."))
    if first.submission is not None:
        blocks += submission_blocks(first.submission, [row for _, rows in parts for row in rows])
    elif first.mechanism in mechanisms:
        blocks += _about(mechanisms[first.mechanism])
    for section, rows in parts:
        group = section.group
        title = f"Rows in {group.suite}, version {group.version}, {model_name(group.model)}, {group.source} records"
        blocks += [
            Heading(title),
            make_table(title, row_columns(first=_TASK), rows, kind=row_kind, links=lambda row: {0: places.page(row)}),
        ]
        if attacked := on_rows(rows):
            blocks.append(attacks_table(f"Attacks on {label}", attacked))
    return blocks


def _about(registered: Registered) -> Iterator[Block]:
    """The documentation of the file (what is done, and why it is private), that of the class (its options), its paper
    and its code's origin."""
    cls = registered.cls
    own = cls.__dict__.get("__doc__") or ""
    if own.startswith(f"{cls.__name__}("):  # the signature that a dataclass without a docstring gets
        own = ""
    yield Heading("What it is")
    for text in (sys.modules[cls.__module__].__doc__ or "", own):
        for part in re.split(r"\n\s*\n|\n(?=\s*\d+\. )", text.replace("``", "").strip()):
            if part.strip():
                yield words(" ".join(part.split()))
    facts: dict[str, str | Link] = {"source": cls.source} if cls.source else {}
    for number in _ARXIV.findall(cls.source or ""):
        facts[f"arXiv {number}"] = Link(number, f"https://arxiv.org/abs/{number}", untrusted=True)
    yield Facts({**facts, "code": registered.origin})


def submission_blocks(submission: Submission, rows: Sequence[Row]) -> list[Block]:
    """What a submission says of its method, and what was found about it."""
    blocks: list[Block] = [Heading(f"Submitted as {submission.name}")]
    card = submission.card
    if card.unreliable:
        blocks.append(words(f"Unreliable, without a rank: {card.unreliable}", "note flag"))
    said: dict[str, str | Link] = {"authors": names_text(card.authors) or "–"}
    for name in ("licence", "paper", "code", "public_data", "tuning"):
        text = getattr(card, name)
        said[name.replace("_", " ")] = Link(text, text, untrusted=True)
    blocks.append(Facts(said, "manifest"))
    reading = "A paper's score is of its own model and records: it is here to be read, not to be compared closely."
    return [*blocks, submitted_table(rows), words(reading, "quiet")]
