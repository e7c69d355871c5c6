"""Requests and responses of model servers: llama.cpp's, OpenAI's completions, and vLLM's, which extends these. Nothing
here knows of privacy.

Answers are read with distrust, by schemas: every number has its type and its range, or the answer counts as damaged. A
ValueError says so. An answer in good order that is not what was requested is Unsound.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AliasPath, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from dpicl.models.listing import LOWEST, ROUNDING, Listing, LogProbs, Unsound, Wanted, Writing
from dpicl.models.server_http import LIKELIEST, LISTED, Call, Refused
from dpicl.models.server_settings import ServerKind
from dpicl.models.tokenizers import Tokenizer

#: Characters of a token, at most.
LETTERS = 200
#: How many words to stop at OpenAI's completions take.
MOST_STOPS = 4
#: How many prompts share a request where a server takes several: the engine has the next request while one is read.
MOST_PROMPTS = 16

#: Reasons for which a text ends before the model has ended it: a filter, or a request that was given up.
CUT = frozenset({"content_filter", "abort", "error", "cancelled", "canceled", "safety", "timeout"})

_Token = Annotated[int, Field(ge=0, lt=2**31)]
_TokenName = Annotated[str, Field(pattern="^token_id:[0-9]{1,9}$")]
_Size = Annotated[int, Field(ge=1, lt=2**31)]
_LogProb = Annotated[float, Field(le=ROUNDING, allow_inf_nan=False)]
_Probability = Annotated[float, Field(ge=0, le=1 + 1e-6)]


class _Answer(BaseModel):
    """The part of an answer that is read. error: what some servers send with status 200."""

    model_config = ConfigDict(strict=True)

    error: None = None


class _Likely(TypedDict):
    id: _Token
    logprob: _LogProb


class _Share(TypedDict):
    id: _Token
    prob: _Probability


class _LlamaCompletion(_Answer):
    """likely, shares: of the first token that was drawn. truncated: whether the prompt was cut. prompt_tokens: how many
    tokens of it were read."""

    model: str = ""
    text: str | None = Field(None, validation_alias="content")
    likely: list[_Likely] = Field(
        [], validation_alias=AliasPath("completion_probabilities", 0, "top_logprobs")
    )
    shares: list[_Share] = Field(
        [], validation_alias=AliasPath("completion_probabilities", 0, "top_probs")
    )
    truncated: Literal[False] | None = None
    prompt_tokens: int | None = Field(None, validation_alias="tokens_evaluated")


class _Choice(_Answer):
    """likely: for each token that was drawn. index: the place of its prompt in the request. finish_reason: why the text
    ends."""

    text: str
    index: int = 0
    finish_reason: str | None = None
    likely: list[dict[_TokenName, _LogProb]] = Field(
        [], validation_alias=AliasPath("logprobs", "top_logprobs")
    )


class _Completion(_Answer):
    model: str = ""
    choices: list[_Choice]
    prompt_tokens: int | None = Field(None, validation_alias=AliasPath("usage", "prompt_tokens"))

    def sorted_choices(self, prompts: int) -> list[_Choice]:
        """One for each prompt of the request, in order. Raises Unsound for any others."""
        choices = sorted(self.choices, key=lambda choice: choice.index)
        if [choice.index for choice in choices] != [*range(prompts)]:
            raise Unsound("it gives more or fewer choices than one for a prompt")
        return choices


class _Tokens(_Answer):
    tokens: list[_Token]


class ServedModel(_Answer):
    """A model in a server's list. owned_by: what the server calls itself. max_model_len: tokens that vLLM reads.
    parameters: 0 where it does not say."""

    id: Annotated[str, Field(max_length=300)]
    owned_by: str = ""
    max_model_len: _Size | None = None
    parameters: int = Field(0, ge=0, validation_alias=AliasPath("meta", "n_params"))


class ModelList(_Answer):
    """The answer to /v1/models."""

    data: Annotated[list[ServedModel], Field(min_length=1)]


class Props(_Answer):
    """The answer of llama.cpp to /props. context: tokens that it reads."""

    context: _Size = Field(validation_alias=AliasPath("default_generation_settings", "n_ctx"))
    version: str = Field("", validation_alias="build_info")


class Version(_Answer):
    """The answer of vLLM to /version."""

    version: str


#: Sends a request and gives what its `read` makes of the answer.
Ask = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True)
class Prompt:
    """The tokens that are read. salt: of the prefix cache, where the server keeps prompts of different salts apart;
    None where nothing that was kept may be used."""

    tokens: Sequence[int]
    salt: str | None


class Dialect(ABC):
    """How one kind of server is asked.

    model: the id of the model. tokens: its tokenizer; ids from the vocabulary's size on are left out of answers.
    """

    kind: ClassVar[ServerKind]
    #: How many of the likeliest tokens to try to get where not all can be had, from the most on.
    tops: ClassVar[Sequence[int]] = (1024, 256, 128, 64, 20, 5)
    #: How many ids a request may list.
    lists: ClassVar[int]
    #: How many prompts are under way at the same time, where the user does not say.
    window: ClassVar[int] = 8
    #: What a request for a text says besides.
    writing: ClassVar[Mapping[str, Any]] = {}
    #: Whether each choice of a request with several prompts is known to be of its own prompt.
    shares: bool = False
    #: The name that answers give their model, where that is known.
    answers_as: str | None = None

    def __init__(self, model: str, tokens: Tokenizer) -> None:
        self.model, self.tokens, self.vocab_size = model, tokens, tokens.vocab_size

    def tops_below(self, most: int | None) -> list[int]:
        """How many of the likeliest tokens to try to get, at ``most`` so many; at first all."""
        first = self.vocab_size if most is None else most
        return [first, *(top for top in self.tops if top < first)]

    @abstractmethod
    async def log_probs(
        self,
        ask: Ask,
        prompt: Prompt,
        top: int,
        listed: Sequence[int] = (),
    ) -> LogProbs:
        """Of the ``top`` likeliest next tokens (-1: all); where some are ``listed``, of these at least."""

    async def text(self, ask: Ask, prompt: Prompt, want: Writing) -> str:
        """What the model writes."""
        text: str = await ask(
            self._call(
                prompt,
                self._writing_body(want),
                self._text_reader(want),
            )
        )
        return text

    async def answer(self, ask: Ask, prompt: Prompt, want: Wanted) -> LogProbs | str:
        """What is wanted of a prompt."""
        if isinstance(want, Writing):
            return await self.text(ask, prompt, want)
        return await self.log_probs(ask, prompt, want.top, want.listed)

    def most_prompts(self, want: Wanted) -> int:
        """How many prompts may share a request."""
        return 1

    async def answer_all(
        self,
        ask: Ask,
        prompts: Sequence[Prompt],
        want: Wanted,
    ) -> list[Any]:
        """What is wanted of each prompt, of which one request may have several; Unsound in place of an answer that is
        not."""
        raise NotImplementedError

    def _writing_body(self, want: Writing) -> dict[str, Any]:
        return {**want._asdict(), "stop": list(want.stop), **self.writing}

    def _text_reader(self, want: Writing) -> Callable[[Any], str]:
        def read(answer: _LlamaCompletion | _Choice) -> str:
            if answer.text is None:
                raise ValueError("no text")
            if isinstance(answer, _Choice) and answer.finish_reason in CUT:
                raise Unsound("it cut its answer short")
            if len(answer.text) > LETTERS * want.max_tokens:
                raise ValueError("too long a text")
            return answer.text[
                : min((at for at in map(answer.text.find, want.stop) if at >= 0), default=None)
            ]

        return read

    def tokenize(self, content: str) -> Call:
        """Asks for the tokens of a text without any that are added."""
        return tokenizing({"model": self.model, "prompt": content, "add_special_tokens": False})

    @abstractmethod
    def _call(
        self,
        prompt: Prompt,
        body: Mapping[str, Any],
        read: Callable[[Any], Any],
    ) -> Call:
        """Asks for ``max_tokens`` (of the body) tokens that follow a prompt. read: what is made of its part of the
        answer."""

    def _require_same(
        self, answer: _LlamaCompletion | _Completion, prompts: Sequence[Prompt] = ()
    ) -> None:
        """Raises Unsound for the answer of another model than the first one's, or to ``prompts`` of another length."""
        self.answers_as = self.answers_as or answer.model
        if answer.model and answer.model != self.answers_as:
            raise Unsound("it answers for another model")
        length = sum(len(prompt.tokens) for prompt in prompts)
        if prompts and answer.prompt_tokens not in (None, length):
            raise Unsound("it read more or fewer tokens than the prompt has")


