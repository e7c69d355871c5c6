"""Any causal transformer of Hugging Face as a LanguageModel: tokens are read once, and only what is needed is computed.

* Prompts are batched by length under a token budget, and the output layer sees only the positions that are needed.
* A prefix that prompts share is read once and its keys and values are used by every row.
* All endings of a query (the labels) are scored in one pass: they are branches of a tree, and the attention mask lets
  every token see its own ancestors only (tree attention; Miao et al. 2024, SpecInfer, section 4).
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers.cache_utils import Cache

from dpicl.harness.core.errors import ModelError
from dpicl.harness.models import tree
from dpicl.harness.models.base import Broken, ChatPrompt, Decoder, LanguageModel, ModelIdentity, Prefix, Tokens, Usage
from dpicl.harness.models.decoding import Writer
from dpicl.harness.models.reading import (
    KeyValues,
    Rows,
    batches,
    cache_after,
    common_prefix_length,
    lay_out,
    read_prefix,
)

#: A shared prefix costs one extra pass, so it must save at least this many tokens.
WORTH_SHARING = 64
#: Rows shorter than this share of a batch are read in another one: a pass more costs less than so much padding.
LEAST_FILL = 0.75
#: Largest logits tensor of a scoring pass, in numbers (B x positions x V): 128 MB in float32.
LOGITS_BUDGET = 2**25


class TransformersLM(LanguageModel):
    """A causal model of transformers with its tokenizer.

    batch_tokens: most tokens (padding included) in one pass.
    start_token: what stands before an empty prompt; by default the BOS token, else EOS.
    Raises ModelError for architectures whose state is not a plain key/value cache.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        identity: ModelIdentity,
        batch_tokens: int = 4096,
        start_token: int | None = None,
    ) -> None:
        _check_supported(model, identity.name)
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.identity = identity
        self.batch_tokens = batch_tokens
        self.usage = Usage()
        self.vocab_size = int(model.get_output_embeddings().weight.shape[0])
        self.max_length = _context_length(model.config.get_text_config(decoder=True))
        self.eos_token_id = tokenizer.eos_token_id
        self._layers = int(model.config.get_text_config(decoder=True).num_hidden_layers)
        self._start = next(t for t in (start_token, tokenizer.bos_token_id, tokenizer.eos_token_id) if t is not None)
        self._lead = _leading_tokens(tokenizer)
        self.lead_tokens = len(self._lead)
        self._mask_value = torch.finfo(model.dtype).min

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.device

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """Tokens of a prompt; see LanguageModel. Raises ModelError for a ChatPrompt when there is no chat template."""
        if isinstance(prompt, ChatPrompt):
            if not self.tokenizer.chat_template:
                raise ModelError(f"{self.identity.name} has no chat template; use prompts of the style 'completion'.")
            turns = [{"role": "user", "content": prompt.user}]
            text = self.tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
            prompt = text + prompt.assistant_prefix
        return list(self.tokenizer(prompt, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, tokens: Tokens) -> str:
        """Text of tokens, special tokens left out."""
        return self.tokenizer.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)

    @torch.inference_mode()
    def next_token_log_probs(self, prompts: Sequence[Tokens]) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU; see LanguageModel."""
        result = torch.empty(len(prompts), self.vocab_size)
        shared, tails = self._share([self._opened(prompt) for prompt in prompts])
        for batch in batches([len(tail) for tail in tails], self.batch_tokens, LEAST_FILL):
            layout = lay_out([tails[i] for i in batch], shared, self.device)
            cache = cache_after(shared, len(batch), self._layers, room=0) if shared else None
            logits = self._forward(layout.tokens, layout.positions, layout.causal_mask(), cache, 1)[:, -1]
            result[batch] = torch.log_softmax(logits.float(), dim=-1).cpu()
        return result

    @torch.inference_mode()
    def decoder(self, prompts: Sequence[Tokens]) -> Decoder:
        """Reads the B prompts once; every batch of them keeps a cache of its own."""
        opened = [self._opened(prompt) for prompt in prompts]
        shared, tails = self._share(opened)
        order = list(batches([len(tail) for tail in tails], self.batch_tokens))
        groups = [(batch, self._rows([tails[i] for i in batch], shared, room=32)) for batch in order]
        return _CachedDecoder(self, groups, max(map(len, opened), default=0))

    @torch.inference_mode()
    def prefix(self, tokens: Tokens) -> Prefix:
        """Reads a shared prefix once. Raises PromptTooLong when it alone fills the context."""
        read = tuple(self._opened(tokens)) if tokens or self._lead else ()
        state = read_prefix(self._forward, read, self._layers, self.device) if read else None
        return Prefix(tuple(tokens), state)

    def score(self, prefix: Prefix, continuations: Sequence[tuple[Tokens, Sequence[Tokens]]]) -> list[list[float]]:
        """Sum of log-probabilities of each ending of each query after the shared prefix; see LanguageModel."""
        return [[ending.log_prob for ending in row] for row in self.score_endings(prefix, continuations)]

    @torch.inference_mode()
    def score_endings(
        self, prefix: Prefix, continuations: Sequence[tuple[Tokens, Sequence[Tokens]]]
    ) -> list[list[tree.ScoredEnding]]:
        """As `score`, and whether each ending is what greedy decoding would say."""
        shared: KeyValues | None = prefix.state
        past = len(shared.tokens) if shared else 0
        trees = [tree.Tree.of(endings) for _, endings in continuations]
        queries = [self._after(shared, query) for query, _ in continuations]
        for query, branches in zip(queries, trees, strict=True):
            self._check_length(past + len(query) + branches.depth)
        costs = [max(1, len(query)) + len(branches.tokens) for query, branches in zip(queries, trees, strict=True)]
        result: list[list[tree.ScoredEnding]] = [[] for _ in queries]
        for batch in batches(costs, self.batch_tokens, LEAST_FILL):
            widest = 1 + max(len(trees[i].tokens) for i in batch)
            step = max(1, LOGITS_BUDGET // (widest * self.vocab_size))
            for part in (batch[start : start + step] for start in range(0, len(batch), step)):
                layout = tree.graft(lay_out([queries[i] for i in part], shared, self.device), [trees[i] for i in part])
                cache = cache_after(shared, len(part), self._layers, room=0) if shared else None
                logits = self._forward(layout.tokens, layout.positions, layout.mask, cache, layout.kept)
                for i, scores in zip(part, tree.read_off(logits.float(), [trees[i] for i in part]), strict=True):
                    result[i] = scores
        return result

    @torch.inference_mode()
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
        """Continuation of each prompt; see LanguageModel. Rows that have ended leave the batch."""
        writer = Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        opened = [self._opened(prompt) if prefix is None else self._after(prefix.state, prompt) for prompt in prompts]
        past = len(prefix.state.tokens) if prefix and prefix.state else 0
        for tokens in opened:
            self._check_length(past + len(tokens) + max_tokens)
        if max_tokens < 1:
            return writer.texts
        shared, tails = self._share(opened) if prefix is None else (prefix.state, opened)
        for active in batches([max(1, len(tail)) for tail in tails], self.batch_tokens):
            rows = self._rows([tails[i] for i in active], shared, room=max_tokens)
            going, chosen = writer.step(rows.logits, active)
            while going:
                if len(going) < len(active):
                    rows.keep(torch.tensor(going, device=self.device))
                    active = [active[place] for place in going]
                rows.append(chosen)
                going, chosen = writer.step(rows.logits, active)
        return writer.texts

    def _rows(self, tails: Sequence[list[int]], shared: KeyValues | None, room: int) -> Rows:
        return Rows(self._forward, tails, shared, self._layers, self.device, room)

    def _forward(
        self, tokens: torch.Tensor, positions: torch.Tensor, mask: torch.Tensor | None, cache: Cache | None, kept: int
    ) -> torch.Tensor:
        """logits[B, kept, V] of the last ``kept`` columns; see reading.Forward."""
        additive = None
        if mask is not None:
            additive = torch.zeros(mask.shape, dtype=self.model.dtype, device=mask.device)
            additive = additive.masked_fill_(~mask, self._mask_value)[:, None]
        output = self.model(
            input_ids=tokens,
            position_ids=positions,
            attention_mask=additive,
            past_key_values=cache,
            use_cache=cache is not None,
            logits_to_keep=kept,
        )
        self.usage.tokens_read += tokens.numel()
        self.usage.forward_calls += 1
        return output.logits

    def _opened(self, prompt: Tokens) -> list[int]:
        """The tokens that are read for a prompt: with BOS where the model wants one, never empty."""
        tokens = list(prompt)
        if tokens[: len(self._lead)] != self._lead:
            tokens = self._lead + tokens
        self._check_length(len(tokens))
        return tokens or [self._start]

    def _after(self, shared: KeyValues | None, query: Tokens) -> list[int]:
        """The tokens that are read for a query after a shared prefix."""
        return list(query) if shared else self._opened(query)

    def _share(self, prompts: list[list[int]]) -> tuple[KeyValues | None, list[list[int]]]:
        """The common beginning of all prompts, read once where that pays, and what remains of each prompt."""
        length = min(common_prefix_length(prompts), min(map(len, prompts), default=1) - 1)
        if length * (len(prompts) - 1) < WORTH_SHARING:
            return None, prompts
        shared = read_prefix(self._forward, prompts[0][:length], self._layers, self.device)
        return shared, [prompt[length:] for prompt in prompts]


class _CachedDecoder(Decoder):
    """The decoder of TransformersLM. groups: (indices of prompts of similar length, their cached rows) pairs."""

    def __init__(self, model: TransformersLM, groups: list[tuple[list[int], Rows]], longest: int) -> None:
        self._model = model
        self._groups = groups
        self._longest = longest

    @property
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32 on the CPU."""
        result = torch.empty(sum(len(indices) for indices, _ in self._groups), self._model.vocab_size)
        for indices, rows in self._groups:
            result[indices] = torch.log_softmax(rows.logits.float(), dim=-1).cpu()
        return result

    @torch.inference_mode()
    def append(self, token: int) -> None:
        """Appends one token to every prompt. Raises PromptTooLong when one no longer fits."""
        self._longest += 1
        self._model._check_length(self._longest)
        for indices, rows in self._groups:
            rows.append(torch.full((len(indices),), int(token), device=self._model.device))


def _leading_tokens(tokenizer: Any) -> list[int]:
    """[BOS] for tokenizers that put it before every text, else []."""
    tokens = tokenizer("a")["input_ids"]
    return [tokens[0]] if tokens and tokens[0] == tokenizer.bos_token_id else []


def _context_length(config: Any) -> int:
    """Tokens that the model reads exactly: its positions, or the sliding window where layers have one."""
    length = int(getattr(config, "max_position_embeddings", 2048))
    window = getattr(config, "sliding_window", None)
    return min(length, int(window)) if window and getattr(config, "use_sliding_window", True) else length


def _check_supported(model: Any, name: str) -> None:
    """Raises ModelError for models that cannot be read with positions, a mask of our own and a key/value cache."""
    wanted = {"position_ids", "attention_mask", "past_key_values", "logits_to_keep"}
    missing = wanted - set(inspect.signature(model.forward).parameters)
    kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or [])
    if missing or kinds - {"full_attention", "sliding_attention"}:
        raise ModelError(
            f"{name} ({type(model).__name__}) is not a causal transformer with a plain key/value cache; choose another."
        )
