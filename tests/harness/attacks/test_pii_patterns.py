"""Addresses and telephone numbers: what counts, what does not, hostile strings in linear time, and counts of a leak."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpicl.attacks.pii_patterns import Counts, Extraction, PersonalData, addresses, extraction, found, phones
from dpicl.core.errors import UsageError
from dpicl.evaluation.intervals import wilson_interval

# --- addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Write to Ana.Bell@Example.COM.", {"ana.bell@example.com"}),
        ("<mailto:ana@mail.example.org>; 'leo@example.net', \"mia@x.example\"",
         {"ana@mail.example.org", "leo@example.net", "mia@x.example"}),
        ("ana@example.com/leo@example.com,mia@example.com", {f"{n}@example.com" for n in ("ana", "leo", "mia")}),
        ("[ana@example.com](x) (leo@example.com) To:mia@example.com",
         {f"{n}@example.com" for n in ("ana", "leo", "mia")}),
        ("a+b_c%d-e@sub-domain.example.com", {"a+b_c%d-e@sub-domain.example.com"}),
        ("pat.o'hara@example.com at&t@example.com", {"pat.o'hara@example.com", "at&t@example.com"}),
        ("..ana@example.com -leo@example.com", {"ana@example.com", "leo@example.com"}),
        ("ana@example.com-- Original", {"ana@example.com"}),
        ("ana@example.com_", {"ana@example.com"}),
        ("ana@example.museum ana@example.international", {"ana@example.museum", "ana@example.international"}),
        ("ana@xn--bcher-kva.xn--p1ai", {"ana@xn--bcher-kva.xn--p1ai"}),
        ("josé@bücher.example", {"josé@bücher.example"}),
        ("ANA@EXAMPLE.COM ana@example.com", {"ana@example.com"}),
        ("a" * 64 + "@example.com", {"a" * 64 + "@example.com"}),
        ("ana@" + "b" * 63 + ".example", {"ana@" + "b" * 63 + ".example"}),
        ("555-0123@example.com", {"555-0123@example.com"}),
    ],
)  # fmt: skip
def test_addresses_are_found_whole_and_in_lower_case(text, expected):
    assert addresses(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "@", "ana@", "@example.com", "ana@localhost", "Ana Bell/HOU/ECT@ECT", "ana@@example.com",
        "ana @example.com", "ana@ example.com", "ana@example .com", "ana@.com", "ana@-example.com",
        "ana@example-.com", "ana@example..com", "ana@192.168.0.1", "ana@example.c", "ana@example.c0m",
        "ana@example.c|om", "ana at example dot com", "ana@exa|mple.com", "lunch @ noon, 5 kg @ 2.50",
        "a" * 65 + "@example.com", "ana@" + "b" * 64 + ".example",
    ],
)  # fmt: skip
def test_what_is_no_address_is_not_found(text):
    assert addresses(text) == frozenset()


# --- telephone numbers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("713-555-0123", {"7135550123"}),
        ("(713) 555-0123", {"7135550123"}),
        ("(713)555-0123", {"7135550123"}),
        ("713/555-0123", {"7135550123"}),
        ("713.555.0123", {"7135550123"}),
        ("713 555 0123", {"7135550123"}),
        ("1-713-555-0123", {"7135550123"}),
        ("1 (713) 555-0123", {"7135550123"}),
        ("+1 713 555 0123", {"7135550123"}),
        ("+1-713-555-0123, 713.555.0123; (713) 555 0123", {"7135550123"}),
        ("tel:713-555-0123x42 fax: 713-555-0124.", {"7135550123", "7135550124"}),
        ("713-555-0123/713-555-0124,713-555-0125", {"7135550123", "7135550124", "7135550125"}),
        ("call 555-0123 or 555.0124", {"5550123", "5550124"}),
        ("+44 20 7946 0123", {"442079460123"}),
        ("+44 (0)20 7946 0123", {"442079460123"}),
        ("+44 (0) 20 7946 0123", {"442079460123"}),
        ("+44 (20) 7946 0123", {"442079460123"}),
        ("+442079460123", {"442079460123"}),
        ("011 44 20 7946 0123", {"442079460123"}),
        ("011-44-20-7946-0123", {"442079460123"}),
        ("+353 123456789 (24 hours)", {"353123456789"}),
        ("020 7946 0123", {"02079460123"}),
        ("(0171) 946 0123", {"01719460123"}),
        ("at 5 713-555-0123 2pm", {"7135550123"}),
        ("713-555-0123 713-555-0124", {"7135550123", "7135550124"}),
        ("Room 400-1200", {"4001200"}),
    ],
)
def test_numbers_are_found_as_digits(text, expected):
    assert phones(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "2001-10-25 10/25/2001 25.10.2001 10-25-01", "10:30:00 10.30 14:15-16:45", "$713-555-0123",
        "$500-1000 £300.2000 €250.0000", "300-2000% 250.0000 %", "1,234,567.89 or 12,345,678",
        "1234567 5550123 7135550123 17135550123", "123-45-6789", "77002-1234", "4111-1111-1111-1111",
        "4111 1111 1111 1111", "1.713.555.0123.4", "12-713-555-0123-9", "113-555-0123 713-155-0123 003-555-0123",
        "12,345-6789", "5-0123 x30123", "555-012 555-01234", "sample A713-555-0123",
        "713--555--0123 713 - 555 - 0123", "713\n555\n0123", "+1234567890123456", "+123 (1234) 123456789012",
        "+12 34", "10.0.555.0123", "99999999999999999999999999999",
    ],
)  # fmt: skip
def test_dates_times_prices_and_longer_numbers_are_none(text):
    assert phones(text) == frozenset()


# --- properties

WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
NAME = st.from_regex(r"[a-z0-9]{1,8}([._+-][a-z0-9]{1,8}){0,3}", fullmatch=True)
HOST = st.from_regex(r"([a-z]([a-z0-9-]{0,8}[a-z0-9])?\.){1,3}[a-z]{2,12}", fullmatch=True)
GROUPS = st.tuples(
    st.from_regex(r"[2-9][0-9]{2}", fullmatch=True),
    st.from_regex(r"[2-9][0-9]{2}", fullmatch=True),
    st.from_regex(r"[0-9]{4}", fullmatch=True),
)


@settings(deadline=None)
@given(NAME, HOST, WORDS, WORDS)
def test_an_address_between_blanks_is_found_whatever_stands_around_it(name, host, before, after):
    assert f"{name}@{host}" in addresses(f"{before} {name}@{host} {after}")


@settings(deadline=None)
@given(GROUPS, st.sampled_from(["{}-{}-{}", "({}) {}-{}", "{}.{}.{}", "1-{}-{}-{}", "+1 {} {} {}", "({}){}.{}"]))
def test_all_ways_to_write_a_number_have_the_same_digits(groups, written):
    assert phones(f"call {written.format(*groups)} today") == {"".join(groups)}


@settings(deadline=None)
@given(st.text(alphabet="a0125@.-_+ ()/\n%'é０\ud800", max_size=60))
def test_whatever_is_found_has_its_normal_form_and_stands_in_the_text(text):
    everything = found(text)
    for address in everything.addresses:
        local, _, domain = address.partition("@")
        assert address in text.lower()
        assert 1 <= len(local) <= 64 and "." in domain and "@" not in domain and not set(" \n()") & set(address)
    for number in everything.phones:
        assert 7 <= len(number) <= 15 and set(number) <= set("0123456789")
        rest = iter(text)
        assert all(digit in rest for digit in number)  # in this order


@settings(deadline=None)
@given(st.lists(WORDS, max_size=4))
def test_several_texts_hold_what_each_of_them_holds(texts):
    texts = [*texts, "ana@example.com", "713-555-0123"]
    everything = found(texts)
    assert everything.addresses == {a for text in texts for a in addresses(text)}
    assert everything.phones == {p for text in texts for p in phones(text)}


HOSTILE = (
    "a", "a.", "a-", "a_", "@", "a@", "a@a", "a@a.", "@a.", "%", "'", "x'@", "1", "1 ", "1-", "713-", "713-555-", "+",
    "+1", "+1 ", "+1(", "(", "(713)", "011 ", "0", "02 ", "\ud800", "é", "\n",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_a_million_hostile_characters_are_read(part):
    """Quadratic time would be hours here: pytest's own limit of minutes stops it."""
    found(part * (1_000_000 // len(part)))


@pytest.mark.parametrize("end", ["1", "@", ".c", "-"])
def test_a_million_characters_of_domain_are_read(end):
    for label in ("b.", "b" * 63 + ".", "b-."):
        found("a@" + label * (1_000_000 // len(label)) + end)


# --- counts

PRIVATE = found(["ana@example.com, 713-555-0123", "leo@example.com", "mia@example.com 713-555-0124"])


def test_counts_by_hand():
    released = [
        "ANA@example.com and ana@example.com",  # a private address, once
        "leo@example.com, 713.555.0123",  # the model says leo by itself; the number is a leak
        "leo@example.com mia@example.com",  # both explained: by the model and by the prompt
        "other@example.com 713-555-0199",  # nobody's
        "nothing here",
        "(713) 555-0123",  # again
    ]
    baseline, prompt = found("leo@example.com other@example.com"), found("Ask mia@example.com, not 713-555-0124")
    assert extraction(released, PRIVATE, baseline | prompt) == Extraction(
        texts=6,
        effective=3,
        interval=wilson_interval(3, 6),
        addresses=Counts(private=3, released=4, extracted=3, unexplained=1),
        phones=Counts(private=2, released=2, extracted=1, unexplained=1),
    )


def test_without_a_baseline_every_private_string_is_a_leak():
    one = extraction(["ana@example.com leo@example.com", "x"], PRIVATE)
    assert (one.addresses.extracted, one.addresses.unexplained, one.effective) == (2, 2, 1)
    assert one.phones == Counts(private=2, released=0, extracted=0, unexplained=0)


def test_a_model_that_says_it_all_by_itself_leaks_nothing():
    released = ["ana@example.com 713-555-0123", "leo@example.com"]
    one = extraction(released, PRIVATE, known=found(released))
    assert (one.addresses.extracted, one.addresses.unexplained) == (2, 0)
    assert (one.phones.extracted, one.phones.unexplained, one.effective) == (1, 0, 0)


def test_a_part_of_an_address_or_of_a_number_is_not_the_whole():
    one = extraction(["ana@example.co bell.ana@example.com 555-0123"], PRIVATE)
    assert (one.addresses.extracted, one.phones.extracted) == (0, 0)


def test_no_string_is_kept_in_what_is_reported_or_printed():
    one = extraction(["ana@example.com 713-555-0123"], PRIVATE)
    shown = (
        repr(one) + repr(dataclasses.asdict(one)) + repr(PRIVATE) + str(PersonalData(frozenset({"ana@example.com"})))
    )
    assert "@" not in shown and "713" not in shown


def test_extraction_needs_a_released_text():
    with pytest.raises(UsageError, match="ask for at least one"):
        extraction([], PRIVATE)
