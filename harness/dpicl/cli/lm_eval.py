"""`dpicl lm-eval`: lm-evaluation-harness's own command, with a mechanism as its model."""

from __future__ import annotations

import argparse
import io
import json
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from typing import Any

from dpicl.cli import output
from dpicl.cli.arguments import Subparsers, add_command, epsilon, options_of
from dpicl.core.errors import UsageError, require_known
from dpicl.data.config import load_config, task_folders
from dpicl.run import lm_eval_model

#: What lm-eval's own parser may not have been told: it would change what is asked, ask twice, or be ignored.
_REFUSED = {
    "model": "the mechanism is the model",
    "model_args": "the flags of `dpicl lm-eval` say what they would",
    "config": "the flags of `dpicl lm-eval` say what it would",
    "include_path": "the tasks are this project's",
    "num_fewshot": "demonstrations come from the mechanism",
    "use_cache": "lm-eval's cache does not know epsilon or seed",
    "cache_requests": "lm-eval's cache does not know epsilon or seed",
    "apply_chat_template": "prompts are the task's own",
    "fewshot_as_multiturn": "prompts are the task's own",
    "system_instruction": "prompts are the task's own",
    "gen_kwargs": "the task says how answers end",
}


def add(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "lm-eval",
        "dpicl lm-eval --mechanism voting --epsilon 1 --tasks dpicl_agnews --limit 50 --output_path out --log_samples",
        _lm_eval,
    )
    parser.set_defaults(passes_on=True)
    parser.add_argument("--mechanism", required=True, metavar="M", help="any mechanism; see `dpicl list mechanisms`")
    parser.add_argument("--epsilon", type=epsilon, required=True, metavar="E", help="for all documents of a task")
    parser.share("--delta", "--model", "--seed", "--shots", "--source", "--option", "--plugin")
    parser.count("--size", "N", "declared number of private records a class (without classes: in all)")


def _lm_eval(arguments: argparse.Namespace) -> int:
    names = ("mechanism", "epsilon", "delta", "model", "seed", "source", "shots", "size")
    settings = {
        **{name: getattr(arguments, name) for name in names},
        "plugins": [str(path) for path in arguments.plugin],
        "options": options_of(arguments.mechanism, arguments.option),
    }
    os.environ["DPICL_SOURCE"] = arguments.source  # for dpicl.tasks.loaders, which lm-eval calls
    own = ["run", "--model", lm_eval_model.NAME, "--model_args", json.dumps(settings)]
    own += ["--include_path", str(lm_eval_model.TASKS), *(["--show_config"] if arguments.json else [])]
    if not arguments.json:
        return _started(own, arguments.rest)
    said = io.StringIO()
    with redirect_stdout(said):
        code = _started(own, arguments.rest)  # lm-eval prints its results as JSON, then a table
    if code == 0:
        document, end = json.JSONDecoder().raw_decode(said.getvalue().lstrip())
        output.emit_json(document)
        output.message(said.getvalue().lstrip()[end:])
    return code


def _started(own: list[str], rest: list[str]) -> int:
    """lm-eval's own parser and command, in this process, with our words and the user's."""
    from lm_eval._cli import HarnessCLI

    before = sys.argv
    try:
        cli = HarnessCLI()
        sys.argv = ["lm-eval", *own]
        alone = vars(cli.parse_args())
        sys.argv = ["lm-eval", *own, *rest]
        wanted = cli.parse_args()
        _check(alone, vars(wanted))
        cli.execute(wanted)
    except SystemExit as stop:
        return 2 if stop.code else 0
    finally:
        sys.argv = before
    return 0


def _check(alone: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises UsageError for what the user's words changed and may not, however spelt, and for unknown tasks."""
    for name, reason in _REFUSED.items():
        if wanted.get(name) != alone.get(name):
            raise UsageError(f"`dpicl lm-eval` does not take --{name}: {reason}. Leave it out.")
    asked = wanted.get("tasks") or []
    tasks = [task for text in ([asked] if isinstance(asked, str) else asked) for task in text.split(",") if task]
    known = [load_config(name)["task"] for name, folder in task_folders().items() if folder.built_in]
    require_known("task", tasks, known)
    if not tasks:
        raise UsageError("Name the tasks, for example --tasks dpicl_agnews; see `dpicl list tasks`.")
