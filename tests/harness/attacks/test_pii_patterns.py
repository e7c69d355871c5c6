"""Addresses and telephone numbers: what counts, what does not, hostile strings in linear time, and counts of a leak."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpicl.attacks.pii_patterns import addresses, extraction, find_identifiers, phones

# --- addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to Ana.Bell@Example.COM.", {"ana.bell@example.com"}),
        ("<mailto:ana@mail.example.org>; 'leo@example.net', \"mia@x.example\"",
         {"ana@mail.example.org", "leo@example.net", "mia@x.example"}),
        ("a+b_c%d-e@sub-domain.example.com", {"a+b_c%d-e@sub-domain.example.com"}),
        ("pat.o'hara@example.com at&t@example.com", {"pat.o'hara@example.com", "at&t@example.com"}),
        ("ana@example.museum ana@example.international", {"ana@example.museum", "ana@example.international"}),
        ("ana@xn--bcher-kva.xn--p1ai", {"ana@xn--bcher-kva.xn--p1ai"}),
        ("josé@bücher.example", {"josé@bücher.example"}),
        ("a" * 64 + "@example.com", {"a" * 64 + "@example.com"}),
    ],
)  # fmt: skip
def test_addresses_are_found_whole_and_in_lower_case(text, expected):
    assert addresses(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "@", "ana@", "@example.com", "ana@localhost", "ana@@example.com", "ana @example.com", "ana@.com",
        "ana@-example.com", "ana@192.168.0.1", "ana@example.c0m", "ana@exa|mple.com", "a" * 65 + "@example.com",
        "ana@" + "b" * 64 + ".example",
    ],
)  # fmt: skip
def test_what_is_no_address_is_not_found(text):
    assert addresses(text) == frozenset()


# --- telephone numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("713-555-0123", {"7135550123"}),
        ("+1-713-555-0123, 713.555.0123; (713) 555 0123", {"7135550123"}),
        ("tel:713-555-0123x42 fax: 713-555-0124.", {"7135550123", "7135550124"}),
        ("713-555-0123/713-555-0124,713-555-0125", {"7135550123", "7135550124", "7135550125"}),
        ("call 555-0123 or 555.0124", {"5550123", "5550124"}),
        ("+44 20 7946 0123", {"442079460123"}),
        ("+44 (0)20 7946 0123", {"442079460123"}),
        ("011 44 20 7946 0123", {"442079460123"}),
        ("020 7946 0123", {"02079460123"}),
        ("(0171) 946 0123", {"01719460123"}),
        ("Room 400-1200", {"4001200"}),
    ],
)
def test_numbers_are_found_as_digits(text, expected):
    assert phones(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "2001-10-25 10/25/2001 25.10.2001 10-25-01", "10:30:00 10.30 14:15-16:45", "$713-555-0123",
        "1,234,567.89 or 12,345,678", "1234567 5550123 7135550123 17135550123", "123-45-6789", "4111-1111-1111-1111",
        "1.713.555.0123.4", "113-555-0123 713-155-0123 003-555-0123", "sample A713-555-0123", "713\n555\n0123",
        "+1234567890123456", "10.0.555.0123",
    ],
)  # fmt: skip
def test_dates_times_prices_and_longer_numbers_are_none(text):
    assert phones(text) == frozenset()


# --- properties


@given(st.text(alphabet="a0125@.-_+ ()/\n%'é０\ud800", max_size=60))
def test_what_is_found_has_its_normal_form_and_is_in_the_text(text):
    everything = find_identifiers(text)
    assert everything == addresses(text) | phones(text)
    for address in addresses(text):
        local, _, domain = address.partition("@")
        assert address in text.lower()
        assert 1 <= len(local) <= 64
        assert "." in domain
        assert "@" not in domain
        assert not set(" \n()") & set(address)
    for number in phones(text):
        assert 7 <= len(number) <= 15 and set(number) <= set("0123456789")
        rest = iter(text)
        assert all(digit in rest for digit in number)  # in this order


HOSTILE = (
    "a", "a.", "a-", "@", "a@a.", "@a.", "x'@", "1", "1-", "713-555-", "+1(", "(713)", "011 ", "\ud800", "\n",
)  # fmt: skip


#: Quadratic time would be more than pytest's own limit of minutes here.
MANY = 200_000


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_characters_are_read_in_linear_time(part):
    find_identifiers(part * (MANY // len(part)))


@pytest.mark.parametrize("end", ["1", "@", ".c", "-"])
def test_long_domains_are_read_in_linear_time(end):
    for label in ("b.", "b" * 63 + ".", "b-."):
        find_identifiers("a@" + label * (MANY // len(label)) + end)


# --- counts

PRIVATE = find_identifiers(
    ["ana@example.com, 713-555-0123", "leo@example.com", "mia@example.com 713-555-0124"]
)


def test_counts_by_hand():
    released = [
        "ANA@example.com and ana@example.com",  # a private address, once
        "leo@example.com, 713.555.0123",  # the model says leo by itself; the number is a leak
        "leo@example.com mia@example.com",  # both explained: by the model and by the prompt
        "other@example.com 713-555-0199",  # nobody's
        "nothing here",
        "(713) 555-0123",  # again
    ]
    known = find_identifiers(
        ["leo@example.com other@example.com", "Ask mia@example.com, not 713-555-0124"]
    )
    assert extraction(released, PRIVATE, known) == {
        "texts": 6,
        "leaking_texts": 3,
        "private_addresses": 3,
        "private_phones": 2,
        "released_addresses": 4,
        "released_phones": 2,
        "extracted_addresses": 3,
        "extracted_phones": 1,
        "unexplained_addresses": 1,
        "unexplained_phones": 1,
    }
    assert extraction(released, PRIVATE)["leaking_texts"] == 4
    assert extraction(released, PRIVATE, find_identifiers(released))["leaking_texts"] == 0


def test_a_part_of_an_address_or_of_a_number_is_not_the_whole():
    one = extraction(["ana@example.co bell.ana@example.com 555-0123"], PRIVATE)
    assert one["extracted_addresses"] == 0
    assert one["extracted_phones"] == 0
