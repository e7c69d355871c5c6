"""``server:URL``: a language model that a server runs (llama.cpp, vLLM, OpenAI's completions; docs/servers.md).

What a row depends on. Every prompt goes out by itself, and its row is made of the answer to it alone, so a row is a
function of its own slot as far as the server answers so. Servers compute requests in batches and keep prefixes, which
moves roundings, so rows are "proved up to rounding".
What a server leaves out of an answer (all but its likeliest tokens) follows from that slot alone.

What fails. A request is repeated, with longer and longer pauses, before anything is made of it; noise is drawn after
rows are complete, so no release happens twice or for less than was charged. Where one prompt fails for good while the
server still answers a public prompt, that prompt has a row of NaN (or no text), and is counted: a private text cannot
end a run. An answer that is not what was requested, such as fewer tokens, is a failure too: llama.cpp lists nothing
where the likeliest token is half of a character. Where the public prompt fails as well, the run ends with ModelError.
That the server keeps its model is trusted between two looks at it: its answers to public prompts are noted when it is
found, and compared after every new connection.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any

import torch

from dpicl.core.errors import ModelError
from dpicl.models.base import Broken, BrokenText, ModelIdentity, Prefix, ScoredEnding, Tokens, Usage
from dpicl.models.decoding import Writer
from dpicl.models.rereading import StatelessModel
from dpicl.models.server_dialects import Ask, LogProbs, Prompt, join
from dpicl.models.server_http import Connection, Denied, Refused, Unanswered, Unsound
from dpicl.models.server_probe import Probed, probe
from dpicl.models.server_settings import settings_of
from dpicl.models.tokenizers import ByteTokenizer, TokenizedModel

#: Some requests that make one answer to a prompt.
Work = Callable[[Ask, Prompt], Awaitable[Any]]
#: Seeds that every server takes.
_SEEDS = 2**31 - 1
#: The salt of one private set's prompts; "" outside of `ServerLM.isolated_cache`.
_SALT: ContextVar[str] = ContextVar("salt", default="")


def load_server(rest: str) -> ServerLM:
    """The model of the server that ``rest`` names, probed. Raises UsageError and ModelError."""
    settings, salt = settings_of(rest), secrets.token_urlsafe(32)
    connection, probed = Connection(settings), probe(settings, salt)
    connection.verify = probed.verify
    return ServerLM(f"server:{rest.partition('?')[0]}", connection, probed, salt)


class ServerLM(TokenizedModel, StatelessModel):
    """A model behind a connection, as its probe found it. name: that of results. salt: of public prompts.

    A prefix is not read: the server finds what prompts have in common, and keeps what it has read where it does.
    """

    answer_room = 1

    def __init__(self, name: str, connection: Connection, probed: Probed, salt: str) -> None:
        self._connection, self._salt = connection, salt
        self.server = self._record = probed.record
        self._dialect, self._tokens = probed.dialect, probed.dialect.tokens
        self.usage = Usage()
        self.vocab_size, self.eos_token_id = self._tokens.vocab_size, self._tokens.eos_token_id
        self.max_length, self.lead_tokens = self._record.context, len(self._tokens.lead)
        if isinstance(self._tokens, ByteTokenizer):
            self.max_length -= self._tokens.MARGIN
        self._public = probed.prompts[0]
        about = self._record.model_dump(
            include={"kind", "model", "vocabulary", "listed_ids", "top_tokens", "fingerprint", "cache", "tokenizer"}
        )
        pinned = hashlib.sha256(json.dumps([about, self.vocab_size], sort_keys=True).encode()).hexdigest()
        self.identity = ModelIdentity(name, pinned, None, "server", "server", probed.parameters, batch_invariant=False)

    def next_token_log_probs(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> torch.Tensor:
        """Tensor[B, V] float32; -infinity for tokens that the server does not list, NaN where it refuses the prompt."""
        return self.likeliest_log_probs(prompts, self._top)

    def likeliest_log_probs(self, prompts: Sequence[Tokens], count: int) -> torch.Tensor:
        """As `next_token_log_probs`, of the ``count`` likeliest tokens at least, where the server lists so many."""
        top = self._top if count < 0 or 0 <= self._top < count else min(count, self.vocab_size)
        return self._rows(self._ask([(self._tokenize_opening(prompt), ()) for prompt in prompts], top))

    def listed_log_probs(
        self, prompts: Sequence[Tokens], tokens: Sequence[int], prefix: Prefix | None = None
    ) -> torch.Tensor:
        """See LanguageModel."""
        wanted = [int(token) for token in tokens]
        return self._rows(self._ask([(self._tokenize_opening(prompt), wanted) for prompt in prompts], self._top))

    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """See LanguageModel; NaN for every ending of a prompt that the server refuses. Greedy is False where the server
        lists only what it is asked for. A token that it leaves out has an even share of the mass that is left."""
        nodes: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        for at, (_, endings) in enumerate(queries):
            for ending in endings:
                for step, token in enumerate(ending):
                    wanted = nodes.setdefault((at, tuple(ending[:step])), [])
                    if token not in wanted:
                        wanted.append(int(token))
        asked = [(self._tokenize_opening([*queries[at][0], *said]), wanted) for (at, said), wanted in nodes.items()]
        found = dict(zip(nodes, self._ask(asked, self._top, [at for at, _ in nodes]), strict=True))
        return [
            [
                self._score([(found[at, tuple(ending[:step])], token) for step, token in enumerate(ending)])
                for ending in each
            ]
            for at, (_, each) in enumerate(queries)
        ]

    def generate(
        self,
        prompts: Sequence[Tokens],
        max_tokens: int,
        stop: Sequence[str] = (),
        prefix: Prefix | None = None,
        *,
        temperature: float = 0.0,
        seeds: Sequence[int] | None = None,
        broken: Broken = "raise",
    ) -> list[str]:
        """Texts that the server writes; see LanguageModel. A sample is the server's own, with the seed modulo 2^31 - 1:
        another server, or version, may draw another one."""
        Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)  # refuses what makes no sense
        opened = [self._tokenize_opening(prompt, max_tokens) for prompt in prompts]
        if max_tokens < 1:
            return [""] * len(prompts)
        settings = {"max_tokens": max_tokens, "temperature": temperature, "stop": [word for word in stop if word]}
        works = [
            partial(self._dialect.text, settings={**settings, "seed": seed % _SEEDS})
            for seed in seeds or [0] * len(opened)
        ]
        texts = self._answers(works, opened, range(len(works)))
        if broken == "raise" and None in texts:
            raise refusal_error(self.identity.name)
        return [BrokenText() if text is None else text for text in texts]

    @contextmanager
    def isolated_cache(self) -> Iterator[None]:
        """See LanguageModel."""
        token = _SALT.set(secrets.token_urlsafe(32))
        try:
            yield
        finally:
            _SALT.reset(token)

    def _prompt(self, tokens: list[int]) -> Prompt:
        return Prompt(tokens, None if not self._record.cache else _SALT.get() or self._salt)

    @property
    def _top(self) -> int:
        """How many of the likeliest tokens are asked for: as many as there are (-1: all)."""
        return -1 if self._record.vocabulary else self._record.top_tokens

    def _ask(
        self, prompts: Sequence[tuple[list[int], Sequence[int]]], top: int, rows: Sequence[int] | None = None
    ) -> list[LogProbs | None]:
        """What the server says after each prompt (tokens, listed): of the listed tokens at least, where it lists any;
        else of the ``top`` likeliest. None where it refuses the prompt. rows: which row each prompt is of; None: its
        own."""
        if not self._record.top_tokens:
            raise ModelError(f"The model server {self._connection.settings.url} gives texts, and no log-probabilities.")
        limit, works, places = self._record.listed_ids, [], []
        for at, (_, listed) in enumerate(prompts):
            whole = self._record.vocabulary and len(listed) * 10 > self.vocab_size
            parts = [listed[i : i + limit] for i in range(0, len(listed), limit)] if limit and not whole else []
            for part in parts or [()]:
                works.append(partial(self._dialect.log_probs, top=1 if part else top, listed=part))
                places.append(at)
        owners = places if rows is None else [rows[at] for at in places]
        answers = self._answers(works, [prompts[at][0] for at in places], owners)
        found: list[list[LogProbs | None]] = [[] for _ in prompts]
        for at, answer in zip(places, answers, strict=True):
            found[at].append(answer)
        return [join(parts) for parts in found]

    def _answers(self, works: Sequence[Work], prompts: Sequence[list[int]], rows: Sequence[int]) -> list[Any]:
        """What each work gives for its prompt; None where a request of it fails for good. rows: which row each work is
        of: a row fails once."""
        calls = [partial(self._answer, work, self._prompt(tokens)) for work, tokens in zip(works, prompts, strict=True)]
        found = self._connection.answers(calls)
        failed = {row: str(one) for row, one in zip(rows, found, strict=True) if isinstance(one, Exception)}
        self.usage.failures.update(failed.values())
        self.usage.tokens_read += sum(map(len, prompts))
        self.usage.forward_calls += len(works)
        return [None if isinstance(one, Exception) else one for one in found]

    def _rows(self, found: Sequence[LogProbs | None]) -> torch.Tensor:
        rows = torch.full((len(found), self.vocab_size), -torch.inf)
        for row, own in zip(rows, found, strict=True):
            if own is None:
                row.fill_(torch.nan)
            else:
                row[torch.from_numpy(own.tokens)] = torch.from_numpy(own.values).float()
        return rows

    def _score(self, steps: Sequence[tuple[LogProbs | None, int]]) -> ScoredEnding:
        total, greedy = 0.0, not self._dialect.lists
        for found, token in steps:
            if found is None:
                return ScoredEnding(float("nan"), False)
            total += found.of(int(token), self.vocab_size)
            greedy = greedy and found.best == token
        return ScoredEnding(total, greedy)

    async def _answer(self, work: Work, prompt: Prompt) -> Any:
        """What the work gives; where a request of it fails for good, and the server does the same for a public prompt,
        why."""
        ask = self._connection.ask
        reason: Exception
        try:
            return await work(ask, prompt)
        except Denied:  # a gateway may look at what is written
            reason = Refused("it is denied or redirected")
        except (Refused, Unanswered, Unsound) as failure:
            reason = failure
        try:
            await work(ask, self._public)
        except (Refused, Unanswered, Unsound) as error:
            raise self._connection.silence_error(error) from None
        return reason


def refusal_error(name: str) -> ModelError:
    """The error of a public prompt that a server does not answer."""
    return ModelError(f"The model server {name} refuses a public prompt that others like it follow; see its log.")
