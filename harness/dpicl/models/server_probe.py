"""Probes what a server can do with public prompts, when its model is loaded; and whether it is still the same later."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dpicl.core.errors import ModelError, UsageError
from dpicl.models.listing import Listing, LogProbs, Unsound, Writing
from dpicl.models.server_dialects import (
    VLLM,
    Ask,
    Dialect,
    LlamaCpp,
    ModelList,
    OpenAI,
    Prompt,
    Props,
    ServedModel,
    Version,
)
from dpicl.models.server_http import Call, Connection, Refused, Unanswered
from dpicl.models.server_settings import ServerRecord, ServerSettings
from dpicl.models.tokenizers import ByteTokenizer, load_tokenizer

#: Public prompts whose likeliest next tokens tell one model from another, and a text that two tokenizers should cut
#: alike.
FIXED = (
    "The capital of France is",
    "1, 2, 3, 4, 5, 6, 7,",
    "def add(a, b):\n    return a +",
    "Monday, Tuesday,",
)
SAME_TOKENS = "The quick brown fox.\n  12 345\n\n\tx = y_1; naïve Größe 東京 🙂 Topic: Business"
#: Seconds for which one question of a probe is repeated; tokens that a server reads that does not say how many.
PATIENCE, CONTEXT = 10.0, 2048
#: Requests of each kind that are sent at the same time, to see whether a server computes them together.
BURST = 8
#: How far the log-probability of one token moves between two requests, at most; and how much of that is nothing.
MOST_MOVED, SHARED_ROUNDING = 1.0, 1e-6
#: How often a server that says something else is looked at before it counts as another one: roundings move.
LOOKS = 3
#: The text that stands for a model which gives no log-probabilities.
_ONE_TOKEN = Writing(1, 0.0)


@dataclass(frozen=True)
class Probed:
    """What a probe found. parameters: of the model, 0 where the server does not say. about: what the server says of
    itself. prompts: the FIXED ones. ids: that a request lists, as many as it may."""

    settings: ServerSettings
    dialect: Dialect
    record: ServerRecord
    parameters: int
    about: Mapping[str, object]
    prompts: Sequence[Prompt]
    ids: Sequence[int]

    async def verify(self, ask: Ask) -> None:
        """Raises ModelError, with what differs, for a server that is not what it was."""
        for _ in range(LOOKS):
            difference = await self._find_difference(ask)
            if not difference:
                return
        raise ModelError(
            f"The model server {self.settings.url} is not what it was when its model was loaded: {difference}; start it"
            " as before, or run again with what it is now (finished cells are kept)."
        )

    async def _find_difference(self, ask: Ask) -> str:
        """What is not as it was, in words; "" where nothing is."""
        served = _find_served(
            self.settings, await ask(Call("/v1/models", ModelList.model_validate_json))
        )
        about = await _describe(self.dialect, served, ask)
        for name, value in about.items():
            if value != self.about[name]:
                return f"its {name} was {self.about[name]}, and is {value}"
        top = -1 if self.record.vocabulary else self.record.top_tokens
        try:
            fingerprint = await look(self.dialect, ask, self.prompts, top, self.ids)
        except Refused:
            try:
                await look(self.dialect, ask, self.prompts, top, ())
            except Refused:
                return f"it gave its {self.record.top_tokens} likeliest tokens, and refuses to"
            return f"it gave log-probabilities of {self.record.listed_ids} listed tokens, and refuses to"
        return (
            ""
            if fingerprint == self.record.fingerprint
            else "its answers to fixed public prompts are those of another model"
        )


async def look(
    dialect: Dialect,
    ask: Ask,
    prompts: Sequence[Prompt],
    top: int,
    ids: Sequence[int],
) -> str:
    """sha256 over what the model says to the prompts. One request is for ``top`` tokens, and one for the listed
    ``ids``, so that all that the server can do is tried."""
    if isinstance(dialect, OpenAI):
        texts = [await dialect.text(ask, prompt, _ONE_TOKEN) for prompt in prompts]
        return hashlib.sha256(json.dumps(texts).encode()).hexdigest()
    first, second, *rest = prompts
    rows = [
        await dialect.log_probs(ask, first, top),
        await dialect.log_probs(ask, second, 1, ids),
    ]
    rows += [await dialect.log_probs(ask, prompt, 1) for prompt in rest]
    return hashlib.sha256(json.dumps([row.best for row in rows]).encode()).hexdigest()


def probe(settings: ServerSettings, salt: str) -> Probed:
    """What a server can do, and how it is asked. salt: of public prompts.

    Raises ModelError for one that does not answer or is none, UsageError for settings that lack something.
    """
    patient = settings.model_copy(update={"patience": min(PATIENCE, settings.patience)})
    connection = Connection(patient, Dialect.window)
    probed: Probed
    try:
        (probed,) = connection.answers([partial(_probe, connection, salt)])
    except Refused:
        raise ModelError(
            f"{settings.url} is not a supported model server (llama.cpp, vLLM, or one with OpenAI's completions), or"
            " gives no log-probabilities, or wants an API key (?key=NAME_OF_THE_VARIABLE)."
        ) from None
    except (Unanswered, Unsound) as error:
        raise connection.silence_error(error) from None
    return probed


async def _probe(connection: Connection, salt: str) -> Probed:
    settings, ask = connection.settings, connection.ask
    served = _find_served(settings, await ask(Call("/v1/models", ModelList.model_validate_json)))
    if (key := settings.secret()) and key in served.id:
        raise UsageError(
            f"The server {settings.url} has its API key in the name of its model; give the model another."
        )
    dialect = await _choose_dialect(settings, served, ask)
    tokens, cache = dialect.tokens, settings.cache != "no"
    prompts = [
        Prompt([*tokens.lead, *tokens.encode(text)], salt if cache else None) for text in FIXED
    ]
    about = await _describe(dialect, served, ask)
    top_tokens = await _find_most(dialect, ask, prompts[0], settings.top)
    ids = sorted({at * dialect.vocab_size // dialect.lists for at in range(dialect.lists)})
    if not await _count_shown(dialect, ask, prompts[0], 1, ids):
        ids = []
    whole = top_tokens >= tokens.vocab_size
    together = prompts[: connection.window]
    dialect.shares = await _try_shared(dialect, ask, together, min(top_tokens, 20))
    record = ServerRecord(
        kind=dialect.kind,
        version=about["version"],
        model=served.id.rpartition("/")[2] if served.id.startswith("/") else served.id,
        vocabulary=whole,
        listed_ids=dialect.lists if ids else 0,
        top_tokens=top_tokens,
        mixes=await _try_mixed(
            dialect,
            connection,
            prompts[0],
            min(top_tokens, 20),
            ids[:8],
        ),
        context=settings.context or about["context"] or CONTEXT,
        cache=cache,
        fingerprint=await look(dialect, ask, prompts, -1 if whole else top_tokens, ids),
        loopback=settings.loopback,
        tokenizer=tokens.digest,
    )
    return Probed(settings, dialect, record, served.parameters, about, prompts, ids)


async def _choose_dialect(settings: ServerSettings, served: ServedModel, ask: Ask) -> Dialect:
    """How the server is asked. Raises UsageError and ModelError for a tokenizer that is missing, or another model's."""
    if settings.tokenizer is None:
        if served.owned_by in ("llamacpp", "vllm"):
            raise UsageError(
                "A server needs the tokenizer of its model; add tokenizer=PATH_OR_HUB_ID to its name, the one that the"
                " server was started with."
            )
        return OpenAI(served.id, ByteTokenizer())
    tokens = load_tokenizer(settings.tokenizer)
    dialect = (LlamaCpp if served.owned_by == "llamacpp" else VLLM)(served.id, tokens)
    try:
        same = await ask(dialect.tokenize(SAME_TOKENS)) == tokens.encode(SAME_TOKENS)
    except Refused:
        return OpenAI(served.id, tokens)
    if not same:
        raise ModelError(
            f"The tokenizer {settings.tokenizer} is not that of the server's model: they cut the same text into other"
            " tokens; give the one that the server was started with."
        )
    return dialect


