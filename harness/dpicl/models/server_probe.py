"""What a server can do, found out by asking it public prompts when the model is loaded."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dpicl.core.errors import ModelError, UsageError
from dpicl.models.server_dialects import (
    DIALECTS,
    Dialect,
    LlamaCpp,
    LlamaCppTokenizer,
    LogProbs,
    OpenAI,
    Prompt,
    Writing,
    part,
    text,
    whole,
)
from dpicl.models.server_http import Call, Connection, Refused, Unanswered
from dpicl.models.server_settings import ServerRecord
from dpicl.models.tokenizers import LibraryTokenizer, Tokenizer
from dpicl.models.weights import reason

#: What servers call themselves in their list of models.
_KINDS = {"llamacpp": "llama.cpp", "vllm": "vllm"}
#: Public prompts whose answers tell one model from another, and a text that two tokenizers should cut alike.
FIXED = ("The capital of France is", "1, 2, 3, 4, 5, 6, 7,", "def add(a, b):\n    return a +", "Monday, Tuesday,")
SAME_TOKENS = "The quick brown fox.\n  12 345\n\n\tx = y_1; naïve Größe 東京 🙂 Topic: Business"
#: How many tokens after such a prompt are listed.
LISTED = 5
#: Seconds for which one question of a probe is repeated; tokens that a server of unknown context reads at least.
PATIENCE, CONTEXT = 20.0, 2048


@dataclass(frozen=True)
class Probed:
    """A server that was probed. parameters: of its model, 0 where it does not say."""

    dialect: Dialect
    tokens: Tokenizer
    record: ServerRecord
    parameters: int


def fixed(tokens: Tokenizer, salt: str | None) -> list[Prompt]:
    """The fixed prompts in the model's tokens."""
    return [Prompt([*tokens.lead, *tokens.encode(text)], salt) for text in FIXED]


async def fingerprint(connection: Connection, dialect: Dialect, prompts: Sequence[Prompt], top: int) -> str:
    """sha256 over the likeliest token after each of these prompts.

    top: how many tokens the server lists (-1: all); 0: none, then over what it writes. Raises Refused and Unanswered.
    """
    ask, count, said = connection.value, LISTED if top < 0 else min(LISTED, top), list[int | str]()
    for prompt in prompts:
        found = await (dialect.log_probs(ask, prompt, count) if top else dialect.text(ask, prompt, Writing(8)))
        said.append(found if isinstance(found, str) else found.best)
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()


def probe(connection: Connection, salt: str) -> Probed:
    """Asks a server what it can do.

    Raises ModelError for one that does not answer or is none, UsageError for settings that lack something.
    """
    settings, ask = connection.settings, partial(_asked, connection)
    entry = _entry(connection, ask(Call("/v1/models")))
    kind = settings.kind or _KINDS.get(str(entry.get("owned_by")), "openai")
    props = ask(Call("/props")) if kind == "llama.cpp" else None
    tokens = _tokens(connection, kind, entry, props)
    dialect = DIALECTS[kind](text(entry["id"], 300), tokens.vocab_size)
    cache = settings.cache != "no"
    if not cache and not dialect.can_forget:
        raise UsageError(f"A server of the kind {kind} cannot be told to keep nothing; leave cache=no out.")
    if isinstance(dialect, LlamaCpp):
        dialect.forced = next(iter(tokens.encode(" the")), 0)
    elif type(dialect) is OpenAI and isinstance(tokens, LibraryTokenizer):
        dialect.texts = tokens.texts()
    prompts = fixed(tokens, salt if cache else None)
    top, top_tokens, listed = _listing(connection, dialect, prompts[0])
    if type(dialect) is OpenAI:
        dialect.least = top
    try:
        said = connection.wait(fingerprint(connection, dialect, prompts, top))
    except (Refused, Unanswered) as error:
        raise connection.silent(error) from None
    record = ServerRecord(
        kind=dialect.kind,
        model=dialect.model.rpartition("/")[2] if dialect.model.startswith("/") else dialect.model,
        vocabulary=top_tokens >= tokens.vocab_size,
        listed_ids=listed,
        top_tokens=top_tokens,
        tokenizer=_agreement(connection, dialect, tokens),
        context=settings.context or _context(entry, props),
        cache=cache,
        fingerprint=said,
        loopback=settings.loopback,
    )
    meta = entry.get("meta")
    parameters = meta.get("n_params") if type(meta) is dict else 0
    return Probed(dialect, tokens, record, parameters if type(parameters) is int and parameters > 0 else 0)


