"""A model whose answers are as different as they can be from prompt to prompt, and noise that is known."""

import hashlib

import numpy as np

from dpicl.data.task import Record
from dpicl.mechanism.bases import Context
from dpicl.models.base import ChatPrompt, ModelIdentity, Tokens, Usage
from dpicl.models.rereading import RereadingModel
from tests.samples import private_set

ALPHABET = [chr(c) for c in range(32, 127)] + ["\n", "\x00"]
EOS = len(ALPHABET) - 1


class AdversarialModel(RereadingModel):
    """Character-level; log-probabilities are a hash of the whole prompt, often peaked, sometimes NaN or infinite.

    A prompt that holds '@' answers with NaN, one that holds '#' with -infinity nearly everywhere, one with '~' with
    +infinity: what a hostile record can make a real model do.
    """

    def __init__(self, poison: bool = True) -> None:
        self.identity = ModelIdentity("adversarial", None, None, "float32", "cpu", 0)
        self.vocab_size = len(ALPHABET)
        self.max_length = 400
        self.eos_token_id = EOS
        self.usage = Usage()
        self.poison = poison
        self.prompts_seen = list[tuple[int, ...]]()

    def encode(self, prompt: str | ChatPrompt) -> list[int]:
        text = prompt if isinstance(prompt, str) else f"{prompt.user}|{prompt.assistant_prefix}"
        return [ALPHABET.index(c) if c in ALPHABET else 31 for c in text]

    def decode(self, tokens: Tokens) -> str:
        return "".join(ALPHABET[t] for t in tokens if t != EOS)

    def log_probs_after(self, prompt: Tokens) -> np.ndarray:
        self.prompts_seen.append(tuple(prompt))
        text = self.decode(prompt)
        seed = int.from_bytes(
            hashlib.sha256(text.encode()).digest()[:8],
            "little",
        )
        logits = np.random.default_rng(seed).normal(0, 6, self.vocab_size)
        if self.poison and "@" in text:
            logits[:] = np.nan
        if self.poison and "#" in text:
            logits[1:] = -np.inf
        if self.poison and "~" in text:
            logits[:3] = np.inf
        with np.errstate(invalid="ignore"):
            return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()

    def score(self, queries, prefix=None):
        raise AssertionError("a release does not score")

    def generate(self, prompts, *rest, **options):
        raise AssertionError("a release chooses every token itself")


class TinyTask:
    """What a mechanism needs of a task."""

    name, kind, partitioned = "tiny", "classification", True
    stop_strings: tuple[str, ...] = ("\n", " END")

    def generation_prompt(self, label, examples, style="completion"):
        demos = "".join(f"{e.label}:{e.text} END\n" for e in examples)
        text = f"Write.\n{demos}{label}:"
        return text if style == "completion" else ChatPrompt(text, "Text:")


class ForcedNoise:
    """Noise that makes the choice fall on the first public token, so that two runs release the same tokens."""

    seeded = True

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return np.where(np.arange(size) == 0, 1e12, 0.0)

    gumbel = None

    def __init__(self) -> None:
        self.gumbel = lambda size: self.gaussian(1.0, size)


def read_prompt(model, *texts) -> np.ndarray:
    """Log-probabilities after the prompt that shows records of label 'a' with these texts; of none: the public one."""
    records = [Record(text=text, label="a") for text in texts]
    return model.log_probs_after(model.encode(TinyTask().generation_prompt("a", records)))


def write_token(model, token: int) -> str:
    """What is released of a text of one token."""
    return model.decode([token]).strip().strip('"').strip()


def run(
    mechanism,
    texts,
    *,
    seed=0,
    knob=1.0,
    shots=("a",),
    noise=None,
    model=None,
    task=None,
    size=None,
):
    """Releases from records of label 'a' with the given texts; answers (demonstrations, ledger, model)."""
    model, task = model or AdversarialModel(), task or TinyTask()
    records = [Record(text=t, label="a") for t in texts]
    private, ledger, public = private_set(
        records,
        {"a": size or len(texts)},
        seed,
        noise,
    )
    context = Context(task, model, tuple(shots), knob, public)
    return mechanism.release(private, context), ledger, model
