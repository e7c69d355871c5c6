"""What a server can do, found out by asking it public prompts when the model is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from dpicl.core.errors import ModelError, UsageError
from dpicl.models.server_dialects import DIALECTS, Ask, Dialect, LlamaCpp, ModelList, Prompt, Props, ServedModel
from dpicl.models.server_http import Call, Connection, Refused, Unanswered
from dpicl.models.server_settings import ServerKind, ServerRecord, ServerSettings
from dpicl.models.tokenizers import Tokenizer, load_tokenizer

#: What servers call themselves in their list of models.
_KINDS: Mapping[str, ServerKind] = {"llamacpp": "llama.cpp", "vllm": "vllm"}
#: Public prompts whose likeliest next tokens tell one model from another, and a text that two tokenizers should cut
#: alike.
FIXED = ("The capital of France is", "1, 2, 3, 4, 5, 6, 7,", "def add(a, b):\n    return a +", "Monday, Tuesday,")
SAME_TOKENS = "The quick brown fox.\n  12 345\n\n\tx = y_1; naïve Größe 東京 🙂 Topic: Business"
#: How many tokens after such a prompt are listed.
LISTED = 5
#: Seconds for which one question of a probe is repeated; tokens that a server reads that does not say how many.
PATIENCE, CONTEXT = 10.0, 2048


class Probed(NamedTuple):
    """A server that was probed. public: a prompt that it answers. parameters: of its model, 0 where it does not say."""

    dialect: Dialect
    tokens: Tokenizer
    record: ServerRecord
    public: Prompt
    parameters: int


def probe(connection: Connection, salt: str) -> Probed:
    """Asks a server what it can do. salt: of the public prompts.

    Raises ModelError for one that does not answer or is none, UsageError for settings that lack something.
    """
    ask: Ask = partial(connection.ask, patience=PATIENCE)
    try:
        return connection.wait(_probe(connection.settings, ask, salt))
    except Refused:
        raise ModelError(
            f"{connection.settings.url} is no model server of a kind that is known (llama.cpp, vLLM), or gives no"
            " log-probabilities, or wants an API key (?key=NAME_OF_THE_VARIABLE)."
        ) from None
    except Unanswered as error:
        raise connection.silent(error) from None


async def _probe(settings: ServerSettings, ask: Ask, salt: str) -> Probed:
    served = _served(settings, await ask(Call("/v1/models", ModelList.model_validate_json)))
    if settings.tokenizer is None:
        raise UsageError(
            "A server needs the tokenizer of its model; add tokenizer=PATH_OR_HUB_ID to its name, the one that the"
            " server was started with."
        )
    kind, tokens = settings.kind or _KINDS.get(served.owned_by, "vllm"), load_tokenizer(settings.tokenizer)
    context = settings.context or served.max_model_len or CONTEXT
    dialect = DIALECTS[kind](served.id, tokens.vocab_size)
    if isinstance(dialect, LlamaCpp):
        dialect.forced = next(iter(tokens.encode(" the")), 0)
        props = await ask(Call("/props", Props.model_validate_json))
        context = settings.context or props.default_generation_settings.n_ctx
    if await ask(dialect.tokenize(SAME_TOKENS)) != tokens.encode(SAME_TOKENS):
        raise ModelError(
            f"The tokenizer {settings.tokenizer} is not that of the server's model: they cut the same text into other"
            " tokens; give the one that the server was started with."
        )
    cache = settings.cache != "no"
    prompts = [Prompt([*tokens.lead, *tokens.encode(text)], salt if cache else None) for text in FIXED]
    top, shown = await _likeliest(dialect, ask, prompts[0], settings.top)
    listed = LISTED if top < 0 else min(LISTED, top)
    said = [(await dialect.log_probs(ask, prompt, listed)).best for prompt in prompts]
    record = ServerRecord(
        kind=kind,
        model=served.id.rpartition("/")[2] if served.id.startswith("/") else served.id,
        vocabulary=shown >= tokens.vocab_size,
        listed_ids=await _listed(dialect, ask, prompts[0]),
        top_tokens=shown,
        tokenizer="agrees",
        context=context,
        cache=cache,
        fingerprint=hashlib.sha256(json.dumps(said).encode()).hexdigest(),
        loopback=settings.loopback,
    )
    return Probed(dialect, tokens, record, prompts[0], served.meta.n_params)


async def _likeliest(dialect: Dialect, ask: Ask, prompt: Prompt, most: int | None) -> tuple[int, int]:
    """(how many of the likeliest tokens to ask for, -1: all; how many come). Raises Refused where none do."""
    tops = dialect.tops if most is None else [most, *(number for number in dialect.tops if 0 < number < most)]
    for top in tops:
        with suppress(Refused, Unanswered):
            return top, len((await dialect.log_probs(ask, prompt, top)).tokens)
    raise Refused("it lists no token")


async def _listed(dialect: Dialect, ask: Ask, prompt: Prompt) -> int:
    """How many ids a request may list; 0 for a server that ignores or refuses them."""
    with suppress(Refused, Unanswered):
        await dialect.log_probs(
            ask, prompt, 1, [at * dialect.vocab_size // dialect.lists for at in range(dialect.lists)]
        )
        return dialect.lists
    return 0


def _served(settings: ServerSettings, listed: ModelList) -> ServedModel:
    """What the server says of the model that is wanted, or of the only one that it has."""
    named = {each.id: each for each in listed.data}
    wanted = settings.model or next(iter(named))
    if wanted not in named or (settings.model is None and len(named) > 1):
        raise UsageError(
            f"The server {settings.url} has {len(named)} models"
            + (f", and none is called {settings.model}" if settings.model else "")
            + f"; name one: ?model=ID ({', '.join(sorted(named))[:300]})."
        )
    return named[wanted]
