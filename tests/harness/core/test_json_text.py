"""Both parsers of JSON texts say the same: the fast one decides nothing that the slow one would decide otherwise."""

import json

import pytest

from dpicl.core import json_text

PLAIN = [
    '{"a": [1, -0.5, 1e-7, true, null, "é", "\\ud83d\\ude00"], "b": {"a": {}}}',
    '{"schema": 9007199254740991, "empty": [], "text": "a colon : and \\\\"}',
    '{"a" : 1}',  # left to the slow one
    '{"a\\":": 1}',  # as well
]
REFUSED = {
    '{"a": 1, "a": 1}': "one key twice",
    '{"a": {"b": 1, "\\u0062": 2}, "c": "\\":"}': "one key twice",
    '{"a" : 1, "a": 2, "b": "\\":"}': "one key twice",
    "[NaN]": "not JSON",
    "[1e999]": "too large",
    "[9007199254740992]": "2^53",
    "[" * 42 + "]" * 42: "too deeply",
    '["\\ud800"]': "surrogate",
    '{"a": 1,}': "complete JSON",
}


@pytest.mark.parametrize("text", PLAIN)
def test_a_plain_text_is_what_python_reads(text: str) -> None:
    assert repr(json_text.loads(text)) == repr(json.loads(text))


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_plain_is_refused_by_the_slow_parser(text: str) -> None:
    assert json_text._parse_fast(text) is None
    with pytest.raises(ValueError, match=REFUSED[text].replace("^", r"\^")):
        json_text.loads(text)
