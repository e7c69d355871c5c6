"""How a transformer is read: rows of any length packed into passes of few constant shapes, none of which sees another.

A row is a prompt, a prompt that goes on, or a query with the tree of its endings. It is cut into pieces of at most
PIECE tokens, always at the same places. A pass takes pieces of whatever rows wait, one after the other in one line of
tokens, and is filled up to one of few `Shapes`. So

* matrix products have one of few constant shapes, in which every line of the result is computed alike wherever it
  stands (`dpicl.models.pass_shapes` chooses them by measurement on the machine);
* attention is computed piece by piece, in the row's own shapes (`dpicl.models.attention`);
* everything else works number by number, or along one token's own vector.

Hence the bits of a row depend on its own tokens, and on the sequence whose keys and values it starts from: a public
prompt, or what stands before every query in the row's own slot. They do not depend on what other rows hold, how many
there are, or which jobs they belong to.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Protocol

import torch

from dpicl.core.together import Account, Service, ServiceRequest
from dpicl.models import attention
from dpicl.models.base import Usage
from dpicl.models.key_values import KeyValues, Memory

#: The most tokens of a piece.
PIECE = 256
#: The numbers of tokens that a pass may have at all.
SHAPES = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
#: The most tokens that pieces share a pass for the successors of: a row of float32 each, as wide as the vocabulary.
MOST_PREDICTED = 128
#: The numbers of tokens that the output layer may read at once.
OUTPUT_SHAPES = (16, 32, 64, 128)
#: So many pieces that do not fit are passed by in search of one that does.
LOOKED_AT = 64
#: The model as a function: (tokens[T], positions[T], the W tokens to predict from) -> logits[W, V].
Forward = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shapes:
    """Sizes in order: the numbers of tokens that a pass has (``body``; the last one holds a piece), and that the output
    layer reads at once (``output``)."""

    body: tuple[int, ...] = SHAPES
    output: tuple[int, ...] = OUTPUT_SHAPES


@dataclass
class Piece:
    """Consecutive tokens of one row, read in one pass.

    begin: how many tokens of the row come before. past: whose keys and values those are. own: where the piece's are
    kept, None where nobody needs them. seen_inside: bool[n, begin + n] for tokens of a tree, None for a plain row.
    before: the positions of the row's first ``begin`` tokens, of which some may be branches.
    wanted: the tokens after which log-probabilities are wanted; take: gets them, float32 [len(wanted), V].
    """

    tokens: Sequence[int]
    positions: Sequence[int]
    begin: int
    past: KeyValues | None
    own: KeyValues | None
    before: Sequence[int]
    seen_inside: torch.Tensor | None = None
    wanted: Sequence[int] = ()
    take: Callable[[torch.Tensor], None] = lambda log_probs: None
    _masks: dict[int | None, tuple[torch.Tensor | None, int]] = field(default_factory=dict, repr=False)

    @property
    def end(self) -> int:
        """How many tokens of the row are read after this piece."""
        return self.begin + len(self.tokens)

    def keep(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Places the piece's keys and values [1, groups, n, d] in ``own``, behind those that it may see."""
        assert self.own is not None
        if self.begin and not self.own.has(layer):
            assert self.past is not None
            self.own.put(layer, 0, *self.past.upto(layer, self.begin))
        self.own.put(layer, self.begin, keys, values)

    def seen(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [1, groups, begin + n, d] of all that this piece may see, from its own n, after `keep`."""
        if self.own is not None:
            return self.own.upto(layer, self.end)
        if self.begin == 0:
            return keys, values
        assert self.past is not None
        before = self.past.upto(layer, self.begin)
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    def mask(self, window: int | None, device: torch.device) -> tuple[torch.Tensor | None, int]:
        """What each token sees of the last ``width`` keys, bool[n, width] (None: all that come before it); and width.

        window: a token sees only those that are fewer than so many positions before it.
        """
        if window not in self._masks:
            mask, width = self._mask(window)
            self._masks[window] = (None if mask is None else mask.to(device)), width
        return self._masks[window]

    def _mask(self, window: int | None) -> tuple[torch.Tensor | None, int]:
        count, length = len(self.tokens), self.end
        if window is None or max(self.positions) < window:
            return self.seen_inside, length
        if self.seen_inside is None:
            width = min(length, count + window - 1)
            return _in_window(count, width, window), width
        inside = torch.tensor([*self.before, *self.positions])
        near = torch.tensor(list(self.positions))[:, None] - inside[None] < window
        return self.seen_inside & near, length


def row_of(
    tokens: Sequence[int],
    begin: int,
    past: KeyValues | None,
    own: KeyValues | None,
    take: Callable[[Sequence[int], torch.Tensor], None],
    tree: Branches | None = None,
    wanted: Sequence[int] = (),
) -> list[Piece]:
    """The pieces of a row's next n >= 1 tokens, which stand behind the first ``begin`` ones.

    tree: the last of these tokens are branches of a tree. wanted: after which of the n log-probabilities are wanted;
    take: gets some of these, and float32 [<=n, V].
    """
    stem = len(tokens) - (len(tree.depths) if tree else 0)
    positions = [begin + at for at in range(stem)]
    if tree:
        positions += [begin + stem - 1 + depth for depth in tree.depths]
    pieces = []
    for start in range(0, len(tokens), PIECE):
        end = min(start + PIECE, len(tokens))
        inside = [at for at in wanted if start <= at < end]
        pieces.append(
            Piece(
                tokens[start:end],
                positions[start:end],
                begin + start,
                past,
                own,
                range(begin + start) if not tree or start <= stem else [*range(begin), *positions[:start]],
                tree.seen(begin, stem, start, end) if tree and end > stem else None,
                [at - start for at in inside],
                partial(take, inside),
            )
        )
    return pieces


class Branches(Protocol):
    """The tokens of a tree behind a row: their depths, and which of the row's keys those of a piece see."""

    @property
    def depths(self) -> Sequence[int]: ...

    def seen(self, begin: int, stem: int, start: int, end: int) -> torch.Tensor:
        """bool[end - start, begin + end]"""


@lru_cache(maxsize=64)
def _in_window(count: int, width: int, window: int) -> torch.Tensor:
    plain = attention.causal(count, width, torch.device("cpu"))
    return plain & ~torch.ones(count, width, dtype=torch.bool).tril(width - count - window)


@dataclass(eq=False)
class Reading(ServiceRequest):
    """Rows that one caller waits for. left: how many pieces are not read yet."""

    rows: Sequence[Sequence[Piece]] = ()
    left: int = 0

    def needs(self) -> int:
        """Bytes of keys and values that these rows will take beyond what is held."""
        return sum(row[-1].own.needs(row[-1].end) for row in self.rows if row[-1].own is not None)


class Passes(Service):
    """Reads the pieces of all rows that wait, as many in a pass as fit.

    forward: the model. usage: counts what was read. most: the most tokens of a pass. Both this and ``memory.limit`` are
    halved when the machine runs out of memory, and the pass is done again.
    """

    def __init__(
        self, forward: Forward, memory: Memory, usage: Usage, device: torch.device, most: int, shapes: Shapes
    ) -> None:
        self._forward, self.memory, self._usage, self._device, self.most = forward, memory, usage, device, most
        self.shapes = shapes
        self._waiting: deque[Reading] = deque()
        self._ready: deque[tuple[Reading, Piece]] = deque()

    @property
    def pending(self) -> bool:
        self._forget()
        return bool(self._waiting or self._ready)

    def submit(self, request: Reading) -> None:
        request.left = sum(map(len, request.rows))
        request.done = request.left == 0
        if not request.done:
            self._waiting.append(request)

    def serve(self) -> Mapping[Account, int]:
        self._forget()
        self._admit()
        pieces = self._next()
        try:
            self._read([piece for _, piece in pieces])
        except Exception as error:
            if out_of_memory(error) and self._halve():
                self._ready.extendleft(reversed(pieces))
                return {}
            for request, _ in pieces:
                request.error, request.done = error, True
            return {}
        self._usage.forward_calls += 1
        read: dict[Account, int] = {}
        for request, piece in pieces:
            read[request.account] = read.get(request.account, 0) + len(piece.tokens)
            request.left -= 1
            request.done = request.done or request.left == 0
        self._usage.tokens_read += sum(read.values())
        return read

    def _forget(self) -> None:
        """Drops what nobody waits for any longer: a row has failed, or the job that wanted it was ended."""
        if any(request.done for request in self._waiting):
            self._waiting = deque(request for request in self._waiting if not request.done)
        if any(request.done for request, _ in self._ready):
            self._ready = deque(each for each in self._ready if not each[0].done)

    def _admit(self) -> None:
        """Lets rows in whose keys and values find a place; when nobody else could go on, the first one anyway."""
        for request in list(self._waiting):
            needs = request.needs()
            if needs and self._ready and self.memory.held + needs > self.memory.limit:
                continue
            self._waiting.remove(request)
            for row in request.rows:
                if (own := row[-1].own) is not None:
                    own.hold(max(own.room, row[-1].end))
                self._ready.extend((request, piece) for piece in row)

    def _next(self) -> list[tuple[Reading, Piece]]:
        """The pieces of the next pass: the first that waits, and of some behind it those that still fit, none before
        one that its row needs."""
        chosen, passed_by = list[tuple[Reading, Piece]](), list[tuple[Reading, Piece]]()
        tokens = predicted = 0
        held_up = set[int]()
        while self._ready and len(passed_by) < LOOKED_AT and tokens < self.most:
            request, piece = self._ready.popleft()
            fits = tokens + len(piece.tokens) <= self.most and predicted + len(piece.wanted) <= MOST_PREDICTED
            if not chosen or (fits and id(piece.own) not in held_up):
                chosen.append((request, piece))
                tokens, predicted = tokens + len(piece.tokens), predicted + len(piece.wanted)
            else:
                passed_by.append((request, piece))
                held_up |= {id(piece.own)} if piece.own else set()
        self._ready.extendleft(reversed(passed_by))
        return chosen

    @torch.inference_mode()
    def _read(self, pieces: Sequence[Piece]) -> None:
        tokens = [token for piece in pieces for token in piece.tokens]
        positions = [position for piece in pieces for position in piece.positions]
        begin, wanted = 0, list[int]()
        for piece in pieces:
            wanted += [begin + at for at in piece.wanted]
            begin += len(piece.tokens)
        with attention.reading(pieces):
            body, output = self.shapes.body, self.shapes.output
            logits = self._forward(
                self._filled(tokens, body), self._filled(positions, body), self._filled(wanted, output)
            )
        log_probs = torch.log_softmax(logits.float(), dim=-1)
        at = 0
        for piece in pieces:
            if piece.wanted:
                piece.take(log_probs[at : at + len(piece.wanted)])
            at += len(piece.wanted)

    def _filled(self, numbers: list[int], shapes: Sequence[int]) -> torch.Tensor:
        """int64[T]: the numbers, with zeros behind them up to a shape (after some times the last one, where they are so
        many); none where there is none."""
        rest = len(numbers) % shapes[-1]
        zeros = [0] * (shape_of(rest, shapes) - rest) if rest else []
        return torch.tensor(numbers + zeros, dtype=torch.long, device=self._device)

    def _halve(self) -> bool:
        """After running out of memory. Returns whether there is anything left to halve."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        smaller = [shape for shape in self.shapes.body if PIECE <= shape < self.most]
        if not smaller:
            return False
        self.most = max((shape for shape in smaller if shape <= self.most // 2), default=smaller[0])
        self.memory.limit //= 2
        _log.warning("Out of memory: passes have at most %d tokens from now on.", self.most)
        return True


def shape_of(count: int, shapes: Sequence[int]) -> int:
    """The smallest of some shapes that holds so many."""
    return shapes[bisect_left(shapes, count)]


def out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on whatever device."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)
