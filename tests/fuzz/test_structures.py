"""Files whose values hypothesis draws: only our own errors come out, and hypothesis makes small what breaks that.

`test_mutations` damages the same kinds of files with bytes and words that are known to hurt.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.edits import edited
from tests.fuzz.kinds import KINDS

FEW, MANY = 6, 650


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS, ids=lambda name: name.replace(" ", "-"))
def test_only_our_own_errors_come_out(kind: str, count: int, fresh_cache: Path, tmp_path: Path) -> None:
    one = KINDS[kind]
    path = tmp_path / one.name
    sound = [one.parse(content) for content in one.files()]

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.sampled_from(sound).flatmap(edited))
    def check(value: object) -> None:
        path.write_bytes(one.write(value))
        with suppress(*one.errors):
            one.use(path)

    check()
