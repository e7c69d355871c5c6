"""Defines blocks (tables, words and figures), the only input of every renderer.

Texts may be hostile: a renderer writes control and direction characters out (`make_visible`), and HTML escapes what
would be markup there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from markupsafe import Markup

#: What a column of numbers holds: a number with a unit, or none.
_NUMBER = re.compile(r"[<≤]?[-−+]?[\d.,]+(e[-+]?\d+)?( ?[%\w]{1,3})?|[-–∞?]|inf|")


@dataclass(frozen=True)
class Column:
    """A column of a table, defined once for all outputs.

    key: its name in downloads. name: its head. of: item -> value, or the path of an attribute ("": the key is the
    path); the value is None where an attribute on the way is None. A value is a text, a number, None, or a tuple of
    them, which is sorted by its first. show: value -> text. help: what it is, in a few words. best: 'high' or 'low',
    where one end is the better one. wide: whether it holds words that may go on below. optional: left out where no item
    has a value. page: shown on pages, and in a terminal never. data: what filters of a page ask of it. parts: the names
    in downloads of the values of a tuple, from the first on; (): only the first is downloaded, as the key.
    """

    key: str
    name: str
    of: Callable[[Any], Any] | str = ""
    show: Callable[[Any], str] = str
    help: str = ""
    best: str = ""
    wide: bool = False
    optional: bool = False
    page: bool = False
    data: Mapping[str, str] = field(default_factory=dict)
    parts: tuple[str, ...] = ()

    def value(self, item: Any) -> Any:
        """What the column has of an item."""
        if callable(self.of):
            return self.of(item)
        for name in (self.of or self.key).split("."):
            if item is None:
                return None
            item = getattr(item, name)
        return item

    def text(self, value: Any) -> str:
        """'–' for nothing."""
        return "–" if value is None else self.show(value)

    def fields(self, item: Any) -> dict[str, Any]:
        """What downloads have of an item, by name."""
        names, value = self.parts or (self.key,), self.value(item)
        # None is None in all of them
        values = value if isinstance(value, tuple) else [value] * len(names)
        return dict(zip(names, values, strict=False))


@dataclass(frozen=True)
class Line:
    """A line of a table. kind: first, worse, end, flagged or absent. links: column number -> address. data: what
    filters of a page ask of it. help: what it is, in a few words."""

    values: tuple[Any, ...]
    kind: str = ""
    links: Mapping[int, str] = field(default_factory=dict)
    data: Mapping[str, str] = field(default_factory=dict)
    help: str = ""


@dataclass(frozen=True)
class Table:
    """keep: how many columns name a line; they begin every part of a table that is wider than the terminal. heading:
    whether the title stands above it as a heading. cards: whether a narrow page shows a card for each line. dense:
    whether a terminal shows it without empty lines around it.
    """

    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()
    keep: int = 1
    sortable: bool = True
    heading: bool = False
    cards: bool = False
    dense: bool = False

    def texts(self, line: Line) -> list[str]:
        """The cells of a line."""
        return [column.text(value) for column, value in zip(self.columns, line.values, strict=True)]


def make_table(
    title: str,
    columns: Iterable[Column],
    items: Iterable[Any],
    *,
    kind: Callable[[Any], str] = lambda item: "",
    links: Callable[[Any], Mapping[int, str]] = lambda item: {},
    data: Callable[[Any], Mapping[str, str]] = lambda item: {},
    explain: Callable[[Any], str] = lambda item: "",
    **more: Any,
) -> Table:
    """The table of some items, a line each. more: further fields of `Table`."""
    items = list(items)
    values = [(column, [column.value(item) for item in items]) for column in columns]
    shown = [
        (column, cells)
        for column, cells in values
        if not column.optional or any(one is not None for one in cells)
    ]
    lines = (
        Line(
            tuple(cells[i] for _, cells in shown),
            kind(item),
            links(item),
            data(item),
            explain(item),
        )
        for i, item in enumerate(items)
    )
    return Table(title, tuple(column for column, _ in shown), tuple(lines), **more)


def text_table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    title: str = "",
    keep: int = 1,
) -> Table:
    """A table whose cells are texts already. Columns that hold numbers alone are set as such."""
    rows = [*map(tuple, rows)]
    numbers = [all(_NUMBER.fullmatch(row[i]) for row in rows) for i in range(len(heads))]
    columns = [
        Column(
            head,
            head,
            itemgetter(i),
            wide=not numbers[i],
        )
        for i, head in enumerate(heads)
    ]
    return make_table(title, columns, rows, heading=bool(title), keep=keep)


@dataclass(frozen=True)
class Heading:
    text: str
    level: int = 2


@dataclass(frozen=True)
class Link:
    """untrusted: the address is a text of a stranger, and a link only where it is plain http or https."""

    text: str
    address: str
    untrusted: bool = False


@dataclass(frozen=True)
class Words:
    """A paragraph of texts and links. kind: lead, quiet, note (a bullet in a terminal), flag, or a command."""

    parts: tuple[str | Link, ...]
    kind: str = ""


@dataclass(frozen=True)
class Facts:
    """Name -> value."""

    items: Mapping[str, str | Link]
    kind: str = "facts"


@dataclass(frozen=True)
class Figure:
    """A chart of a page; a terminal has none. address: of its image. size: width and height in pixels. data: what
    filters ask of it. link: where its caption leads; "": nowhere."""

    caption: str
    address: Markup
    size: tuple[int, int]
    data: Mapping[str, str] = field(default_factory=dict)
    link: str = ""


@dataclass(frozen=True)
class Part:
    """Blocks that belong together. summary: what stands for them until they are unfolded; "": they are not folded.
    kind: answer, group or plots. data: what filters ask of it."""

    blocks: tuple[Any, ...]
    summary: str = ""
    kind: str = ""
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Filters:
    """(name, label, value -> text, the value that is chosen at first) of every filter of a page."""

    fields: tuple[tuple[str, str, Mapping[str, str], str], ...]


Block = Heading | Words | Facts | Table | Figure | Part | Filters


def words(text: str, kind: str = "") -> Words:
    """A paragraph."""
    return Words((text,), kind)


def notes(texts: Iterable[str], kind: str = "note") -> list[Words]:
    """A paragraph each."""
    return [words(text, kind) for text in texts]


def folded_notes(texts: Sequence[str]) -> list[Block]:
    """The most important note, and the others one click away."""
    if len(texts) <= 2:
        return [*notes(texts)]
    return [
        *notes(texts[:1]),
        Part(tuple(notes(texts[1:])), f"{len(texts) - 1} more notes on these results"),
    ]
