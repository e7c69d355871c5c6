"""Strings that match a pattern, and what the code of a mechanism may look for."""

import re

import pytest

from dpicl.conformance.dictionary import triggers_of
from dpicl.conformance.patterns import make_matches
from tests.harness.conformance.test_broken import broken  # noqa: F401

PATTERNS = [
    r"\b[A-Z]{1,2}\d[A-Z\d]? ?\d[A-Z]{2}\b",
    r"\b[A-TV-Z]\d[0-9A-B](\.[0-9A-Z]{1,4})?\b",
    r"(?i)^\s*(foo|bar)baz+?$",
    r"(?<=ID: )\d+",
    r"(?P<a>x|y)-(?P=a)",
    r"[^abc\d]{3}",
    r"(?=.*\d)[a-z]+",
    r"(?:(x)|y)(?(1)z|w)",
    r"(?>a+)b",
    r"[-\]^]+",
    r"\D\S\W\s\w\d",
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_is_written_for_a_pattern_matches_it(pattern):
    compiled = re.compile(pattern)
    texts = make_matches(compiled)
    assert len(texts) == 2
    assert all(compiled.search(text) for text in texts)
    assert texts == make_matches(compiled)


@pytest.mark.parametrize("pattern", ["a{0}", r"\bx\B", "(?!)"])
def test_a_pattern_that_matches_no_text_of_its_own_has_none(pattern):
    assert make_matches(re.compile(pattern)) == []


def test_triggers_are_strings_patterns_and_lengths_of_the_code(broken):  # noqa: F811
    postcode, length = (
        triggers_of(broken("blank_after_a_postcode")),
        triggers_of(broken("blank_after_a_length")),
    )
    assert any(re.fullmatch(PATTERNS[0], text) for text in postcode)
    assert {137, 138} <= set(map(len, length))
    assert any(len(text.split()) == 137 for text in length)
    assert any(
        re.search(PATTERNS[1], text) for text in triggers_of(broken("twice_for_a_diagnosis"))
    )
