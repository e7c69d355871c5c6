"""submission.yaml, the card of a submission, and reproduced.json, what a re-run of it found. Both are read strictly;
a card and a README to fill in are written, and the gate refuses what still says TODO. Names must do no harm on any
system.

Reading a card runs nothing: YAML tags that stand for Python objects, aliases (they can grow without limit) and unknown
keys are errors with file and line.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Annotated, Any, Literal

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from dpicl.core.errors import ResultError, UsageError
from dpicl.core.field_types import number
from dpicl.core.files import write_whole
from dpicl.core.plain_words import explanation
from dpicl.core.strict_yaml import parse, read
from dpicl.leaderboards.model.submissions import Reproduction
from dpicl.plan.suite import Suite
from dpicl.results.schema import lines, read_part

CARD, README = "submission.yaml", "README.md"
REPRODUCED = "reproduced.json"
#: Characters of one text of a card.
LONGEST = 2000
#: What `dpicl submit --new` writes where an author must write something.
PLACEHOLDER = "TODO"
#: Names of teams and methods, which are folders and parts of a row's name on every system.
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.IGNORECASE)
#: Files that Python, pytest and pip run because they are there.
_RUN_UNASKED = ("sitecustomize", "usercustomize", "conftest", "setup")
#: What a new card and README say.
_NEW = {CARD: "new_card.txt", README: "new_readme.txt"}


def _filled(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; write it, or 'none' where that is the answer")
    if value.lstrip().startswith(PLACEHOLDER):
        raise ValueError(f"still says {PLACEHOLDER}; write it, or 'none' where that is the answer")
    return value.strip()


def _licence(value: str) -> str:
    try:
        return canonicalize_license_expression(value)
    except InvalidLicenseExpression:
        raise ValueError("is no SPDX licence id, such as Apache-2.0, MIT or CC-BY-4.0") from None


def _somebody(value: str) -> str:
    if value.lower() == "none":
        raise ValueError("is nobody's name; somebody must answer for a submission")
    return value


def _address(value: str) -> str:
    if value and not re.fullmatch(r"https://[^\s<>\"']+", value):
        raise ValueError("must be an address that begins with https://")
    return value


def _python_file(value: str) -> str:
    if value and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*\.py", value):
        raise ValueError("must be the plain name of a .py file beside the card")
    return value


Text = Annotated[str, Field(max_length=LONGEST), AfterValidator(_filled)]
Address = Annotated[str, Field(max_length=LONGEST), AfterValidator(_address)]
PythonFile = Annotated[str, AfterValidator(_python_file)]
Number = Annotated[float, BeforeValidator(number), Field(allow_inf_nan=False)]


class Reported(BaseModel):
    """A score as a paper prints it. score: in [0, 1]. where: the table or figure, or what differs from this suite."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: Text
    epsilon: Annotated[Number, Field(gt=0)]
    score: Annotated[Number, Field(ge=0, le=1)]
    where: Text


