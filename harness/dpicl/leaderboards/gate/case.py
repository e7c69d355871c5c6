"""One submission under examination, with what its checks compare it with: suite, results of record, an earlier copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dpicl.leaderboards.gate.card import CARD, Card
from dpicl.leaderboards.gate.contents import Contents, survey
from dpicl.plan.suite import Suite
from dpicl.results.schema import Result
from dpicl.results.store import Store


@dataclass(frozen=True)
class Request:
    """How to examine. results: folder of the results of record. base: an earlier copy. rerun: cells to run again.

    run_code: whether submitted code may run. announce: called with one line before it does. maintainer: whether
    footnotes, marks and records of re-runs may be new. cheap: for a board: no accountant, record or earlier copy; a
    retired version is then taken as it is.
    """

    suites: Mapping[str, Suite]
    results: Path = Path()
    base: Path | None = None
    run_code: bool = False
    maintainer: bool = False
    rerun: int = 0
    rerun_seed: int | None = None
    announce: Callable[[str], None] = field(default=lambda line: None)
    cheap: bool = False


@dataclass(frozen=True)
class Case:
    """A submission and how it is examined. others: submissions among which it must not be a duplicate."""

    contents: Contents
    request: Request
    others: Sequence[Contents] = ()

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
        return self.request.suites.get(self.card.suite) if self.card else None

    @property
    def is_retired(self) -> bool:
        """Whether the card names a version of the suite that ships no more."""
        return bool(self.suite and self.card and str(self.suite.version) != str(self.card.suite_version))

    @cached_property
    def reference(self) -> list[Result]:
        """The results of record of the card's suite version; damaged files are left out.

        Where that version ships, those with its settings alone, without trials (`--limit`, say).
        """
        if self.card is None:
            return []
        found, _ = Store(self.request.results, self.card.suite).load_all()
        same = [one for one in found if str(one.suite.version) == str(self.card.suite_version)]
        return [one for one in same if self.suite is None or self.is_retired or one.suite.hash == self.suite.hash]

    @cached_property
    def before(self) -> Mapping[str, bytes] | None:
        """Path -> content in the earlier copy (of this folder, or of a root with <team>/<method> below it); {}: the
        submission is new. None: no earlier copy was given."""
        base, folder = self.request.base, self.contents.folder
        if base is None or self.contents.size:
            return None
        return survey(base if (base / CARD).is_file() else base / folder.parent.name / folder.name)[1]

    @cached_property
    def is_frozen(self) -> bool:
        """Whether the card and every result were there before, to the byte, and none is missing."""
        if self.request.cheap:
            return self.is_retired
        if not self.before or self.contents.schema:
            return False
        then = {name for name in self.before if name == CARD or name.startswith("results/")}
        same = all(self.contents.content.get(name) == self.before[name] for name in then)
        return same and then == {CARD, *self.results}
