"""Probes what a server can do with public prompts, when its model is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from dpicl.core.errors import ModelError, UsageError
from dpicl.models.server_dialects import VLLM, Ask, Dialect, LlamaCpp, ModelList, Prompt, Props, ServedModel
from dpicl.models.server_http import Call, Connection, Refused, Unanswered
from dpicl.models.server_settings import ServerRecord, ServerSettings
from dpicl.models.tokenizers import load_tokenizer

#: Public prompts whose likeliest next tokens tell one model from another, and a text that two tokenizers should cut
#: alike.
FIXED = ("The capital of France is", "1, 2, 3, 4, 5, 6, 7,", "def add(a, b):\n    return a +", "Monday, Tuesday,")
SAME_TOKENS = "The quick brown fox.\n  12 345\n\n\tx = y_1; naïve Größe 東京 🙂 Topic: Business"
#: Seconds for which one question of a probe is repeated; tokens that a server reads that does not say how many.
PATIENCE, CONTEXT = 10.0, 2048


def probe(settings: ServerSettings, salt: str) -> tuple[Dialect, ServerRecord, int]:
    """How a server is asked, what it can do, and the parameters of its model (0: not said). salt: of public prompts.

    Raises ModelError for one that does not answer or is none, UsageError for settings that lack something.
    """
    connection = Connection(settings.model_copy(update={"patience": min(PATIENCE, settings.patience)}))
    found: tuple[Dialect, ServerRecord, int]
    try:
        (found,) = connection.answers([partial(_probe, settings, connection.ask, salt)])
    except Refused:
        raise ModelError(
            f"{settings.url} is not a supported model server (llama.cpp, vLLM), or gives no"
            " log-probabilities, or wants an API key (?key=NAME_OF_THE_VARIABLE)."
        ) from None
    except Unanswered as error:
        raise connection.silence_error(error) from None
    return found


async def _probe(settings: ServerSettings, ask: Ask, salt: str) -> tuple[Dialect, ServerRecord, int]:
    served = _find_served(settings, await ask(Call("/v1/models", ModelList.model_validate_json)))
    if (key := settings.secret()) and key in served.id:
        raise UsageError(f"The server {settings.url} has its API key in the name of its model; give the model another.")
    tokens, context = load_tokenizer(settings.tokenizer), settings.context or served.max_model_len
    dialect = (LlamaCpp if served.owned_by == "llamacpp" else VLLM)(served.id, tokens)
    if context is None and dialect.kind == "llama.cpp":
        context = (await ask(Call("/props", Props.model_validate_json))).context
    if await ask(dialect.tokenize(SAME_TOKENS)) != tokens.encode(SAME_TOKENS):
        raise ModelError(
            f"The tokenizer {settings.tokenizer} is not that of the server's model: they cut the same text into other"
            " tokens; give the one that the server was started with."
        )
    cache = settings.cache != "no"
    prompts = [Prompt([*tokens.lead, *tokens.encode(text)], salt if cache else None) for text in FIXED]

    async def count_shown(top: int, listed: Sequence[int] = ()) -> int:
        """How many tokens are given; 0 where that is refused or ignored."""
        with suppress(Refused, Unanswered):
            return len((await dialect.log_probs(ask, prompts[0], top, listed)).tokens)
        return 0

    top_tokens = 0
    for top in dialect.tops_below(settings.top):
        top_tokens = top_tokens or await count_shown(top)
    if not top_tokens:
        raise Refused("it lists no token")
    lists = await count_shown(1, [at * dialect.vocab_size // dialect.lists for at in range(dialect.lists)])
    said = [(await dialect.log_probs(ask, prompt, 1)).best for prompt in prompts]
    record = ServerRecord(
        kind=dialect.kind,
        model=served.id.rpartition("/")[2] if served.id.startswith("/") else served.id,
        vocabulary=top_tokens >= tokens.vocab_size,
        listed_ids=dialect.lists if lists else 0,
        top_tokens=top_tokens,
        context=context or CONTEXT,
        cache=cache,
        fingerprint=hashlib.sha256(json.dumps(said).encode()).hexdigest(),
        loopback=settings.loopback,
    )
    return dialect, record, served.parameters


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
