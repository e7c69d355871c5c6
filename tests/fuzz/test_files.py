"""Whatever a file holds, only our own errors come out: thousands of seeded mutations of every kind of file.

A reader answers, or raises what its docstring says. What it lets pass goes on to what uses it: a board, a page's text,
prompts.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.kinds import KINDS

FEW, MANY = 30, 1250


@pytest.mark.parametrize(("count", "seed"), [(FEW, 0), pytest.param(MANY, 1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_only_our_own_errors_come_out(kind: str, fresh_cache: Path, tmp_path: Path, count: int, seed: int):
    rng, longest = random.Random(f"{kind} {seed}"), 0
    one = KINDS[kind]
    path = tmp_path / one.name
    files = one.files()
    for content in files:  # sound ones
        path.write_bytes(content)
        one.use(path)
    for _ in range(count):
        content = one.damaged(rng.choice(files), rng)
        path.write_bytes(content)
        try:
            one.use(path)
        except one.errors as error:
            longest = max(longest, len(str(error)))
        except Exception as error:
            (tmp_path / "kept").write_bytes(content)
            raise AssertionError(f"{type(error).__name__} for a {kind}: {content[:3000]!r}") from error
    assert longest < 3000
