"""Whose records they are: which columns look like people, and how many rows of each person are kept."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from dpicl.core.vocabulary import Record
from dpicl.data.splits import normalise

#: Words of headers of columns that name a person or what only one person has, whatever stands around them, without
#: accents (a public list).
_PERSONS = """
    account agent applicant assigned assignee author borrower buyer caller candidate client contact cookie creator cust
    customer deviceid donor driver email employee guest handle holder household iban imei ip login member mobile msisdn
    nick nickname owner participant passenger passport patient performer person phone poster pupil rater recipient
    resident respondent reviewer sender sessionid speaker ssn staff student submitter subscriber telephone tenant user
    username usr visitor voter worker writer surname lastname firstname fullname screenname
    absender autor benutzer gast kunde kunden kundin mandant mitarbeiter nachname nutzer patientin teilnehmer telefon
    vorname apellido cliente correo empleado paciente telefono usuario auteur identifiant patiente prenom utilisateur
    cognome utente klant gebruiker musteri kullanici pelanggan pengguna
    автор абонент имя клиент пациент пользователь сотрудник телефон фамилия
"""
_PERSON_WORDS = frozenset(_PERSONS.split())
#: Words of languages that put no blanks between theirs.
_JOINED_WORDS = (
    *(
        "客户",
        "顾客",
        "用户",
        "姓名",
        "患者",
        "病人",
        "会员",
        "员工",
        "顧客",
        "氏名",
        "利用者",
        "会員",
    ),
    *("ユーザー", "고객", "사용자", "이름", "환자", "عميل", "مستخدم", "مريض"),
)
#: Names of columns that are a person's as a whole, and seldom so inside a longer name.
_WHOLE = frozenset(
    (
        *("name", "names", "from", "by", "subjectid", "uid", "userid", "pid", "mrn", "nhsnumber"),
        *("createdby", "postedby", "submittedby", "nom", "nombre", "mail", "mailaddress"),
    )
)
#: Last words of columns that say something of a person and not who it is.
_ATTRIBUTES = frozenset(
    (
        *("age", "category", "city", "count", "country", "gender", "language", "location"),
        *("rating", "role", "score", "segment", "sex", "status", "type"),
    )
)
#: What may follow such a word.
_ENDINGS = ("identifier", "nummer", "number", "hash", "name", "key", "ids", "id", "no", "nr", "s")
#: What a name of a column is made of; a longer one may be a text of a file without a header.
_COLUMN = re.compile(r"[^\W\d][\w -]{0,39}")


def looks_personal(column: str) -> bool:
    """Whether a column of this name looks like one that says whose a row is."""
    if not _COLUMN.fullmatch(column.strip()):
        return False
    plain = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", column))
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\da-zA-Z_]+", plain)
    parts = [word.lower() for word in words]
    if len(parts) > 3 or not _ATTRIBUTES.isdisjoint(parts[-1:]):
        return False
    whole = "".join(parts)
    neighbours = map("".join, pairwise(parts))  # e-mail
    is_named = any(_is_person(word) for word in (*parts, *neighbours, whole))
    return is_named or whole in _WHOLE or any(word in column for word in _JOINED_WORDS)


def _is_person(word: str) -> bool:
    stems = [word, *(word.removesuffix(ending) for ending in _ENDINGS)]
    return not _PERSON_WORDS.isdisjoint(stems)


def personal_columns(columns: Iterable[str], others: Iterable[str]) -> list[str]:
    """Those of the columns that look like people. others: columns of the text and the label, which are known."""
    known = {*others}
    return [column for column in columns if column not in known and looks_personal(column)]


def keep_rows(
    records: Sequence[Record],
    persons: Sequence[str],
    most: int,
    key: bytes,
) -> list[Record]:
    """At most ``most`` records of each person, in the order of the file.

    persons: whose each record is, in the order of the records. key: of the machine, at most 64 bytes: without it nobody
    can write a text that is sure to be chosen, and with it a second release keeps the same rows.

    Of a person's rows with one text (`normalise`) the one with the smallest keyed hash of (text, label) stays, whatever
    its place in the file; of these the ``most`` with the smallest hashes. So two things hold exactly:

    *Locality*: whether a row stays depends on the rows of its own person alone, since no other is looked at.
    *Distance*: let D' be D without one person p. By locality the rows of everybody else that stay are the same in D and
    D', in the same order, and of p at most ``most`` stay in D and none in D'. So the two sets differ by at most
    ``most`` records, added or removed. Equal texts of different people are not made one: the first of them would stay,
    and p's row could stand in the place of another person's, which is a distance of two records for one row. QED.

    With one row a person what is (epsilon, delta)-DP for a record is so for a person.
    """

    def rank(at: int) -> tuple[bytes, str, str]:
        content = repr((records[at].text, records[at].label)).encode("utf-8", "surrogatepass")
        return (
            hashlib.blake2b(content, key=key, person=b"kept row").digest(),
            records[at].text,
            records[at].label,
        )

    rows: Mapping[str, list[int]] = defaultdict(list)
    for at, person in enumerate(persons):
        rows[person].append(at)
    rows_kept: list[int] = []
    for numbers in rows.values():
        different: dict[str, int] = {}
        for at in sorted(numbers, key=rank):
            different.setdefault(normalise(records[at].text), at)
        rows_kept += list(different.values())[:most]
    return [records[at] for at in sorted(rows_kept)]
