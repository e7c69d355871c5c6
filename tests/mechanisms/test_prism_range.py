"""PRISM's premise on real models: one more record moves all its scores by a range of at most what its choice states."""

from __future__ import annotations

import numpy as np
import pytest

from dpicl import models
from dpicl.data.task import Record, Task
from dpicl.mechanism.generation import PromptWriter
from dpicl.models.base import LanguageModel
from dpicl.privacy.primitives import BoundedRangeChoice, clip_scores
from tests.harness.models.tiny import save_tiny_llama

#: What moved other rows while they were read in padded batches: a quotation mark, long and short texts, other bytes.
HOSTILE = (
    '"',
    '"Quoted," she said.',
    "",
    " ",
    "word " * 300,
    "日本語のテキスト " * 20,
    "\n\n\n",
    "END",
    "é\u0301🙂" * 10,
)
#: The options of suite `classification`.
CLIP, PROMPTS, RECORD_TOKENS = 10.0, 64, 32
WRITTEN = 4


def largest_move(model: LanguageModel, task: Task, label: str, records: int, added: list[str]) -> float:
    """The largest range of the moves of all scores by one added record, over the range that the choice states, at the
    first tokens of a text."""
    if not model.identity.batch_invariant:
        pytest.skip("this machine rounds rows differently beside others")
    choice = BoundedRangeChoice(CLIP, PROMPTS, temperature=1.0)
    writer = PromptWriter(task.public_view(), model, label, WRITTEN, RECORD_TOKENS, "completion")
    usual = [record for record in task.train if record.label == label][:records]
    written = model.encode(" The report says")[:WRITTEN]

    def scores(texts: list[Record]) -> list[np.ndarray]:
        decoder = model.decoder([writer.private([record]) for record in texts], writer.prefix)
        found = []
        for token in (*written, None):
            private = clip_scores(decoder.log_probs.numpy(), CLIP).sum(axis=0) / PROMPTS
            found.append(choice.weight * private)
            if token is not None:
                decoder.append(token)
        return found

    before = scores(usual)
    moves = []
    for place, text in enumerate(added):
        at = place % (len(usual) + 1)
        after = scores([*usual[:at], Record(text=text, label=label), *usual[at:]])
        moves += [np.ptp(new - old) / choice.width for old, new in zip(before, after, strict=True)]
    return float(max(moves))


def real_texts(task: Task, label: str, count: int) -> list[str]:
    """Texts of another label, and records of this one that come later."""
    return [record.text for record in task.train if record.label != label][:count] + [
        record.text for record in task.train if record.label == label
    ][-count:]


@pytest.fixture(scope="module")
def trec() -> Task:
    return Task.load("trec", "auto", limit_train=60, limit_test=1)


def test_no_added_record_moves_the_scores_of_a_tiny_model_further_than_stated(
    trec: Task, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = save_tiny_llama(tmp_path_factory.mktemp("tiny"), max_length=1024)
    model = models.load(f"hf:{folder}", device="cpu", dtype="float32")
    label = trec.labels[1]
    assert 0 < largest_move(model, trec, label, 10, [*HOSTILE, *real_texts(trec, label, 3)]) <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("name", ["trec", "agnews"])
def test_no_added_record_moves_the_scores_of_the_embedded_model_further_than_stated(name: str, dtype: str) -> None:
    model = models.load("embedded", dtype=dtype)
    task = Task.load(name, "auto", limit_train=60, limit_test=1)
    label = task.labels[1]
    assert 0 < largest_move(model, task, label, 24, [*HOSTILE, *real_texts(task, label, 4)]) <= 1 + 1e-9
