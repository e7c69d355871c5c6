"""What runs of a demonstration mechanism show an auditor: the releases of every token, or the released text."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from dpicl.attacks.audit_rules import AuditEvidence, Rule, as_it_is, linear
from dpicl.attacks.audit_runs import SIDES, AuditRuns, Observed, equal_inputs
from dpicl.attacks.audit_settings import AuditSetup
from dpicl.attacks.exact_pairs import chances
from dpicl.attacks.observers import Observation, Policy, choose, forced
from dpicl.attacks.views import with_records
from dpicl.core.messages import count
from dpicl.core.seeds import streams
from dpicl.core.vocabulary import Record
from dpicl.privacy.calibration import Calibration
from dpicl.privacy.ledger import Ledger
from dpicl.privacy.release_hooks import NoisyRelease

#: Clean sums of more coordinates than this, over all tokens, are seen at the canary's own tokens alone.
_MOST_COORDINATES: Final = 5_000
#: Probabilities below this count as this in a likelihood ratio.
_TINY: Final = 1e-12
#: How many ranks are tried until a forced text is as long as it may be.
_MOST_TRIES: Final = 40


class DemonstrationRuns(AuditRuns):
    """One demonstration of the first label. The canary's text is made of what the mechanism could release but hardly
    would: at every token the one of a fixed rank among the public candidates.

    White-box, the mechanism is made to release the canary's tokens (teacher forcing), so the clean values depend on no
    noise: they are read once for all epsilons. Black-box, every run releases its own text at every epsilon.
    """

    def __init__(self, setup: AuditSetup) -> None:
        super().__init__(setup, with_records(setup.task, setup.private).public_view(), None, None)
        self._forced_runs: Observed | None = None
        self._indices: list[int] = []
        self.notes = [f"one demonstration of the first label, {count(len(setup.private), 'record')}"]

    def evidence(self, calibration: Calibration) -> AuditEvidence:
        if self.canary is None:
            self.canary = self._worst_case(calibration.knob)
        return super().evidence(calibration)

    def _worst_case(self, knob: float) -> Record:
        """The canary; `_indices` is then what each noisy release is made to release.

        The rank is, of a sum, the position in the public order of its coordinates; of a choice, the rank of the score
        without the canary in a sample that no run has. Where a token ends the text, the next better rank takes its
        place. Raises UsageError when no text is released by a choice among public tokens.
        """
        ranks: dict[int, int] = {}
        rank, longest = self._settings.rank, 0
        for _ in range(_MOST_TRIES):
            path: Policy = lambda t, release: choose(release, _at_rank(release, ranks.get(t, rank)))  # noqa: E731
            observed, made = self.run(False, knob, self._settings.runs, path=path)
            length = len(observed)
            longest = max(longest, length)
            last = ranks.get(length - 1, rank)
            if not length or length >= getattr(self._mechanism, "tokens", longest) or last == 0:
                break
            ranks[length - 1] = last - 1
        self._indices = [each.index for each in observed]
        return Record("\n".join(made.prompt.texts), self._setup.label)

    def _white_box(self, knob: float, ledger: Ledger, first: Sequence[Observation]) -> AuditEvidence:
        path = forced(self._indices)
        leading, _ = self.run(False, knob, 0, path=path)
        if self._forced_runs is None or not _same_clean(leading, self._forced_runs[False][0]):
            self._forced_runs = self._both(knob, path)
        scales = [each.release.scale for each in leading]
        if leading[0].release.kind != "gaussian":
            return self._choices(self._forced_runs, scales, ledger)
        sizes = [each.release.clean.size for each in leading]
        if sum(sizes) > _MOST_COORDINATES:
            fits = {"canary's tokens": linear(np.ones(len(sizes)))}
            return self._sums(self._forced_runs, scales, ledger, fits, self._indices)
        own = np.concatenate([np.eye(size)[at] for size, at in zip(sizes, self._indices, strict=True)])
        return self._sums(self._forced_runs, scales, ledger, {"canary's tokens": linear(own)})

    def _choices(self, runs: Observed, scales: Sequence[float], ledger: Ledger) -> AuditEvidence:
        """Log-likelihood ratios of the tokens that are chosen, [n, m] for m draws of the noise.

        The ratio of every token is learned on the first fifth of the runs, which are then left out.
        """
        pilot = max(4, self._settings.runs // 5)
        rows = {side: [[_chances(one, at) for one, at in zip(run, scales, strict=True)] for run in runs[side]]
                for side in SIDES}  # fmt: skip
        inside, outside = ([np.mean(one, axis=0) for one in zip(*rows[side][:pilot], strict=True)] for side in SIDES)
        ratios = [np.log(np.maximum(a, _TINY) / np.maximum(b, _TINY)) for a, b in zip(inside, outside, strict=True)]
        generator = streams(self._settings.seed).stream("audit:choices")

        def drawn(run: Sequence[np.ndarray]) -> np.ndarray:
            total = np.zeros(self._settings.redraws)
            for own, ratio in zip(run, ratios, strict=True):
                reached = np.cumsum(own)
                at = np.searchsorted(reached, generator.random(len(total)) * reached[-1])
                total += ratio[at.clip(max=len(ratio) - 1)]
            return total

        both = [np.array([drawn(run) for run in rows[side][pilot:]]) for side in SIDES]
        return AuditEvidence(both[0], both[1], Rule({"likelihood ratio": as_it_is}, None), ledger)

    @property
    def _draws(self) -> int:
        return 1

    def _towards(self, answers: Sequence[str]) -> list[float]:
        """How much of the canary's tokens stands in each released text, in one piece: 0 to 1."""
        assert self.canary is not None
        encode = self._setup.model.encode
        ours = encode(self.canary.text)
        matchers = (difflib.SequenceMatcher(None, ours, encode(text), autojunk=False) for text in answers)
        return [matcher.find_longest_match().size / max(1, len(ours)) for matcher in matchers]


def _at_rank(release: NoisyRelease, rank: int) -> int:
    flat = release.clean.ravel()
    if release.kind == "gaussian":
        return min(rank, flat.size - 1)
    if release.kind == "threshold":
        return 1  # above: a private token follows
    return int(np.argsort(-flat, kind="stable")[min(rank, flat.size - 1)])


def _chances(one: Observation, scale: float) -> np.ndarray:
    """What a forced choice would have been at this scale, given the tokens that were forced before."""
    return chances(replace(one.release, scale=scale))


def _same_clean(left: Sequence[Observation], right: Sequence[Observation]) -> bool:
    """Whether the clean values depend on no knob, so that those of another epsilon serve."""
    return len(left) == len(right) == equal_inputs(left, right)
