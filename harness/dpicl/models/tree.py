"""Tree attention: all endings of a query in one row, each token seeing the query and its own ancestors only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from dpicl.models.base import ScoredEnding


@dataclass(frozen=True)
class Tree:
    """The endings of one query as a tree under the query's last token (the root, column 0).

    tokens: the N tokens that must be read (the last token of an ending is only predicted); parents: the column of each
    one's parent, 0 for the root, n for the n-th token; depths: 1 for the children of the root.
    steps: for every ending its (column that predicts, token predicted) pairs.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    depths: tuple[int, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]

    @property
    def depth(self) -> int:
        """How many positions after the query are read."""
        return max(self.depths, default=0)

    @classmethod
    def of(cls, endings: Sequence[Sequence[int]]) -> Tree:
        """The tree of these endings; beginnings that endings share are one branch."""
        columns: dict[tuple[int, ...], int] = {(): 0}
        for ending in endings:
            for length in range(1, len(ending)):
                columns.setdefault(tuple(ending[:length]), len(columns))
        nodes = list(columns)[1:]
        steps = tuple(
            tuple((columns[tuple(ending[:at])], int(ending[at])) for at in range(len(ending)))
            for ending in endings
        )
        return cls(
            tuple(node[-1] for node in nodes),
            tuple(columns[node[:-1]] for node in nodes),
            tuple(len(node) for node in nodes),
            steps,
        )

    @cached_property
    def ancestors(self) -> torch.Tensor:
        """bool[N, N]: the tokens of the tree that each token sees, itself among them."""
        visible = torch.eye(len(self.tokens), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent:
                visible[node] |= visible[parent - 1]
        return visible

    def mask_seen(
        self,
        begin: int,
        stem: int,
        start: int,
        end: int,
    ) -> torch.Tensor:
        """bool[end - start, begin + end]: what the tokens start to end of a row see, whose first ``stem`` are the query
        and whose others are this tree's, behind ``begin`` tokens that all of them see."""
        full = torch.ones(
            end - start,
            begin + end,
            dtype=torch.bool,
        ).tril(begin + start)
        first = max(start, stem)
        full[first - start :, begin + stem :] = self.ancestors[
            first - stem : end - stem, : end - stem
        ]
        return full


class EndingScores:
    """Collects the scores of one query's endings while its row is read.

    first: the place of the query's last token among the tokens that are read.
    """

    def __init__(self, tree: Tree, first: int) -> None:
        self._tree, self._first = tree, first
        self._predicted: dict[int, set[int]] = {}
        for ending in tree.steps:
            for column, token in ending:
                self._predicted.setdefault(column, set()).add(token)
        self._known: dict[tuple[int, int], tuple[float, bool]] = {}

    @property
    def scored(self) -> list[int]:
        """The places of the tokens that predict."""
        return [self._first + column for column in sorted(self._predicted)]

    def take(self, places: Sequence[int], log_probs: torch.Tensor) -> None:
        """Notes what float32 [len(places), V] say."""
        for place, row, best in zip(
            places,
            log_probs,
            log_probs.argmax(dim=-1).tolist(),
            strict=True,
        ):
            tokens = list(self._predicted[place - self._first])
            for token, value in zip(tokens, row[tokens].tolist(), strict=True):
                self._known[place - self._first, token] = value, best == token

    def endings(self) -> list[ScoredEnding]:
        """All of them, in order, once the row is read."""
        scored = []
        for ending in self._tree.steps:
            steps = [self._known[step] for step in ending]
            scored.append(
                ScoredEnding(
                    float(sum(value for value, _ in steps)), all(greedy for _, greedy in steps)
                )
            )
        return scored
