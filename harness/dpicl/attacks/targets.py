"""The target of an attack: one mechanism at one epsilon on one private set, which answers any public question.

An answer mechanism answers every query through its slots and pays for all of them. A demonstration mechanism releases
once, before the first question; the model then answers with the released examples in its prompt, and no query costs
anything. So does a prepared mechanism, which answers by itself. So zero-shot and real demonstrations, the reference
baselines, are targets like all others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dpicl.attacks.views import completions
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import UsageError
from dpicl.core.output_cache import OutputCache
from dpicl.core.vocabulary import Query, ReleasedPrompt, Report, report_nothing
from dpicl.data.task import Task
from dpicl.mechanism.bases import Mechanism
from dpicl.mechanism.generation import label_endings
from dpicl.mechanism.outputs import skip_reason
from dpicl.models.base import LanguageModel, common_prefix_length, not_finite_error
from dpicl.releasing.release import Answering, Release, release

#: A question put to a target: the task, with its private records, seen through a view (or as it is).
QueryView = Callable[[Task], Task]


class Target:
    """One mechanism, its private records and its budget.

    task: with the private records as its train set.
    releases: every release that was made so far; their ledgers say what the attacker was shown.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        task: Task,
        model: LanguageModel,
        config: ReleaseConfig,
        outputs: Callable[[], OutputCache] = lambda: OutputCache(None),
        report: Report = report_nothing,
    ) -> None:
        self.mechanism, self.task, self.model, self.config = mechanism, task, model, config
        self.releases: list[Release] = []
        self.outputs, self._report = outputs, report
        self._prompt: ReleasedPrompt | None = None
        self._more: Answering | None = None

    @property
    def answers_queries(self) -> bool:
        """Whether it gives answers, and the model is not asked with what was released."""
        return not self.mechanism.releases_texts

    def prompt(self) -> ReleasedPrompt:
        """What a demonstration mechanism released; released once. Raises UsageError for an answer mechanism."""
        if self.answers_queries:
            raise UsageError(
                f"{self.mechanism.name} answers queries and releases no demonstrations; choose another."
            )
        if self._prompt is None:
            self._prompt = self._release(self.task).prompt
        return self._prompt

    def prefix(self, task: Task) -> str:
        """What stands before every query of a view: what a demonstration mechanism released."""
        prompt = self.prompt()
        return task.icl_prefix(prompt.shown, prompt.instruction)

    def _release(self, task: Task, queries: Sequence[Query] | None = None) -> Release:
        new = release(
            self.mechanism,
            task,
            self.model,
            self.config,
            queries,
            outputs=self.outputs,
            report=self._report,
        )
        self.releases.append(new)
        return new

    def answers(self, view: QueryView, queries: Sequence[Query]) -> dict[str, str]:
        """Query id -> answer: a label of a classification view, or a text.

        An answer mechanism releases all of them at once, with Q = the number of queries. A second call would be a
        second release with a budget of its own, and no one epsilon would cover both: UsageError. A prepared one
        releases for the first call's view, and answers all calls from it.
        """
        task = view(self.task)
        if self.answers_queries:
            if self.releases and self._more is not None:
                return self._more(queries)
            if self.releases:
                raise UsageError(
                    "An answer mechanism is asked once, with all queries of an attack together."
                )
            reason = skip_reason(self.mechanism, task.public_view())
            if reason:
                raise UsageError(
                    f"{self.mechanism.name} cannot answer this attack's question: {reason}."
                )
            released = self._release(task, queries)
            self._more = released.more
            return dict(released.answers or {})
        if task.chooses:
            rows = self.label_log_probs(view, [query.text for query in queries])
            likeliest = rows.argmax(axis=1).tolist()
            return {
                query.id: task.labels[place]
                for query, place in zip(queries, likeliest, strict=True)
            }
        prefix = self.prefix(task)
        texts = completions(
            task, self.model, [prefix + task.query(query.text) for query in queries]
        )
        return {query.id: text for query, text in zip(queries, texts, strict=True)}

    def label_log_probs(self, view: QueryView, texts: Sequence[str]) -> np.ndarray:
        """float64[n, L]: log-probability of each label word of a classification view after the released examples.

        For demonstration mechanisms: their queries are free, and anybody may read the model's probabilities. Raises
        ModelError when one is not finite.
        """
        task, model = view(self.task), self.model
        prefix, endings = self.prefix(task), label_endings(task, model)
        prompts = [model.encode(prefix + task.query(text)) for text in texts]
        shared = model.prefix(prompts[0][: common_prefix_length(prompts)])
        rows = np.array(
            model.score([(prompt, endings) for prompt in prompts], shared), dtype=np.float64
        )
        if not np.isfinite(rows).all():
            raise not_finite_error(model.identity.name)
        return rows
