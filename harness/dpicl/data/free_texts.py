"""Records that are texts without labels: a text, an input with its output, or the messages of a dialogue.

A mechanism sees one line of text, and what it writes is read back the same way: ``INPUT / Output: OUTPUT``, and
``User: … / Assistant: …``. Whether a record can be written so depends on that record alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

#: What the texts are; 'labelled' ones have a label of a classification beside them.
Form = Literal["labelled", "plain", "pairs", "dialogues"]
#: Stands between an input and its output.
_OUTPUT = " / Output: "
_ROLES = ("system", "user", "assistant")
_TURN = re.compile(rf"(?:^| / )({'|'.join(role.capitalize() for role in _ROLES)}): ")


def write_pair(text: str, output: str) -> str:
    """One line. Raises ValueError, the end of a sentence, for an empty part."""
    if not text.strip() or not output.strip():
        raise ValueError("has an empty input or output")
    return f"{_one_line(text)}{_OUTPUT}{_one_line(output)}"


def read_pair(line: str) -> tuple[str, str]:
    """(input, output) of a line; the output is '' where there is none."""
    text, _, output = line.partition(_OUTPUT)
    return text.strip(), output.strip()


def write_dialogue(messages: Any) -> str:
    """One line of a list of {"role", "content"}. Raises ValueError, the end of a sentence, for what is none."""
    if not isinstance(messages, list) or not messages:
        raise ValueError("has no list of messages")
    turns = []
    for message in messages:
        role, content = (
            (message.get(key) for key in ("role", "content"))
            if isinstance(message, dict)
            else (None, None)
        )
        if role not in _ROLES or not isinstance(content, str) or not content.strip():
            raise ValueError(
                f"has a message without a role ({', '.join(_ROLES)}) or without a text as `content`"
            )
        turns.append(f"{role.capitalize()}: {_one_line(content)}")
    return " / ".join(turns)


def read_dialogue(line: str) -> list[dict[str, str]]:
    """The messages of a line; [] where it begins with none."""
    _, *parts = _TURN.split(line) if _TURN.match(line) else [""]
    turns = zip(parts[::2], parts[1::2], strict=True)
    return [
        {"role": role.lower(), "content": content.strip()}
        for role, content in turns
        if content.strip()
    ]


def describe_form(texts: Sequence[str], form: Form) -> list[str]:
    """A sentence where texts have not the form that was to be released."""
    if form == "pairs":
        wrong, what = sum(not all(read_pair(text)) for text in texts), "have no output"
    elif form == "dialogues":
        wrong = sum(not _is_answered(read_dialogue(text)) for text in texts)
        what = "hold no message with an answer"
    else:
        return []
    return [f"{wrong} of {len(texts)} texts {what}."] if wrong else []


def read_messages(text: str, form: Form) -> list[dict[str, str]]:
    """The messages of a released text that ends with an answer; [] of one that does not."""
    if form == "pairs":
        user, answer = read_pair(text)
        messages = [{"role": "user", "content": user}, {"role": "assistant", "content": answer}]
        return messages if user and answer else []
    messages = [message for message in read_dialogue(text) if message["role"] != "system"]
    while messages and messages[-1]["role"] != "assistant":
        messages.pop()
    return messages if _is_answered(messages) else []


def _is_answered(messages: Sequence[dict[str, str]]) -> bool:
    return {"user", "assistant"} <= {message["role"] for message in messages}


def _one_line(text: str) -> str:
    return " ".join(text.split())
