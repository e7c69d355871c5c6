"""Damages that hypothesis draws: plain values with one to three places replaced, removed, renamed, doubled or moved."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.mutations import VALUES

#: Texts with every character that Python can hold, halves of surrogate pairs and controls among them.
TEXTS = st.text(st.characters(codec=None, categories=None), max_size=12)
NUMBERS = st.integers() | st.floats() | st.sampled_from([2**53, -(2**63), 10**400])
LEAVES = st.none() | st.booleans() | NUMBERS | TEXTS
ANY = st.recursive(LEAVES, lambda of: st.lists(of, max_size=3) | st.dictionaries(TEXTS, of, max_size=3), max_leaves=6)
WEIRD = st.sampled_from(VALUES)


def _like(value: Any) -> st.SearchStrategy[Any]:
    """Values of the same type, which pass the first look of a schema; and any others."""
    if isinstance(value, bool):
        own: st.SearchStrategy[Any] = st.booleans()
    elif isinstance(value, int | float):
        own = NUMBERS
    elif isinstance(value, str):
        own = TEXTS | st.just(value * 2) | st.just(value[:-1])
    elif isinstance(value, list):
        own = st.lists(st.sampled_from(value) if value else LEAVES, max_size=2 * len(value) + 1)
    else:
        own = st.dictionaries(TEXTS, LEAVES, max_size=3)
    return own | own | WEIRD | ANY


def places(value: Any) -> list[tuple[Any, Any]]:
    """(object or list, key or index) of every node below a value."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            found.append((value, key))
            if not isinstance(value[key], list) or len(value[key]) < 200:
                found += places(value[key])
    return found


@st.composite
def edited(draw: st.DrawFn, document: Any) -> Any:
    """The document, damaged; not itself."""
    value = [copy.deepcopy(document)]
    for _ in range(draw(st.integers(1, 3))):
        holder, key = draw(st.sampled_from(places(value)))
        match draw(st.sampled_from(["replace", "replace", "replace", "remove", "rename", "double", "move"])):
            case "remove" if holder is not value:
                del holder[key]
            case "rename" if isinstance(holder, dict):
                holder[draw(TEXTS)] = holder.pop(key)
            case "double" if isinstance(holder, list) and holder is not value:
                holder.insert(key, copy.deepcopy(holder[key]))
            case "move":
                other, place = draw(st.sampled_from(places(value)))
                holder[key] = copy.deepcopy(other[place])
            case _:
                holder[key] = copy.deepcopy(draw(_like(holder[key])))
    return value[0]
