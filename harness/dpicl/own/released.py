"""The return values of `dpicl.release` and `dpicl.answer`, and their file formats: JSONL, tables, a prompt, messages.

Released texts are whatever a model wrote. JSON is written in ASCII alone, and a prompt without characters that move a
cursor or turn the reading.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from dpicl.core.errors import ResultError, UsageError, require_known
from dpicl.core.files import put_whole
from dpicl.core.printable import make_printable, make_visible, quote_formula
from dpicl.core.vocabulary import Query, ReleasedPrompt
from dpicl.data.free_texts import Form, read_dialogue, read_messages, read_pair
from dpicl.data.task import PublicTask
from dpicl.own.card import card_json
from dpicl.own.card_pages import card_html, card_markdown

FORMATS = ("jsonl", "csv", "parquet", "hf", "prompt", "messages-openai", "messages-anthropic")
#: Formats that are bytes; what cannot be written in one of them is shown as JSONL.
_BINARY = ("parquet", "hf")
#: Stands for the text that is asked about.
PLACE = "{text}"


def _nothing() -> None:
    """For a release of which nothing is kept."""


@dataclass(frozen=True)
class PrivateRelease:
    """What came out of one release, and its privacy card (a dictionary, as the card's JSON file has it).

    answers: id of the query -> its answer; empty for demonstrations and for a state. state: the content of the file
    from which `dpicl.answer` answers any query; None but for a prepared mechanism that was given no queries.
    charged_to: names of the private sets that paid. form: whether the texts have labels, and what they are else.
    finish: to be called when the release is saved: until then the same command makes it again at no further cost.
    """

    card: Mapping[str, Any]
    task: PublicTask = field(repr=False)
    prompt: ReleasedPrompt = field(default=ReleasedPrompt(None), repr=False)
    queries: Sequence[Query] = field(default=(), repr=False)
    answers: Mapping[str, str] = field(default_factory=dict)
    state: str | None = field(default=None, repr=False)
    charged_to: tuple[str, ...] = ()
    form: Form = "labelled"
    finish: Callable[[], None] = field(default=_nothing, repr=False)

    @property
    def demonstrations(self) -> list[dict[str, Any]]:
        """{"text", "label"} of each released demonstration; without labels {"text"}, {"input", "output"} or
        {"messages"}."""
        return _rows_of(self.prompt, self.form)

    @property
    def instruction(self) -> str | None:
        return self.prompt.instruction

    def answer_all(self, queries: Sequence[Query]) -> PrivateRelease:
        """The release with all queries in their order; those without text, which nobody asked, have an empty answer."""
        answers = {query.id: self.answers[query.id] if query.text else "" for query in queries}
        return replace(self, queries=queries, answers=answers)

    def text(self, format: str = "jsonl") -> str:
        """The content of a file, as JSONL where the format is no text: of answers one a line, in the order of the
        queries; of demonstrations as `FORMATS` has it; the state, where there is one."""
        content = self.content("jsonl" if format in _BINARY else format)
        return content if isinstance(content, str) else content.decode()

    def content(self, format: str = "jsonl") -> str | bytes:
        """The content of a file: see `text`; bytes of "parquet" and "hf"."""
        if self.state is not None:
            return self.state
        if self.queries:
            rows = []
            for query in self.queries:
                rows.append({"id": query.id, "text": query.text, "answer": self.answers[query.id]})
            return _lines(rows)
        return format_release(self.prompt, self.task, format, self.form)

    @property
    def card_files(self) -> tuple[Callable[[], str], ...]:
        """What writes the card's files, in the order of `check_places`."""
        return tuple(partial(write, self.card) for write in (card_markdown, card_json, card_html))

    def save(self, out: Path | str, format: str = "jsonl") -> list[Path]:
        """Writes the file and its card, beside it in three formats; returns the paths. Raises UsageError for a file
        that is there already, ResultError where it cannot be written."""
        paths = check_places(Path(out))
        contents = (lambda: self.content(format), *self.card_files)
        for path, content in zip(paths, contents, strict=True):
            try:
                put_whole(path, content())  # what was paid for comes first
            except OSError as error:
                raise ResultError(
                    f"{path} cannot be written ({error.strerror}); fix that, or save it elsewhere."
                ) from error
        return paths


class UnsavedRelease(ResultError):
    """A release that was made, paid for, and could not be written: it is in `release`."""

    def __init__(self, message: str, release: PrivateRelease) -> None:
        super().__init__(message)
        self.release = release


def check_places(out: Path) -> list[Path]:
    """The file, and the three of its card. Raises UsageError for what is no file's name, and for one that is there: a
    release is not made twice."""
    if not out.name or "\0" in str(out):
        raise UsageError(f"Invalid file name '{out}'; give another --out.")
    paths = [
        out,
        *(out.with_name(f"{out.stem}.card.{ending}") for ending in ("md", "json", "html")),
    ]
    try:
        there = next((path for path in paths if path.exists() or path.is_symlink()), None)
    except OSError as error:  # too long a name, a folder that may not be entered
        raise UsageError(
            f"{out} cannot be written ({error.strerror}); give another --out."
        ) from error
    if there is not None:
        raise UsageError(f"{there} already exists and is not overwritten; give another --out.")
    return paths


def try_places(out: Path) -> None:
    """Raises UsageError where the output could not be written after the records have paid for it."""
    paths = check_places(out)
    try:
        for path in paths:
            put_whole(path, "")
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written ({error.strerror}); give another --out. Nothing was charged."
        ) from error
    finally:
        for path in paths:
            with suppress(OSError):
                path.unlink(missing_ok=True)


