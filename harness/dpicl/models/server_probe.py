"""What a server can do, found out by asking it public prompts when the model is loaded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

from dpicl.core.errors import ModelError, UsageError
from dpicl.models.server_answers import LogProbs, part, text, whole
from dpicl.models.server_dialect import Ask, Dialect, Prompt, Writing
from dpicl.models.server_http import Call, Connection, Refused, Unanswered
from dpicl.models.server_llama_cpp import LlamaCpp
from dpicl.models.server_openai import VLLM, OpenAI
from dpicl.models.server_record import ServerRecord
from dpicl.models.server_tokens import LlamaCppTokens, OwnTokens, Tokens

T = TypeVar("T")

#: How each kind of server is asked, and what servers call themselves in their list of models.
DIALECTS: Mapping[str, type[Dialect]] = {one.kind: one for one in (LlamaCpp, VLLM, OpenAI)}
_KINDS = {"llamacpp": "llama.cpp", "vllm": "vllm"}

#: Public prompts whose answers tell one model from another.
FIXED = (
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7,",
    "Once upon a time, there was a",
    "def add(a, b):\n    return a +",
    "Monday, Tuesday, Wednesday,",
    "The opposite of hot is",
)
#: Public texts that two tokenizers should cut alike.
TEXTS = (
    "The quick brown fox.",
    "  12 345\n\n\tx = y_1;",
    "naïve Größe 東京 🙂",
    "Topic: Business\nText: Oil prices fell",
)
#: Of many tokens, for what other requests change.
LONG = " ".join(FIXED * 3)
#: How many tokens of an answer are compared, and how often one request is sent by itself and among others.
COMPARED, TIMES = 5, 3
#: The least that log-probabilities must differ to be another model's, and how many times what was measured.
LEAST_SLACK, SLACK_FACTOR = 0.02, 2.0
#: Seconds for which one question of a probe is repeated.
PATIENCE = 20.0
#: What most servers of unknown context read at least.
CONTEXT = 2048


@dataclass(frozen=True)
class Fingerprint:
    """What a server says to the fixed prompts: log-probabilities, or texts where it gives none."""

    said: tuple[LogProbs | str, ...]

    @property
    def digest(self) -> str:
        """sha256 over the likeliest token (or text) of each, which rounding hardly changes."""
        best = [each if isinstance(each, str) else each.best for each in self.said]
        return hashlib.sha256(json.dumps(best).encode()).hexdigest()

    def distance(self, other: Fingerprint) -> float:
        """The largest difference between two log-probabilities of a token; infinity between texts that differ."""
        return max(map(distance, self.said, other.said))


def distance(one: LogProbs | str, other: LogProbs | str) -> float:
    """See `Fingerprint.distance`. A token that only one of them lists counts by the least likely one of the other."""
    if isinstance(one, str) or isinstance(other, str):
        return 0.0 if one == other else math.inf
    sides = [dict(zip(each.tokens.tolist(), each.values.tolist(), strict=True)) for each in (one, other)]
    found = 0.0
    for own, their in (sides, sides[::-1]):
        least = min(their.values())
        found = max(found, *(abs(v - their[t]) if t in their else max(0.0, v - least) for t, v in own.items()))
    return found


@dataclass(frozen=True)
class Probed:
    """A server that was probed. parameters: of its model, 0 where it does not say. slack: by how much log-probabilities
    may differ and be of the same model."""

    dialect: Dialect
    tokens: Tokens
    record: ServerRecord
    fingerprint: Fingerprint
    parameters: int

    @property
    def slack(self) -> float:
        return max(LEAST_SLACK, SLACK_FACTOR * (self.record.among or 0.0))


async def fingerprint(connection: Connection, dialect: Dialect, prompts: Sequence[Prompt], top: int) -> Fingerprint:
    """What the server says to these prompts. top: how many tokens it lists; 0: none, then texts are compared.

    Raises Refused and Unanswered.
    """
    said: list[LogProbs | str] = []
    for prompt in prompts:
        if top:
            said.append(await dialect.log_probs(connection.value, prompt, top))
        else:
            said.append(await dialect.text(connection.value, prompt, Writing(8)))
    return Fingerprint(tuple(said))


def fixed(tokens: Tokens, salt: str | None) -> list[Prompt]:
    """The fixed prompts in the model's tokens."""
    return [Prompt([*tokens.lead, *tokens.encode(text)], salt) for text in FIXED]


