"""Named random streams from one root seed, and the source of privacy noise.

A run has separate streams for sampling, noise, labels and evaluation, so that a change in one part never shifts
another. Benchmarks on public data use seeded noise: anybody can re-run a row. **A published noise seed voids
differential privacy**: who knows it can subtract the noise. Two releases of one seed have the same noise, scaled: who
sees both needs no seed to take it away. For private data use secure noise, which takes both the noise and the sampling
randomness (amplification needs them secret too) from the operating system's entropy, and writes no seed.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from dpicl.core import exact_noise
from dpicl.core.errors import PluginError, UsageError

#: With secure noise this part of delta pays for what is drawn instead of the ideal distributions: an upper bound on
#: that is `dpicl.privacy.secure_release.floating_point_delta`. So the noise is calibrated at delta - 1e-7.
SECURE_SHARE = 1e-7
#: Below this delta that share would weigh too much; secure noise is refused there.
LEAST_SECURE_DELTA = 1e-6


class SamplingRandomness(Protocol):
    """Draws sampling randomness; every call is fresh and independent per coordinate."""

    def uniform(self, size: int) -> np.ndarray:
        """float64[size] in [0, 1)."""


class NoiseSource(SamplingRandomness, Protocol):
    """Draws privacy noise as well."""

    seeded: bool

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        """float64[size] of N(0, scale^2)."""

    def gumbel(self, size: int) -> np.ndarray:
        """float64[size] of the standard Gumbel distribution."""


_SHOT: ContextVar[int | None] = ContextVar("shot", default=None)


@contextmanager
def shot_streams(number: int) -> Iterator[None]:
    """Inside this block seeded noise and sampling randomness come from streams of this shot's own: what another shot
    draws, and when, changes nothing."""
    token = _SHOT.set(number)
    try:
        yield
    finally:
        _SHOT.reset(token)


def current_shot() -> int | None:
    """The number of the shot that is being written; None outside of `shot_streams`."""
    return _SHOT.get()


class SeededNoise:
    """Reproducible noise, for benchmarks on public data only.

    stream: the generator of a shot (None: outside of shots). Each is made once, so no draw comes twice.
    """

    seeded = True

    def __init__(self, stream: Callable[[int | None], np.random.Generator]) -> None:
        self._of_shot = cache(stream)

    @property
    def _generator(self) -> np.random.Generator:
        return self._of_shot(_SHOT.get())

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return self._generator.normal(0.0, scale, size) if scale else np.zeros(size)

    def gumbel(self, size: int) -> np.ndarray:
        return self._generator.gumbel(size=size)

    def uniform(self, size: int) -> np.ndarray:
        return self._generator.random(size)


def _words(number: int) -> np.ndarray:
    """uint64[number] of the operating system's entropy."""
    return np.frombuffer(secrets.token_bytes(8 * number), dtype=np.uint64)


class SecureNoise:
    """Noise from the operating system's entropy (`secrets`), with no state that could be stored or replayed.

    How far each draw is from the ideal one is stated, and proved, in dpicl.core.exact_noise.
    """

    seeded = False

    def uniform(self, size: int) -> np.ndarray:
        """In (0, 1), in steps of 2^-53: below any rate with at most that probability, so that no record is sampled more
        often than was charged."""
        numbers = (_words(size) >> np.uint64(11)).astype(np.float64) + 1.0
        return np.minimum(numbers, 2.0**53 - 1) * 2.0**-53

    def gaussian(self, scale: float, size: int) -> np.ndarray:
        return exact_noise.gaussian(scale, size, _words) if scale else np.zeros(size)

    def gumbel(self, size: int) -> np.ndarray:
        return exact_noise.gumbel(size, _words)


#: The streams that noise and sampling randomness come from, where they are seeded, and the secret map of a task of
#: codes (dpicl.data.codes).
_PRIVATE = ("noise", "sampling", "codes")


class PublicStreams:
    """The public random streams of a run, as a mechanism sees them: neither seed, nor noise, nor sampling
    randomness, nor the map of a task of codes."""

    def __init__(self, streams: Streams) -> None:
        def stream(name: str) -> np.random.Generator:
            if name in _PRIVATE:
                raise PluginError(
                    f"Stream '{name}' is the harness's own; choose another name for public randomness."
                )
            return streams.stream(name)

        self._stream = stream

    def stream(self, name: str) -> np.random.Generator:
        """A generator that everybody may know: a function of the run's seed and the name alone.

        Raises PluginError for the names of the streams that are not public.
        """
        return self._stream(name)

    def stream_of_shot(self, name: str) -> np.random.Generator:
        """As `stream`, of the shot that is being written alone: two texts of one label do not share randomness."""
        return self._stream(f"{name}:{_SHOT.get()}")


def accounted_delta(delta: float, noise: str) -> float:
    """The delta at which a release with the target delta is accounted. Raises UsageError for secure noise and a delta
    below LEAST_SECURE_DELTA."""
    if noise != "secure":
        return delta
    if delta < LEAST_SECURE_DELTA:
        raise UsageError(
            f"Secure noise needs a delta of at least {LEAST_SECURE_DELTA:g}, not {delta:g}: {SECURE_SHARE:g} of it is"
            " set aside for floating point. Raise delta."
        )
    return delta - SECURE_SHARE


@dataclass(frozen=True)
class Streams:
    """The random streams of one run. ``stream(name)`` is a function of the root seed and the name alone."""

    root: int
    secure: bool = False

    def stream(self, name: str) -> np.random.Generator:
        """A generator for public randomness (order of labels, choice of test records, bootstrap)."""
        return self._generator(name)

    def _generator(self, name: str, *further: int) -> np.random.Generator:
        words = np.frombuffer(hashlib.sha256(name.encode()).digest()[:16], dtype=np.uint32)
        return np.random.default_rng(np.random.SeedSequence([self.root, *words.tolist(), *further]))

    @property
    def public(self) -> PublicStreams:
        """The streams that a mechanism may use."""
        return PublicStreams(self)

    def source(self, name: str) -> NoiseSource:
        """A source of private randomness: the noise, or the sampling randomness. Each shot has a stream of its own."""
        if self.secure:
            return SecureNoise()
        return SeededNoise(
            lambda shot: self._generator(name, *(() if shot is None else (shot + 1,)))
        )


def streams(root: int, noise: str = "seeded") -> Streams:
    """Streams for a root seed; ``noise`` is 'seeded' or 'secure'."""
    if noise not in ("seeded", "secure"):
        raise UsageError(f"noise must be 'seeded' or 'secure', not {noise!r}.")
    return Streams(root, secure=noise == "secure")
