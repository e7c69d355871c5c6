"""The ledger of a private set: an append-only file of all releases made from its records.

`budget-NAME.jsonl` lies beside the machine's key, in `private_folder`. Its first line names the set, then follows one
line a charge or a limit, each with a hash of all that stands before it; the last line counts them. A new version takes
the place of the old one whole (a temporary file, fsync, rename), and holds all its lines. So what a crash leaves is the
ledger before a charge or after it. A file that is cut, edited, or was made with another key is refused and never taken
for an empty one. (That somebody puts an old copy back, or removes the whole file, no file can tell.)

A charge holds the keyed hashes of the records that the set had not had before, and of the people whose they are where
a field names them: so the set is known again under any name, and its people with other texts. They are not said to
anybody: whoever has the key could ask whether a text is among them.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dpicl.accounting import dp_event as dp
from dpicl.accounting.events import check_json, from_json
from dpicl.core import json_text
from dpicl.core.errors import ResultError, UnsupportedEvent, UsageError
from dpicl.core.field_types import Count, Delta, Epsilon
from dpicl.core.files import content_of, own_folder, put_whole
from dpicl.core.paths import list_budgets, private_folder
from dpicl.data.splits import normalise
from dpicl.results.schema import Moment, NewerFile, first_problem, require_not_newer

#: Bytes of the hash of a record: two of 10 million records are one with probability 2^-50.
HASH_BYTES = 12
#: Bytes of a ledger: 16 for each record that its set ever had.
LARGEST = 4_000_000_000
SCHEMA_VERSION: Final = 1
L = TypeVar("L", bound="_Line")
#: 64 hexadecimal digits.
_SHA256 = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")


class _Line(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class _Head(_Line):
    """key: a hash by which the machine's key is known again."""

    private_set: str
    schema_version: Literal[1] = SCHEMA_VERSION
    key: str
    created: Moment


class Charge(_Line):
    """One release. what: mechanism, task, model and the like, as the card says it. epsilon, delta: proved for it alone.
    records: keyed hashes of the records (and persons) that are new in this set, in base64. declared: public number of
    records; None in lines of earlier versions. rows_per_person: epsilon and delta are those of a person, of whom at
    most so many records were used, and event is that of a record; None: they are those of a record. person_field: the
    column that says whose a record is. number: by which a release that goes on knows it (dpicl.own.unfinished)."""

    when: Moment
    what: dict[str, Any]
    event: dict[str, Any]
    epsilon: Epsilon
    delta: Delta
    records: str = ""
    declared: Annotated[Count, Field(ge=1)] | None = None
    rows_per_person: Annotated[Count, Field(ge=1)] | None = None
    person_field: str | None = None
    number: str | None = None

    @property
    def unit(self) -> str | None:
        """Whom it protects: the people of this column; None: a record."""
        return None if self.rows_per_person is None else self.person_field or ""

    @property
    def dp_event(self) -> dp.DpEvent:
        return from_json(self.event)


class Limit(_Line):
    """From here on the epsilons of all releases may add up to this much; infinity: to anything. delta: at which their
    composition is said. total_delta: what their deltas may add up to; None: one over the declared records."""

    when: Moment
    total_epsilon: Epsilon
    delta: Delta
    total_delta: Delta | None = None


class _Entry(_Line):
    before: str
    charge: Charge | None = None
    limit: Limit | None = None


class _End(_Line):
    before: str
    lines: Annotated[Count, Field(ge=1)]


@dataclass(frozen=True)
class PrivateLedger:
    """The ledger of one private set as it stands. hashes: of all its records; text: the file without its last line."""

    name: str
    entries: tuple[Charge | Limit, ...]
    hashes: frozenset[bytes] = field(repr=False)
    text: str = field(repr=False)

    @classmethod
    def begin(cls, name: str, when: str) -> PrivateLedger:
        """An empty one, not on disk yet. Raises UsageError for a name that no file can have."""
        name = require_name(name)
        head = _Head(private_set=name, key=_key_check(), created=when)
        return cls(name, (), frozenset(), _write(head))

    @property
    def charges(self) -> list[Charge]:
        return [entry for entry in self.entries if isinstance(entry, Charge)]

    @property
    def limit(self) -> Limit | None:
        """The limit that holds: the one that was stated last."""
        return next((entry for entry in reversed(self.entries) if isinstance(entry, Limit)), None)

    def add_charge(self, charge: Charge, records: frozenset[bytes]) -> PrivateLedger:
        """With one charge more, and the records that it is for."""
        new = b"".join(sorted(records - self.hashes))
        charge = charge.model_copy(update={"records": base64.b64encode(new).decode()})
        longer = self._append(charge, _Entry(before=_hash(self.text), charge=charge))
        return replace(longer, hashes=self.hashes | records)

    def set_limit(self, limit: Limit) -> PrivateLedger:
        return self._append(limit, _Entry(before=_hash(self.text), limit=limit))

    def _append(self, entry: Charge | Limit, line: _Entry) -> PrivateLedger:
        return replace(self, entries=(*self.entries, entry), text=self.text + _write(line))

    def write(self) -> None:
        """Puts it on disk, whole. Raises ResultError, and then the file may be the old one or the new one."""
        end = _write(_End(before=_hash(self.text), lines=self.text.count("\n")))
        try:
            own_folder()
            put_whole(_path(self.name), self.text + end, private=True)
        except OSError as error:
            raise ResultError(
                f"The budget of private set '{self.name}' cannot be written ({error.strerror}), so nothing was"
                f" released; fix {private_folder()}."
            ) from error