async def _describe(dialect: Dialect, served: ServedModel, ask: Ask) -> dict[str, Any]:
    """The model's id, the tokens that the server reads (None: it does not say) and its version ("")."""
    context, version = served.max_model_len, ""
    if isinstance(dialect, LlamaCpp):
        props = await ask(Call("/props", Props.model_validate_json))
        context, version = context or props.context, props.version
    elif isinstance(dialect, VLLM):
        with suppress(Refused, Unanswered):
            version = (await ask(Call("/version", Version.model_validate_json))).version
    return {"model": served.id, "context": context, "version": version[:100]}


async def _count_shown(
    dialect: Dialect,
    ask: Ask,
    prompt: Prompt,
    top: int,
    listed: Sequence[int] = (),
) -> int:
    """How many tokens are given; 0 where that is refused or ignored."""
    with suppress(Refused, Unanswered, Unsound):
        return len((await dialect.log_probs(ask, prompt, top, listed)).tokens)
    return 0


async def _find_most(
    dialect: Dialect,
    ask: Ask,
    prompt: Prompt,
    most: int | None,
) -> int:
    """How many of the likeliest tokens can be had, ``most`` at most; 0 of a server that writes texts alone. Raises
    Refused where none can."""
    if isinstance(dialect, OpenAI):
        return 0
    for top in dialect.tops_below(most):
        shown = await _count_shown(dialect, ask, prompt, top)
        # it pads its output layer
        if isinstance(dialect, VLLM) and 0 < shown < top == dialect.vocab_size:
            dialect.whole = -1
            shown = await _count_shown(dialect, ask, prompt, -1) or shown
        if shown:
            return shown
    raise Refused("it lists no token")


