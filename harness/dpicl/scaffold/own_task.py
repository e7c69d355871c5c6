"""A task written from a user's file: `dpicl new task NAME --from train.csv`. The records stay where they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from dpicl.core.errors import UsageError
from dpicl.data.counts import count_records, label_words
from dpicl.data.reading import SourceSpec, read_records
from dpicl.data.tables import fields_of
from dpicl.scaffold.writing import TASK, write_example

#: Labels of which an instruction lists every one.
_LISTED = 50
_NO_OTHER = {"missing": "The records are a file of the user's own."}


@dataclass(frozen=True)
class OwnTask:
    """What `write_own_task` wrote. notes: sentences about what the user should look at."""

    files: Sequence[Path]
    labels: Sequence[str]
    test: bool
    notes: Sequence[str]


def own_spec(name: str, text: str, label: str, labels: Mapping[str, str]) -> SourceSpec:
    """What to read from a file: two fields, and label as written -> label word (empty: any label)."""
    local = {"text": text, "label": label, "labels": dict(labels)}
    return SourceSpec(name, tuple(dict.fromkeys(labels.values())), local, _NO_OTHER, _NO_OTHER)


def write_own_task(
    name: str,
    train: Path,
    test: Path | None,
    text: str | None,
    label: str | None,
    labels: Mapping[str, str],
    taken: Iterable[str],
    folder: Path,
) -> OwnTask:
    """Writes the folder of a classification task that names the user's files, with its labels and their fields.

    text, label: fields; None: those with a usual name. labels: as written -> label word; empty: those of the file.
    Raises UsageError as `write_example`, and DataError for records that cannot be read.
    """
    test = test or _beside(train)
    columns = fields_of(train, text, label)
    spec = own_spec(name, *columns, labels)
    reading = read_records(train, spec)
    reading.checked()
    words = list(spec.labels) or label_words(reading, columns[1])
    if len(words) < 2:
        raise UsageError(
            f"The field '{columns[1]}' of {train} has {len(words)} label; a classification task has at least 2. Name"
            " them all with --labels."
        )
    if test is not None:
        known = own_spec(name, *columns, labels or {word: word for word in words})
        counted = count_records(reading, read_records(test, known, "test"), words)
        if not counted.good:
            raise UsageError(f"{counted.problems[0]}; `dpicl data {train} --test {test}` says more.")
    files = write_example(TASK, "task", name, taken, folder)
    target = files[0]
    for file in (target / "train.jsonl", target / "test.jsonl"):
        file.unlink()
    local = {"text": columns[0], "label": columns[1], "train": _from(target, train)}
    local |= {"test": _from(target, test)} if test is not None else {}
    (target / "task.yaml").write_text(_task_yaml(name, words, local, labels), encoding="utf-8")
    (target / "README.md").write_text(_readme(name, words), encoding="utf-8")
    suite = target / "suite.yaml"
    comment = "# $DPICL_DATA/my_task/train.jsonl and test.jsonl".replace("my_task", name)
    suite.write_text(suite.read_text("utf-8").replace(comment, "# the files that task.yaml names"), encoding="utf-8")
    kept = [target, *(path for path in files[1:] if path.suffix != ".jsonl")]
    return OwnTask(kept, words, test is not None, _notes(words, test))


def _notes(words: Sequence[str], test: Path | None) -> list[str]:
    notes = [f"Labels are public; task.yaml has these {len(words)}: look whether all of them may be known."]
    if all(word.lstrip("-").isdecimal() for word in words):
        notes.append("The labels are numbers, which tell a model nothing: name them with --labels 0=billing,1=refund.")
    if test is None:
        notes.append(
            "There is no test file, which a run needs and a release does not: add `test: FILE` under"
            " metadata.data.local in task.yaml. Test records count as public."
        )
    return notes


def _beside(train: Path) -> Path | None:
    """The file called test beside one that is called train."""
    other = train.with_name(train.name.replace("train", "test", 1))
    return other if other != train and other.exists() else None


def _from(target: Path, file: Path) -> str:
    return os.path.relpath(file.resolve(), target.resolve())


def _quoted(value: object) -> str:
    """As YAML reads it: a JSON text is one, whatever is in it (yes, 1, a colon)."""
    return json.dumps(value, ensure_ascii=False)


def _task_yaml(name: str, words: Sequence[str], local: Mapping[str, str], labels: Mapping[str, str]) -> str:
    listed = ", ".join(words[:-1]) + f" or {words[-1]}"
    fields = "".join(f"      {key}: {_quoted(value)}\n" for key, value in local.items())
    mapped = {key: word for key, word in labels.items() if key != word}
    fields += f"      labels: {_quoted(mapped)}\n" if mapped else ""
    description = f"Classify the texts as {listed}.\n\n" if len(words) <= _LISTED else "Classify the texts.\n\n"
    template = Template((Path(__file__).parent / "own_task.yaml.txt").read_text(encoding="utf-8"))
    return template.substitute(
        name=name,
        description=_quoted(description),
        labels=f"[{', '.join(map(_quoted, words))}]",
        local=fields,
    )


def _readme(name: str, words: Sequence[str]) -> str:
    return (
        f"# {name}\n\nWhich of {len(words)} labels a text has. The records lie outside of this folder, in the files"
        " that `task.yaml`\nnames under `metadata.data.local`.\n\nSay here where the records come from, their licence,"
        " and what was done to them. The train records are the private\nones: do not commit them. Labels, prompts and"
        " test records are public.\n"
    )
