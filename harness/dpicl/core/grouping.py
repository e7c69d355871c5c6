"""Groups things by what they have in common."""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, TypeVar

T = TypeVar("T")


def group_by(
    items: Iterable[T],
    *paths: str,
) -> dict[Any, list[T]]:
    """The items by what they have at a path, such as 'cell.task', or by a tuple where there are several paths. Groups
    are in the order in which each comes first, items in their own."""
    key_of = attrgetter(*paths)
    groups: dict[Any, list[T]] = {}
    for item in items:
        groups.setdefault(key_of(item), []).append(item)
    return groups
