"""Submissions as the board knows them: the results of a method that somebody submitted, and what was found about it.

On the board such a method is called ``team/method``; no row of a suite has a slash in its name. Its results are
compared like all others. `dpicl.leaderboards.gate` reads the folders and decides which results may stand on the board.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field

from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.results.schema import Result


@dataclass(frozen=True)
class Reproduction:
    """One cell of a submission that somebody else ran again. reported, reproduced: main metric, in [0, 1].

    identical: whether the same texts were released as well. by, created, commit: who, when, and with which code.
    reproduced.json is read with these types (dpicl.leaderboards.gate.card).
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    cell_id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    task: Annotated[str, Field(max_length=2000)]
    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    seed: Annotated[int, Field(ge=0)]
    reported: Annotated[float, Field(ge=0, le=1)]
    reproduced: Annotated[float, Field(ge=0, le=1)]
    identical: bool
    by: Annotated[str, Field(max_length=200, pattern=r"\S")]
    created: Annotated[str, Field(max_length=40)]
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{7,40}$")] | None


@dataclass(frozen=True)
class Submission:
    """A method that was submitted.

    team, method: its two folders. authors, licence, paper, code, public_data, tuning: as submission.yaml says.
    reported: (task, ε) -> the score that the paper reports, in [0, 1]. footnote: what a reader must know. unreliable:
    why the maintainers do not trust it, or ""; it then has no rank. reproduced: the cells that were run again. plugin:
    its code, None where it is in the package or was not submitted.
    """

    team: str
    method: str
    folder: Path
    authors: tuple[str, ...]
    licence: str
    paper: str
    code: str
    public_data: str
    tuning: str
    reported: Mapping[tuple[str, float], float] = field(default_factory=dict)
    footnote: str = ""
    unreliable: str = ""
    reproduced: tuple[Reproduction, ...] = ()
    plugin: Path | None = None
    results: tuple[Result, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        return f"{self.team}/{self.method}"

    @property
    def rows(self) -> tuple[str, ...]:
        """Labels of its results, most often one."""
        return tuple(dict.fromkeys(result.cell.label for result in self.results))

    def title(self, label: str) -> str:
        """What one of its rows is called on the board."""
        return self.name if len(self.rows) < 2 else f"{self.name}:{label}"

    def reproductions(self, cells: Iterable[str]) -> tuple[Reproduction, ...]:
        """Those of these cells."""
        wanted = set(cells)
        return tuple(one for one in self.reproduced if one.cell_id in wanted)


def on_the_board(submissions: Sequence[Submission]) -> tuple[list[Result], dict[str, Submission]]:
    """(the results of all submissions, each under its title; title -> submission).

    Reference baselines are never taken from a submission: every recovery depends on them.
    """
    results, owners = [], {}
    for submission in submissions:
        for result in submission.results:
            if result.cell.mechanism in BASELINES:
                continue
            title = submission.title(result.cell.label)
            owners[title] = submission
            results.append(result.model_copy(update={"cell": result.cell.model_copy(update={"label": title})}))
    return results, owners
