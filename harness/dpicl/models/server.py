"""``server:URL``: a language model that a server runs (llama.cpp, vLLM, OpenAI's completions; docs/servers.md).

What a row depends on. A row is made of the answer to its own prompt alone, whatever other prompts are in the same
request, so it is a function of its own slot as far as the server answers so. Servers compute requests in batches and
keep prefixes, which moves roundings, so rows are "proved up to rounding".
What a server leaves out of an answer (all but its likeliest tokens) follows from that slot alone.

What fails. A request is repeated, with longer and longer pauses, before anything is made of it; noise is drawn after
rows are complete, so no release happens twice or for less than was charged. Prompts that shared a request without a
sound answer are sent again one by one. Where one prompt fails for good while the server still answers a public prompt,
that prompt has a row of NaN (or no text), and is counted: a private text cannot end a run. An answer that is not what
was requested, such as fewer tokens, is a failure too: llama.cpp lists nothing where the likeliest token is half of a
character. Where the public prompt fails as well, the run ends with ModelError.
That the server keeps its model is trusted between two looks at it: its answers to public prompts are noted when it is
found, and compared after every new connection and failure, every few seconds, and before a result is made.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from asyncio import gather
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from dpicl.core.errors import ModelError
from dpicl.models.base import ModelIdentity, Usage
from dpicl.models.listing import Listing, ListingModel, LogProbs, Unsound, Wanted
from dpicl.models.server_dialects import Prompt
from dpicl.models.server_http import Connection, Denied, Refused, Unanswered
from dpicl.models.server_probe import Probed, probe
from dpicl.models.server_settings import settings_of
from dpicl.models.tokenizers import ByteTokenizer


def load_server(rest: str) -> ServerLM:
    """The model of the server that ``rest`` names, probed. Raises UsageError and ModelError."""
    settings, salt = settings_of(rest), secrets.token_urlsafe(32)
    probed = probe(settings, salt)
    connection = Connection(settings, probed.dialect.window)
    connection.verify = probed.verify
    return ServerLM(f"server:{rest.partition('?')[0]}", connection, probed, salt)


class ServerLM(ListingModel):
    """A model behind a connection, as its probe found it. name: that of results. salt: of public prompts."""

    def __init__(self, name: str, connection: Connection, probed: Probed, salt: str) -> None:
        self._connection, self.public_salt = connection, salt
        self.server = self._record = probed.record
        self._dialect, self._tokens = probed.dialect, probed.dialect.tokens
        self.usage = Usage()
        self.vocab_size, self.eos_token_id = self._tokens.vocab_size, self._tokens.eos_token_id
        self.max_length, self.lead_tokens = self._record.context, len(self._tokens.lead)
        if isinstance(self._tokens, ByteTokenizer):
            self.max_length -= self._tokens.MARGIN
        self.most_listed = self._record.listed_ids
        self.most_top = -1 if self._record.vocabulary else self._record.top_tokens
        self.names_best = not self._dialect.lists
        self._public = probed.prompts[0]
        about = self._record.model_dump(
            include={
                "kind",
                "model",
                "vocabulary",
                "listed_ids",
                "top_tokens",
                "fingerprint",
                "cache",
                "tokenizer",
            }
        )
        pinned = hashlib.sha256(
            json.dumps([about, self.vocab_size], sort_keys=True).encode()
        ).hexdigest()
        self.identity = ModelIdentity(
            name, pinned, None, "server", "server", probed.parameters, batch_invariant=False
        )

    def _list(
        self, prompts: Sequence[list[int]], requests: Sequence[Listing], rows: Sequence[int]
    ) -> list[LogProbs | None]:
        if not self._record.top_tokens:
            raise ModelError(
                f"The model server {self._connection.settings.url} gives texts, and no log-probabilities."
            )
        return self._answers(prompts, requests, rows)

    def _answers(
        self,
        prompts: Sequence[list[int]],
        requests: Sequence[Wanted],
        rows: Sequence[int],
    ) -> list[Any]:
        """What the server gives for each prompt; None where a request fails for good. rows: which row each prompt is
        of: a row fails once.

        Prompts of which the same is wanted share requests.
        """
        salt = self._salt if self._record.cache else None
        groups: dict[Wanted, list[int]] = {}
        for at, want in enumerate(requests):
            groups.setdefault(want, []).append(at)
        calls, places = [], []
        for want, group in groups.items():
            size = (
                1
                if salt is None
                else min(self._dialect.most_prompts(want), self._connection.window)
            )
            for first in range(0, len(group), size):
                share = group[first : first + size]
                places += share
                calls.append(
                    partial(
                        self._answer_all,
                        [Prompt(prompts[at], salt) for at in share],
                        want,
                    )
                )
        answers = [answer for share in self._connection.answers(calls) for answer in share]
        failed = {
            rows[at]: str(one)
            for at, one in zip(places, answers, strict=True)
            if isinstance(one, Exception)
        }
        self.usage.failures.update(failed.values())
        self.usage.tokens_read += sum(map(len, prompts))
        self.usage.forward_calls += len(prompts)
        in_order = dict(zip(places, answers, strict=True))
        return [
            None if isinstance(in_order[at], Exception) else in_order[at]
            for at in range(len(prompts))
        ]

    def require_same(self) -> None:
        """See LanguageModel."""
        try:
            self._connection.answers([self._connection.verify_now])
        except (Refused, Unanswered) as error:
            raise self._connection.silence_error(error) from None

    def _silence_error(self) -> ModelError:
        return ModelError(
            f"The model server {self.identity.name} refuses a public prompt that others like it follow; see its log."
        )

    async def _answer_all(self, prompts: Sequence[Prompt], want: Wanted) -> list[Any]:
        """The answer to each prompt, or why there is none. They are sent in one request; those without a sound answer
        again, each by itself: one of them may be to blame."""
        answers: list[Any] = [None] * len(prompts)
        if len(prompts) > 1:
            with suppress(Denied, Refused, Unanswered, Unsound):
                answers = await self._dialect.answer_all(self._connection.ask_once, prompts, want)
        lacking = [
            at for at, answer in enumerate(answers) if answer is None or isinstance(answer, Unsound)
        ]
        alone = await gather(*(self._answer(prompts[at], want) for at in lacking))
        for at, answer in zip(lacking, alone, strict=True):
            answers[at] = answer
        return answers

    async def _answer(self, prompt: Prompt, want: Wanted) -> Any:
        """What is wanted of the prompt; where a request fails for good, why. Raises ModelError where the server does
        the same for a public prompt."""
        ask = self._connection.ask
        reason: Exception
        try:
            return await self._dialect.answer(ask, prompt, want)
        except Denied:  # a gateway may look at what is written
            reason = Refused("it is denied or redirected")
        except (Refused, Unanswered, Unsound) as failure:
            reason = failure
        try:
            await self._dialect.answer(ask, self._public, want)
        except (Refused, Unanswered, Unsound) as error:
            raise self._connection.silence_error(error) from None
        return reason