def compared(top: int) -> int:
    """How many tokens of an answer are compared, where it lists ``top`` (-1: all)."""
    return COMPARED if top < 0 else min(COMPARED, top)


class Probe:
    """Asks a server what it can do, by public prompts.

    Raises ModelError for one that does not answer or is none, UsageError for settings that lack something.
    """

    def __init__(self, connection: Connection, salt: str) -> None:
        self._connection, self._settings = connection, connection.settings
        self._salt = None if self._settings.cache == "no" else salt

    def run(self) -> Probed:
        """Everything that is to be known of it."""
        entry = self._model()
        kind = self._settings.kind or _KINDS.get(str(entry.get("owned_by")), "openai")
        props = self.ask(Call("/props")) if kind == "llama.cpp" else None
        tokens = self._tokens(kind, entry, props)
        dialect = DIALECTS[kind](text(entry["id"], 300), tokens.vocab_size)
        if self._salt is None and not dialect.can_forget:
            raise UsageError(f"A server of the kind {kind} cannot be told to keep nothing; leave cache=no out.")
        prompts = fixed(tokens, self._salt)
        if isinstance(dialect, LlamaCpp):
            dialect.forced = next(iter(tokens.encode(" the")), 0)
        elif isinstance(tokens, OwnTokens) and type(dialect) is OpenAI:
            dialect.texts = tokens.texts()
            if self._tried(partial(dialect.text, prompt=prompts[0], how=Writing(1))) is None:
                dialect.written = tokens.written
        top, found = self._top(dialect, prompts[0])
        if type(dialect) is OpenAI:
            dialect.least = top
        listed = self._listed(dialect, prompts[0])
        said = self._answered(fingerprint(self._connection, dialect, prompts, compared(top)))
        context = self._settings.context or _context(entry, props)
        alone, among = self._noise(dialect, tokens, compared(top), context) if top else (None, None)
        record = ServerRecord(
            kind=dialect.kind,
            model=dialect.model.rpartition("/")[2] if dialect.model.startswith("/") else dialect.model,
            token_prompts=dialect.written is None,
            vocabulary=found >= tokens.vocab_size,
            listed_ids=listed if top else 0,
            top_tokens=found,
            alone=alone,
            among=among,
            tokenizer=self._agreement(dialect, tokens),
            context=context,
            cache=self._salt is not None,
            fingerprint=said.digest,
            loopback=self._settings.loopback,
        )
        meta = entry.get("meta")
        parameters = meta.get("n_params") if type(meta) is dict else 0
        return Probed(dialect, tokens, record, said, parameters if type(parameters) is int and parameters > 0 else 0)

    def ask(self, call: Call) -> Any:
        """The answer; None where the server refuses this request. Raises ModelError where it gives no sound answer."""
        try:
            return self._connection.wait(self._connection.ask(call, PATIENCE)).value
        except Refused:
            return None
        except Unanswered as error:
            raise self._connection.silent(error) from None

    def _tried(self, work: Callable[[Ask], Coroutine[Any, Any, T]]) -> T | None:
        """What some requests give, each sent once, and again while the server is busy; None where one fails."""

        async def once(call: Call) -> Any:
            return (await self._connection.ask(call, PATIENCE, once=True)).value

        try:
            return self._connection.wait(work(once))
        except (Refused, Unanswered):
            return None

    def _answered(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._connection.wait(work)
        except (Refused, Unanswered) as error:
            raise self._connection.silent(error) from None

    def _model(self) -> dict[str, Any]:
        """What the server says of the model that is wanted, or of the only one that it has."""
        listed = self.ask(Call("/v1/models"))
        try:
            entries = part(listed, "data")
            named = {text(part(entry, "id"), 300): entry for entry in entries if type(entry) is dict}
        except (ValueError, TypeError):
            raise ModelError(
                f"{self._settings.url} does not list its models: it is no model server, or it wants an API key"
                " (?key=NAME_OF_THE_VARIABLE)."
            ) from None
        wanted = self._settings.model
        if wanted in named:
            return named[wanted]
        if wanted is not None or len(named) != 1:
            raise UsageError(
                f"The server {self._settings.url} has {len(named)} models"
                + (f", and none is called {wanted}" if wanted else "")
                + f"; name one: ?model=ID ({', '.join(sorted(named))[:300]})."
            )
        return next(iter(named.values()))

    def _tokens(self, kind: str, entry: Any, props: Any) -> Tokens:
        if self._settings.tokenizer is not None:
            return OwnTokens(self._settings.tokenizer)
        if kind != "llama.cpp":
            raise UsageError(
                f"A server of the kind {kind} needs the tokenizer of its model; add tokenizer=PATH_OR_HUB_ID to its"
                " name, the one that the server was started with."
            )
        try:
            size = whole(part(entry, "meta", "n_vocab"), 10_000_000)
            return LlamaCppTokens(self.ask, size, props)
        except ValueError:
            raise ModelError(
                f"{self._settings.url} does not say what its tokens are; give tokenizer=PATH_OR_HUB_ID, or the kind of"
                " server that it is (?kind=...)."
            ) from None

    def _top(self, dialect: Dialect, prompt: Prompt) -> tuple[int, int]:
        """(how many of the likeliest tokens to ask for, how many come): (0, 0) where there are no log-probabilities."""
        most = self._settings.top
        for top in dialect.tops if most is None else [most, *(n for n in dialect.tops if 0 < n < most)]:
            if found := self._tried(partial(dialect.log_probs, prompt=prompt, top=top)):
                return top, len(found.tokens)
        return 0, 0

    def _listed(self, dialect: Dialect, prompt: Prompt) -> int:
        """How many ids a request may list. Servers that do not know how ignore them, or refuse."""
        ids = [(at * dialect.vocab_size) // (dialect.lists + 1) for at in range(dialect.lists)]
        found = self._tried(partial(dialect.log_probs, prompt=prompt, top=1, listed=ids)) if ids else None
        return 0 if found is None else len(ids)

    def _noise(self, dialect: Dialect, tokens: Tokens, top: int, context: int) -> tuple[float, float]:
        """The largest differences between answers to one prompt: asked alone several times, and among others."""
        new = f"{secrets.token_hex(4)}: {LONG}"  # nobody has asked it before, so the first answer uses nothing kept
        long = [*tokens.lead, *tokens.encode(new)][: max(1, context - 1)]
        first, others = Prompt(long, self._salt), fixed(tokens, self._salt)

        def said(prompt: Prompt) -> Coroutine[Any, Any, LogProbs]:
            return dialect.log_probs(self._connection.value, prompt, top)

        async def largest() -> tuple[float, float]:
            base = await said(first)
            alone = [distance(base, await said(first)) for _ in range(TIMES)]
            calls = [*others[: self._settings.window - 1], first]
            among = [distance(base, (await asyncio.gather(*map(said, calls)))[-1]) for _ in range(TIMES)]
            return max(alone), max(among)

        alone, among = self._answered(largest())
        return round(alone, 9), round(among, 9)

    def _agreement(self, dialect: Dialect, tokens: Tokens) -> Literal["of the server", "agrees", "not compared"]:
        """Raises ModelError where the server cuts public texts into other tokens than the tokenizer that was given."""
        if not isinstance(tokens, OwnTokens):
            return "of the server"
        calls = [dialect.tokenize(each) for each in TEXTS]
        found = [None if call is None else self.ask(call) for call in calls]
        if None in found:
            return "not compared"
        if found != [tokens.encode(each) for each in TEXTS]:
            raise ModelError(
                f"The tokenizer {self._settings.tokenizer} is not that of the server's model: they cut the same texts"
                " into other tokens; give the one that the server was started with."
            )
        return "agrees"


def _context(entry: Any, props: Any) -> int:
    """How many tokens the server says that it reads; CONTEXT where it says nothing."""
    for answer, path in (
        (props, ("default_generation_settings", "n_ctx")),
        (entry, ("max_model_len",)),
        (entry, ("meta", "n_ctx_train")),
    ):
        with suppress(ValueError):
            return max(1, whole(part(answer, *path), 10_000_000))
    return CONTEXT
