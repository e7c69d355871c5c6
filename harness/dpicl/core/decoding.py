"""Turns the bytes of a user's file into text: unpacks gzip and zip, decodes, and says what else the bytes may be.

With UTF-8 every line is decoded alone: a byte that is no UTF-8 becomes half of a surrogate pair (Python's
`surrogateescape`), never a part of what follows, so that one wrong line is one wrong row.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zipfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import IO, Any, cast

from dpicl.core.errors import DataError
from dpicl.core.files import content_of, open_regular
from dpicl.core.unpacked import require_size, size_limit

#: Endings of files that hold one other file.
PACKED = (".gz", ".zip")
#: Other ways to pack a file, by its first bytes.
_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\0": "xz",
    b"(\xb5/\xfd": "zstandard",
}
#: Encodings in which a line end is a line end, whatever stands before it: no state goes from one line to the next.
_STATELESS = re.compile(
    r"utf-8(-sig)?|utf-(16|32)(-[lb]e)?|ascii|cp\d+|iso8859-\d+|koi8-\w|mac-\w+|tis-620|gb2312|gbk|gb18030|big5(hkscs)?"
    r"|shift_jis\w*|euc_\w+|johab"
)
#: A byte that was no UTF-8, as `surrogateescape` has it.
_ESCAPED = re.compile("[\udc80-\udcff]")
#: More of them in a row than words of Western Europe have.
_MANY = re.compile("[\udc80-\udcff]{3}")
_BLOCK = 1 << 20
#: Bytes that are looked at for those of UTF-16, and the least share of NUL bytes that a text in it has there.
_START, _NULS = 1000, 0.1


class UnreadableContent(DataError):
    """A file that cannot be read for what stands somewhere in it, which may be one record; the message says where."""


@dataclass(frozen=True)
class FileFormat:
    """How a file is written, where its name does not say it; all of it public.

    quoting: whether quotation marks in CSV and TSV stand around values. header: whether the first line names the
    columns; else they are called 1, 2, … encoding: '': UTF-8. delimiter: between the columns of CSV; '': found out by
    the names in the first line (a comma without one; a tab in TSV).
    """

    quoting: bool = True
    header: bool = True
    encoding: str = ""
    delimiter: str = ""

    @property
    def changes(self) -> dict[str, Any]:
        """What is not the default, by name."""
        return {
            name: value for name, value in asdict(self).items() if value != getattr(PLAIN, name)
        }


#: UTF-8, with a line of names and quotation marks around values.
PLAIN = FileFormat()
#: Words for delimiters that a shell eats.
_DELIMITERS = {"tab": "\t", "\\t": "\t", "comma": ",", "semicolon": ";", "pipe": "|"}


def delimiter_of(value: str) -> str:
    """The character between columns. Raises ValueError, the rest of a sentence, for what cannot be one."""
    mark = _DELIMITERS.get(value, value)
    if len(mark) != 1 or mark.isalnum() or mark in ' "\r\n\0':
        raise ValueError("must be one character (or tab, comma, semicolon, pipe)")
    return mark


def encoding_name(value: str) -> str:
    """Python's name of an encoding. Raises ValueError, the rest of a sentence, for what is none that can be used."""
    try:
        name = codecs.lookup(value).name
    except (LookupError, ValueError, TypeError):
        raise ValueError(
            "must be an encoding, such as windows-1252, utf-16, gb18030 or shift_jis"
        ) from None
    if not _STATELESS.fullmatch(name):
        raise ValueError(
            f"cannot be {name}: what a line says would depend on other lines; save the file as UTF-8"
        )
    return name


