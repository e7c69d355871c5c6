"""The last step of KSA and SGA: the model is asked again, in public, with what was released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpicl.data.task import Record
from dpicl.mechanism.bases import FinalPrompt, Query

if TYPE_CHECKING:
    from dpicl.data.task import PublicTask


def asking(task: PublicTask, query: Query, request: str, examples: Sequence[Record] = ()) -> FinalPrompt:
    """The task's prompt for a query, with a request of one or more lines ahead of its last line, the cue.

    examples: public records that are shown first.
    """
    body, _, cue = task.query(query.text).rpartition("\n")
    lines = [part for part in (body, request, cue) if part]
    return FinalPrompt(task.icl_prefix(examples) + "\n".join(lines))
