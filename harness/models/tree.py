"""Tree attention: all endings of a query in one pass, each token seeing the query and its own ancestors only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from dpicl.harness.models.reading import Layout


class ScoredEnding(NamedTuple):
    """Sum of natural-log probabilities of an ending, and whether each of its tokens was the likeliest one."""

    log_prob: float
    greedy: bool


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
            tuple((columns[tuple(ending[:at])], int(ending[at])) for at in range(len(ending))) for ending in endings
        )
        return cls(
            tuple(node[-1] for node in nodes),
            tuple(columns[node[:-1]] for node in nodes),
            tuple(len(node) for node in nodes),
            steps,
        )

    def ancestors(self) -> torch.Tensor:
        """bool[N, N]: the tokens of the tree that each token sees, itself among them."""
        seen = torch.eye(len(self.tokens), dtype=torch.bool)
        for node, parent in enumerate(self.parents):
            if parent:
                seen[node] |= seen[parent - 1]
        return seen


@dataclass(frozen=True)
class Grafted:
    """Queries with their trees: tokens, positions int64[B, W + N]; mask bool[B, W + N, P + W + N] or None."""

    tokens: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor | None
    kept: int


def graft(layout: Layout, trees: Sequence[Tree]) -> Grafted:
    """Puts each query's tree after it, padded on the right to N tokens; the last 1 + N columns predict."""
    size = max(len(tree.tokens) for tree in trees)
    mask = layout.causal_mask()
    if size == 0:
        return Grafted(layout.tokens, layout.positions, mask, 1)
    rows, width = layout.tokens.shape
    device = layout.tokens.device
    past = layout.past.shape[1]
    tokens = torch.zeros(rows, size, dtype=torch.long)
    depths = torch.zeros(rows, size, dtype=torch.long)
    seen = torch.zeros(rows, size, size, dtype=torch.bool)
    for row, tree in enumerate(trees):
        count = len(tree.tokens)
        tokens[row, :count] = torch.tensor(tree.tokens, dtype=torch.long)
        depths[row, :count] = torch.tensor(tree.depths, dtype=torch.long)
        seen[row, :count, :count] = tree.ancestors()
    full = torch.zeros(rows, width + size, past + width + size, dtype=torch.bool, device=device)
    causal = torch.ones(width, width, dtype=torch.bool, device=device).tril().expand(rows, -1, -1)
    full[:, :width, : past + width] = causal if mask is None else mask
    full[:, width:, : past + width] = layout.visible[:, None, :]
    full[:, width:, past + width :] = seen.to(device)
    positions = layout.positions[:, -1:] + depths.to(device)
    return Grafted(
        torch.cat([layout.tokens, tokens.to(device)], dim=1),
        torch.cat([layout.positions, positions], dim=1),
        full,
        1 + size,
    )


def read_off(logits: torch.Tensor, trees: Sequence[Tree]) -> list[list[ScoredEnding]]:
    """The scores of all endings, from float32 logits[B, 1 + N, V] of the root and the tree's tokens."""
    triples = [(row, *step) for row, tree in enumerate(trees) for ending in tree.steps for step in ending]
    rows, columns, tokens = torch.tensor(triples, dtype=torch.long, device=logits.device).reshape(-1, 3).unbind(1)
    log_probs = (logits[rows, columns, tokens] - torch.logsumexp(logits, dim=-1)[rows, columns]).tolist()
    greedy = (logits.argmax(dim=-1)[rows, columns] == tokens).tolist()
    result, at = [], 0
    for tree in trees:
        scores = []
        for ending in tree.steps:
            span = slice(at, at + len(ending))
            scores.append(ScoredEnding(float(sum(log_probs[span])), all(greedy[span])))
            at = span.stop
        result.append(scores)
    return result
