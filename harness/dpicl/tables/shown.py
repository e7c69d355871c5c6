"""Base class of return values of the API: text on a terminal, a table in a notebook, and a data frame."""

from __future__ import annotations

import html
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from dpicl.core.printable import make_printable
from dpicl.tables.console import to_text
from dpicl.tables.document import Block

if TYPE_CHECKING:
    import pandas as pd


class Shown(ABC):
    """Something that is shown as its command shows it. notes: sentences below it."""

    notes: Sequence[str] = ()

    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """What a terminal shows."""

    def text(self) -> str:
        """The same as text."""
        return to_text(self.blocks())

    @abstractmethod
    def to_frame(self) -> pd.DataFrame:
        """A pandas frame; numbers are numbers, infinity is `inf`."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text.from_ansi(make_printable(self.text(), styled=True))

    def __repr__(self) -> str:
        return make_printable(self.text(), styled=True).rstrip("\n")

    def _repr_html_(self) -> str:
        frame = self.to_frame().map(
            lambda value: make_printable(value) if isinstance(value, str) else value
        )
        notes = "".join(f"<p>{html.escape(make_printable(note))}</p>" for note in self.notes)
        return f"{frame.to_html(index=False, escape=True)}{notes}"
