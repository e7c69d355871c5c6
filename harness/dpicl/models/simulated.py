"""``sim``: a seeded fake language model for tests. It runs every mechanism and the evaluation in milliseconds.

Its distribution is a mixture of what the prompt holds (which token came after the last one before, which tokens occur
at all) and a seeded base distribution that depends on the last token. So it depends on the prompt, like a model, but
knows nothing: its results never share a board with those of a real one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpicl.core.errors import UsageError
from dpicl.models.base import ChatPrompt, ModelIdentity, Tokens, Usage
from dpicl.models.rereading import RereadingModel

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
#: Numbers of base distributions that are kept, 8 bytes each.
_KEPT_NUMBERS = 2_000_000

_PIECES = re.compile(rb" ?[A-Za-z]+|.", re.DOTALL)


def load_simulated(option: str) -> SimulatedLM:
    """``sim`` (option ''), ``sim:SEED``, or ``sim:nan`` / ``sim:inf``, which answer with NaN or infinity."""
    if option in ("nan", "inf"):
        return SimulatedLM(broken=float(option))
    if option and not (option.isdecimal() and len(option) < 17):
        raise UsageError(
            f"sim:{option} is unknown; use sim, sim:SEED with a whole number, sim:nan or sim:inf."
        )
    return SimulatedLM(seed=int(option or 0))


class SimulatedLM(RereadingModel):
    """Vocabulary: EOS, the 256 bytes, and words as ``word``, ``Word``, `` word`` and `` Word``: ``words`` of letters a
    to z, the common ones by default."""

    def __init__(
        self,
        seed: int = 0,
        broken: float | None = None,
        words: Sequence[str] = WORDS,
    ) -> None:
        self._pieces = [b"", *(bytes([value]) for value in range(256))]
        for space in (b"", b" "):
            self._pieces += [
                space + word.encode()
                for base in words
                if len(base) > 1
                for word in (base, base.title())
            ]
        self._ids = {piece: token for token, piece in enumerate(self._pieces) if piece}
        self._broken = broken
        name = f"sim:{broken:g}" if broken is not None else f"sim:{seed}" if seed else "sim"
        self.identity = ModelIdentity(name, None, None, "float32", "cpu", 0, batch_invariant=True)
        self.vocab_size = len(self._pieces)
        self.max_length = MAX_LENGTH
        self.eos_token_id = EOS
        self.usage = Usage()
        generator = np.random.default_rng(seed)
        self._last = generator.normal(size=(self.vocab_size, 8))
        self._next = generator.normal(size=(8, self.vocab_size)) * 0.7
        self._likely = np.array([_plausibility(piece) for piece in self._pieces])
        self._base = lru_cache(_KEPT_NUMBERS // self.vocab_size)(self._base_after)

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        """Tokens of a prompt: known words, else bytes of UTF-8."""
        if isinstance(prompt, ChatPrompt):
            prompt = self.chat_text(prompt)
        tokens: list[int] = []
        for piece in _PIECES.findall(prompt.encode("utf-8", errors="surrogatepass")):
            token = self._ids.get(piece)
            if token is None:
                tokens.extend([1 + value for value in piece])
            else:
                tokens.append(token)
        return tokens

    def chat_text(self, prompt: ChatPrompt) -> str:
        return f"User: {prompt.user}\nAssistant: {prompt.assistant_prefix}"

    def decode(self, tokens: Tokens) -> str:
        """Text of tokens, EOS left out; bytes that are not UTF-8 become replacement characters."""
        return b"".join(self._pieces[token] for token in tokens).decode("utf-8", errors="replace")

    def _base_after(self, token: int) -> np.ndarray:
        """float64[V]: what any prompt is followed by that ends so."""
        return _softmax(self._last[token] @ self._next + self._likely)

    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        """float64[V] after one prompt."""
        if self._broken is not None:
            return np.full(self.vocab_size, self._broken)
        tokens = np.empty(1 + len(prompt), dtype=np.int64)
        tokens[0] = EOS
        tokens[1:] = prompt
        last = int(tokens[-1])
        base = self._base(last)
        followed = np.bincount(tokens[1:][tokens[:-1] == last], minlength=self.vocab_size)
        counts = np.bincount(tokens[1:], minlength=self.vocab_size)
        mixture = BASE * base
        mixture += (SEEN * counts / counts.sum()) if counts.sum() else SEEN * base
        mixture += (FOLLOWED * followed / followed.sum()) if followed.sum() else FOLLOWED * base
        return np.log(mixture)


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
