"""Submissions on a board: the results of a submitted method, and the findings of the gate.

On the board such a method is called ``team/method``; no row of a suite has a slash in its name. Its results are
compared like all others. `dpicl.leaderboards.gate` reads the folders and decides which results may stand on the board.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from dpicl.core.field_types import number
from dpicl.leaderboards.model.comparability import BASELINES
from dpicl.results.schema import Result

#: Characters of one text of a card.
LONGEST = 2000
#: What `dpicl submit --new` writes where an author must write something.
PLACEHOLDER = "TODO"


def _require_filled(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; write it, or 'none' where that is the answer")
    if value.lstrip().startswith(PLACEHOLDER):
        raise ValueError(f"still says {PLACEHOLDER}; write it, or 'none' where that is the answer")
    return value.strip()


def _licence(value: str) -> str:
    try:
        return canonicalize_license_expression(value)
    except InvalidLicenseExpression:
        raise ValueError(
            "is not an SPDX licence id, such as Apache-2.0, MIT or CC-BY-4.0"
        ) from None


def _somebody(value: str) -> str:
    if value.lower() == "none":
        raise ValueError("is not a name; a submission needs a contact")
    return value


Text = Annotated[str, Field(max_length=LONGEST), AfterValidator(_require_filled)]
Address = Annotated[str, Field(max_length=LONGEST, pattern=r"^(https://[^\s<>\"']+)?$")]
#: Beside the card.
PythonFile = Annotated[str, Field(pattern=r"^([A-Za-z_][A-Za-z0-9_]*\.py)?$")]
Number = Annotated[float, BeforeValidator(number), Field(allow_inf_nan=False)]
Version = Annotated[int, Field(ge=0, lt=2**53, strict=True)]
Remark = Annotated[str, Field(max_length=LONGEST)]
Author = Annotated[Text, AfterValidator(_somebody)]


class Reported(BaseModel):
    """A score as a paper prints it. score: in [0, 1]. where: the table or figure, or what differs from this suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Text
    epsilon: Annotated[Number, Field(gt=0)]
    score: Annotated[Number, Field(ge=0, le=1)]
    where: Text


class Card(BaseModel):
    """A parsed submission.yaml (docs/submit.md). The maintainers write footnote, unreliable and reproduced: what a
    re-run found."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    version: Annotated[int, Field(ge=1, lt=2**53, strict=True)]
    team: str
    method: str
    suite: Text
    suite_version: Version | Annotated[str, Field(max_length=40)]
    authors: Annotated[list[Author], Field(min_length=1, max_length=100)]
    licence: Annotated[str, AfterValidator(_licence)]
    paper: Text
    code: Address = ""
    mechanism: PythonFile = ""
    public_data: Text
    tuning: Text
    contact: Annotated[str, Field(max_length=200)] = ""
    reported: Annotated[list[Reported], Field(max_length=200)] = []
    footnote: Remark = ""
    unreliable: Remark = ""
    reproduced: Remark = ""


@dataclass(frozen=True)
class Submission:
    """A method that was submitted. plugin: its code, None where it is in the package or was not submitted."""

    card: Card
    results: tuple[Result, ...] = field(default=(), repr=False)
    plugin: Path | None = None

    @property
    def name(self) -> str:
        return f"{self.card.team}/{self.card.method}"

    def find_reported(self, task: str, epsilon: float) -> float | None:
        """The score that its paper reports, in [0, 1]; None where it does not."""
        scores = {(report.task, report.epsilon): report.score for report in self.card.reported}
        return scores.get((task, epsilon))

    def is_of(self, suite: str) -> bool:
        """Whether it has results of a suite."""
        return any(result.suite.name == suite for result in self.results)

    @property
    def rows(self) -> tuple[str, ...]:
        """Labels of its results, most often one."""
        return tuple(dict.fromkeys(result.cell.label for result in self.results))

    def title(self, label: str) -> str:
        """What one of its rows is called on the board."""
        return self.name if len(self.rows) < 2 else f"{self.name}:{label}"


def collect_rows(submissions: Sequence[Submission]) -> tuple[list[Result], dict[str, Submission]]:
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
            cell = result.cell.model_copy(update={"label": title})
            results.append(result.model_copy(update={"cell": cell}))
    return results, owners
