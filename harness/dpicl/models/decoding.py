"""Decodes texts: chooses the next token of a row, ends texts, and handles rows without finite logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from dpicl.core.errors import UsageError
from dpicl.models.base import BrokenText, not_finite_error

if TYPE_CHECKING:
    from dpicl.models.base import Broken, LanguageModel


class Writer:
    """The texts of one call of `generate`. Every row is decided by its own logits, and its own noise, alone.

    The next token is the likeliest one, or at a temperature the argmax of logits / temperature + Gumbel noise, which is
    a sample of the softmax (Gumbel-max trick; Maddison et al. 2014, A* Sampling, section 2). Row i draws one number a
    token of the vocabulary from numpy's default generator with seed ``seeds[i]``, in float64 on the CPU: a text depends
    neither on the other rows nor on the device's random numbers, up to the rounding of the model's logits.

    rows: how many texts. The other arguments are those of LanguageModel.generate, which says what each error means.
    """

    def __init__(
        self,
        model: LanguageModel,
        rows: int,
        max_tokens: int,
        stop: Sequence[str],
        temperature: float,
        seeds: Sequence[int] | None,
        broken: Broken,
    ) -> None:
        if broken not in ("raise", "empty"):
            raise UsageError(f"broken must be 'raise' or 'empty', not '{broken}'.")
        self._model, self._max_tokens, self._broken = model, max_tokens, broken
        self._stop = [word for word in stop if word]
        self._temperature = temperature
        self._noise = _generators(rows, temperature, seeds)
        self._tokens: list[list[int]] = [[] for _ in range(rows)]
        self.texts = [""] * rows

    def step(
        self,
        logits: torch.Tensor,
        rows: Sequence[int],
    ) -> tuple[list[int], torch.Tensor]:
        """Writes one token to each of these B rows.

        logits: Tensor[B, V] of the rows. Returns the places (0 to B - 1) of the rows whose text goes on, in order, and
        the tokens int64[<=B] that were written to them, on the device of the logits. Raises ModelError when logits are
        not finite, unless such rows end with the text that they have.
        """
        best, likeliest = logits.max(dim=-1)
        sound = best.isfinite().tolist()
        if not all(sound) and self._broken == "raise":
            raise not_finite_error(self._model.identity.name)
        for row in (row for place, row in enumerate(rows) if not sound[place]):
            self.texts[row] = BrokenText(self.texts[row])
        self._model._count_broken(sound.count(False))
        chosen = likeliest.tolist() if not self._temperature else self._sample(logits, rows, sound)
        going = [
            place
            for place, row in enumerate(rows)
            if sound[place] and self._write(row, chosen[place])
        ]
        return going, torch.tensor(
            [chosen[place] for place in going],
            dtype=torch.long,
            device=logits.device,
        )

    def _sample(
        self,
        logits: torch.Tensor,
        rows: Sequence[int],
        sound: Sequence[bool],
    ) -> list[int]:
        """One token a row; 0 for a row that is not sound, whose noise is not drawn."""
        chosen = [0] * len(rows)
        for place, values in enumerate(logits.cpu().double().numpy()):
            if sound[place]:
                with np.errstate(over="ignore"):
                    scaled = (values - values.max()) / self._temperature
                chosen[place] = int(
                    (scaled + self._noise[rows[place]].gumbel(size=len(scaled))).argmax()
                )
        return chosen

    def _write(self, row: int, token: int) -> bool:
        """Appends a token; whether the text goes on after it."""
        if token == self._model.eos_token_id:
            return False
        tokens = self._tokens[row]
        tokens.append(token)
        text = self._model.decode(tokens)
        stops = [at for at in map(text.find, self._stop) if at >= 0]
        self.texts[row] = text[: min(stops)] if stops else text
        return not stops and len(tokens) < self._max_tokens


def _generators(
    rows: int,
    temperature: float,
    seeds: Sequence[int] | None,
) -> list[np.random.Generator]:
    """One generator a row; none when decoding is greedy."""
    if not (math.isfinite(temperature) and temperature >= 0):
        raise UsageError(
            f"A temperature must be 0 (greedy) or a positive number, not {temperature}."
        )
    if not temperature:
        return []
    if seeds is None or len(seeds) != rows:
        number = "none" if seeds is None else str(len(seeds))
        raise UsageError(f"Sampling {rows} texts needs {rows} seeds, one a prompt; {number} given.")
    if any(seed < 0 for seed in seeds):
        raise UsageError(f"Seeds must be whole numbers of 0 or more, not {min(seeds)}.")
    return [np.random.default_rng(seed) for seed in seeds]