def tokenizing(body: Mapping[str, Any]) -> Call:
    """Asks `/tokenize` for the tokens of a text."""
    return Call("/tokenize", lambda content: _Tokens.model_validate_json(content).tokens, body)


class LlamaCpp(Dialect):
    """llama.cpp's server: `POST /completion` with token ids.

    `n_probs` lists the likeliest tokens, from the raw logits; the token that is drawn is forced to a plain one
    (`logit_bias`, which leaves `n_probs` as it is), since nothing is listed for one that ends the text or is half of a
    character. Any other set of tokens is listed by raising all of them by the same bias (`post_sampling_probs`): their
    ratios are those of the model, and the likeliest token, which is among them, gives the scale. The whole vocabulary
    can be had too, at 100 bytes a token.
    """

    kind = "llama.cpp"
    lists = 1024
    writing = {"samplers": ["temperature"]}
    #: How many of the likeliest tokens are looked at first where some are listed, and by how much these are raised.
    _FIRST, _BIAS = 64, 100.0

    async def log_probs(
        self,
        ask: Ask,
        prompt: Prompt,
        top: int,
        listed: Sequence[int] = (),
    ) -> LogProbs:
        count, least = (self._FIRST, 1) if listed else (self.vocab_size if top < 0 else top,) * 2
        first: LogProbs = await ask(self._likeliest(prompt, count, least))
        rest = [token for token in listed if token not in first.tokens]
        if not rest:
            return first
        ratios: LogProbs = await ask(self._ask_raised(prompt, [first.best, *rest]))
        values = ratios.values - ratios.of(first.best, self.vocab_size) + first.values.max()
        other = ratios.tokens != first.best
        return LogProbs(
            np.concatenate([first.tokens, ratios.tokens[other]]),
            np.concatenate([first.values, values[other].clip(LOWEST, 0.0)]),
        )

    def tokenize(self, content: str) -> Call:
        return tokenizing({"content": content, "add_special": False, "parse_special": True})

    def _likeliest(self, prompt: Prompt, count: int, least: int) -> Call:
        plain = next(iter(self.tokens.encode(" the")), 0)
        body = {
            "max_tokens": 1,
            "n_probs": count,
            "temperature": 0.0,
            "logit_bias": [[plain, 1e4]],
        }

        def read(answer: _LlamaCompletion) -> LogProbs:
            tokens = [entry["id"] for entry in answer.likely]
            values = [entry["logprob"] for entry in answer.likely]
            return LogProbs.from_answer(
                tokens, values, self.vocab_size, min(least, self.vocab_size)
            )

        return self._call(prompt, body, read)

    def _ask_raised(self, prompt: Prompt, listed: Sequence[int]) -> Call:
        """Asks for the tokens' probabilities, up to a factor; as log-probabilities."""
        body = {
            "max_tokens": 1,
            "n_probs": len(listed),
            "post_sampling_probs": True,
            "temperature": 1.0,
            "samplers": [],
            "logit_bias": [[token, self._BIAS] for token in listed],
        }

        def read(answer: _LlamaCompletion) -> LogProbs:
            with np.errstate(divide="ignore"):
                values = np.log([entry["prob"] for entry in answer.shares])
            tokens = [entry["id"] for entry in answer.shares]
            return LogProbs.from_answer(
                tokens,
                values.tolist(),
                self.vocab_size,
                len({*listed}),
                listed,
            )

        return self._call(prompt, body, read)

    def _call(
        self,
        prompt: Prompt,
        body: Mapping[str, Any],
        read: Callable[[Any], Any],
    ) -> Call:
        settings = {
            "n_predict": body["max_tokens"],
            "cache_prompt": prompt.salt is not None,
            "stream": False,
        }
        sent = {"prompt": list(prompt.tokens), **settings, **body}
        whole = body.get("n_probs", 0) >= self.vocab_size

        def read_sound(content: bytes) -> Any:
            answer = _LlamaCompletion.model_validate_json(content)
            self._require_same(answer, [prompt])
            return read(answer)

        return Call("/completion", read_sound, sent, whole)


