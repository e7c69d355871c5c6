"""What was released as a file for use: JSONL, a prompt, the messages of a chat.

Released texts are whatever a model wrote. JSON is written in ASCII alone, and a prompt without characters that move a
cursor or turn the reading.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from dpicl.core.errors import UsageError, require_known
from dpicl.core.printable import printable
from dpicl.core.vocabulary import Query, ReleasedPrompt
from dpicl.data.task import PublicTask

FORMATS = ("jsonl", "prompt", "chat")
#: Stands for the text that is asked about.
PLACE = "{text}"


def released_text(prompt: ReleasedPrompt, task: PublicTask, form: str) -> str:
    """A file's content. jsonl: {"text", "label"} a line, and {"instruction"} first where one was released; prompt: what
    a model reads, with `PLACE` where the query goes; chat: {"messages": [...]}, with `PLACE` in the last one.

    Raises UsageError for a format that there is not, and for a chat about texts that are no answers.
    """
    check_format(form, task)
    match form:
        case "prompt":
            return printable(task.icl_prefix(prompt.demonstrations, prompt.instruction) + task.query(PLACE)) + "\n"
        case "chat":
            return json.dumps({"messages": messages(prompt, task)}, indent=1) + "\n"
    rows: list[dict[str, str]] = [] if prompt.instruction is None else [{"instruction": prompt.instruction}]
    rows += [{"text": each.text, "label": each.label} for each in prompt.demonstrations]
    return _lines(rows)


def messages(prompt: ReleasedPrompt, task: PublicTask) -> list[dict[str, str]]:
    """The prompt as the messages of a chat: the instruction, a question and its answer for each demonstration, and the
    question that is to be asked, about `PLACE`."""
    instruction = task.icl_prefix((), prompt.instruction).strip()
    said = [("system", instruction)] if instruction else []
    for each in prompt.demonstrations:
        said += [("user", task.query(each.text)), ("assistant", each.text if task.kind == "json" else each.label)]
    said.append(("user", task.query(PLACE)))
    return [{"role": role, "content": content} for role, content in said]


def answered_text(queries: Sequence[Query], answers: Mapping[str, str]) -> str:
    """{"id", "text", "answer"} a line, in the order of the queries."""
    return _lines([{"id": query.id, "text": query.text, "answer": answers[query.id]} for query in queries])


def check_format(form: str, task: PublicTask) -> None:
    """Raises UsageError as `released_text` does."""
    require_known("format", [form], FORMATS)
    if form == "chat" and task.kind == "continuation":
        raise UsageError(f"{task.name} goes on with a text, and a chat answers one; use --format prompt or jsonl.")


def _lines(rows: Sequence[Mapping[str, str]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
