"""One submission under examination: its parsed content, and the findings of its checks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from dpicl.core.messages import message
from dpicl.core.printable import make_visible
from dpicl.leaderboards.gate.card import CARD, Card
from dpicl.leaderboards.gate.contents import Contents, read_contents
from dpicl.plan.suite import Suite
from dpicl.results.schema import Result
from dpicl.results.store import Store, report_damaged


@dataclass(frozen=True)
class Finding:
    """check: its name. why: one sentence; failed: what is wrong and what to do; not checked: why not.

    others: further sentences of the same check, for instance one for each file. Untrusted names and texts may be in all
    of them, so control and direction characters are written out (`make_visible`).
    """

    check: str
    status: Literal["ok", "failed", "not checked"]
    why: str
    others: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "why", make_visible(self.why))
        object.__setattr__(self, "others", tuple(map(make_visible, self.others)))


class Outcome(NamedTuple):
    """What a check returns: its problems, the sentence where there is none, and notes either way."""

    problems: Sequence[str]
    good: str = ""
    notes: Sequence[str] = ()

    def make_finding(self, check: str) -> Finding:
        first, *more = self.problems or [self.good]
        return Finding(check, "failed" if self.problems else "ok", first, (*more, *self.notes))


class NotChecked(Exception):
    """Raised by a check that cannot be made; the text says why. notes: further findings."""

    def __init__(self, why: str, notes: Sequence[str] = ()) -> None:
        super().__init__(why)
        self.notes = notes


def state_problems(problems: Iterable[tuple[str, str]]) -> list[str]:
    """(file, problem or "") pairs as sentences: a problem that many files share is stated once."""
    files: dict[str, list[str]] = defaultdict(list)
    for file, problem in problems:
        if problem:
            files[problem].append(file)
    sentences = []
    for problem, (first, *others) in files.items():
        more = f" (and {len(others)} more)" if others else ""
        sentences.append(f"{first}{more}: {problem}")
    return sentences


@dataclass(frozen=True)
class Case:
    """A submission and how it is examined.

    suites: name -> suite, as they ship. record: folder of the results of record. base: an earlier copy. others:
    submissions among which it must not be a duplicate. run_code: whether submitted code may run. maintainer: whether
    footnotes, marks and records of re-runs may be new. announce: called with one line before code runs. cheap: for a
    board: no accountant, record or earlier copy.
    """

    contents: Contents
    suites: Mapping[str, Suite]
    record: Path = Path()
    base: Path | None = None
    others: Sequence[Contents] = ()
    run_code: bool = False
    maintainer: bool = False
    announce: Callable[[str], None] = message
    cheap: bool = False

    @property
    def card(self) -> Card | None:
        return self.contents.card

    @property
    def results(self) -> dict[str, Result]:
        """Path below the folder -> result."""
        return self.contents.results

    @cached_property
    def suite(self) -> Suite | None:
        """The suite that the card names, in the version that ships now."""
        return self.suites.get(self.card.suite) if self.card else None

    @cached_property
    def reference(self) -> list[Result]:
        """The results of record of the suite, without damaged files, trials with other settings (`--limit`, say), and
        those on development records."""
        if self.suite is None:
            return []
        results, damaged = Store(self.record, self.suite.name).load_all()
        report_damaged(damaged)
        of_suite = (result for result in results if result.suite.hash == self.suite.hash)
        return [result for result in of_suite if not result.cell.development]

    @cached_property
    def before(self) -> Contents | None:
        """The earlier copy (of this folder, or of a root with <team>/<method> below it), without any file where the
        submission is new; None: no earlier copy was given."""
        base, folder = self.base, self.contents.folder
        if base is None or self.contents.size:
            return None
        return read_contents(
            base if (base / CARD).is_file() else base / folder.parent.name / folder.name
        )

    @property
    def is_frozen(self) -> bool:
        """Whether the card and every result were there before, to the byte, and none is missing."""
        if self.before is None or self.contents.schema or self.before.card is None:
            return False
        judged = [
            {
                name: text
                for name, text in contents.content.items()
                if name.endswith((CARD, ".json"))
            }
            for contents in (self.contents, self.before)
        ]
        return judged[0] == judged[1]
