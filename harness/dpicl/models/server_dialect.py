"""What is asked of a server, and how its answer is read: what the kinds of servers share. A dialect knows no tokenizer
and no privacy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dpicl.core.errors import ModelError
from dpicl.models.server_answers import LogProbs, part, tokens
from dpicl.models.server_http import SMALL, Call
from dpicl.models.server_record import ServerKind

#: Bytes of one listed token, and characters of its text, at most.
_ENTRY, LETTERS = 400, 200

#: Sends a request and gives what its `read` makes of the answer.
Ask = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Prompt:
    """The tokens that are read. salt: of the prefix cache, where the server keeps prompts of different salts apart;
    None where nothing that was kept may be used."""

    tokens: Sequence[int]
    salt: str | None = ""


@dataclass(frozen=True)
class Writing:
    """How a text is written: greedily at temperature 0."""

    max_tokens: int
    stop: tuple[str, ...] = ()
    temperature: float = 0.0
    seed: int = 0


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. vocab_size: tokens from this id on are left out.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get, from the most on; -1 stands for all of them.
    tops: ClassVar[Sequence[int]]
    #: How many ids a request may list; 0 for none.
    lists: ClassVar[int] = 0
    #: Whether it can be told not to use what it kept of other prompts.
    can_forget: ClassVar[bool] = False

    def __init__(self, model: str, vocab_size: int) -> None:
        self.model, self.vocab_size = model, vocab_size
        self._said: str | None = None

    @abstractmethod
    async def log_probs(self, ask: Ask, prompt: Prompt, top: int, listed: Sequence[int] = ()) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    @abstractmethod
    async def text(self, ask: Ask, prompt: Prompt, how: Writing) -> str:
        """What the model writes."""

    def tokenize(self, content: str) -> Call | None:
        """Asks for the tokens of a text without any that are added; None where the server cannot be asked."""
        return None

    def _listing(self, top: int, listed: Sequence[int] = ()) -> tuple[int, int]:
        """(most tokens of an answer, most bytes): what was asked for, and the token that was drawn."""
        entries = (2 * self.vocab_size if top < 0 else top) + len(listed) + 2
        return entries, SMALL + _ENTRY * entries

    def _same_model(self, answer: Any) -> None:
        """Raises ModelError where an answer says that it is from another model than the first one was."""
        said = answer.get("model") if type(answer) is dict else None
        if type(said) is str:
            self._said = self._said or said
            if said != self._said:
                raise ModelError("The model server answers for another model than before; start the run again.")


def tokenizing(body: Mapping[str, Any], content: str, vocab_size: int) -> Call:
    """Asks `/tokenize` for the tokens of a text."""
    most = len(content.encode()) + 8
    return Call("/tokenize", body, SMALL, lambda answer: tokens(part(answer, "tokens"), vocab_size, most))


def columns(entries: Any, *names: str | int) -> list[list[Any]]:
    """What every entry of a list has under each of the names. Raises ValueError."""
    if type(entries) is not list:
        raise ValueError("no list")
    try:
        return [[entry[name] for entry in entries] for name in names]
    except (TypeError, KeyError, IndexError):
        raise ValueError("an entry lacks a part") from None
