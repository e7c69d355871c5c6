"""`dpicl lm-eval`: lm-evaluation-harness's own command, with a mechanism as its model."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from typing import Annotated, Any

from dpicl import models
from dpicl.api import parameters as p
from dpicl.cli.output import Answer
from dpicl.core.cell import ReleaseConfig
from dpicl.core.errors import UsageError, require_known
from dpicl.core.json_text import plain
from dpicl.data.config import TASKS, load_config, task_folders
from dpicl.mechanism.registry import find_mechanism, load_mechanisms
from dpicl.run.lm_eval_model import NAME, DpiclModel, MechanismRun

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


@p.verb(
    "dpicl lm-eval --mechanism voting --epsilon 1 --tasks dpicl_agnews --limit 50 --output_path out --log_samples",
    rest="words",
)
def lm_eval(
    words: Annotated[Sequence[str], p.HIDDEN] = (),
    *,
    mechanism: Annotated[str, p.OneMechanism, p.Flag(metavar="M")],
    epsilon: p.Epsilon,
    delta: p.Delta = 1e-5,
    model: p.Model = "embedded",
    seed: p.Seed = 0,
    shots: p.Shots = 4,
    source: p.SourceName = "auto",
    options: p.Options | None = None,
    plugins: p.Plugins = (),
    size: p.Count | None = None,
) -> Answer:
    """lm-evaluation-harness's own command. words: its flags, such as `--tasks dpicl_agnews`.

    mechanism: any mechanism; see `dpicl list mechanisms`.
    epsilon: for all documents of a task.
    size: declared number of private records a class (without classes: in all).
    """
    said = {name: value for name, value in locals().items() if name != "words"}
    cls, chosen = find_mechanism(mechanism, load_mechanisms(p.as_list(plugins))), p.options_of(mechanism, options)
    config = ReleaseConfig(epsilon=epsilon, delta=delta, seed=seed, shots=shots)
    DpiclModel.make = lambda device: MechanismRun(cls, models.load(model, device=device), config, source, chosen, size)
    os.environ["DPICL_SOURCE"] = source  # for dpicl.tasks.loaders, which lm-eval calls
    own = ["run", "--model", NAME, "--model_args", json.dumps(plain(said))]
    own += ["--include_path", str(TASKS), "--show_config"]
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = _started(own, list(words))  # lm-eval prints its results as JSON, then a table
    if code:
        raise UsageError("lm-evaluation-harness refused these words; its own message is above.")
    document, end = json.JSONDecoder().raw_decode(printed.getvalue().lstrip())
    return Answer(document, [printed.getvalue().lstrip()[end:]])


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
    if wanted.get("log_samples") and not wanted.get("output_path"):
        raise UsageError("--log_samples writes files; say where with --output_path.")
    asked = wanted.get("tasks") or []
    tasks = [task for text in ([asked] if isinstance(asked, str) else asked) for task in text.split(",") if task]
    known = [load_config(name).task for name, folder in task_folders().items() if folder.built_in]
    require_known("task", tasks, known)
    if not tasks:
        raise UsageError("Name the tasks, for example --tasks dpicl_agnews; see `dpicl list tasks`.")