def format_release(
    prompt: ReleasedPrompt, task: PublicTask, form: str, texts: Form = "labelled"
) -> str | bytes:
    """A file's content. texts: whether they have labels; those without have the rows of `_rows_of`, and a prompt and
    messages hold those alone that have an answer.

    jsonl: {"text", "label"} a line, and {"instruction"} first where one was released. csv, parquet: the columns text
    and label; a released instruction is the first row, without a label. hf: the same as Parquet, with the labels as
    classes of a Hugging Face data set. prompt: what a model reads, with `PLACE` where the query goes. messages-openai:
    {"messages": [...]}, messages-anthropic: {"system", "messages": [...]}, with `PLACE` in the last one.

    Raises UsageError for a format that there is not, and for messages about texts that are no answers.
    """
    check_format(form, task, texts)
    match form:
        case "prompt" if texts != "labelled":
            return _free_prompt(prompt, task, texts)
        case "prompt":
            prefix = task.icl_prefix(prompt.demonstrations, prompt.instruction)
            return make_printable(prefix + task.query(PLACE)) + "\n"
        case "messages-openai":
            return json.dumps({"messages": messages(prompt, task, texts)}, indent=1) + "\n"
        case "messages-anthropic":
            turns = messages(prompt, task, texts)
            system = turns.pop(0)["content"] if turns[0]["role"] == "system" else ""
            return json.dumps({"system": system, "messages": turns}, indent=1) + "\n"
        case "csv":
            return _csv(_table_of(prompt, texts))
        case "parquet" | "hf":
            return _parquet(_table_of(prompt, texts), task.labels if form == "hf" else ())
    rows = _rows_of(prompt, texts)
    if prompt.instruction is not None:
        rows = [{"instruction": prompt.instruction}, *rows]
    return _lines(rows)


def _rows_of(prompt: ReleasedPrompt, texts: Form) -> list[dict[str, Any]]:
    """A released text as an object."""
    match texts:
        case "labelled":
            return [{"text": each.text, "label": each.label} for each in prompt.demonstrations]
        case "pairs":
            pairs = [read_pair(each.text) for each in prompt.demonstrations]
            return [{"input": text, "output": output} for text, output in pairs]
        case "dialogues":
            return [{"messages": read_dialogue(each.text)} for each in prompt.demonstrations]
    return [{"text": each.text} for each in prompt.demonstrations]


def _free_prompt(prompt: ReleasedPrompt, task: PublicTask, texts: Form) -> str:
    """What a model reads: of texts alone those, and the beginning of one more; else questions with their answers."""
    if texts == "plain":
        prefix = task.icl_prefix(prompt.demonstrations, prompt.instruction)
        return make_printable(prefix + task.query("")) + "\n"
    names = {
        "user": "Input" if texts == "pairs" else "User",
        "assistant": "Output" if texts == "pairs" else "Assistant",
    }
    blocks = []
    for each in prompt.demonstrations:
        turns = read_messages(each.text, texts)
        if turns:
            blocks.append("\n".join(f"{names[turn['role']]}: {turn['content']}" for turn in turns))
    blocks.append(f"{names['user']}: {PLACE}\n{names['assistant']}:")
    return make_printable("\n\n".join(blocks)) + "\n"


