"""Teacher forcing: the chance of every token of a given text, as a mechanism would release it after the tokens before.

The mechanism itself runs, on a private set whose ledger is nobody's: this reads private records and pays nothing, so it
is a diagnostic on public benchmark data, and no part of a release. At every noisy release the clean value and the noise
are seen (dpicl.harness.privacy.release_hooks); what its text goes on with is decided here
(dpicl.harness.mechanism.generation.taught). So no mechanism's distribution is written down a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import log_softmax

from dpicl.harness.core.errors import UsageError
from dpicl.harness.evaluation.noisy_argmax import argmax_chance
from dpicl.harness.privacy.above_threshold import chance_of_below
from dpicl.harness.privacy.release_hooks import NoisyRelease


class NotTaught(UsageError):
    """The mechanism releases no text token by token, or not so that its tokens can be seen; the message says why."""


@dataclass(frozen=True)
class Step:
    """What was seen of one token. private: its chance where it comes from a noisy release, public: from a public draw;
    None where there was none. question: (distance from the threshold, scale) of a query of AboveThreshold."""

    private: float | None
    public: float | None
    question: tuple[float, float] | None

    @property
    def chance(self) -> float:
        """Of the token, given the answer to the question."""
        chance = self.public if self.private is None else self.private
        if chance is None:
            raise NotTaught("its tokens come from no noisy release and from no public draw")
        return chance


@dataclass
class Teacher:
    """Makes a mechanism write ``tokens``, and notes the chance of each: an observer of noisy releases, and a lesson.

    vocabulary: V. above: what the question before the t-th token is answered with.
    """

    tokens: Sequence[int]
    vocabulary: int
    above: Callable[[int], bool] = lambda t: True
    steps: list[Step] = field(default_factory=list)
    _private: float | None = None
    _public: float | None = None
    _question: tuple[float, float] | None = None

    def passes(self, noisy_release: NoisyRelease, draw: Callable[[], np.ndarray]) -> np.ndarray:
        """See Observer. Raises NotTaught for a release that does not say which tokens it chooses among."""
        clean = noisy_release.clean.ravel()
        if noisy_release.kind == "threshold":
            if self._question is not None:
                raise NotTaught("it asks several questions before a token")
            self._question = (float(clean[0]), noisy_release.scale)
            return np.array([int(self.above(len(self.steps)))])
        if self._private is not None:
            raise NotTaught("it makes several noisy releases before a token")
        place = self._place(noisy_release)
        self._private = 0.0 if place is None else _chance(noisy_release, clean, place)
        if noisy_release.kind == "choice":
            return np.array([place or 0])
        released = np.zeros(noisy_release.clean.shape)
        released.flat[place or 0] = 1.0
        return released

    def offered(self, scores: np.ndarray) -> int:
        """See Lesson."""
        self._public = float(np.exp(log_softmax(scores)[self._token]))
        return int(scores.argmax())

    def said(self, token: int) -> tuple[int, bool]:
        """See Lesson."""
        own = self._token
        self.steps.append(Step(self._private, self._public, self._question))
        self._private = self._public = self._question = None
        return own, len(self.steps) == len(self.tokens)

    @property
    def _token(self) -> int:
        if len(self.steps) >= len(self.tokens):
            raise NotTaught("it writes more than one text, or goes on after the end of one")
        return self.tokens[len(self.steps)]

    def _place(self, noisy_release: NoisyRelease) -> int | None:
        """Where among the coordinates the next token stands, if it does."""
        ids, size = noisy_release.ids, noisy_release.clean.size
        if noisy_release.kind == "choice" and noisy_release.count != 1:
            raise NotTaught("it chooses several things at once")
        if ids is None:
            if size != self.vocabulary:
                raise NotTaught("its noisy releases do not say which tokens they choose among (`ids` of a primitive)")
            return self._token
        found = np.flatnonzero(ids == self._token)
        return int(found[0]) if len(found) else None


def _chance(noisy_release: NoisyRelease, clean: np.ndarray, place: int) -> float:
    if noisy_release.kind == "gaussian":
        return argmax_chance(clean, noisy_release.scale, place)
    if noisy_release.scale == 0:
        return float(clean.argmax() == place)
    return float(np.exp(log_softmax(clean / noisy_release.scale)[place]))


#: A run of the mechanism under a teacher.
Run = Callable[[Teacher], object]


def taught_chances(run: Run, tokens: Sequence[int], vocabulary: int) -> np.ndarray:
    """float64[T]: the chance of every token given those before it, exact over the noise.

    Where rounds of AboveThreshold decide which tokens are private (private prediction), answers are not released, and a
    token's chance is a mean over them, given the tokens before: a forward recursion over the number of rounds that are
    over and the place where the present one began. Raises NotTaught where the mechanism cannot be followed.
    """
    steps = _steps(run, tokens, vocabulary, lambda t: True)
    rounds = sum(step.question is not None for step in steps)
    if not rounds:
        return np.array([step.chance for step in steps])
    # After so many times "above" nothing is asked any more. The other tokens are asked about in runs of their own.
    runs = [steps]
    for first in range(rounds, len(tokens), rounds):
        runs.append(_steps(run, tokens, vocabulary, range(first, first + rounds).__contains__))
    return _over_answers([_merged(seen) for seen in zip(*runs, strict=True)], rounds)


def _steps(run: Run, tokens: Sequence[int], vocabulary: int, above: Callable[[int], bool]) -> list[Step]:
    teacher = Teacher(tokens, vocabulary, above)
    run(teacher)
    if not teacher.steps:
        raise NotTaught("it writes no text with `ReleasedText`")
    if len(teacher.steps) < len(tokens):
        raise UsageError(f"it releases texts of at most {len(teacher.steps)} tokens; look at fewer")
    return teacher.steps


def _merged(seen: Sequence[Step]) -> Step:
    """What several runs saw of one token, whatever they had answered before."""
    parts = []
    for name in ("private", "public", "question"):
        found = {value for step in seen if (value := getattr(step, name)) is not None}
        if len(found) != 1:
            raise NotTaught("what it releases, or whether it asks, depends on earlier answers")
        parts.append(found.pop())
    return Step(*parts)


def _over_answers(steps: Sequence[Step], rounds: int) -> np.ndarray:
    """float64[T]: the chance of every token given those before it; ``rounds`` times "above" at most."""
    weights = {(0, 0): 1.0}  # (rounds that are over, where the present one began) -> its chance given the tokens so far
    chances = []
    for t, step in enumerate(steps):
        assert step.private is not None and step.public is not None
        reached: dict[tuple[int, int], float] = {}

        def add(state: tuple[int, int], weight: float, reached: dict[tuple[int, int], float] = reached) -> None:
            reached[state] = reached.get(state, 0.0) + weight

        for (over, first), weight in weights.items():
            if over == rounds:
                add((over, 0), weight * step.public)
                continue
            above = _above([own.question for own in steps[first : t + 1]])
            add((over + 1, t + 1), weight * above * step.private)
            add((over, first), weight * (1 - above) * step.public)
        chances.append(sum(reached.values()))
        # A token that could not come leaves nothing to condition on: then the answers stay as likely as they were.
        weights = {state: weight / chances[-1] for state, weight in reached.items()} if chances[-1] > 0 else weights
    return np.array(chances)


def _above(questions: Sequence[tuple[float, float] | None]) -> float:
    """The chance of "above" at the last of a round's questions, those before being "below"."""
    asked = [question for question in questions if question is not None]
    distances, scale = [distance for distance, _ in asked], asked[-1][1]
    before, now = chance_of_below(distances[:-1], scale), chance_of_below(distances, scale)
    return 1 - now / before if before > 0 else 1.0