class OpenAI(Dialect):
    """OpenAI's completions, `POST /v1/completions`, as any server has them: texts for texts. Where the model's
    tokenizer is not given, lengths are counted in bytes."""

    kind = "openai"
    tops = ()
    lists = 0

    async def log_probs(
        self,
        ask: Ask,
        prompt: Prompt,
        top: int,
        listed: Sequence[int] = (),
    ) -> LogProbs:
        raise Refused("it is not asked for log-probabilities")

    def _call(
        self,
        prompt: Prompt,
        body: Mapping[str, Any],
        read: Callable[[Any], Any],
    ) -> Call:
        sent = {
            "model": self.model,
            "prompt": self.tokens.text_of(prompt.tokens),
            "stream": False,
            **body,
        }
        sent["stop"] = body["stop"][:MOST_STOPS] or None

        def read_sound(content: bytes) -> Any:
            answer = _Completion.model_validate_json(content)
            self._require_same(answer)
            return read(*answer.sorted_choices(1))

        return Call("/v1/completions", read_sound, sent)


class VLLM(Dialect):
    """vLLM: OpenAI's completions, `POST /v1/completions`, with token ids, `logprobs` (as many as the vocabulary has,
    where the server was started with `--max-logprobs -1`), `logprob_token_ids` and `cache_salt`. Where ids are listed,
    they take the place of the likeliest ones.

    In a batch of both kinds, vLLM 0.31 and 0.32 (sampler V1) answer requests for the likeliest tokens with two: the one
    that was drawn, and token 0 at -9999. So the two kinds are never on their way at the same time, and such an answer
    is Unsound.

    A request may have several prompts, each of which has its own choice in the answer.

    whole: what asks for all tokens: the vocabulary's size, or -1 where the output layer is larger (0.31 answers that
    with none).
    """

    kind = "vllm"
    lists = 128
    window = 64

    def __init__(self, model: str, tokens: Tokenizer) -> None:
        super().__init__(model, tokens)
        self.answers_as, self.whole = model, self.vocab_size

    async def log_probs(
        self,
        ask: Ask,
        prompt: Prompt,
        top: int,
        listed: Sequence[int] = (),
    ) -> LogProbs:
        want = Listing(top, tuple(listed))
        row: LogProbs = await ask(
            self._call(
                prompt,
                self._listing_body(want),
                self._listing_reader(want),
            )
        )
        return row

    def most_prompts(self, want: Wanted) -> int:
        if not self.shares:
            return 1
        if isinstance(want, Writing):
            return 1 if want.temperature else MOST_PROMPTS  # a request has one seed
        return 1 if self._count_top(want) in (-1, self.vocab_size) else MOST_PROMPTS

    async def answer_all(
        self,
        ask: Ask,
        prompts: Sequence[Prompt],
        want: Wanted,
    ) -> list[Any]:
        read: Callable[[_Choice], Any]
        if isinstance(want, Writing):
            body, read = self._writing_body(want), self._text_reader(want)
        else:
            body, read = self._listing_body(want), self._listing_reader(want)

        def read_each(choices: Sequence[_Choice]) -> list[Any]:
            return [_read_or_unsound(read, choice) for choice in choices]

        answers: list[Any] = await ask(self._request(prompts, body, read_each))
        return answers

    def _count_top(self, want: Listing) -> int:
        return 1 if want.listed else self.whole if want.top < 0 else want.top

    def _listing_body(self, want: Listing) -> dict[str, Any]:
        body = {"max_tokens": 1, "temperature": 0.0, "logprobs": self._count_top(want)}
        return {**body, "logprob_token_ids": list(want.listed)} if want.listed else body

    def _listing_reader(self, want: Listing) -> Callable[[_Choice], LogProbs]:
        count = self._count_top(want)
        least = self.vocab_size if count < 0 else min(count, self.vocab_size)

        def read(choice: _Choice) -> LogProbs:
            if len(choice.likely) != 1:
                raise Unsound("it lists tokens for more or fewer places than one")
            tokens = [int(name.removeprefix("token_id:")) for name in choice.likely[0]]
            values = [*choice.likely[0].values()]
            if any(
                value <= LOWEST
                for token, value in zip(tokens, values, strict=True)
                if token < self.vocab_size
            ):
                raise Unsound(f"it gives {LOWEST:g} in place of a log-probability")
            row = LogProbs.from_answer(tokens, values, self.vocab_size, least, want.listed)
            if want.top < 0 and len(row.tokens) < self.vocab_size:
                raise Unsound("it lists fewer tokens than requested")
            return row

        return read

    def _call(
        self,
        prompt: Prompt,
        body: Mapping[str, Any],
        read: Callable[[Any], Any],
    ) -> Call:
        return self._request([prompt], body, lambda choices: read(*choices))

    def _request(
        self,
        prompts: Sequence[Prompt],
        body: Mapping[str, Any],
        read: Callable[[Sequence[_Choice]], Any],
    ) -> Call:
        """Asks for the tokens that follow some prompts of one salt. read: what is made of their choices, in order."""
        ids = [list(prompt.tokens) for prompt in prompts]
        sent = {
            "model": self.model,
            "prompt": ids if len(ids) > 1 else ids[0],
            "stream": False,
            "add_special_tokens": False,
            "return_tokens_as_token_ids": True,
            # not the model's own defaults
            **{
                "top_p": 1.0,
                "top_k": -1,
                "min_p": 0.0,
                "repetition_penalty": 1.0,
            },
            "cache_salt": prompts[0].salt
            or secrets.token_urlsafe(32),  # a salt of its own finds nothing
            **body,
        }
        count = body.get("logprobs")
        phase = "" if count is None else LISTED if "logprob_token_ids" in body else LIKELIEST

        def read_sound(content: bytes) -> Any:
            answer = _Completion.model_validate_json(content)
            self._require_same(answer, prompts)
            return read(answer.sorted_choices(len(prompts)))

        whole = count is not None and not 0 <= count < self.vocab_size
        return Call("/v1/completions", read_sound, sent, whole, phase, len(prompts))


def _read_or_unsound(read: Callable[[_Choice], Any], choice: _Choice) -> Any:
    try:
        return read(choice)
    except Unsound as error:
        return error
