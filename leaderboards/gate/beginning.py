"""The start of a submission: a card and a README to fill in. The gate refuses what still says TODO."""

from __future__ import annotations

from pathlib import Path

from dpicl.harness.core.errors import UsageError
from dpicl.harness.core.files import write_whole
from dpicl.harness.run.suite import Suite
from dpicl.leaderboards.gate.card import CARD, is_name
from dpicl.leaderboards.gate.folder import README

_CARD = """\
# What a reader must know about this submission; docs/add-a-method.md explains every key.
schema_version: 1
version: 1                # raise it when scores move
team: {team}
method: {method}
suite: {suite}
suite_version: {version}
authors: [TODO names]
licence: Apache-2.0       # of code and results, an SPDX id
paper: TODO the address of the paper, or its citation, or none
code: ""                  # https://..., if there is a repository
mechanism: {method}.py  # the file beside this card; leave the key out for a mechanism of the package
public_data: TODO what public data or models the method uses besides the suite's model, or none
tuning: TODO how the options were chosen, on which records, how many settings were tried, or none
contact: ""
# Scores that the paper prints, if it has this task. They stand beside the measured ones.
# reported:
#   - {{task: agnews, epsilon: 1, score: 0.81, where: "table 2; another model"}}
"""

_README = """\
# {method}

TODO: the method in a few sentences, and what a reader should know about these results.

| version | year | what changed |
|---|---|---|
| 1 | {year} | first |
"""


def begin(root: Path, name: str, suite: Suite, year: int) -> list[Path]:
    """Writes <team>/<method>/submission.yaml, for this suite, and README.md below the root; returns both.

    Raises UsageError for a bad name, and where there is a submission already.
    """
    team, _, method = name.partition("/")
    if not is_name(team) or not is_name(method):
        raise UsageError(f"'{name}' is no TEAM/METHOD; both have at most 40 lower-case letters, digits, '-' and '_'.")
    folder = root / team / method
    if (folder / CARD).exists():
        raise UsageError(f"{folder / CARD} is there already; choose another name, or edit it.")
    keys = {"team": team, "method": method, "suite": suite.name, "version": suite.version, "year": year}
    files = {folder / CARD: _CARD, folder / README: _README}
    for path, text in files.items():
        write_whole(path, text.format(**keys), root)
    return list(files)
