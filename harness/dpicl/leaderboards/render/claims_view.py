"""The pages of planned claims: a verdict on each task, the differences, their limits, and commands."""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpicl.core.grouping import group_by
from dpicl.core.messages import capitalize, names_text
from dpicl.core.vocabulary import model_name
from dpicl.leaderboards.model.board import Board, Section
from dpicl.leaderboards.model.contrasts import JudgedContrast
from dpicl.leaderboards.model.task_table import TaskTable
from dpicl.leaderboards.render.addresses import Addresses, claim_page
from dpicl.leaderboards.render.board_tables import contrasts_table
from dpicl.tables.document import (
    Block,
    Column,
    Heading,
    Link,
    Part,
    Words,
    make_table,
    notes,
    words,
)

TITLE = "Planned claims"
_INTRO = (
    "Each claim was written into a suite before its test records were read: one method is better than another at the"
    " same proved ε. Every method is our implementation on a small model, with the same tuning budget, so nothing here"
    " is a verdict on a paper."
)
_VERDICTS = ("shown", "the opposite is shown", "inconclusive")


@dataclass(frozen=True)
class PlacedClaim:
    """A claim on one task, with the section of the board that tests it. is_first: whether no section is before it."""

    claim: JudgedContrast
    section: Section
    is_first: bool
    places: Addresses

    @property
    def where(self) -> str:
        """'mit_d (record 2)'; with the model where it is not the first one of its board."""
        group = self.section.group
        other_model = "" if self.is_first else f", {model_name(group.model).partition(' (')[0]}"
        return f"{self.claim.task} ({group.suite} {group.version}{other_model})"

    @property
    def table(self) -> TaskTable:
        return next(table for table in self.section.tables if table.task == self.claim.task)

    @property
    def command(self) -> str:
        suite = shlex.quote(self.section.group.asked)
        return f"dpicl compare {self.claim.compared} --suite {suite}"


def place_claims(boards: Mapping[str, Board]) -> dict[str, list[PlacedClaim]]:
    """Name of a claim -> where it is tested. boards: by the folder of their pages."""
    by_name = defaultdict(list)
    for folder, board in boards.items():
        places = Addresses(board, f"{folder}/")
        for section in board.sections:
            for claim in section.contrasts:
                by_name[claim.name].append(
                    PlacedClaim(claim, section, section is board.sections[0], places)
                )
    return by_name


def claims_blocks(claims: Mapping[str, list[PlacedClaim]]) -> list[Block]:
    """Every claim, and on which tasks it is shown, refuted or left open."""

    def column(verdict: str) -> Column:
        def list_tasks(name: str) -> str | None:
            return (
                names_text(one.where for one in claims[name] if one.claim.verdict == verdict)
                or None
            )

        return Column(verdict, verdict, list_tasks, wide=True)

    table = make_table(
        TITLE,
        [Column("claim", "claim", str), *map(column, _VERDICTS)],
        sorted(claims),
        links=lambda name: {0: claim_page(name)},
        notes=(
            "Where no column names a task, there is no verdict yet: the claim's page says why.",
        ),
        sortable=False,
    )
    return [Heading(TITLE, 1), words(_INTRO), table]


def claim_blocks(name: str, placed: list[PlacedClaim]) -> Iterator[Block]:
    """A claim: verdict, differences, limits, commands."""
    from dpicl.leaderboards.render import charts  # a terminal has no need of it

    yield Words((Link(TITLE, "claims/index.html"), f" › {name}"))
    yield Heading(name, 1)
    tested = [one for one in placed if one.claim.test]
    by_verdict = group_by(tested, "claim.verdict")
    verdicts = [
        f"{verdict} on {names_text(one.where for one in by_verdict[verdict])}"
        for verdict in _VERDICTS
        if verdict in by_verdict
    ]
    yield words(f"{capitalize('; '.join(verdicts) or 'no verdict yet')}.", "lead")
    if tested:
        panel = charts.contrast_panel([(one.where, one.claim) for one in tested])
        caption = f"{name}: difference of scores with its 95% interval; grey: inconclusive"
        yield Part((charts.page_figure(caption, panel, left=charts.CLAIM),), kind="plots")
    first_of_section = {id(one.section): one for one in reversed(placed)}
    for one in reversed(first_of_section.values()):
        group = one.section.group
        yield Heading(
            f"{group.suite} {group.version}, {model_name(group.model)}, {group.source} records", 3
        )
        yield contrasts_table(one.section, one.places, only=name)
    yield Heading("Limits")
    yield from notes(_limits(tested))
    yield Heading("Try it")
    yield from notes(dict.fromkeys(one.command for one in placed), "command")


def _limits(tested: list[PlacedClaim]) -> Iterator[str]:
    yield "Our implementation of both methods on a small model: this is no verdict on a paper."
    if shared := [one.where for one in tested if one.table.has_one_test_set]:
        yield (
            f"All seeds read the same test records on {names_text(shared)}: the verdict is about these records."
        )
    if classified := [one.where for one in tested if "classifier" in one.table.reader]:
        yield (
            f"On {names_text(classified)} a classifier reads the released texts: it tells what they contain, not"
            " what a model learns from them."
        )
