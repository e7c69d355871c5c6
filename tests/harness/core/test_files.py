"""Files that are their owner's alone, and go where they are meant to go; pipes are not waited for; bounds as people
read them."""

import errno
import os
import secrets
from contextlib import nullcontext
from pathlib import Path

import pytest

from dpicl.core.errors import PluginError, ResultError
from dpicl.core.files import hold_lock, put_whole
from dpicl.core.messages import round_down, show_rounded_up
from dpicl.core.plugins import module_of
from dpicl.leaderboards.render import page
from dpicl.mechanism import checked


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_a_private_file_is_its_owners_alone(links, new, tmp_path, monkeypatch):
    def refuse(*paths):
        raise OSError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    before = os.umask(0o022)
    try:
        put_whole(tmp_path / "key", "secret", new=new, private=True)
        put_whole(tmp_path / "page", "public", new=new)
    finally:
        os.umask(before)
    rights = [(tmp_path / name).stat().st_mode & 0o777 for name in ("key", "page")]
    assert rights == [0o600, 0o644]
    assert (tmp_path / "key").read_text() == "secret"


@pytest.mark.parametrize("planted", [".out.tmp", ".out.0123456789abcdef.tmp"])
def test_a_link_at_the_temporary_name_is_not_followed(planted, tmp_path, monkeypatch):
    """Nobody can foresee the name; here it is as if somebody had."""
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0123456789abcdef")
    (tmp_path / "victim").write_text("kept")
    (tmp_path / planted).symlink_to("victim")
    foreseen = planted != ".out.tmp"
    with pytest.raises(FileExistsError) if foreseen else nullcontext():
        put_whole(tmp_path / "out", "released")
    assert (tmp_path / "victim").read_text() == "kept"
    assert (tmp_path / "out").exists() is not foreseen


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setenv("DPICL_CACHE", str(tmp_path))
    for name in ("checked/name.json", "plugin.py", "site/index.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(tmp_path / name)
    assert not checked.has_passed("name")
    with pytest.raises(PluginError, match="not a regular file"):
        module_of(tmp_path / "plugin.py")
    with pytest.raises(ResultError, match="not written by dpicl"):
        page.write({"index.html": "ours"}, tmp_path / "site")


@pytest.mark.parametrize("bound", [0.99991, 7.99949, 1e-7, 12345.678])
def test_a_bound_holds_as_it_is_shown(bound):
    assert float(round_down(bound)) <= bound <= float(show_rounded_up(bound))
    assert float(show_rounded_up(bound)) - float(round_down(bound)) <= bound / 999
    assert round_down(0.0) == "0"
    assert round_down(float("inf")) == "infinity"


def test_a_lock_is_free_when_its_file_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.lock"
    with hold_lock(path) as first:
        with hold_lock(path) as same:
            assert first is True
            assert same is False
        path.unlink()
        with hold_lock(path) as second:  # another file of that name
            assert second
    with hold_lock(path) as again:
        assert again