def kind_of(path: Path) -> str:
    """The ending of a file, or of the one that is packed in it. Raises DataError for an archive that holds no file, or
    several, and OSError."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return PurePath(path.stem).suffix.lower()
    return PurePath(_member_of(path)).suffix.lower() if ending == ".zip" else ending


def name_of(path: Path) -> str:
    """The name of a file without its endings."""
    return PurePath(path.stem).stem if path.suffix.lower() in PACKED else path.stem


def read_text(path: Path, format: FileFormat) -> str:
    """The text of a file, unpacked. Raises DataError, UnreadableContent and OSError.

    A byte that is no UTF-8 is half of a surrogate pair; in another encoding it is an error of the whole file.
    """
    return _decode(path, unpack(path), format.encoding)


def unpack(path: Path) -> bytes:
    """The content of a file, or of the one that is packed in it. Raises DataError where there is more of it than may
    be, or where it is damaged, and OSError."""
    ending = path.suffix.lower()
    if ending not in PACKED:
        return content_of(path)
    try:
        if ending == ".gz":
            with (
                open(path, "rb", opener=open_regular) as file,
                gzip.GzipFile(fileobj=file) as packed,
            ):
                return _read(path, cast(IO[bytes], packed))
        with zipfile.ZipFile(path) as archive, archive.open(_member_of(path)) as packed:
            return _read(path, packed)
    except (EOFError, zlib.error, zipfile.BadZipFile, gzip.BadGzipFile):
        raise UnreadableContent(
            f"{path} is damaged, or no {ending[1:]} file; pack it again."
        ) from None
    except (RuntimeError, NotImplementedError):  # of zipfile: a password, an unknown method
        raise DataError(
            f"{path} is packed in a way that is not read (a password?); unpack it."
        ) from None


def _read(path: Path, packed: IO[bytes]) -> bytes:
    most = size_limit(path)
    content = bytearray()
    while block := packed.read(_BLOCK):
        content += block
        require_size(path, len(content), most)
    return bytes(content)


def _member_of(path: Path) -> str:
    """The name of the one file in a zip archive."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [each.filename for each in archive.infolist() if not each.is_dir()]
    except zipfile.BadZipFile:
        raise DataError(f"{path} is damaged, or no zip file; pack it again.") from None
    # what one system adds on its own
    names = [name for name in names if not name.startswith("__MACOSX/")]
    if len(names) != 1:
        raise DataError(
            f"{path} holds {len(names):,} files, and a packed file is read where it holds one; unpack it."
        )
    return names[0]


def _decode(path: Path, content: bytes, encoding: str) -> str:
    if encoding not in ("", "utf-8", "utf-8-sig"):
        try:
            return content.decode(encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            number = content.count(b"\n", 0, error.start) + 1
            raise UnreadableContent(
                f"{path} line {number} is not {encoding}; name another --encoding."
            ) from None
    if packed := next((what for magic, what in _MAGIC.items() if content.startswith(magic)), ""):
        ending = {"gzip": ".gz", "zip": ".zip"}.get(packed)
        advice = f"give it the ending {ending}" if ending else "unpack it"
        raise UnreadableContent(f"{path} is not UTF-8 but packed with {packed}; {advice}.")
    if utf_16 := _utf_16_of(content):
        raise UnreadableContent(
            f"{path} is not UTF-8, and looks like UTF-16; give --encoding {utf_16}."
        )
    if b"\0" in content[:_START]:
        raise UnreadableContent(
            f"{path} is not UTF-8 and no text: it holds NUL bytes; give the file that it is made of."
        )
    return content.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def _utf_16_of(content: bytes) -> str:
    """The name of the UTF-16 or UTF-32 that a file seems to have; '' for none."""
    marks = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
    marks |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
    if name := next((name for mark, name in marks.items() if content.startswith(mark)), ""):
        return name
    start = content[:_START]
    if b"\0" not in start:
        return ""
    even, odd = start[::2].count(0), start[1::2].count(0)
    if max(even, odd) < len(start) * _NULS or min(even, odd) > max(even, odd) / 10:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def describe_escaped(text: str) -> str:
    """What is wrong with lines that are not UTF-8: the end of a sentence, with what the whole text seems to be."""
    rest, wrong = _ESCAPED.subn("", text)
    right = sum(not character.isascii() for character in rest)
    if right >= wrong:  # two bytes of another encoding may look like UTF-8
        return "is not UTF-8, while other lines are"
    if not _MANY.search(text):
        return "is not UTF-8 (from Windows or Latin-1? Then give --encoding WINDOWS-1252)"
    return "is not UTF-8 (if it is another encoding, name it: --encoding windows-1251, gb18030, shift_jis, …)"


def is_escaped(line: str) -> bool:
    """Whether bytes of a line were no UTF-8."""
    return not line.isascii() and _ESCAPED.search(line) is not None
