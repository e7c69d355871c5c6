"""Any causal transformer of Hugging Face as a LanguageModel: tokens are read once, and only what is needed is computed.

* Rows of whatever callers wait at the same time are packed into full passes, and no row changes the bits of another
  (`dpicl.models.reading`). The output layer sees only the positions that are needed.
* A prefix that rows begin with is read once, and its keys and values are used by all of them.
* All endings of a query (the labels) are scored in one row: they are branches of a tree, and every token sees its own
  ancestors only (tree attention; Miao et al. 2024, SpecInfer, section 4).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from dpicl.core.together import wait_for
from dpicl.models import attention
from dpicl.models.base import (
    Broken,
    Decoder,
    ModelIdentity,
    Prefix,
    ScoredEnding,
    Tokens,
    Usage,
    common_prefix_length,
)
from dpicl.models.decoding import Writer
from dpicl.models.pieces import PIECE, KeyValues, Memory, Piece, memory_limit, row_of
from dpicl.models.products import linear_layers, split_products, use_products
from dpicl.models.reading import Passes, Reading, Shapes
from dpicl.models.rereading import RereadingModel
from dpicl.models.tokenizers import TokenizedModel, Tokenizer
from dpicl.models.tree import EndingScores, Tree

#: Room for the tokens that a decoder appends, before its keys and values are moved to a larger place.
DECODED = 64


class CausalModel(TokenizedModel):
    """What both ways to read a causal model of transformers share: its tokenizer, and its length.

    start_token: what stands before an empty prompt; by default the BOS token, else EOS.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        identity: ModelIdentity,
        start_token: int | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer, self._tokens = tokenizer, Tokenizer(tokenizer, start_token)
        self.identity = identity
        self.usage = Usage()
        config = model.config.get_text_config(decoder=True)
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.max_length = int(getattr(config, "max_position_embeddings", 2048))
        self.eos_token_id, self.lead_tokens = tokenizer.eos_token_id, len(self._tokens.lead)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device


class PlainLM(CausalModel, RereadingModel):
    """A model that only transformers itself can read, such as a hybrid or recurrent one: one row a pass, each from its
    first token on. It is slow, and no row can change another."""

    @torch.inference_mode()
    def log_probs_after(self, prompt: Tokens) -> Any:
        """float32[V]: natural-log probabilities of the token after a prompt."""
        tokens = torch.tensor([self._tokenize_opening(prompt)], device=self.device)
        logits = self.model(input_ids=tokens, use_cache=False).logits[0, -1]
        return torch.log_softmax(logits.float(), dim=-1).cpu().numpy()


