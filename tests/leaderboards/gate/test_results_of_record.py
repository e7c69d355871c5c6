"""The results of record keep the gate's own rule: a manifest says which code ran."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from dpicl.leaderboards.gate.consistency import explain_unknown_code
from dpicl.results.schema import Manifest
from tests.conftest import COMMITTED

#: (suite, task, commit) -> cells that were run with changes that nobody committed, until they are run again.
KNOWN = {("record", "mit_d", "3a7a931d382333f3929d94b05c18feb2484d64f7"): 55}


def test_every_committed_result_says_which_code_ran():
    paths = sorted(COMMITTED.rglob("*.json"))
    assert len(paths) > 3000
    refused: Counter[tuple[str, str, str | None]] = Counter()
    for path in paths:
        manifest = Manifest.model_validate(json.loads(path.read_bytes())["manifest"])
        if explain_unknown_code(manifest):
            refused[path.relative_to(COMMITTED).parts[0], path.parent.name, manifest.commit] += 1
    assert dict(refused) == KNOWN


def test_a_manifest_with_changes_or_without_a_commit_is_refused():
    (path, *_) = sorted((COMMITTED / "open").rglob("*.json"))
    manifest = Manifest.model_validate(json.loads(path.read_bytes())["manifest"])
    assert explain_unknown_code(manifest) == ""
    changed: tuple[dict[str, Any], ...] = (
        {"dirty": True},
        {"dirty": None},
        {"commit": None},
        {"commit": "abc"},
        {"packages": {}},
    )
    for changes in changed:
        assert explain_unknown_code(manifest.model_copy(update=changes))