async def _try_mixed(
    dialect: Dialect, connection: Connection, prompt: Prompt, top: int, ids: Sequence[int]
) -> bool | None:
    """Whether all answers are sound where requests for the likeliest tokens and for listed ones come at the same time;
    None for a server that is not asked for both, or sends other errors."""
    if not isinstance(dialect, VLLM) or not ids or connection.window < 2:
        return None

    async def ask_at_once(call: Call) -> object:
        return await connection.fetch(replace(call, phase=""))

    kinds: Sequence[Sequence[int]] = [(), ids]
    calls = [
        dialect.log_probs(
            ask_at_once,
            prompt,
            top,
            listed,
        )
        for _ in range(BURST)
        for listed in kinds
    ]
    answers = await asyncio.gather(*calls, return_exceptions=True)
    if any(getattr(error, "unsound", False) for error in answers):
        return False
    return None if any(isinstance(error, BaseException) for error in answers) else True


async def _try_shared(dialect: Dialect, ask: Ask, prompts: Sequence[Prompt], top: int) -> bool:
    """Whether each of several prompts in one request gets what it gets alone."""
    if not isinstance(dialect, VLLM) or prompts[0].salt is None or len(prompts) < 2:
        return False
    want = Listing(top)
    alone = [await dialect.log_probs(ask, prompt, top) for prompt in prompts]
    try:
        shared = await dialect.answer_all(ask, prompts, want)
    except (Refused, Unanswered, Unsound):
        return False
    if not all(isinstance(row, LogProbs) for row in shared):
        return False
    distances = [
        [abs(row.values.max() - other.of(row.best, dialect.vocab_size)) for other in shared]
        for row in alone
    ]
    # rounding moves equal ones a little
    return all(
        row[at] <= min(row) + SHARED_ROUNDING and row[at] <= MOST_MOVED
        for at, row in enumerate(distances)
    )


def _find_served(settings: ServerSettings, listed: ModelList) -> ServedModel:
    """What the server says of the model that is wanted, or of the only one that it has."""
    fitting = {each.id: each for each in listed.data if settings.model in (None, each.id)}
    if len(fitting) != 1:
        known = ", ".join(sorted(each.id for each in listed.data))[:300]
        raise UsageError(
            f"The server {settings.url} has {f'these models: {known}' if known else 'no model'}; name one of them by"
            f" ?model=ID{f', none is called {settings.model}' if settings.model else ''}."
        )
    return fitting.popitem()[1]
