"""YAML from strangers: plain data with lines, in bounded time and memory, or one sentence."""

from pathlib import Path

import pytest

from dpicl.core.errors import UsageError
from dpicl.core.strict_yaml import read

BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
HOSTILE = {
    "alias bomb": (BOMB, "line 2: YAML aliases are not supported; write the value out"),
    "alias": ("a: &a 1\nb: *a\n", "line 2"),
    "merge key": ("a: 1\n<<: {b: 2}\n", "line 2"),
    "nested flow": ("a: " + "[" * 5000 + "]" * 5000, "line 1: nested deeper"),
    "nested blocks": ("\n".join(" " * i + "a:" for i in range(1000)), "line 21: nested deeper"),
    "key that is a list": ("? [a, b]\n: 1\n", "plain word"),
    "Python object": ("a: !!python/object/apply:os.system [echo]\n", "line 1"),
    "function": ("a: !function os.system\n", "line 1"),
    "digits": ("a: " + "9" * 5000, "line 1"),
    "2^53": ("a: 9007199254740992", "too large"),
    "huge exponent": ("a: 1.0e+999", "line 1: this is too large"),
    "half of a surrogate pair": ('a: "\\ud800"', "line 1"),
    "control character": ("a: \x07", "not valid YAML"),
    "date that is none": ("a: 2024-13-45", "line 1: this is not a valid timestamp"),
    "two documents": ("a: 1\n---\nb: 2\n", "not valid YAML"),
    "key twice": ("a: 1\na: 2\n", "line 2: the key 'a' is given twice"),
    "large": ("# " + "x" * 1_000_001, "bytes"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_data_is_one_sentence(tmp_path: Path, name: str):
    text, words = HOSTILE[name]
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_no_text_is_one_sentence(tmp_path: Path):
    path = tmp_path / "file.yaml"
    path.write_bytes("é".encode("latin-1"))
    with pytest.raises(UsageError, match="UTF-8"):
        read(path)
    with pytest.raises(UsageError, match="Cannot read"):
        read(tmp_path)


def test_infinity_and_short_floats_are_numbers(tmp_path: Path):
    path = tmp_path / "file.yaml"
    path.write_text("a: .inf\nb: 1e-5\nc: [1, 2.5]\nd: !function a.b\n")
    assert read(path, functions=True).data == {
        "a": float("inf"),
        "b": 1e-5,
        "c": [1, 2.5],
        "d": "a.b",
    }
