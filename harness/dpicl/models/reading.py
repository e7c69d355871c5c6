"""Reads a transformer: rows of any length, packed into passes of few constant shapes, none of which sees another.

A row is a prompt, a prompt that goes on, or a query with the tree of its endings. It is cut into pieces of at most
PIECE tokens, always at the same places. A pass takes pieces of whatever rows wait, one after the other in one line of
tokens, and is filled up to one of few `Shapes`. So

* matrix products have one of few constant shapes, in which every line of the result is computed alike wherever it
  stands (`dpicl.models.pass_shapes` chooses them by measurement on the machine);
* attention is computed for each piece by itself, in the row's own shapes (`dpicl.models.attention`);
* everything else works number by number, or along one token's own vector.

Hence the bits of a row depend on its own tokens, and on the sequence whose keys and values it starts from: a public
prompt, or what stands before every query in the row's own slot. They do not depend on what other rows hold, how many
there are, or which jobs they belong to.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from dpicl.core.together import Service, ServiceRequest
from dpicl.models import attention
from dpicl.models.base import Usage
from dpicl.models.pieces import PIECE, Memory, Piece

#: The numbers of tokens among which a pass's are chosen.
SHAPES = (16, 32, 64, 128, 256, 384, 512, 768, 1024)
#: More of them, which passes have too where they change no bit of the chosen ones: less is filled up.
BETWEEN = (48, 96, 192, 320, 448, 576, 640, 704, 832, 896, 960)
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


@dataclass(eq=False)
class Reading(ServiceRequest):
    """Rows that one caller waits for. left: how many pieces are not read yet."""

    rows: Sequence[Sequence[Piece]] = ()
    left: int = 0

    def count_bytes(self) -> int:
        """Bytes of keys and values that these rows will take beyond what is held."""
        return sum(
            row[-1].store.count_bytes(row[-1].end) for row in self.rows if row[-1].store is not None
        )


class Passes(Service):
    """Reads the pieces of all rows that wait, as many in a pass as fit.

    forward: the model. usage: counts what was read. The most tokens of a pass (``most``) and ``memory.limit`` are
    halved when the machine runs out of memory, and the pass is done again.
    """

    def __init__(
        self,
        forward: Forward,
        memory: Memory,
        usage: Usage,
        device: torch.device,
        shapes: Shapes,
    ) -> None:
        self._forward, self.memory, self._usage, self._device = forward, memory, usage, device
        self.shapes, self.most = shapes, shapes.body[-1]
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

    def serve(self) -> None:
        self._forget()
        self._admit()
        pieces = self._next()
        try:
            self._read([piece for _, piece in pieces])
        except Exception as error:
            if is_out_of_memory(error) and self._halve():
                self._ready.extendleft(reversed(pieces))
                return
            for request, _ in pieces:
                request.error, request.done = error, True
            return
        self._usage.forward_calls += 1
        for request, piece in pieces:
            self._usage.tokens_read += len(piece.tokens)
            request.left -= 1
            request.done = request.done or request.left == 0

    def _forget(self) -> None:
        """Drops what nobody waits for any longer: a row has failed, or the job that wanted it was ended."""
        if any(request.done for request in self._waiting):
            self._waiting = deque(request for request in self._waiting if not request.done)
        if any(request.done for request, _ in self._ready):
            self._ready = deque(each for each in self._ready if not each[0].done)

    def _admit(self) -> None:
        """Lets rows in whose keys and values find a place; when nobody else could go on, the first one anyway."""
        for request in list(self._waiting):
            needs = request.count_bytes()
            if needs and self._ready and self.memory.held + needs > self.memory.limit:
                continue
            self._waiting.remove(request)
            for row in request.rows:
                if (store := row[-1].store) is not None:
                    store.hold(max(store.room, row[-1].end))
                self._ready.extend((request, piece) for piece in row)

    def _next(self) -> list[tuple[Reading, Piece]]:
        """The pieces of the next pass: the first that waits, and of some behind it those that still fit, none before
        one that its row needs."""
        chosen = list[tuple[Reading, Piece]]()
        passed_by = list[tuple[Reading, Piece]]()
        tokens = predicted = 0
        held_up = set[int]()
        while self._ready and len(passed_by) < LOOKED_AT and tokens < self.most:
            request, piece = self._ready.popleft()
            fits = (
                tokens + len(piece.tokens) <= self.most
                and predicted + len(piece.scored) <= MOST_PREDICTED
            )
            if not chosen or (fits and id(piece.store) not in held_up):
                chosen.append((request, piece))
                tokens, predicted = tokens + len(piece.tokens), predicted + len(piece.scored)
            else:
                passed_by.append((request, piece))
                held_up |= {id(piece.store)} if piece.store else set()
        self._ready.extendleft(reversed(passed_by))
        return chosen

    @torch.inference_mode()
    def _read(self, pieces: Sequence[Piece]) -> None:
        tokens = [token for piece in pieces for token in piece.tokens]
        positions = [position for piece in pieces for position in piece.positions]
        begin, scored = 0, list[int]()
        for piece in pieces:
            scored += [begin + at for at in piece.scored]
            begin += len(piece.tokens)
        with attention.reading(pieces):
            body, output = self.shapes.body, self.shapes.output
            logits = self._forward(
                self._fill_up(tokens, body),
                self._fill_up(positions, body),
                self._fill_up(scored, output),
            )
        logits, words = logits.float(), logits.shape[1]
        # it sums a line by fours, beginning where memory is aligned: all lines begin alike
        if logits.is_cuda:
            logits = torch.nn.functional.pad(
                logits,
                (0, -words % 4),
                value=-torch.inf,
            )
        log_probs = torch.log_softmax(logits, dim=-1)[: len(scored), :words].cpu()
        at = 0
        for piece in pieces:
            if piece.scored:
                piece.take(log_probs[at : at + len(piece.scored)])
            at += len(piece.scored)

    def _fill_up(self, numbers: list[int], shapes: Sequence[int]) -> torch.Tensor:
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


def is_out_of_memory(error: Exception) -> bool:
    """Whether an allocation failed, on whatever device."""
    return isinstance(
        error, (MemoryError, torch.OutOfMemoryError)
    ) or "can't allocate memory" in str(error)