class TransformersLM(CausalModel):
    """A causal model of transformers that is read in packed rows: of an architecture that `explain_unsupported` has
    nothing to say of (`readers.reader_of` takes any)."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        identity: ModelIdentity,
        start_token: int | None = None,
    ) -> None:
        super().__init__(model, tokenizer, identity, start_token)
        self.memory = Memory(memory_limit(), _bytes_a_token(model))
        self._configs = {
            id(m.config): m.config for m in model.modules() if hasattr(m, "config")
        }.values()
        self._layers = linear_layers(model)
        self._passes = Passes(
            self._forward,
            self.memory,
            self.usage,
            self.device,
            Shapes(),
        )

    @property
    def shapes(self) -> Shapes:
        """The sizes of passes."""
        return self._passes.shapes

    def read_in(self, shapes: Shapes) -> None:
        """From now on, passes have these sizes."""
        self._passes.shapes, self._passes.most = shapes, shapes.body[-1]

    def next_token_log_probs(
        self,
        prompts: Sequence[Tokens],
        prefix: Prefix | None = None,
    ) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU; see LanguageModel."""
        result = torch.empty(len(prompts), self.vocab_size)
        rows = []
        for row, prompt in zip(result, prompts, strict=True):
            tokens = self._tokenize_opening(prompt)
            rows.append(self._row(tokens, prefix, None, partial(_place, row)))
        self._read(rows)
        self._count_lost(result)
        return result

    def decoder(self, prompts: Sequence[Tokens], prefix: Prefix | None = None) -> Decoder:
        """Reads the B prompts once; every one of them keeps its keys and values."""
        decoder = _CachedDecoder(
            self, [self._tokenize_opening(prompt) for prompt in prompts], prefix, DECODED
        )
        self._count_lost(decoder.log_probs)
        return decoder

    def prefix(self, tokens: Tokens, prefix: Prefix | None = None) -> Prefix:
        """Reads a sequence once. Raises PromptTooLong when it alone fills the context."""
        if not tokens and not self._tokens.lead:
            return Prefix(())
        opened = self._tokenize_opening(tokens)
        begin, past = self._reuse(opened, prefix)
        state = KeyValues(self.memory, len(opened))
        self._read([row_of(opened[begin:], begin, past, state, _ignore)])
        return Prefix(tuple(opened), state)

    def score_endings(
        self, queries: Sequence[tuple[Tokens, Sequence[Tokens]]], prefix: Prefix | None = None
    ) -> list[list[ScoredEnding]]:
        """See LanguageModel; all endings of a query are read in one row."""
        rows, scores = [], []
        trees: dict[tuple[tuple[int, ...], ...], Tree] = {}
        for query, endings in queries:
            key = tuple(map(tuple, endings))
            if key not in trees:
                trees[key] = Tree.of(endings)
            tree = trees[key]
            tokens = self._tokenize_opening(query, tree.depth)
            begin, past = self._reuse(tokens, prefix)
            tail = tokens[begin:]
            scores.append(EndingScores(tree, len(tail) - 1))
            whole = [*tail, *tree.tokens]
            store = KeyValues(self.memory, begin + len(whole)) if len(whole) > PIECE else None
            rows.append(
                row_of(
                    whole,
                    begin,
                    past,
                    store,
                    scores[-1].take,
                    tree,
                    scores[-1].scored,
                )
            )
        self._read(rows)
        scored = [each.endings() for each in scores]
        self._count_broken(
            sum(any(math.isnan(ending.log_prob) for ending in row) for row in scored)
        )
        return scored

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
        """Continuation of each prompt; see LanguageModel. Rows that have ended are read no further."""
        writer = Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        opened = [self._tokenize_opening(prompt, max_tokens) for prompt in prompts]
        if max_tokens < 1 or not prompts:
            return writer.texts
        active = list(range(len(prompts)))
        rows = _CachedDecoder(self, opened, prefix, max_tokens)
        while True:
            going, chosen = writer.step(rows.log_probs, active)
            if not going:
                return writer.texts
            rows.keep(going)
            active = [active[place] for place in going]
            rows.append_each(chosen.tolist())

    def _count_lost(self, log_probs: torch.Tensor) -> None:
        """Notes rows that are NaN: where one logit is, all log-probabilities are."""
        self._count_broken(int(log_probs[:, 0].isnan().sum()))

    def _read(self, rows: Sequence[Sequence[Piece]]) -> None:
        """Reads these rows, in passes with those that others wait for."""
        wait_for(self._passes, Reading(rows=rows))

    def _row(
        self,
        tokens: list[int],
        prefix: Prefix | None,
        store: KeyValues | None,
        take: Any,
    ) -> list[Piece]:
        """A row after whose last token log-probabilities are wanted."""
        begin, past = self._reuse(tokens, prefix)
        tail = tokens[begin:]
        if store is None and len(tail) > PIECE:
            store = KeyValues(self.memory, len(tokens))
        return row_of(tail, begin, past, store, take, scored=[len(tail) - 1])

    def _reuse(
        self,
        tokens: Sequence[int],
        prefix: Prefix | None,
    ) -> tuple[int, KeyValues | None]:
        """How many tokens of a row need not be read, since the prefix begins with them; at least one is read."""
        if prefix is None or prefix.state is None:
            return 0, None
        shared = min(common_prefix_length([tokens, prefix.tokens]), len(tokens) - 1)
        return shared, prefix.state if shared else None

    def _forward(
        self,
        tokens: torch.Tensor,
        positions: torch.Tensor,
        scored: torch.Tensor,
    ) -> torch.Tensor:
        """logits[W, V]; see reading.Forward."""
        with (
            self._pack_rows(),
            split_products(
                self.model.get_output_embeddings(),
                len(scored),
                self.shapes.output[-1],
            ),
        ):
            output = self.model(
                input_ids=tokens[None],
                position_ids=positions[None],
                use_cache=False,
                logits_to_keep=scored,
            )
        return output.logits[0]

    @contextmanager
    def _pack_rows(self) -> Iterator[None]:
        """Inside this block the model attends as `attention` does, and multiplies as `products` does."""
        before = [config._attn_implementation_internal for config in self._configs]
        for config in self._configs:
            config._attn_implementation_internal = attention.NAME
        try:
            with use_products(self._layers):
                yield
        finally:
            for config, name in zip(self._configs, before, strict=True):
                config._attn_implementation_internal = name


