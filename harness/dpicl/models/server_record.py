"""What a model server can do, as it was found when the model was loaded: it stands in every result that it answered."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from dpicl.core.field_types import Count, Positive

#: Servers whose requests are known.
KINDS = ("llama.cpp", "vllm", "openai")
ServerKind = Literal["llama.cpp", "vllm", "openai"]

_Difference = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ServerRecord(BaseModel):
    """The capability record of a model server.

    model: the id that the server gives its model.
    vocabulary: whether it gives the log-probability of every token; listed_ids: of how many tokens that a request
    lists, 0 for none; top_tokens: of how many of the likeliest tokens, 0 where it gives no log-probability.
    cache: whether a prompt may use what the server kept of others.
    tokenizer: whose tokens are sent, and whether the server cuts the same texts into the same ones. context: tokens
    that it reads. fingerprint: sha256 over what it said to fixed prompts. loopback: whether it is on this machine.
    token_prompts, alone, among: of earlier results.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: ServerKind
    model: Annotated[str, Field(max_length=300)]
    token_prompts: bool = True
    vocabulary: bool
    listed_ids: Count
    top_tokens: Count
    alone: _Difference | None = None
    among: _Difference | None = None
    tokenizer: Literal["of the server", "agrees", "not compared"]
    context: Positive
    fingerprint: Annotated[str, Field(max_length=64)]
    loopback: bool
    cache: bool = True

    @property
    def candidates(self) -> bool:
        """Whether the log-probabilities of any public set of tokens can be had."""
        return self.vocabulary or self.listed_ids > 0

    @property
    def notes(self) -> tuple[str, ...]:
        """What a row must say of a release that this server answered."""
        where = "on this machine" if self.loopback else "on another machine"
        sent = f"private prompts were sent to a model server {where} ({self.kind}); what it does with them is trusted"
        found = [sent]
        if not self.top_tokens:
            found.append("the server gives text and no log-probabilities")
        elif not self.vocabulary:
            slots = "its listed tokens" if self.listed_ids else "its own likeliest ones; what it leaves out has mass 0"
            found.append(
                f"truncated by the server: a public prompt shows its {self.top_tokens} likeliest tokens, a slot {slots}"
            )
        return tuple(found)