def read_all() -> list[PrivateLedger]:
    """Every ledger of this machine, by name. Raises ResultError for one that is damaged."""
    try:
        return [_read(path) for path in list_budgets(private_folder())]
    except OSError as error:
        raise ResultError(
            f"{private_folder()} cannot be read ({error.strerror}); fix its rights."
        ) from error


def hashes_of(texts: Iterable[str], persons: Iterable[str] = ()) -> frozenset[bytes]:
    """Keyed hashes of records, the same for texts that are one record (dpicl.data.splits), and of persons, which are
    never those of a text."""
    key = machine_key()

    def hash_content(content: str, domain: bytes = b"") -> bytes:
        data = content.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(data, key=key, digest_size=HASH_BYTES, person=domain).digest()

    of_texts = {hash_content(normalise(text)) for text in texts}
    return frozenset(of_texts | {hash_content(person, b"person") for person in persons})


def require_name(name: str) -> str:
    """The name of a private set. Raises UsageError for one that no file can have."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"'{name[:80]}' cannot be the name of a private set: use at most 80 letters, digits and . _ -, beginning"
            " with a letter or digit."
        )
    return name


def _read(path: Path) -> PrivateLedger:
    try:
        name, entries, text = _parse(json_text.text_of(path, LARGEST))
        if path != _path(name):
            raise ValueError(f"it is the ledger of '{name}', under another name")
    except NewerFile as error:
        raise ResultError(
            f"The budget {path} was {error}; nothing is released until then."
        ) from None
    except ValueError as error:
        raise ResultError(
            f"The budget {path} cannot be used: {error}. A damaged ledger is not taken for an empty one, so nothing is"
            " released; put a copy of it back, or move it away if nobody will ever release from its records again."
        ) from None
    return PrivateLedger(name, entries, frozenset(_hashes(entries)), text)


def _parse(text: str) -> tuple[str, tuple[Charge | Limit, ...], str]:
    """(name of the set, entries, the text without its last line). Raises ValueError, with the reason."""
    lines = text.splitlines(keepends=True)
    _require_not_newer(lines[0] if lines else "")
    if len(lines) < 2 or not text.endswith("\n"):
        raise ValueError("it is cut off")
    *lines, last = lines
    body = "".join(lines)
    end = _line(_End, last, "its last line")
    if (end.before, end.lines) != (_hash(body), len(lines)):
        raise ValueError("it was cut or changed, since its last line does not fit the others")
    head = _line(_Head, lines[0], "line 1")
    if not hmac.compare_digest(head.key.encode(), _key_check().encode()):
        raise ValueError(
            f"it was made with another key than {private_folder() / 'key'}; put that key back"
        )
    entries, before = [], hashlib.sha256(lines[0].encode())
    for number, line in enumerate(lines[1:], start=2):
        read = _line(_Entry, line, f"line {number}")
        entry = read.charge or read.limit
        holds_both = read.charge is not None and read.limit is not None
        if read.before != before.hexdigest() or entry is None or holds_both:
            raise ValueError(f"line {number} does not follow from those before it")
        if isinstance(entry, Charge):
            _check_event(entry, number)
        entries.append(entry)
        before.update(line.encode())
    return head.private_set, tuple(entries), body


def _require_not_newer(line: str) -> None:
    """Raises NewerFile for the first line of a ledger of a newer version, whatever its other lines are."""
    try:
        head = json_text.loads(line)
    except ValueError:
        return  # it is damaged, which is said where its lines are read
    if isinstance(head, dict):
        require_not_newer(head.get("schema_version"), SCHEMA_VERSION)


def _check_event(charge: Charge, number: int) -> None:
    try:
        check_json(charge.event)
        base64.b64decode(charge.records, validate=True)
    except (UnsupportedEvent, binascii.Error) as error:
        raise ValueError(f"line {number} holds no release: {error}") from None


def _hashes(entries: Sequence[Charge | Limit]) -> Iterable[bytes]:
    for entry in entries:
        if isinstance(entry, Charge):
            content = base64.b64decode(entry.records)
            for at in range(0, len(content), HASH_BYTES):
                yield content[at : at + HASH_BYTES]


def _line(schema: type[L], line: str, place: str) -> L:
    try:
        json_text.loads(line, LARGEST)
        return schema.model_validate_json(line)
    except ValidationError as error:
        raise ValueError(
            f"{place} is not what this version writes: {first_problem(error)}"
        ) from None
    except ValueError as error:
        raise ValueError(f"{place} is damaged: {error}") from None


def _write(line: _Line) -> str:
    return json.dumps(json.loads(line.model_dump_json(exclude_none=True))) + "\n"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _key_check() -> str:
    return hmac.new(machine_key(), b"budget", hashlib.sha256).hexdigest()[:32]


def _path(name: str) -> Path:
    return private_folder() / f"budget-{name}.jsonl"


def machine_key() -> bytes:
    """This machine's key: 32 random bytes, made once. Raises ResultError where it cannot be kept."""
    try:
        path = own_folder() / "key"
        if not path.exists():
            with suppress(FileExistsError):  # another one was faster: its key counts
                put_whole(path, os.urandom(32).hex(), new=True, private=True)
        key = content_of(path).decode()
        if not _SHA256.fullmatch(key):  # a shorter one would be no secret
            raise ValueError(f"{path.name} is damaged; put a copy of it back")
        return bytes.fromhex(key)
    except (OSError, ValueError) as error:
        raise ResultError(
            f"Cannot use {private_folder()} ({error}); it must hold the budgets of private sets. Fix that: another"
            " folder would begin another budget."
        ) from error
