"""The files of a submission, read without trust and without running anything.

`dpicl.leaderboards.gate.folder` says what may be read; here it becomes a card, results and records of re-runs, or a
sentence that says why it does not. A submission has few kinds of files:

    <team>/<method>/submission.yaml, README.md, reproduced.json, <method>.py
    <team>/<method>/results/<suite>/<model>/<row>/<task>/<cell id>.json
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dpicl.core.errors import DpiclError
from dpicl.core.printable import visible
from dpicl.leaderboards.gate.card import CARD, README, REPRODUCED, Card, read_card, read_reproduced
from dpicl.leaderboards.gate.findings import fault
from dpicl.leaderboards.gate.folder import survey
from dpicl.leaderboards.gate.names import is_name
from dpicl.leaderboards.model.submissions import Reproduction, Submission
from dpicl.results.schema import Result, from_text
from dpicl.results.store import Store


@dataclass(frozen=True)
class Contents:
    """What is in the folder of a submission.

    size: problems of size, kind and place of files; where there is one, nothing is started for this submission.
    card_problem, schema: why card and results cannot be read. content: path below the folder -> bytes, of all files
    that were read. results: path -> result. plugin: the submitted file of the mechanism, None where there is none.
    """

    folder: Path
    size: tuple[str, ...]
    card: Card | None
    card_problem: str
    schema: tuple[str, ...]
    content: dict[str, bytes] = field(repr=False)
    results: dict[str, Result] = field(repr=False)
    plugin: Path | None
    reproduced: tuple[Reproduction, ...]

    @property
    def name(self) -> str:
        return visible(f"{self.folder.parent.name}/{self.folder.name}", 100)

    @cached_property
    def files(self) -> dict[str, str]:
        """Path below the folder -> sha256, of all files that were read."""
        return {name: hashlib.sha256(content).hexdigest() for name, content in self.content.items()}

    @property
    def plugin_hash(self) -> str | None:
        return None if self.plugin is None else self.files[self.plugin.name]

    @property
    def hash(self) -> str:
        """sha256 over names and contents of the card, the mechanism and the results."""
        own = sorted(item for item in self.files.items() if item[0] not in (REPRODUCED, README))
        return hashlib.sha256(json.dumps(own).encode()).hexdigest()

    def submission(self) -> Submission:
        """As the board takes it. Raises ValueError where there is no card."""
        if self.card is None:
            raise ValueError(self.card_problem)
        same = ("team", "method", "licence", "paper", "code", "public_data", "tuning", "footnote", "unreliable")
        return Submission(
            **{name: getattr(self.card, name) for name in same},
            folder=self.folder,
            authors=tuple(self.card.authors),
            reported={(one.task, one.epsilon): one.score for one in self.card.reported},
            reproduced=self.reproduced,
            plugin=self.plugin,
            results=tuple(self.results.values()),
        )


def read_contents(folder: Path) -> Contents:
    """Reads a submission's folder. Damaged or hostile files become sentences, never errors."""
    folder = Path(os.path.abspath(folder))  # not resolved: the names that were given are the team and the method
    try:
        return _read(folder)
    except Exception as error:  # one submission never stops the others, nor anybody's board
        return Contents(folder, (fault(error),), None, "It was not read.", (), {}, {}, None, ())


def _read(folder: Path) -> Contents:
    size, content = survey(folder)
    found = {name: _result(folder, name, content[name]) for name in content if name.startswith("results/")}
    results = {name: one for name, one in found.items() if isinstance(one, Result)}
    schema = [one for one in found.values() if isinstance(one, str)]
    card, card_problem = _card(folder, CARD in content)
    named = card.mechanism if card else ""
    size += [
        f"{name} is not the mechanism that the card names; remove it, a submission has one file of code."
        for name in content
        if card is not None and name.endswith(".py") and name != named
    ]
    reproduced: tuple[Reproduction, ...] = ()
    try:
        reproduced = read_reproduced(folder / REPRODUCED) if REPRODUCED in content else ()
    except DpiclError as error:
        schema.append(str(error).replace(f"{folder}/", ""))
    plugin = folder / named if named in content else None
    return Contents(folder, tuple(size), card, card_problem, tuple(schema), content, results, plugin, reproduced)


def _card(folder: Path, is_there: bool) -> tuple[Card | None, str]:
    """(the card, "") or (None, why it cannot be read)."""
    if not is_there:
        return None, f"There is no {CARD} that can be read; `dpicl submit --new TEAM/METHOD` writes one."
    team, method = folder.parent.name, folder.name
    for kind, name in (("team", team), ("method", method)):
        if not is_name(name):
            return None, (
                f"The {kind}'s folder is called {name!r}; use at most 40 lower-case letters, digits, '-' and '_'"
                " (and not con, nul or another device's name)."
            )
    try:
        card = read_card(folder / CARD)
    except DpiclError as error:
        return None, str(error).replace(f"{folder}/", "")  # no path of this machine in a report
    if (card.team, card.method) != (team, method):
        return None, (
            f"{CARD}: team and method are {card.team!r} and {card.method!r}, the folders"
            f" {team!r} and {method!r}; give them the same names."
        )
    return card, ""


def _result(folder: Path, name: str, content: bytes) -> Result | str:
    """A result whose file is where it belongs, or a sentence."""
    try:
        result = from_text(content.decode())
        path = Store(folder / "results", result.suite.name).path(result.cell)
    except UnicodeDecodeError:
        return f"{name} is damaged: it is not text; run the cell again."
    except ValueError as error:
        return f"{name} is {' '.join(str(error).split())[:300].rstrip('.')}; run the cell again."
    if path != folder / name:
        return f"{name} is foreign: its name or folder does not fit its content; copy what `dpicl run` wrote."
    return result