class _CachedDecoder(Decoder):
    """The decoder of TransformersLM. room: for how many more tokens there is a place at once."""

    def __init__(
        self,
        model: TransformersLM,
        prompts: list[list[int]],
        prefix: Prefix | None,
        room: int,
    ) -> None:
        self._model = model
        self._lengths = [len(prompt) for prompt in prompts]
        self._own = [KeyValues(model.memory, length + room) for length in self._lengths]
        self._log_probs = torch.empty(len(prompts), model.vocab_size)
        model._read(
            [
                model._row(prompt, prefix, store, partial(_place, row))
                for prompt, store, row in zip(prompts, self._own, self._log_probs, strict=True)
            ]
        )

    @property
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU."""
        return self._log_probs

    def append(self, token: int) -> None:
        """Appends one token to every prompt. Raises PromptTooLong when one no longer fits."""
        self.append_each([int(token)] * len(self._own))
        self._model._count_lost(self._log_probs)

    def append_each(self, tokens: Sequence[int]) -> None:
        """Appends a token to each prompt. Raises PromptTooLong when one no longer fits."""
        self._model._check_length(1 + max(self._lengths, default=0))
        new = torch.empty(len(self._own), self._model.vocab_size)
        rows = [
            row_of(
                [token],
                length,
                None,
                store,
                partial(_place, row),
                scored=[0],
            )
            for token, length, store, row in zip(
                tokens,
                self._lengths,
                self._own,
                new,
                strict=True,
            )
        ]
        self._model._read(rows)
        self._log_probs = new
        self._lengths = [length + 1 for length in self._lengths]

    def keep(self, places: Sequence[int]) -> None:
        """Drops all prompts but these."""
        if len(places) < len(self._own):
            self._own = [self._own[place] for place in places]
            self._lengths = [self._lengths[place] for place in places]


def explain_unsupported(model: Any) -> str | None:
    """Why a model cannot be read in packed rows, or None where it can."""
    config = model.config.get_text_config(decoder=True)
    missing = {"position_ids", "logits_to_keep"} - set(inspect.signature(model.forward).parameters)
    if missing or not model._supports_attention_backend:
        return "its attention cannot be replaced"
    kinds = set(getattr(config, "layer_types", None) or []) - {
        "full_attention",
        "sliding_attention",
    }
    if kinds:
        return f"it has layers of the kind {', '.join(sorted(kinds))}"
    if any(getattr(config, name, None) for name in _EXPERTS):
        return "its experts read as many tokens as are sent to them, so a row could change the rounding of another"
    positions = getattr(config, "rope_parameters", None) or {}
    if "longrope" in [
        each.get("rope_type") for each in (positions, *positions.values()) if isinstance(each, dict)
    ]:
        return "the longest row of a pass would scale the positions of all"
    if any(hasattr(module, "sinks") for module in model.modules()):
        return "its attention has sinks"
    if getattr(config, "num_kv_shared_layers", 0):
        return "some of its layers use the keys of others"
    return None


#: How configurations of transformers name the number of experts.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")


def _bytes_a_token(model: Any) -> int:
    """What keys and values of one token take in all layers."""
    whole, numbers = model.config.get_text_config(decoder=True), 0
    for config in getattr(whole, "per_layer_config", None) or [whole] * whole.num_hidden_layers:
        heads = config.num_attention_heads
        groups = getattr(config, "num_key_value_heads", None) or heads
        numbers += 2 * groups * (getattr(config, "head_dim", None) or config.hidden_size // heads)
    return numbers * model.dtype.itemsize


def _place(
    row: torch.Tensor,
    places: Sequence[int],
    log_probs: torch.Tensor,
) -> None:
    row.copy_(log_probs[0])


def _ignore(places: Sequence[int], log_probs: torch.Tensor) -> None:
    return None
