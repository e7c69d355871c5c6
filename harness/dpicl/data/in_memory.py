"""Tables that a program holds: a list of rows, a pandas DataFrame, a Hugging Face dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dpicl.core.errors import UsageError


@dataclass(frozen=True, eq=False)
class Rows:
    """name: what messages call them. names: column -> the class names that its numbers stand for."""

    name: str
    rows: Sequence[Mapping[str, Any]] = field(repr=False)
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    suffix: str = ""
    stem: str = "records"

    def __str__(self) -> str:
        return self.name


#: A file, a folder of `datasets`, or rows in memory.
Table = Path | Rows


def as_table(data: Any) -> Table:
    """A path as it is; of a DataFrame, a dataset, or a list of dictionaries or of (text, label) its rows.

    Raises UsageError for what is none of these; no message shows a row.
    """
    if isinstance(data, str | Path):
        return Path(data)
    if hasattr(data, "features") and hasattr(data, "to_list"):
        names = {name: each.names for name, each in data.features.items() if hasattr(each, "names")}
        return Rows("the dataset", data.to_list(), names)
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return Rows("the DataFrame", data.to_dict("records"))
    if isinstance(data, Iterable) and not isinstance(data, Mapping):
        rows = [dict(zip(("text", "label"), row, strict=False)) if isinstance(row, tuple) else row for row in data]
        if all(isinstance(row, Mapping) for row in rows):
            return Rows("the list", rows)
    raise UsageError(
        "Records are a file, a DataFrame, a dataset of `datasets` with one split, or a list of {'text': …, 'label': …}"
        " or of (text, label)."
    )
