"""The interface of language models: three ways to read one, and its identity."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpicl.core.errors import ModelError, PromptTooLong
from dpicl.models.server_settings import ServerRecord

if TYPE_CHECKING:
    import torch

Tokens = Sequence[int]
#: What `generate` does with a row whose logits are not finite.
Broken = Literal["raise", "empty"]
#: Why a row of a model in this process is no answer.
NOT_FINITE = "its numbers are not finite"
#: Raised with every change of how rows are read: outputs of other versions may differ in their last bits.
READING_VERSION = 6


@dataclass(frozen=True)
class ChatPrompt:
    """A chat turn of the user and the first words of the assistant's answer."""

    user: str
    assistant_prefix: str = ""


@dataclass(frozen=True)
class ModelIdentity:
    """What pins a model down in a result file. sha256 is over all files that decide its numbers (packaged models: the
    weight file, whose settings come with it); revision is the hub's commit.

    batch_invariant: whether each bit of a row depends on its own tokens and public things only, as measured; None where
    nobody has. Without it, what is proved of private rows holds up to rounding.
    arithmetic: stands for how numbers are rounded (processor, threads, sizes of passes): readers that share it give the
    same bits for the rows that were measured; None where nobody has.
    """

    name: str
    sha256: str | None
    revision: str | None
    dtype: str
    device: str
    parameters: int
    batch_invariant: bool | None = None
    arithmetic: str | None = None

    @property
    def pin(self) -> str:
        """What tells it from another model of the same name; '' for one that is its name alone."""
        return self.sha256 or self.revision or ""


class BrokenText(str):
    """The text so far of a row that made the model fail. It is no answer, and nobody may keep it as one."""

    __slots__ = ()


@dataclass
class Usage:
    """How many tokens the model has read (prompt and cached-decoding tokens alike) since it was loaded. failures: why
    it gave no answer to prompts -> to how many; of private prompts it depends on records, and is published nowhere."""

    tokens_read: int = 0
    forward_calls: int = 0
    failures: Counter[str] = field(default_factory=Counter)


