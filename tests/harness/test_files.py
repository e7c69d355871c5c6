"""Files that are their owner's alone, on every kind of file system; bounds as people read them."""

import errno
import os

import pytest

from dpicl.harness.core.files import put_whole
from dpicl.harness.core.messages import rounded_down, rounded_up


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("new", [True, False])
def test_a_private_file_is_its_owners_alone(links, new, tmp_path, monkeypatch):
    def refused(*paths):
        raise OSError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refused)
    before = os.umask(0o022)
    try:
        put_whole(tmp_path / "key", "secret", new=new, private=True)
        put_whole(tmp_path / "page", "public", new=new)
    finally:
        os.umask(before)
    rights = [(tmp_path / name).stat().st_mode & 0o777 for name in ("key", "page")]
    assert rights == [0o600, 0o644]
    assert (tmp_path / "key").read_text() == "secret"


@pytest.mark.parametrize("bound", [0.99991, 0.9998930379998162, 7.99949, 1e-7, 0.1, 12345.678])
def test_a_bound_holds_as_it_is_shown(bound):
    assert float(rounded_down(bound)) <= bound <= float(rounded_up(bound))
    assert float(rounded_up(bound)) - float(rounded_down(bound)) <= bound / 999
    assert (rounded_down(0.0), rounded_down(float("inf"))) == ("0", "infinity")