def _asked(connection: Connection, call: Call) -> Any:
    """The answer; None where the server refuses this request. Raises ModelError where it gives no sound answer."""
    try:
        return connection.wait(connection.ask(call, PATIENCE)).value
    except Refused:
        return None
    except Unanswered as error:
        raise connection.silent(error) from None


def _listing(connection: Connection, dialect: Dialect, prompt: Prompt) -> tuple[int, int, int]:
    """(how many of the likeliest tokens to ask for, -1: all; how many come; how many ids a request may list)."""

    async def once(call: Call) -> Any:
        return (await connection.ask(call, PATIENCE, once=True)).value

    def tried(top: int, listed: Sequence[int] = ()) -> LogProbs | None:
        """Each request is sent once, and again while the server is busy; None where one fails."""
        try:
            return connection.wait(dialect.log_probs(once, prompt, top, listed))
        except (Refused, Unanswered):
            return None

    most = connection.settings.top
    tops = dialect.tops if most is None else [most, *(number for number in dialect.tops if 0 < number < most)]
    for top in tops:
        if found := tried(top):
            break
    else:
        return 0, 0, 0
    # Servers that do not know how to list ids ignore or refuse them.
    ids = [(at * dialect.vocab_size) // (dialect.lists + 1) for at in range(dialect.lists)]
    can_list = ids and tried(1, ids)
    return top, len(found.tokens), len(ids) if can_list else 0


def _entry(connection: Connection, listed: Any) -> dict[str, Any]:
    """What the server says of the model that is wanted, or of the only one that it has."""
    settings = connection.settings
    try:
        named = {text(part(entry, "id"), 300): entry for entry in part(listed, "data") if type(entry) is dict}
    except (ValueError, TypeError):
        raise ModelError(
            f"{settings.url} does not list its models: it is no model server, or it wants an API key"
            " (?key=NAME_OF_THE_VARIABLE)."
        ) from None
    wanted = settings.model or next(iter(named), "")
    if wanted not in named or (settings.model is None and len(named) > 1):
        raise UsageError(
            f"The server {settings.url} has {len(named)} models"
            + (f", and none is called {settings.model}" if settings.model else "")
            + f"; name one: ?model=ID ({', '.join(sorted(named))[:300]})."
        )
    return named[wanted]


def _tokens(connection: Connection, kind: str, entry: Any, props: Any) -> Tokenizer:
    """The tokenizer that was named; that of llama.cpp's server where none was. No code that comes with it is run."""
    if source := connection.settings.tokenizer:
        from transformers import AutoTokenizer

        try:
            tokenizer: Any = AutoTokenizer.from_pretrained(source, trust_remote_code=False)
            if tokenizer.eos_token_id is None:
                raise ValueError("it has no EOS token")
            return LibraryTokenizer(tokenizer)
        except Exception as error:  # whatever two libraries raise for a file that is damaged or missing
            raise ModelError(
                f"The tokenizer {source} cannot be loaded ({reason(error)}); give the folder or hub id of the model"
                " that the server runs."
            ) from error
    if kind != "llama.cpp":
        raise UsageError(
            f"A server of the kind {kind} needs the tokenizer of its model; add tokenizer=PATH_OR_HUB_ID to its name,"
            " the one that the server was started with."
        )
    try:
        return LlamaCppTokenizer(partial(_asked, connection), whole(part(entry, "meta", "n_vocab"), 10_000_000), props)
    except ValueError:
        raise ModelError(
            f"{connection.settings.url} does not say what its tokens are; give tokenizer=PATH_OR_HUB_ID, or the kind of"
            " server that it is (?kind=...)."
        ) from None


def _agreement(connection: Connection, dialect: Dialect, tokens: Tokenizer) -> Any:
    """Raises ModelError where the server cuts a public text into other tokens than the tokenizer that was given."""
    if not isinstance(tokens, LibraryTokenizer):
        return "of the server"
    call = dialect.tokenize(SAME_TOKENS)
    found = None if call is None else _asked(connection, call)
    if found is not None and found != tokens.encode(SAME_TOKENS):
        raise ModelError(
            f"The tokenizer {connection.settings.tokenizer} is not that of the server's model: they cut the same text"
            " into other tokens; give the one that the server was started with."
        )
    return "agrees" if found else "not compared"


def _context(entry: Any, props: Any) -> int:
    """How many tokens the server says that it reads; CONTEXT where it says nothing."""
    path = ("default_generation_settings", "n_ctx")
    for answer, where in ((props, path), (entry, ("max_model_len",)), (entry, ("meta", "n_ctx_train"))):
        with suppress(ValueError):
            return max(1, whole(part(answer, *where), 10_000_000))
    return CONTEXT
