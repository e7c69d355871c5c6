"""Locks that die with their holder, and temporary folders that are known by them."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

from dpicl.core.locks import abandoned, held, remove_abandoned, temporary_folder

fork = multiprocessing.get_context("fork")


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


def test_a_folder_is_gone_at_the_end_and_what_was_moved_out_stays(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, "x") as folder:
        (folder / "kept").write_text("kept")
        (folder / "lost").write_text("lost")
        os.replace(folder / "kept", tmp_path / "kept")
        assert abandoned(tmp_path) == []
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def _killed_inside(parent: Path) -> None:
    with temporary_folder(parent, "x") as folder:
        (folder / "half").write_bytes(b"12345")
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_is_found_and_removed(tmp_path: Path) -> None:
    process = fork.Process(target=_killed_inside, args=(tmp_path,))
    process.start()
    process.join()
    (found,) = abandoned(tmp_path)
    assert found.name.startswith(".x-")
    assert remove_abandoned(tmp_path) == 5
    assert list(tmp_path.iterdir()) == []
    assert abandoned(tmp_path / "nowhere") == [] and remove_abandoned(tmp_path / "nowhere") == 0


def _busy(parent: Path) -> None:
    for _ in range(60):
        with temporary_folder(parent, "x") as folder:
            remove_abandoned(parent)
            (folder / "mine").write_text("mine")
            abandoned(parent)
            assert (folder / "mine").read_text() == "mine"


def test_processes_that_make_and_remove_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    processes = [fork.Process(target=_busy, args=(tmp_path,)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4
    remove_abandoned(tmp_path)
    assert list(tmp_path.iterdir()) == []
