"""Locks that die with their holder."""

from __future__ import annotations

from pathlib import Path

from dpicl.core.locks import held


def test_a_lock_is_one_process_s_and_free_when_its_file_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with held(path) as first:
        with held(path) as same:
            assert (first, same) == (True, False)
        path.unlink()
        with held(path) as second:  # another file of that name
            assert second
    with held(path) as again:
        assert again