def _table_of(prompt: ReleasedPrompt, texts: Form) -> dict[str, list[str | None]]:
    """Columns: texts with their labels (None of an instruction), inputs with outputs, or texts (of dialogues too)."""
    if texts == "pairs":
        rows = _rows_of(prompt, texts)
        return {name: [row[name] for row in rows] for name in ("input", "output")}
    written = [each.text for each in prompt.demonstrations]
    if texts != "labelled":
        return {"text": [*written]}
    first = [] if prompt.instruction is None else [prompt.instruction]
    labels = [each.label for each in prompt.demonstrations]
    no_labels = [None] * len(first)
    return {"text": [*first, *written], "label": [*no_labels, *labels]}


def _csv(table: Mapping[str, Sequence[str | None]]) -> str:
    """Texts as people see them, and none that a spreadsheet takes for a formula."""
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator="\n")
    writer.writerow(list(table))
    for row in zip(*table.values(), strict=True):
        texts = [cell or "" for cell in row]
        writer.writerow([quote_formula(make_visible(text, len(text))) for text in texts])
    return file.getvalue()


def _parquet(table: Mapping[str, Sequence[str | None]], classes: Sequence[str]) -> bytes:
    """classes: labels are numbers of these, as Hugging Face's `datasets` reads them; (): labels are words."""
    import pyarrow as pa
    from pyarrow import parquet

    columns: dict[str, Any] = {}
    for name, cells in table.items():
        columns[name] = pa.array(cells, pa.string())
    metadata: dict[str, str] = {}
    if classes:
        labels = table["label"]
        numbers = [None if label is None else classes.index(label) for label in labels]
        columns["label"] = pa.array(numbers, pa.int64())
        features = {
            "text": {"dtype": "string", "_type": "Value"},
            "label": {"names": list(classes), "_type": "ClassLabel"},
        }
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    file = io.BytesIO()
    parquet.write_table(pa.table(columns).replace_schema_metadata(metadata), file)
    return file.getvalue()


def messages(
    prompt: ReleasedPrompt, task: PublicTask, texts: Form = "labelled"
) -> list[dict[str, str]]:
    """The prompt as the messages of a chat: the instruction, a question and its answer for each demonstration, and the
    question that is to be asked, about `PLACE`. Without labels: the messages of the texts, and `PLACE`."""
    if texts != "labelled":
        turns = [turn for each in prompt.demonstrations for turn in read_messages(each.text, texts)]
        return [*turns, {"role": "user", "content": PLACE}]
    instruction = task.icl_prefix((), prompt.instruction).strip()
    contents = [("system", instruction)] if instruction else []
    for each in prompt.demonstrations:
        answer = each.text if task.kind == "json" else each.label
        contents += [("user", task.query(each.text)), ("assistant", answer)]
    contents.append(("user", task.query(PLACE)))
    return [{"role": role, "content": content} for role, content in contents]


def check_format(form: str, task: PublicTask, texts: Form = "labelled") -> None:
    """Raises UsageError as `format_release` does, and where the library of a format is missing."""
    require_known("format", [form], FORMATS)
    if form.startswith("messages") and texts == "plain":
        raise UsageError(
            "Texts without labels answer nothing, and a chat does; use --format prompt or jsonl."
        )
    if form == "hf" and texts != "labelled":
        raise UsageError(
            "Texts without labels have no classes for a Hugging Face data set; use --format parquet."
        )
    if form.startswith("messages") and task.kind == "continuation":
        raise UsageError(
            f"{task.name} goes on with a text, and a chat answers one; use --format prompt or jsonl."
        )
    if form == "hf" and task.kind != "classification":
        raise UsageError(
            f"{task.name} has no classes for a Hugging Face data set; use --format parquet."
        )
    if form in _BINARY and importlib.util.find_spec("pyarrow") is None:
        raise UsageError(
            f"--format {form} needs pyarrow; `pip install pyarrow`, or use --format jsonl."
        )


def _lines(rows: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)
