"""Writes a task from a task file of lm-evaluation-harness: `dpicl new task NAME --from-lm-eval FILE`.

What can come in has one text and one label a record: `multiple_choice` with fixed choices becomes a classification
task, `generate_until` a generation task. Records are local CSV, JSON or Parquet files. Templates are read as Jinja's
syntax trees and never rendered; `!function` names are read and never imported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from dpicl.core import strict_yaml
from dpicl.core.errors import UsageError
from dpicl.core.strict_yaml import Document, Function
from dpicl.data.reading import read_records
from dpicl.data.task_file import FILTERS, LM_EVAL_KEYS, list_template_fields, read_task_file
from dpicl.scaffold.own_task import WrittenTask, no_records, relative_paths, write_without_records
from dpicl.scaffold.writing import EXAMPLES

#: Builders of Hugging Face's `datasets` for local files.
_BUILDERS = ("csv", "json", "parquet")
#: Keys that change what is asked and have no counterpart here -> why not.
_UNSUPPORTED = {
    "class": "asks by code in Python; only tasks written as YAML come in",
    "include": "is not followed; write the keys of the included file out",
    "group": "names a group; give the file of one of its tasks",
    "custom_dataset": "is not supported: records come from csv, json or parquet files",
    "process_docs": "would change records; write the changed records to a file",
    "doc_to_image": "is not supported: a task has texts only",
    "doc_to_audio": "is not supported: a task has texts only",
    "use_prompt": "is not supported; write the prompt out in doc_to_text",
    "fewshot_config": "is not supported: a mechanism releases the demonstrations",
    "gen_prefix": "is not supported; put it at the end of doc_to_text",
    "filter_list": "is not supported: answers are compared as the model writes them",
    "process_results": "is not supported: scores are those of this project",
}
#: Keys of lm-eval that change nothing here.
_WITHOUT_EFFECT = LM_EVAL_KEYS - _UNSUPPORTED.keys() | {"task", "metadata", "metric_list"}
_READ = ("output_type", "description", "doc_to_text", "doc_to_target", "doc_to_choice", "target_delimiter",
         "fewshot_delimiter", "generation_kwargs")  # fmt: skip
_METRICS = ("rougeL", "rouge1", "rouge2", "bleu1", "meteor")
#: Tokens that a model may write where the file does not say it, as in lm-eval.
_LONGEST_ANSWER = 256


@dataclass
class _Import:
    """A file of lm-eval being read. problems: what stands in the way, each with its line."""

    document: Document
    problems: list[str] = field(default_factory=list)

    def refuse(self, key: str, reason: str) -> None:
        line = self.document.lines.get((key,), 1)
        self.problems.append(f"{key} (line {line}) {reason}")

    def error(self) -> UsageError:
        """Everything that stands in the way, in one message."""
        path = self.document.path
        return UsageError(f"{path} cannot become a task here: {'; '.join(self.problems)}.")

    def get(self, key: str, default: Any = None) -> Any:
        value = self.document.data.get(key)
        return default if value is None else value

    def text(self, key: str, default: str = "") -> str:
        """A value that must be a string and no template."""
        value = self.get(key, default)
        if isinstance(value, Function):  # refused already
            return default
        if not isinstance(value, str):
            self.refuse(key, "must be a text")
            return default
        if "{{" in value or "{%" in value:
            self.refuse(key, "is a template; write the text out")
        return value

    def field_and_template(self, key: str) -> tuple[str, str]:
        """The one field that a template reads, and the template with `text` in its place."""
        value = self.get(key)
        if isinstance(value, Function):  # refused already
            return "", ""
        if not isinstance(value, str):
            self.refuse(key, "must be the name of a field, or a template of one field")
            return "", ""
        if value.isidentifier():
            return value, "{{text}}"
        try:
            names = list_template_fields(value)
        except ValueError as error:
            self.refuse(key, str(error))
            return "", ""
        if names is None:
            filters = ", ".join(FILTERS)
            self.refuse(
                key, f"may hold {{{{field}}}} with the filters {filters}, and no other code"
            )
            return "", ""
        if len(names) != 1:
            listed = f" ({', '.join(names)})" if names else ""
            self.refuse(
                key,
                f"reads {len(names)} fields{listed}; a record here has one text: join them in the file",
            )
            return "", ""
        (name,) = names
        return name, _rename(value, name)


def write_lm_eval_task(
    name: str, file: Path, train: Path | None, test: Path | None, taken: Sequence[str], folder: Path
) -> WrittenTask:
    """Writes the folder of a task that asks as lm-eval's file does.

    train, test: files of records in the place of those that the file names. Raises UsageError with everything that is
    unsupported, each with its line; DataError for records that cannot be read.
    """
    document = strict_yaml.read(file, functions=True)
    if not isinstance(document.data, dict):
        raise UsageError(f"{file} is no task of lm-evaluation-harness: it is not a set of keys.")
    source = _Import(document)
    if document.data.get("class") is not None:
        raise UsageError(str(document.error(("class",), f"class {_UNSUPPORTED['class']}.")))
    _refuse_unsupported(source)
    if document.data.get("include") is not None:  # most other keys are in that file
        raise source.error()
    kind = {"multiple_choice": "classification", "generate_until": "generation"}.get(
        source.get("output_type", "")
    )
    if kind is None:
        source.refuse("output_type", "must be multiple_choice or generate_until")
    text_field, template = source.field_and_template("doc_to_text")
    label_field, target = source.field_and_template("doc_to_target")
    if target and target != "{{text}}":
        source.refuse("doc_to_target", "must be one field as it is")
    choices = _read_choices(source) if kind == "classification" else []
    paths = _find_files(source, train, test)
    common = {
        "description": source.text("description"),
        "target_delimiter": source.text("target_delimiter", " "),
        "fewshot_delimiter": source.text("fewshot_delimiter", "\n\n"),
    }
    answer = _read_generation(source, common["fewshot_delimiter"]) if kind == "generation" else {}
    if source.problems:
        raise source.error()

    target_folder = folder / name
    local: dict[str, Any] = {
        "text": text_field,
        "label": label_field,
        **relative_paths(paths, target_folder),
    }
    if choices and not set(choices) & {str(number) for number in range(len(choices))}:
        local["labels"] = {str(number): choice for number, choice in enumerate(choices)}
    body = _classification(choices) if kind == "classification" else _generation(answer)
    content = {
        "task": f"dpicl_{name}",
        "custom_dataset": Function("dpicl.tasks.loaders.documents"),
        "test_split": "test",
        "num_fewshot": 0,
        **common,
        "doc_to_text": template,
        **body,
    }
    content["metadata"] = {
        "version": 1,
        "name": name,
        **body["metadata"],
        "data": _data(name, local),
    }
    written = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1000)
    checked = read_task_file(written, f"{name}/task.yaml", name, built_in=False)
    spec = checked.place(target_folder / "task.yaml").source
    for path in paths.values():
        read_records(path, spec).check()
    files = _write_folder(name, written, kind == "generation", taken, folder)
    return WrittenTask(
        files, choices, "test" in paths, list(_notes(source, kind == "generation", paths))
    )


def _refuse_unsupported(source: _Import) -> None:
    for key, value in source.document.data.items():
        if key in _UNSUPPORTED:
            if value is not None:
                source.refuse(key, _UNSUPPORTED[key])
        elif key in _READ and isinstance(value, Function):
            source.refuse(key, "is a function of Python; write a template")
        elif key not in _WITHOUT_EFFECT and key not in _READ:
            source.refuse(str(key), "is not a known key of lm-evaluation-harness; remove it")
    if source.get("repeats", 1) != 1:
        source.refuse("repeats", "each record is asked once")


def _rename(template: str, name: str) -> str:
    """The template with the field `text` in the place of ``name``, inside its expressions only."""

    def rename(expression: re.Match[str]) -> str:
        return re.sub(rf"\b{re.escape(name)}\b", "text", expression[0])

    return re.sub(r"\{\{.*?\}\}", rename, template, flags=re.DOTALL)


def _read_choices(source: _Import) -> list[str]:
    choices = source.get("doc_to_choice")
    if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
        return choices
    if isinstance(choices, Function):  # refused already
        return []
    if isinstance(choices, list):
        source.refuse(
            "doc_to_choice",
            "is a list with something that is no text; put words such as yes in quotes",
        )
    else:
        source.refuse(
            "doc_to_choice", "must be a list: labels are public, and the same for all records"
        )
    return []


def _read_generation(source: _Import, delimiter: str) -> dict[str, Any]:
    """until and max_gen_toks of `generation_kwargs`. Raises nothing: what does not fit is refused."""
    generation = source.get("generation_kwargs", {})
    if not isinstance(generation, dict):
        source.refuse("generation_kwargs", "must be a set of keys")
        return {}
    if generation.get("do_sample") or generation.get("temperature", 0) not in (0, 0.0):
        source.refuse(
            "generation_kwargs",
            "answers are the likeliest tokens; leave do_sample and temperature out",
        )
    until = generation.get("until", [delimiter])
    stops = [until] if isinstance(until, str) else until
    return {"until": stops, "max_gen_toks": generation.get("max_gen_toks", _LONGEST_ANSWER), "do_sample": False,
            "temperature": 0.0}  # fmt: skip


def _find_files(source: _Import, train: Path | None, test: Path | None) -> dict[str, Path]:
    """Split -> its file. ``train`` and ``test`` come before those that the file of lm-eval names."""
    if train is not None:
        return {"train": train} if test is None else {"train": train, "test": test}
    if test is not None:
        source.refuse("dataset_path", "--test needs the train records too: name them with --from")
        return {}
    if source.get("dataset_path") not in _BUILDERS:
        source.refuse(
            "dataset_path",
            "must be csv, json or parquet, with data_files; or name files of records: --from FILE",
        )
        return {}
    options = source.get("dataset_kwargs", {})
    named = options.get("data_files") if isinstance(options, dict) else None
    by_split = {"train": named} if isinstance(named, str) else named
    if not isinstance(by_split, dict):
        source.refuse(
            "dataset_kwargs",
            "needs data_files: split -> file; or name files of records: --from FILE",
        )
        return {}
    paths = {}
    for split, key in (
        ("train", source.get("training_split", "train")),
        ("test", _test_split(source)),
    ):
        path = by_split.get(key)
        if isinstance(path, list) and len(path) == 1:
            path = path[0]
        if isinstance(path, str):
            paths[split] = _place(source.document.path, path)
    if "train" not in paths:
        source.refuse(
            "dataset_kwargs",
            "names no single file of train records under data_files; or use --from FILE",
        )
    for path in paths.values():
        if not path.is_file():
            source.refuse("dataset_kwargs", f"there is no file {path}")
    return paths


def _test_split(source: _Import) -> Any:
    return source.get("test_split") or source.get("validation_split", "test")


def _place(file: Path, path: str) -> Path:
    """A path as lm-eval reads it, from the folder where it runs, or else from the folder of its file."""
    here = Path(path).expanduser()
    return here if here.exists() or here.is_absolute() else file.parent / here


def _classification(choices: Sequence[str]) -> dict[str, Any]:
    accuracies = {"acc": "accuracy", "acc_calibrated": "calibrated_accuracy"}
    return {
        "output_type": "multiple_choice",
        "doc_to_target": "gold",
        "doc_to_choice": list(choices),
        "process_results": Function("dpicl.tasks.metrics.classification_results"),
        "metric_list": [
            {
                "metric": metric,
                "aggregation": Function(f"dpicl.tasks.metrics.{name}"),
                "higher_is_better": True,
            }
            for metric, name in accuracies.items()
        ],
        "metadata": {
            "kind": "classification",
            "main_metric": "acc_calibrated",
            "prompts": _example_prompts(),
        },
    }


def _generation(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "output_type": "generate_until",
        "doc_to_target": "label",
        "generation_kwargs": dict(answer),
        "process_results": Function("dpicl.tasks.metrics.generation_results"),
        "metric_list": [
            {"metric": metric, "aggregation": "mean", "higher_is_better": True}
            for metric in _METRICS
        ],
        "metadata": {"kind": "generation", "main_metric": _METRICS[0], "prompts": {"stop": ["\n"]}},
    }


def _example_prompts() -> Any:
    """How mechanisms ask for one more text of a label: as in the example of `dpicl new task`."""
    example = strict_yaml.read(EXAMPLES["task"] / "task.yaml", functions=True)
    return example.data["metadata"]["prompts"]


def _data(name: str, local: Mapping[str, Any]) -> dict[str, Any]:
    return {"local": dict(local), "hub": no_records(name), "synthetic": no_records(name)}


def _write_folder(
    name: str, content: str, generates: bool, taken: Sequence[str], folder: Path
) -> list[Path]:
    target, *_ = write_without_records(name, taken, folder)
    (target / "task.yaml").write_text(content, encoding="utf-8")
    suite = target / "suite.yaml"
    if generates:  # no method of the example writes texts of such a task
        methods = suite.read_text(encoding="utf-8").partition("  - name: tang")
        suite.write_text(methods[0] + "  - name: esa\n", encoding="utf-8")
    return [target, target / "task.yaml", suite]


def _notes(source: _Import, generates: bool, paths: Mapping[str, Path]) -> Iterator[str]:
    metrics = [
        metric.get("metric") for metric in source.get("metric_list", []) if isinstance(metric, dict)
    ]
    computed = _METRICS if generates else ("acc", "acc_calibrated")
    others = [str(metric) for metric in metrics if metric not in computed]
    if others:
        yield f"Scores are {', '.join(computed)}; {', '.join(others)} of the file is not computed."
    if not generates:
        yield "Prompts that ask for one more text of a label are general; better words under metadata.prompts help."
    if "test" not in paths:
        yield "There is no test file, which a run needs and a release does not: add `test: FILE` in task.yaml."


class _Dumper(yaml.SafeDumper):
    """Writes `!function` names as lm-eval reads them, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_function(dumper: yaml.SafeDumper, function: Function) -> yaml.ScalarNode:
    return dumper.represent_scalar("!function", str(function))


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Between quotation marks where it has line breaks, as prompts are easiest to read."""
    return dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if "\n" in text else None
    )


_Dumper.add_representer(Function, _represent_function)
_Dumper.add_representer(str, _represent_text)
