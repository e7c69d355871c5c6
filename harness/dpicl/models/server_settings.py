"""Parses ``server:URL?key=value&...`` and ``server:NAME``, and describes a server's capabilities for results.

Private prompts are sent to that address. So nothing but an explicit name leads to one, plain http goes to this machine
only (unless DPICL_PLAIN_HTTP=1), and a key comes from an environment variable, whose name is all that is written down.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Collection
from typing import Annotated, Literal, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from dpicl.core.errors import UsageError, unknown_name
from dpicl.core.field_types import Count, Positive, written_if_set
from dpicl.core.plain_words import problem_words

#: Set to 1, it allows http to other machines, where everybody on the way can read the prompts.
PLAIN_HTTP = "DPICL_PLAIN_HTTP"
#: DPICL_SERVER_NAME holds the address of ``server:name``, with what may follow it.
NAMED = "DPICL_SERVER_"
#: Servers whose requests are known.
ServerKind = Literal["llama.cpp", "vllm", "openai"]
EXAMPLE = "server:http://127.0.0.1:8080?tokenizer=PATH_OR_HUB_ID"

#: Settings that decide how fast a server is asked, and nothing of what it answers.
SPEED = ("window", "timeout", "patience")

Settings = TypeVar("Settings", bound=BaseModel)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def _base(url: str) -> str:
    """The base of an address, without /v1 at its end. Raises UsageError for one that is no plain address of a host."""
    try:
        parts = urlsplit(url)
        sound = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and parts.port != 0
            and not parts.fragment
        )
    except ValueError:
        sound = False
    if (
        not sound
        or "@" in unquote(parts.netloc)
        or " " in url
        or not url.isascii()
        or not url.isprintable()
    ):
        raise UsageError(
            f"A server's address is http(s)://HOST:PORT, as in {EXAMPLE}: without user and password (?key=NAME names"
            " the variable with a key), blanks and #."
        )
    return url.rstrip("/").removesuffix("/v1").rstrip("/")


def _variable(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", name):
        raise UsageError(
            "The setting key of a server is the name of an environment variable, never the key itself."
        )
    return name


_Many = Annotated[int, Field(ge=1, le=10_000_000)]
_Seconds = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class ServerSettings(BaseModel):
    """Where a server is, and how it is asked.

    url: its base, without /v1. tokenizer: a folder or hub id, the one that the server was started with; None for a
    server that is asked for texts alone. model: the
    id of the model where the server has several. window: prompts that are on their way at the same time; None: what
    suits its kind. timeout:
    seconds of one request, its answer included. patience: seconds for which a request is repeated before it is given
    up. context: tokens that a prompt and its answer may have; None: what the server says. top: the most of the
    likeliest tokens that are asked for; None: as many as there are. cache: 'no' where no prompt may use what the server
    kept of another one. key: the environment variable with the API key.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: Annotated[str, AfterValidator(_base)]
    tokenizer: str | None = None
    model: str | None = None
    window: Annotated[int, Field(ge=1, le=1024)] | None = None
    timeout: _Seconds = 120.0
    patience: _Seconds = 300.0
    context: _Many | None = None
    top: _Many | None = None
    cache: Literal["yes", "no"] = "yes"
    key: Annotated[str, AfterValidator(_variable)] | None = None

    @property
    def loopback(self) -> bool:
        """Whether the server is on this machine, by its address."""
        return is_loopback(self.url)

    def secret(self) -> str | None:
        """The API key. Raises UsageError where what is sent could be read on the way, and nobody has allowed that, and
        where the variable holds no key that a header may carry."""
        if self.url.startswith("http:") and not self.loopback and os.environ.get(PLAIN_HTTP) != "1":
            raise UsageError(
                f"Prompts hold private records, and plain http to {urlsplit(self.url).hostname} can be read on the way;"
                f" use https, or a tunnel to 127.0.0.1, or set {PLAIN_HTTP}=1 where the network is yours."
            )
        if self.key is None:
            return None
        key = os.environ.get(self.key, "")
        if not re.fullmatch(r"[\x21-\x7e]{1,4096}", key):
            # it may be the key itself
            name = self.key if self.key.isupper() else "that `key` names"
            raise UsageError(
                f"The environment variable {name} holds no API key; set it, or leave `key` out."
            )
        return key


