"""How to audit, and what an audit works with: what is seen, how often a mechanism runs, on which records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, get_args

from dpicl.attacks.results import Access
from dpicl.core.errors import UsageError, require_known
from dpicl.core.vocabulary import Record, Report, Sizes, silent
from dpicl.data.task import NEUTRAL_LABEL, Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.options import sized_options
from dpicl.models.base import LanguageModel
from dpicl.models.embeddings import EmbeddingModel, load_embeddings
from dpicl.releasing.output_cache import OutputCache

#: What is asked about a canary; see dpicl.attacks.canaries.
QUESTIONS: Final = ("inquiry", "lookup")
#: Private records of an audit whose mechanism reads all of them, where the command does not say otherwise.
ALL_RECORDS: Final = 40
#: Options of an audit where the command does not say otherwise: sizes that a processor can run a hundred times.
#: T = 4 partitions of 2 examples are the published audit's.
SIZES: Final = {"slots": 4, "examples_per_slot": 2, "record_tokens": 110, "public_slots": 8}
DEMONSTRATION_SIZES: Final = {
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
        require_known("access", [self.access], get_args(Access))
        require_known("question", [self.question], QUESTIONS)
        if not (0.5 <= self.confidence < 1 and 0 < self.delta < 1):
            raise UsageError("An audit needs a confidence in [0.5, 1) and a delta between 0 and 1, both excluded.")
        if self.runs < 8 or self.redraws < 1 or (self.records is not None and self.records < 2):
            raise UsageError("An audit needs 8 runs on each side, 1 noise resample and 2 records at least.")

    def options(self, cls: type[Mechanism], task: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Every option of the mechanism: audit sizes where nothing was given."""
        return sized_options(cls, task, DEMONSTRATION_SIZES, SIZES, dict(given))

    def described(self, mechanism: Mechanism) -> dict[str, Any]:
        """What a result file says of these."""
        asked = ("question", "words", "repeats")
        unused = {"answers": ("rank",), "prepared": ("rank", *asked)}.get(mechanism.kind or "", asked)
        left_out = ("access", "seed", "delta", "records", *unused)
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    def size(self, mechanism: Mechanism) -> int:
        """How many private records there are: by default the expected sample, by the mechanism's options; where they
        say none, it reads all records, as prepared mechanisms and private evolution do."""
        if self.records is not None:
            return self.records
        if mechanism.reads_all:
            return ALL_RECORDS
        size = getattr(mechanism, "prompts", None)
        if size is None:
            size = getattr(mechanism, "slots", 0) * getattr(mechanism, "examples_per_slot", 1)
        return int(size) or ALL_RECORDS


@dataclass(frozen=True)
class AuditSetup:
    """What an audit works with. private: the private set; its size is public. other: the record that is not in it, and
    that a canary is made of."""

    mechanism: Mechanism
    task: Task
    private: Sequence[Record] = field(repr=False)
    other: Record
    model: LanguageModel
    settings: AuditSettings
    outputs: OutputCache
    report: Report = silent

    @property
    def label(self) -> str:
        """Of the one demonstration that is audited: the first one."""
        return self.task.labels[0] if self.task.labels else NEUTRAL_LABEL

    @property
    def sizes(self) -> Sizes:
        """Of one query, or of one demonstration; of a prepared mechanism all groups with records, and the other's."""
        if self.mechanism.reads_all:
            grouped = self.task.partitioned and self.mechanism.by_label
            return Sizes(Counter(each.label if grouped else None for each in (*self.private, self.other)), {})
        declared = {self.label if self.task.partitioned else None: len(self.private)}
        return self.mechanism.public_sizes(replace(self.task, declared=declared).sized(), (self.label,), 1)

    @property
    def embeddings(self) -> EmbeddingModel:
        """The mechanism's, for tasks of texts."""
        return load_embeddings(getattr(self.mechanism, "embedding", "embedded"))

    def counted(self, present: bool) -> Iterator[int]:
        """The numbers of the runs on one side, with a report after each."""
        for run in range(self.settings.runs):
            yield run
            self.report(run + 1, self.settings.runs, f"runs {'with' if present else 'without'} the canary")
