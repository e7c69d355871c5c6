"""How to audit: what is seen, how often a mechanism runs, and the sizes of its options where nobody sets them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, get_args

from dpicl.harness.attacks.canaries import QUESTIONS
from dpicl.harness.attacks.results import Access
from dpicl.harness.core.errors import UsageError, unknown
from dpicl.harness.mechanism.bases import AnswerMechanism, Mechanism
from dpicl.harness.mechanism.options import sized_options

ACCESSES: Final[tuple[str, ...]] = get_args(Access)
#: Options of an audit where the command does not say otherwise: sizes that a processor can run a hundred times.
#: T = 4 partitions of 2 examples are the published audit's.
SIZES: Final[Mapping[str, int]] = {
    "slots": 4,
    "examples_per_slot": 2,
    "record_tokens": 110,
    "public_slots": 8,
}
DEMONSTRATION_SIZES: Final[Mapping[str, int]] = {
    "slots": 8,
    "examples_per_slot": 1,
    "prompts": 8,
    "tokens": 6,
    "top_k": 10,
    "record_tokens": 32,
}


@dataclass(frozen=True)
class AuditSettings:
    """How to audit. runs: on each side, each with one sample of records. redraws: noise resamples of a run without a
    closed form.

    records: private records (None: as many as a sample expects, so that every record is in it: q = 1). words: of the
    canary that are asked about. repeats: how often a canary to be copied spells out its example. rank: of the canary's
    tokens among those that could be released.
    """

    access: Access = "white-box"
    question: str = "inquiry"
    runs: int = 200
    redraws: int = 50
    records: int | None = None
    confidence: float = 0.95
    delta: float = 1e-5
    seed: int = 0
    words: int = 12
    repeats: int = 3
    rank: int = 9

    def __post_init__(self) -> None:
        for kind, given, known in (("access", self.access, ACCESSES), ("question", self.question, QUESTIONS)):
            if given not in known:
                raise unknown(kind, given, known)
        if not (0.5 <= self.confidence < 1 and 0 < self.delta < 1):
            raise UsageError("An audit needs a confidence in [0.5, 1) and a delta between 0 and 1, both excluded.")
        if self.runs < 8 or self.redraws < 1 or (self.records is not None and self.records < 2):
            raise UsageError("An audit needs 8 runs on each side, 1 noise resample and 2 records at least.")

    def options(self, cls: type[Mechanism], task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option of the mechanism: audit sizes where nothing was given."""
        sizes = SIZES if issubclass(cls, AnswerMechanism) else DEMONSTRATION_SIZES
        return sized_options(cls, task, sizes, given)

    def described(self, mechanism: Mechanism) -> dict[str, Any]:
        """What a result file says of these."""
        own = asdict(self)
        for name in ("access", "seed", "delta", "records"):
            del own[name]
        unused = ("rank",) if isinstance(mechanism, AnswerMechanism) else ("question", "words", "repeats")
        return {name: value for name, value in own.items() if name not in unused}


def sample_size(mechanism: Mechanism) -> int:
    """The expected sample, by the mechanism's options. Raises UsageError where they do not say."""
    size = getattr(mechanism, "prompts", None)
    if size is None:
        size = getattr(mechanism, "slots", 0) * getattr(mechanism, "examples_per_slot", 1)
    if not size:
        raise UsageError(f"{mechanism.name} has no option that says how many records a sample has; give --records.")
    return int(size)
