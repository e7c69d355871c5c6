"""Small files of ours that a disk or a hand has damaged: refused in a sentence, made again, or removed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dpicl.core.errors import ResultError
from dpicl.run.fingerprints import AtHand, machine_key, own_folder
from dpicl.run.private_ledger import read_all
from tests.fuzz.kinds import KINDS, parse_lines, write_ledger


@pytest.mark.parametrize("content", ["", "ab", "ab" * 31, "ab" * 33, "AB" * 32, "zz" * 32, "\xb2" * 64])
def test_a_key_that_is_not_whole_is_no_key(fresh_cache: Path, content: str) -> None:
    (own_folder() / "key").write_text(content)
    with pytest.raises(ResultError, match="key is damaged"):
        machine_key()


def test_a_ledger_with_a_key_in_other_characters_is_refused(fresh_cache: Path) -> None:
    head, *rest = parse_lines(KINDS["ledger"].files()[0])
    (path,) = own_folder().glob("budget-*")
    path.write_bytes(write_ledger([{**head, "key": "\x80"}, *rest]))
    with pytest.raises(ResultError, match="another key"):
        read_all()


@pytest.mark.parametrize(
    "value", [None, [], {}, {"fingerprint": 1, "test": "1" * 64}, {"fingerprint": "0" * 64, "test": "x", "more": 1}]
)
def test_a_damaged_note_about_records_is_not_believed(tmp_path: Path, value: object) -> None:
    path = tmp_path / "records.json"
    path.write_text(json.dumps(value))
    assert AtHand.kept(path) is None
    assert AtHand.kept(tmp_path / "nowhere") is None
    path.write_text(json.dumps({"fingerprint": "0" * 64, "test": "1" * 64}))
    assert AtHand.kept(path) == AtHand("0" * 64, "1" * 64)
