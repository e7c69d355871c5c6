"""``sim``: a seeded fake language model for tests. It runs every mechanism and the evaluation in milliseconds.

Its distribution is a mixture of what the prompt holds (which token came after the last one before, which tokens occur
at all) and a seeded base distribution that depends on the last token. So it depends on the prompt, like a model, but
knows nothing: its results never share a board with those of a real one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch

from dpicl.harness.core.errors import PromptTooLong, UsageError
from dpicl.harness.models.base import Broken, ChatPrompt, Decoder, LanguageModel, ModelIdentity, Prefix, Tokens, Usage
from dpicl.harness.models.decoding import Writer
from dpicl.harness.models.tree import ScoredEnding

WORDS = """
a about actor after album also an and animal answer article artist as at athlete award band based be been book born
building business but by can car category chief city class club company computer country day sample description director
document early end entity example expression fans film first five football for former found four from game games genre
government group had has have he her his house in industry information insect instead is it its known label lake
largest last law league local location made make man many market may member million mission more most mountain movie
music name nature new news no not number of office official oil old on one only or other out over park people person
place plans plant play player politician price published question ran record report river road round said saw school
science season second series share she sixth small software space sport sports state station stock study such system
team technology text than that the their them there they third this three time to town transportation tree two type
under united university up village war was water we were what when where which who will win with won word world
written year years you
""".split()  # noqa: SIM905

EOS = 0
#: Weights of the mixture: the base distribution, tokens of the prompt, tokens that followed the last one before.
BASE, SEEN, FOLLOWED = 0.5, 0.2, 0.3
MAX_LENGTH = 4096

_PIECES = re.compile(rb" ?[A-Za-z]+|.", re.DOTALL)


def load_simulated(option: str) -> SimulatedLM:
    """``sim`` (option ''), ``sim:SEED``, or ``sim:nan`` / ``sim:inf``, which answer with NaN or infinity."""
    if option in ("nan", "inf"):
        return SimulatedLM(broken=float(option))
    if option and not (option.isdecimal() and len(option) < 17):
        raise UsageError(f"sim:{option} is unknown; use sim, sim:SEED with a whole number, sim:nan or sim:inf.")
    return SimulatedLM(seed=int(option or 0))


class SimulatedLM(LanguageModel):
    """Vocabulary: EOS, the 256 bytes, and common words as ``word``, ``Word``, `` word`` and `` Word``."""

    def __init__(self, seed: int = 0, broken: float | None = None) -> None:
        self._pieces = [b"", *(bytes([value]) for value in range(256))]
        for space in (b"", b" "):
            self._pieces += [space + word.encode() for base in WORDS if len(base) > 1 for word in (base, base.title())]
        self._ids = {piece: token for token, piece in enumerate(self._pieces) if piece}
        self._broken = broken
        name = f"sim:{broken:g}" if broken is not None else f"sim:{seed}" if seed else "sim"
        self.identity = ModelIdentity(name, None, None, "float32", "cpu", 0)
        self.vocab_size = len(self._pieces)
        self.max_length = MAX_LENGTH
        self.eos_token_id = EOS
        self.usage = Usage()
        generator = np.random.default_rng(seed)
        self._last = generator.normal(size=(self.vocab_size, 8))
        self._next = generator.normal(size=(8, self.vocab_size)) * 0.7
        self._likely = np.array([_plausibility(piece) for piece in self._pieces])

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """Tokens of a prompt: known words, else bytes of UTF-8."""
        if isinstance(prompt, ChatPrompt):
            prompt = f"User: {prompt.user}\nAssistant: {prompt.assistant_prefix}"
        tokens: list[int] = []
        for piece in _PIECES.findall(prompt.encode("utf-8", errors="surrogatepass")):
            known = self._ids.get(piece)
            tokens += [known] if known is not None else [1 + value for value in piece]
        return tokens

    def decode(self, tokens: Tokens) -> str:
        """Text of tokens, EOS left out; bytes that are not UTF-8 become replacement characters."""
        return b"".join(self._pieces[token] for token in tokens).decode("utf-8", errors="replace")

    def next_token_log_probs(self, prompts: Sequence[Tokens]) -> torch.Tensor:
        """Tensor[B, V] float32; see LanguageModel."""
        rows = [self._log_probs(prompt) for prompt in prompts]
        self.usage.tokens_read += sum(map(len, prompts))
        self.usage.forward_calls += 1
        return torch.tensor(np.array(rows).reshape(len(rows), self.vocab_size), dtype=torch.float32)

    def decoder(self, prompts: Sequence[Tokens]) -> Decoder:
        """See LanguageModel."""
        return _SimulatedDecoder(self, prompts)

    def prefix(self, tokens: Tokens) -> Prefix:
        """See LanguageModel; nothing is kept."""
        self._check_length(len(tokens))
        return Prefix(tuple(tokens))

    def score(self, prefix: Prefix, continuations: Sequence[tuple[Tokens, Sequence[Tokens]]]) -> list[list[float]]:
        """See LanguageModel."""
        return [[ending.log_prob for ending in row] for row in self.score_endings(prefix, continuations)]

    def score_endings(
        self, prefix: Prefix, continuations: Sequence[tuple[Tokens, Sequence[Tokens]]]
    ) -> list[list[ScoredEnding]]:
        """As `score`, and whether each ending is what greedy decoding would say."""
        result = []
        for query, endings in continuations:
            known: dict[tuple[int, ...], np.ndarray] = {}
            row = []
            for ending in endings:
                total, greedy = 0.0, True
                for at, token in enumerate(ending):
                    said = tuple(ending[:at])
                    if said not in known:
                        known[said] = self._log_probs((*prefix.tokens, *query, *said))
                    total += float(known[said][token])
                    greedy = greedy and int(known[said].argmax()) == token
                row.append(ScoredEnding(total, greedy))
            self.usage.tokens_read += len(query) + sum(map(len, endings))
            self.usage.forward_calls += 1
            result.append(row)
        return result

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
        """See LanguageModel."""
        writer = Writer(self, len(prompts), max_tokens, stop, temperature, seeds, broken)
        for row, prompt in enumerate(prompts):
            tokens = [*(prefix.tokens if prefix else ()), *prompt]
            self._check_length(len(tokens) + max_tokens)
            goes_on = max_tokens > 0
            while goes_on:
                going, chosen = writer.step(torch.from_numpy(self._log_probs(tokens))[None], [row])
                tokens += chosen.tolist()
                goes_on = bool(going)
                self.usage.forward_calls += 1
            self.usage.tokens_read += len(tokens)
        return writer.texts

    def _log_probs(self, prompt: Tokens) -> np.ndarray:
        """float64[V] after one prompt."""
        self._check_length(len(prompt))
        if self._broken is not None:
            return np.full(self.vocab_size, self._broken)
        tokens = np.array([EOS, *prompt], dtype=np.int64)
        last = tokens[-1]
        base = _softmax(self._last[last] @ self._next + self._likely)
        followed = np.bincount(tokens[1:][tokens[:-1] == last], minlength=self.vocab_size)
        seen = np.bincount(tokens[1:], minlength=self.vocab_size)
        mixture = BASE * base
        mixture += (SEEN * seen / seen.sum()) if seen.sum() else SEEN * base
        mixture += (FOLLOWED * followed / followed.sum()) if followed.sum() else FOLLOWED * base
        return np.log(mixture)

    def _check_length(self, length: int) -> None:
        if length > self.max_length:
            raise PromptTooLong(
                f"A prompt of {length} tokens does not fit into {self.identity.name}, which reads {self.max_length};"
                " use fewer or shorter examples."
            )


class _SimulatedDecoder(Decoder):
    def __init__(self, model: SimulatedLM, prompts: Sequence[Tokens]) -> None:
        self._model = model
        self._prompts = [list(prompt) for prompt in prompts]
        self._longest = max(map(len, self._prompts), default=0)
        model._check_length(self._longest)

    @property
    def log_probs(self) -> torch.Tensor:
        """Tensor[B, V] float32."""
        return self._model.next_token_log_probs(self._prompts)

    def append(self, token: int) -> None:
        """Appends one token to every prompt. Raises PromptTooLong when one no longer fits."""
        self._longest += 1
        self._model._check_length(self._longest)
        for prompt in self._prompts:
            prompt.append(int(token))


def _plausibility(piece: bytes) -> float:
    """Logit of the base distribution: words are likely, bytes that break UTF-8 are not."""
    if len(piece) > 1:
        return 2.0 if piece.startswith(b" ") else 0.0
    if piece in (b"", b"\n", b'"'):
        return 1.0
    if piece.isalnum() or piece in b" .,:;-!?'()":
        return -1.0
    return -12.0


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()
