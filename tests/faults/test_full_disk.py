"""A disk that is full, read-only or broken from some moment on: under the results, the cache, the ledger."""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from dpicl.harness.run.private_ledger import read_all
from tests.faults.deadly import in_child
from tests.faults.failing import Failing
from tests.faults.places import Place, Undisturbed, check_resumed
from tests.harness.local_suite import private_release, rows_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")

ERRORS = (errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT)


def run_failing(words: list[object], folder: Path, under: Path, number: int, first: int | None) -> tuple[int, str, int]:
    """(exit code, what was said, calls that would write) of a command whose disk fails from one call on."""
    failing = Failing(under, number, first)
    code, counted = in_child(words, folder, failing.install, lambda: str(failing.count).encode())
    return code, (folder / "said").read_text(), int(counted or 0)


def check_disk(place: Callable[..., Place], undisturbed: Undisturbed, first: int, number: int) -> None:
    here = place(f"{first} {number}")
    code, said, _ = run_failing(here.words(), here.folder, here.results, number, first)
    assert code == 2, said
    assert "Traceback" not in said
    assert len(re.findall(r"^dpicl: ", said, flags=re.MULTILINE)) == 1, said
    check_resumed(here, undisturbed, set())
    shutil.rmtree(here.folder)


def test_a_full_disk_under_the_results_ends_the_run_with_one_sentence(place, undisturbed):
    check_disk(place, undisturbed, 19, errno.ENOSPC)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_may_fail_at_any_call_that_writes_results(place, undisturbed):
    calm = place("counted")
    code, said, calls = run_failing(calm.words(), calm.folder, calm.results, 0, None)
    assert code == 0 and calls > 30, said
    for first in range(1, calls + 1):
        check_disk(place, undisturbed, first, ERRORS[first % len(ERRORS)])


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_that_fails_under_the_cache_costs_no_result(place, undisturbed):
    calm = place("counted")
    _, _, calls = run_failing(calm.words(), calm.folder, calm.folder / "files" / "cache", 0, None)
    assert calls > 10
    for first in range(1, calls + 1, 3):
        here = place(str(first))
        number = ERRORS[first % len(ERRORS)]
        code, said, _ = run_failing(here.words(), here.folder, here.folder / "files" / "cache", number, first)
        assert code == 0 and "Traceback" not in said, said
        assert here.outcomes() == undisturbed.outcomes


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_disk_that_fails_under_the_ledger_costs_budget_and_never_hides_a_release(tmp_path, monkeypatch, own_cache):
    records = tmp_path / "own.jsonl"
    records.write_text("".join(json.dumps(row) + "\n" for row in rows_of("train", 9)))
    calls, first = 1, 0
    while first < calls:
        here = tmp_path / str(first)
        cache = here / "files" / "cache"
        cache.mkdir(parents=True)
        monkeypatch.setenv("DPICL_CACHE", str(cache))
        words = private_release(records, here / "out.jsonl")
        number = ERRORS[first % len(ERRORS)]
        code, said, counted = run_failing(words, here, cache / "private", number, first or None)
        calls = calls if first else counted
        released = (here / "out.jsonl").exists()
        charges = sum(len(ledger.charges) for ledger in read_all())
        assert released <= charges <= 1 and "Traceback" not in said, said
        assert (code == 0) is released, said
        if not released:
            code, _ = in_child(words, here, lambda: None)
            assert code == 0, (here / "said").read_text()
            assert sum(len(ledger.charges) for ledger in read_all()) == charges + 1
        first += 3
    assert calls > 10
