"""Answers for the queries of one run: all are paid for, then each is answered once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dpicl.harness.core.errors import UsageError
from dpicl.harness.mechanism.bases import AnswerContext, AnswerMechanism, FinalPrompt, Mechanism, Query, Sizes
from dpicl.harness.mechanism.outputs import checked_answer
from dpicl.harness.privacy.accountants import epsilon
from dpicl.harness.privacy.private_set import PrivateSet

if TYPE_CHECKING:
    from dpicl.harness.data.task import Task

Report = Callable[[int, int, str], None]


def queries_of(task: Task) -> list[Query]:
    """The test records as queries; content-free inputs are none."""
    return [
        Query(document["id"], document["text"]) for document in task.documents() if not document.get("content_free")
    ]


def answer_all(
    mechanism: AnswerMechanism,
    queries: Sequence[Query],
    private: PrivateSet,
    context: AnswerContext,
    budget: int,
    report: Report = lambda *_: None,
) -> dict[str, str]:
    """Query id -> answer. The public prompts are read before any record is dealt.

    budget: Q, how many queries are charged; all of them before the first is answered. What the model still has to write
    from released things is written at the end, for all queries together.
    Raises UsageError when there are more queries than were charged or two have one id, BudgetExceeded when the ledger
    does not admit Q of them; then nothing is drawn.
    """
    if len(queries) > budget:
        raise UsageError(f"There are {len(queries)} queries but the budget is for {budget}; raise `queries`.")
    if len({query.id for query in queries}) < len(queries):
        raise UsageError("Two queries have the same id; remove the repeated record from the test set.")
    context.reader.read_public()
    samples = mechanism.dealing.samples(private, mechanism.release(context.knob), budget)
    said: dict[str, str | FinalPrompt] = {}
    for query in queries:
        said[query.id] = checked_answer(mechanism, mechanism.answer(query, next(samples), context))
        report(len(said), len(queries), "answers")
    waiting = {key: answer.prompt for key, answer in said.items() if isinstance(answer, FinalPrompt)}
    written = dict(zip(waiting, context.reader.write(list(waiting.values())), strict=True))
    return {key: answer if isinstance(answer, str) else written[key] for key, answer in said.items()}


def per_query_epsilon(mechanism: Mechanism, knob: float, sizes: Sizes, delta: float) -> float | None:
    """Proved epsilon of one answer, had it been the only one, as many papers report it; None for demonstrations."""
    if not isinstance(mechanism, AnswerMechanism):
        return None
    return epsilon(mechanism.events(knob, replace(sizes, queries=1)), delta).upper