class ServerRecord(BaseModel):
    """The capability record of a model server.

    model: the id that the server gives its model.
    vocabulary: whether it gives the log-probability of every token; listed_ids: of how many tokens that a request
    lists, 0 for none; top_tokens: of how many of the likeliest tokens, 0 for a server that writes texts alone.
    mixes: whether it answers both kinds of requests rightly when they come at the same time (they never do in a run);
    None where nobody tried. version: what it says of itself.
    cache: whether a prompt may use what the server kept of others. context: tokens that it reads. fingerprint: sha256
    over what it said to fixed prompts. loopback: whether it is on this machine.
    tokenizer: `Tokenizer.digest`; missing in files from before it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ServerKind
    model: Annotated[str, Field(max_length=300)]
    vocabulary: bool
    listed_ids: Count
    top_tokens: Count
    context: Positive
    fingerprint: Annotated[str, Field(max_length=64)]
    loopback: bool
    cache: bool = True
    mixes: bool | None = written_if_set()
    version: Annotated[str, Field(max_length=100, exclude_if=lambda value: not value)] = ""
    tokenizer: str | None = Field(
        default=None,
        max_length=64,
        exclude_if=lambda value: value is None,
    )

    @property
    def candidates(self) -> bool:
        """Whether the log-probabilities of any public set of tokens can be had."""
        return self.vocabulary or self.listed_ids > 0

    def gives(self, needs: str) -> bool:
        """Whether it gives what a mechanism needs of its model: 'log-probabilities' of tokens, those of any
        'candidates', or less, which all give."""
        if needs == "candidates":
            return self.candidates
        return needs != "log-probabilities" or self.top_tokens > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a row must say of a release that this server answered."""
        where = "on this machine" if self.loopback else "on another machine"
        sent = f"private prompts were sent to a model server {where} ({self.kind}); what it does with them is trusted"
        if self.vocabulary or not self.top_tokens:
            return (sent,)
        slots = (
            "its listed tokens"
            if self.listed_ids
            else "its own likeliest ones; what it leaves out has mass 0"
        )
        shown = f"a public prompt shows its {self.top_tokens} likeliest tokens, a slot {slots}"
        return sent, f"truncated by the server: {shown}"


def is_loopback(url: str) -> bool:
    """Whether an address is of this machine, as it is written; no name is looked up."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def settings_of(rest: str) -> ServerSettings:
    """What follows ``server:``. Raises UsageError, with what to write, for anything that is not as it should be."""
    if "://" in rest:
        return parse_name(ServerSettings, rest, "a server", EXAMPLE)
    if not _NAME.fullmatch(rest):
        raise UsageError(
            f"A model on a server has an address or a name of letters and digits; write {EXAMPLE}."
        )
    variable = NAMED + re.sub(r"[^A-Z0-9]", "_", rest.upper())
    if "://" not in (address := os.environ.get(variable, "")):
        raise UsageError(
            f"No address for server:{rest}; set {variable} (for example {EXAMPLE.removeprefix('server:')}), or write"
            " the address in place of the name."
        )
    return parse_name(ServerSettings, address, "a server", EXAMPLE)


def address_problem(model: str) -> str | None:
    """Why a file may not name this model: private prompts would go to the address of a server that somebody else wrote
    there. None for every other model."""
    kind, _, rest = model.strip().partition(":")
    if kind != "server" or _NAME.fullmatch(rest):
        return None
    return (
        "a file does not say to which address prompts are sent; give it yourself by --model server:URL, or write"
        " server:NAME in the file and set DPICL_SERVER_NAME to the address."
    )


def without_address(model: str) -> str:
    """The model in a command that others copy: nobody is sent to the address in somebody's results."""
    return model if address_problem(model) is None else "server:URL"


def require_sound(rest: str) -> None:
    """Raises UsageError for an address that `settings_of` refuses; a name need not lead to one here."""
    if not _NAME.fullmatch(rest):
        settings_of(rest)


def without_speed(rest: str) -> str:
    """What follows ``server:``, without the settings that only decide how fast the server is asked."""
    return drop_settings(rest, SPEED)


def drop_settings(rest: str, names: Collection[str]) -> str:
    """What follows a kind of model in its name, without these settings."""
    base, _, query = rest.partition("?")
    others = [part for part in query.split("&") if unquote(part.partition("=")[0]) not in names]
    return f"{base}?{'&'.join(others)}" if any(others) else base


def parse_name(
    kind: type[Settings],
    rest: str,
    noun: str,
    example: str,
) -> Settings:
    """Settings whose first field is what stands before the ``?``. Raises UsageError. noun: whose settings they are."""
    base, _, query = rest.partition("?")
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        raise UsageError(
            f"What follows the ? in a model's name is key=value&key=value, as in {example}."
        ) from None
    values = dict(pairs)
    if len(values) < len(pairs) or "" in values.values():
        raise UsageError(f"Each setting of {noun} must stand once, with a value.")
    first, *names = kind.model_fields
    if strangers := [name for name in values if name not in names]:
        raise unknown_name(f"setting of {noun}", strangers[0], names)
    try:
        return kind.model_validate({**values, first: base})
    except ValidationError as error:
        problem = error.errors()[0]
        raise UsageError(
            f"The setting {problem['loc'][0]} of {noun} {problem_words(problem)}."
        ) from None