class Card(BaseModel):
    """A parsed submission.yaml (docs/submit.md). The maintainers write footnote and unreliable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    version: Annotated[int, Field(ge=1, lt=2**53, strict=True)]
    team: str
    method: str
    suite: Text
    suite_version: Annotated[int, Field(ge=0, lt=2**53, strict=True)] | Annotated[str, Field(max_length=40)]
    authors: Annotated[list[Annotated[Text, AfterValidator(_somebody)]], Field(min_length=1, max_length=100)]
    licence: Annotated[str, AfterValidator(_licence)]
    paper: Text
    code: Address = ""
    mechanism: PythonFile = ""
    public_data: Text
    tuning: Text
    contact: Annotated[str, Field(max_length=200)] = ""
    reported: Annotated[list[Reported], Field(max_length=200)] = []
    footnote: Annotated[str, Field(max_length=LONGEST)] = ""
    unreliable: Annotated[str, Field(max_length=LONGEST)] = ""


def read_card(path: Path) -> Card:
    """Reads a card. Raises UsageError that names file, line and key for anything that is not as it should be."""
    document = read(path)
    if not isinstance(document.data, dict):
        raise document.error((), "a card is a set of keys; `dpicl submit --new TEAM/METHOD` writes one to fill in.")
    try:
        card = Card.model_validate(document.data)
    except ValidationError as error:
        raise document.error(*explanation(error, Card)) from None
    seen: set[tuple[str, float]] = set()
    for i, one in enumerate(card.reported):
        if (one.task, one.epsilon) in seen:
            raise document.error(("reported", i), f"{one.task} at epsilon {one.epsilon:g} is reported twice; keep one.")
        seen.add((one.task, one.epsilon))
    return card


def keys_of(content: bytes) -> Mapping[str, Any]:
    """The keys of an earlier card; {} where it cannot be read safely."""
    try:
        data = parse(content.decode("utf-8"), Path(CARD)).data
    except (UsageError, UnicodeDecodeError):
        return {}
    return data if isinstance(data, dict) else {}


class _Reproduced(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    cells: Annotated[list[Reproduction], Field(max_length=1000)]


def read_reproduced(path: Path) -> tuple[Reproduction, ...]:
    """What re-runs found; () without a file. Raises ResultError for a file that is not one."""
    if not path.is_file():
        return ()
    try:
        found = read_part(_Reproduced, path.read_text(encoding="utf-8"), 1, "record of re-runs")
    except ValueError as error:
        raise ResultError(f"{path} is {error}; restore it, or remove it and record again.") from None
    return tuple(found.cells)


def write_reproduced(path: Path, cells: Sequence[Reproduction]) -> None:
    """Adds cells to the file; what is there of the same cell by the same person is replaced."""
    kept = {(one.cell_id, one.by): one for one in (*read_reproduced(path), *cells)}
    document = {"schema_version": 1, "cells": [asdict(one) for one in kept.values()]}
    write_whole(path, lines(document) + "\n", path.parent)


def is_name(name: str) -> bool:
    """Whether it may name a team or a method."""
    return _NAME.fullmatch(name) is not None and not is_reserved(name)


def is_reserved(name: str) -> bool:
    """Whether Windows has a device of this name, so that no checkout there could hold the file."""
    return _RESERVED.fullmatch(name) is not None


def shadows(stem: str, folder: Path) -> bool:
    """Whether STEM.py in a folder hides a module of Python or an installed package where the folder is on the path, or
    is run by tools unasked. Imports nothing; what the folder holds does not count."""
    if stem in sys.stdlib_module_names or stem in _RUN_UNASKED or stem.startswith("__"):
        return True
    sent = {os.path.realpath(folder), os.getcwd()}
    places = [place for place in sys.path if os.path.isabs(place) and os.path.realpath(place) not in sent]
    found = PathFinder.find_spec(stem, places)
    return stem in _installed() or (found is not None and found.origin is not None)


@cache
def _installed() -> frozenset[str]:
    return frozenset(packages_distributions())


def begin(root: Path, name: str, suite: Suite, year: int) -> list[Path]:
    """Writes <team>/<method>/submission.yaml, for this suite, and README.md below the root; returns both.

    Raises UsageError for a bad name, and where there is a submission already.
    """
    team, _, method = name.partition("/")
    if not is_name(team) or not is_name(method):
        raise UsageError(f"'{name}' is no TEAM/METHOD; both have at most 40 lower-case letters, digits, '-' and '_'.")
    folder = root / team / method
    if shadows(method, folder):
        raise UsageError(f"{method}.py would have the name of a module of Python or of a package; choose another name.")
    if (folder / CARD).exists():
        raise UsageError(f"{folder / CARD} already exists; choose another name, or edit it.")
    keys = {"team": team, "method": method, "suite": suite.name, "version": suite.version, "year": year}
    for name, template in _NEW.items():
        text = Path(__file__).with_name(template).read_text(encoding="utf-8")
        write_whole(folder / name, text.format(**keys), root)
    return [folder / name for name in _NEW]