class Decoder(ABC):
    """A batch of prompts that are read once and then grow, all of them by the same token at each step."""

    @property
    @abstractmethod
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU: natural-log probabilities of the next token after each prompt."""

    @abstractmethod
    def append(self, token: int) -> None:
        """Appends one token to every prompt. Raises PromptTooLong when one no longer fits."""

    def likeliest(self, count: int | None) -> torch.Tensor:
        """As `log_probs`, where the ``count`` likeliest tokens of each row are enough (None: all): others may be
        -infinity."""
        return self.log_probs

    def listed(self, tokens: Sequence[int]) -> torch.Tensor:
        """As `log_probs`, where these tokens are enough: others may be -infinity."""
        return self.log_probs


class ScoredEnding(NamedTuple):
    """Sum of natural-log probabilities of an ending, and whether each of its tokens was the likeliest one (False where
    a model cannot say)."""

    log_prob: float
    greedy: bool


@dataclass
class Prefix:
    """A token sequence that was read once: what prompts begin with (``state`` is the model's own business)."""

    tokens: tuple[int, ...]
    state: Any = field(repr=False, default=None)


class LanguageModel(ABC):
    """A causal language model. All lengths are in tokens of its own tokenizer."""

    identity: ModelIdentity
    vocab_size: int
    max_length: int
    eos_token_id: int
    usage: Usage
    #: Tokens that are read before every prompt besides those of `encode` (BOS, where the model wants one).
    lead_tokens: int = 0
    #: Tokens that must fit behind a prompt.
    answer_room: int = 0
    #: What the model's server can do; None for a model in this process, which can do everything.
    server: ServerRecord | None = None

    def require_same(self) -> None:  # noqa: B027
        """Raises ModelError for a model that is not the one that was loaded; one in this process cannot change."""

    @abstractmethod
    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """Tokens of a prompt. A string gets no template and no special tokens; a ChatPrompt gets the chat template."""

    @property
    def splits_at_blanks(self) -> bool:
        """Whether a text that ends in no white space, and one that begins with a blank, have the same tokens joined as
        each by itself; False where that is not known."""
        return False

    @abstractmethod
    def decode(self, tokens: Tokens) -> str:
        """Text of tokens, special tokens left out."""

    @abstractmethod
    def next_token_log_probs(
        self,
        prompts: Sequence[Tokens],
        prefix: Prefix | None = None,
    ) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU: natural-log probabilities of the token after each of the B prompts.

        prefix: what was read before, such as the public prompt; what a prompt has in common with its beginning is not
            read again. Each row is a function of its own prompt and of this prefix, so a prefix must be public, or
            belong to the same records as the prompts.
        Float32 whatever the model's dtype. An empty prompt means the unconditional distribution (after BOS or EOS).
        Raises PromptTooLong when a prompt does not fit; nothing is truncated. Values are as the model gave them: the
        caller decides what a NaN means (an error for a public prompt, a bounded row for a private one).
        """

    def listed_log_probs(
        self, prompts: Sequence[Tokens], tokens: Sequence[int], prefix: Prefix | None = None
    ) -> torch.Tensor:
        """As `next_token_log_probs`, where these tokens are enough: a model server may give -infinity for others."""
        return self.next_token_log_probs(prompts, prefix)

    @abstractmethod
    def decoder(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> Decoder:
        """Reads the B prompts once; see Decoder, and `next_token_log_probs` for the prefix."""

    @abstractmethod
    def prefix(self, tokens: Tokens, prefix: Prefix | None = None) -> Prefix:
        """Reads once what prompts begin with, after a shorter prefix if given; see `next_token_log_probs`."""

    @abstractmethod
    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """Sum of log-probabilities of each ending of each query, and whether greedy decoding would say it.

        queries: (all tokens of the prompt, endings) pairs; the answer has one list a query with one entry an ending.
        prefix: see `next_token_log_probs`.
        """

    def score(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[float]]:
        """The sums alone of `score_endings`."""
        return [[ending.log_prob for ending in row] for row in self.score_endings(queries, prefix)]

    @abstractmethod
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
        """Continuation of each of the B prompts, cut before the first stop string.

        prefix: see `next_token_log_probs`.
        temperature: 0 is greedy; above it each token is a sample of softmax(logits / temperature), and B ``seeds`` (one
            a prompt) are needed. A row's text depends on its own prompt and seed alone.
        broken: ``raise`` refuses logits that are not finite with ModelError, right for public prompts; with ``empty``
            such a row, and no other, ends with the text that it has so far, a `BrokenText`: private rows must not make
            a run fail.
        A row ends at EOS or after max_tokens tokens; a model that says EOS at once writes ''. Raises PromptTooLong when
        a prompt and max_tokens do not fit together, UsageError for a temperature below 0 or seeds that are missing.
        """

    def isolated_cache(self) -> AbstractContextManager[None]:
        """Inside this block prompts share no prefix with those of others at a model server, where it knows how."""
        return nullcontext()

    def _count(self, tokens: int) -> None:
        """Notes that tokens were read in one call."""
        self.usage.tokens_read += tokens
        self.usage.forward_calls += 1

    def _count_broken(self, rows: int) -> None:
        """Notes rows whose numbers are not finite."""
        if rows:
            self.usage.failures[NOT_FINITE] += int(rows)

    def _check_length(self, length: int) -> None:
        """Raises PromptTooLong for more tokens than the model reads."""
        if length > self.max_length:
            raise PromptTooLong(
                f"A prompt of {length} tokens does not fit into {self.identity.name}, which reads {self.max_length};"
                " use fewer or shorter examples."
            )


def common_prefix_length(prompts: Sequence[Tokens]) -> int:
    """How many tokens all prompts begin with; at most the length of the shortest."""
    if not prompts:
        return 0
    first, last = min(map(tuple, prompts)), max(map(tuple, prompts))
    for index, (a, b) in enumerate(zip(first, last, strict=False)):
        if a != b:
            return index
    return min(len(first), len(last))


def not_finite_error(name: str) -> ModelError:
    """The error for a model whose answer to a public prompt holds NaN or infinity where a number must be."""
    return ModelError(
        f"Model {name} answers with numbers that are not finite; load it in float32 or check its weights."
    )
